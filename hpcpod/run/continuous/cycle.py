"""A cycle: news, a run that goes on from the deployed policy, a judgement, a decision.

Each step leaves a file that is published once, and is passed over where it is there. So a cycle
that is killed anywhere goes on where it was, and two at once come to one end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.config.continuous import seconds_of
from hpcpod.config.decoder import encode as plain
from hpcpod.config.loader import to_mapping
from hpcpod.config.resolved import versions
from hpcpod.config.schema import CtConfig, RunConfig
from hpcpod.config.start_from import StartFrom
from hpcpod.errors import UserError, sentence_of
from hpcpod.records.codec import encode
from hpcpod.records.records import stable_hash
from hpcpod.run import preflight
from hpcpod.run.best_policy import Kept, kept
from hpcpod.run.continuous.entries import (
    Decision,
    Drift,
    Kind,
    Outcome,
    Plan,
    Version,
    as_planned,
    named,
    seen,
)
from hpcpod.run.continuous.fresh_seeds import FreshSeeds, require_same_spaces
from hpcpod.run.continuous.incumbent import (
    player_of,
    require_inherits,
    require_playable,
    require_plays,
)
from hpcpod.run.continuous.registry import POLICY, Registry, digest_of, writable
from hpcpod.run.continuous.schedule import wait_of
from hpcpod.run.continuous.training import trained, weights_of
from hpcpod.run.policy_folder import facts_of
from hpcpod.run.run import Run
from hpcpod.run.text import duration
from hpcpod.storage.checksummed import pack
from hpcpod.storage.locks import file_lock
from hpcpod.storage.os_errors import may_exist
from hpcpod.tournament.continuous.drift import Reference, reference_of, shifts
from hpcpod.tournament.continuous.stream import (
    NotComparable,
    Player,
    Score,
    Stream,
    Verdict,
    Windows,
)

log = logging.getLogger(__name__)

Tell = Callable[[str], object]


def advance(
    registry: Registry, *, force: bool = False, fresh: bool = False, probe: bool = True,
    tell: Tell = lambda text: None, progress: bool | None = None,
) -> Outcome:  # fmt: skip
    """Do all that is due: end the cycle that is open, or begin one and end it.

    Args:
        registry: the registry.
        force: begin a cycle though it is not its time, or nothing says that it is due.
        fresh: let no pod of it start from the deployed policy.
        probe: try the environment before a cycle begins.
        tell: called with what is being done, before it is.
        progress: show how far training is, on standard error.

    Raises:
        UserError: the data are broken, or the configuration is; what is deployed stays.
        StorageError: the filesystem refuses; what is deployed stays, and the next call goes on.
    """
    writable(registry)
    with file_lock(registry.path / "lock", timeout=0.0) as held:
        if held is False:
            last = len(registry.plans())
            words = "another process works on it" + (f", at cycle {last}" if last else "")
            return Outcome("busy", words, last or None, registry.current)
        registry.follow()
        registry.tidy()
        try:
            return Cycle(registry, tell, progress).advance(force, fresh, probe)
        except UserError as error:
            now = registry.current
            if now is None:
                raise
            raise UserError(f"{error}; {named(now)} stays deployed") from error


def stream_of(config: RunConfig) -> Stream:
    """The stream of a configuration.

    Raises:
        UserError: it has no section ``ct``, or its stream can't be made.
    """
    ct = require_ct(config)
    backend = {"hpcpod.trading.env:TradingVecEnv": "trading"}.get(config.env.backend)
    backend = backend or config.env.backend
    name = ct.stream
    if name == "auto":
        name = backend if backend in plugins.known("streams") else "fresh_seeds"
    with plugins.needing_torch():
        stream: Stream = plugins.make(Stream, "streams", name, config)
    return stream


def require_ct(config: RunConfig) -> CtConfig:
    """The section ``ct``.

    Raises:
        UserError: there is none.
    """
    if config.ct is None:
        raise UserError(
            f"{config.name} has no section ct: give its configuration one, such as"
            " ct: {every: 1d}"
        )
    return config.ct


class Cycle:
    """The steps of a cycle of one registry."""

    def __init__(self, registry: Registry, tell: Tell, progress: bool | None = False) -> None:
        self._registry, self._tell, self._progress = registry, tell, progress

    def advance(self, force: bool, fresh: bool, probe: bool) -> Outcome:
        """See the function ``advance``."""
        plan = self.open() or self._begun(force, fresh, probe)
        if isinstance(plan, Outcome):
            return plan
        return replace(self._ended(plan), remarks=plan.remarks)

    def open(self) -> Plan | None:
        """The cycle that has begun and not ended."""
        plans = self._registry.plans()
        done = {each.cycle for each in self._registry.decisions()}
        return plans[-1] if plans and plans[-1].cycle not in done else None

    def _begun(self, force: bool, fresh: bool, probe: bool) -> Outcome | Plan:
        registry = self._registry
        plans, config, current = registry.plans(), registry.config, registry.current
        number, last = len(plans) + 1, plans[-1] if plans else None
        ct, before = require_ct(config), seen(plans, registry.decisions())
        if ct.every is not None and last is not None and not force:
            left = wait_of(last.time, seconds_of(ct.every), time.time())
            if left > 0:
                words = f"the next cycle begins in {duration(left)}, by ct.every"
                return Outcome("not due", words, last.cycle, current)
        self._tell("looks for news")
        stream = stream_of(config)
        again = force and current is None  # no gate asks for new sessions
        look = stream.look(None if again else before, number)
        if look.windows is None or not (look.due or force):
            ended = None if last is None else last.cycle
            return Outcome("not due", look.why, ended, current, look.remarks)
        parent = None if current is None else require_playable(
            registry, stream, look.windows, current
        )  # fmt: skip
        remarks = [*look.remarks]
        if parent is not None and not may_exist(Path(parent.run) / "config.json"):
            remarks.append(f"{parent.run} is gone: no pod starts from {named(parent.number)}")
            fresh = True
        of_run = config_of(config, look.windows, number, None if fresh else parent)
        if parent is not None and of_run.population.start_from is not None:
            require_inherits(stream, player_of(registry, parent.number))
        self._tell("checks the configuration of the next run")
        spec = preflight.check(of_run, source=registry.name, probe=probe, anew=False).spec
        if parent is not None and spec and isinstance(stream, FreshSeeds):
            require_same_spaces(registry.policy(parent.number), spec, of_run.env)
        plan = Plan(
            number, to_mapping(of_run), look.windows, current, look.why, time.time(),
            remarks=tuple(remarks), ct=plain(ct),
        )  # fmt: skip
        return registry.publish_plan(plan)

    def _ended(self, plan: Plan) -> Outcome:
        registry = self._registry
        self._tell(f"cycle {plan.cycle}: {plan.why}; {plan.windows.words}")
        run = self._trained(plan)
        try:
            policy = kept(run.folder)
        except UserError as error:
            return self._decided(plan, "failed", str(error), unused=not self._judged(plan))
        stream = stream_of(as_planned(registry.config, plan))
        try:
            self._drift(plan, stream)
            verdict = self._verdict(plan, stream, run, policy)
            if registry.version(plan.cycle) is None:
                self._tell(f"cycle {plan.cycle}: registers {named(plan.cycle)}")
                self._register(plan, stream, run, policy, verdict)
        except (DataChanged, NotComparable) as error:
            unused = isinstance(error, DataChanged) and not self._judged(plan)
            return self._decided(plan, "failed", str(error), unused=unused)
        return self._decided(plan, "promoted" if verdict.promotes else "kept", verdict.said)

    def _trained(self, plan: Plan) -> Run:
        if plan.adopted:
            from hpcpod.run.run import open_run

            return open_run(plan.adopted)
        return trained(self._registry, plan, self._tell, self._progress)

    def _judged(self, plan: Plan) -> bool:
        """True if there is a verdict, by whomever."""
        return self._registry.found(Verdict, self._verdict_file(plan)) is not None

    def _verdict_file(self, plan: Plan) -> Path:
        return self._registry.cycle(plan.cycle) / "verdict.json"

    def _verdict(self, plan: Plan, stream: Stream, run: Run, policy: Kept) -> Verdict:
        registry, path = self._registry, self._verdict_file(plan)
        found = registry.found(Verdict, path)
        if found is not None:
            return found
        self._tell(f"cycle {plan.cycle}: judges what came of it")
        if plan.adopted:
            return registry.settle(path, _own_score(policy))
        challenger = Player(policy.checkpoint, run.folder.resolved.config.env)
        try:
            parent = None if plan.parent is None else player_of(registry, plan.parent)
            verdict = stream.judge(plan.windows, challenger, parent, registry.cycle(plan.cycle))
        except NotComparable:
            raise
        except Exception:
            # else it is not the deployed one's fault, but an environment's, or the challenger's
            require_plays(stream, plan.windows, challenger, whole=True)
            if plan.parent is not None:
                require_playable(registry, stream, plan.windows, plan.parent, whole=True)
            raise
        _same_data(plan, stream)
        return registry.settle(path, verdict)

    def _drift(self, plan: Plan, stream: Stream) -> None:
        registry, path = self._registry, self._registry.cycle(plan.cycle) / "drift.json"
        if plan.parent is None or registry.drift(plan.cycle) is not None:
            return
        self._tell(f"cycle {plan.cycle}: looks for drift")
        try:
            then = registry.found(Reference, registry.folder(plan.parent) / "reference.json")
            if then is None:
                raise UserError(f"{named(plan.parent)} has no reference.json")
            sample = stream.sample(plan.windows, player_of(registry, plan.parent), "judge")
            moved = shifts(then, sample, seed=plan.cycle)
            words = "" if moved else "too few blocks of data to tell"
            drift = Drift(plan.parent, moved, words)
        except Exception as error:  # it decides nothing, and agents may raise whatever they like
            drift = Drift(plan.parent, (), sentence_of(error))
        registry.settle(path, drift)

    def _register(
        self, plan: Plan, stream: Stream, run: Run, policy: Kept, verdict: Verdict
    ) -> None:
        resolved = run.folder.resolved
        data, plain = policy.checkpoint.read_bytes(), to_mapping(resolved.config)
        sha256, weights = weights_of(data)
        score = dict(policy.about.get("score", {}))
        version = Version(
            plan.cycle, str(run.path), sha256, weights, plain, digest_of(plain), plan.windows,
            plan.parent, score, verdict, run.folder.config.get("versions") or versions(),
            time.time(),
        )  # fmt: skip
        player = Player(policy.checkpoint, resolved.config.env)
        reference = reference_of(stream.sample(plan.windows, player, "train"))
        _same_data(plan, stream)
        registered = {
            "version": named(plan.cycle), "windows": plan.windows.words,
            "parent": None if plan.parent is None else named(plan.parent),
            "data": {**plan.windows.source, "sha256": plan.windows.digest},
            "config_sha256": version.config_sha256,
            "judged": verdict.said if not plan.adopted else "taken over from a run",
        }  # fmt: skip
        with plugins.needing_torch():
            from hpcpod.deploy.version_card import version_card
        about = {"env": encode(resolved.config.env), "score": score}
        card = version_card(policy.checkpoint, about, partial(facts_of, run.folder), registered)
        files = {POLICY: data, "reference.json": pack(encode(reference)), **card}
        self._registry.add(version, files)

    def _decided(self, plan: Plan, kind: Kind, why: str, *, unused: bool = False) -> Outcome:
        """Write the decision; what is deployed may have been changed meanwhile, or this cycle been
        ended."""
        registry = self._registry
        self._tell(f"cycle {plan.cycle}: decides")
        while True:
            ledger = registry.decisions()
            ended = next((each for each in ledger if each.cycle == plan.cycle), None)
            if ended is not None:
                registry.try_to_follow()
                return self._outcome(ended)
            current = ledger[-1].current if ledger else None
            if kind == "promoted" and current != plan.parent:
                kind = "kept"
                why += "; but another version is deployed now than it was judged against"
            version = None if kind == "failed" else plan.cycle
            now = plan.cycle if kind == "promoted" else current
            number = len(ledger) + 1
            registry.decide(kind, version, now, why, plan.cycle, number, unused=unused)

    def _outcome(self, line: Decision) -> Outcome:
        version = f"{named(line.version)} " if line.version is not None else ""
        done = "is deployed" if line.kind == "promoted" else "is not deployed"
        words = f"{version}{done}: {line.why}" if version else f"no new version: {line.why}"
        kind: Any = line.kind
        return Outcome(kind, words, line.cycle, self._registry.current)


def config_of(config: RunConfig, windows: Windows, cycle: int, parent: Version | None) -> RunConfig:
    """The configuration of a cycle's run.

    Args:
        config: the registry's.
        windows: of the cycle.
        cycle: its number.
        parent: the version that pods start from; None: all begin afresh.
    """
    start = None
    if parent is not None and require_ct(config).inherit > 0:
        start = StartFrom(parent.run, share=require_ct(config).inherit)
    return replace(
        config,
        name=f"{config.name}-c{cycle:04}",
        seed=stable_hash(config.seed, "cycle", cycle) % 2**31,
        env=replace(config.env, kwargs={**config.env.kwargs, **windows.train}),
        population=replace(config.population, start_from=start),
        ct=None,
    )


def abandon(registry: Registry) -> Outcome:
    """End the cycle that is open without a new version.

    Raises:
        UserError: none is open, or the registry is another user's.
    """
    writable(registry)
    cycle = Cycle(registry, lambda text: None)
    plan = cycle.open()
    if plan is None:
        raise UserError(f"{registry.name}: no cycle is open")
    return cycle._decided(plan, "failed", "it was abandoned")


class DataChanged(UserError):
    """Data that a cycle looks at are not what they were when it began."""


def _same_data(plan: Plan, stream: Stream) -> None:
    """See that a cycle's data are those it was planned with, once they have been read.

    Raises:
        DataChanged: they are not.
    """
    now = stream.digest(plan.windows)
    if now != plan.windows.digest:
        raise DataChanged(
            f"its data were changed after it began: their sha256 was {plan.windows.digest[:12]},"
            f" and is {now[:12]}"
        )


def _own_score(policy: Kept) -> Verdict:
    """The verdict on a run that is taken over: its own score."""
    score = policy.about.get("score") or {}
    if not score:
        raise UserError("the run has no score that could be taken over")
    own = Score(score["mean"], score["low"], score["high"], score["episodes"])
    return Verdict(own, None, None, None, 0.05, "return", "its run's own evaluation")
