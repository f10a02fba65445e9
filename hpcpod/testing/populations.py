"""Populations without agents: orders are answered with numbers, and everything else is real.

The contracts of updaters, generators and allocators play them.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cache
from random import Random
from typing import Any

from hpcpod.config.schema import (
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RoundConfig,
    RunConfig,
    StopConfig,
)
from hpcpod.config.space import AlgorithmSpace, Choice, Int, LogUniform, Uniform
from hpcpod.records.records import Birth, Board, Checkpoint, Order, PodState, Report, Verdict
from hpcpod.storage.checksummed import pack, unpack
from hpcpod.tournament.answers import unkept
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.updaters.ranking import Ranking

STEPS = 1000
"""Environment steps of a round."""
ROUNDS = 10
"""Rounds of a run."""
MERGES = 60
"""Merges of a run in which everything is tried."""
MOST = 300
"""Merges after which a run must have ended."""
SPACES = {
    "ppo": AlgorithmSpace(
        "ppo",
        {
            "learning_rate": LogUniform(1e-4, 1e-2),
            "gamma": Uniform(0.9, 0.999),
            "epochs": Int(1, 10),
            "batch_size": Choice((64, 128, 256)),
            "width": Choice((32, 64)),
            "clip": 0.2,
        },
        {
            "learning_rate": 3e-4, "gamma": 0.99, "epochs": 4, "batch_size": 128, "width": 64,
            "clip": 0.1,
        },
        structural=("width",),
        near_one=("gamma",),
    ),
    "sac": AlgorithmSpace(
        "sac",
        {"learning_rate": LogUniform(1e-5, 1e-3), "starts": Int(10, 90), "clipped": True},
        {"learning_rate": 3e-4, "starts": 50, "clipped": True},
        initial=("starts",),
    ),
}  # fmt: skip
"""Two algorithms with ranges of every kind; a round of ``sac`` costs ten times as much."""


def rules_of(
    pods: int = 12,
    *,
    seed: int = 0,
    stop: StopConfig | None = None,
    population: Mapping[str, str] | None = None,
) -> Rules:
    """The rules of a run of both algorithms.

    Args:
        pods: places.
        seed: of the run.
        stop: its end; by default ten rounds.
        population: other fields of ``population``, such as ``{"updater": "my_pkg.mod:Mine"}``.
    """
    given: Mapping[str, Any] = population or {}
    config = RunConfig(
        name="contract",
        env=EnvConfig("Contract-v0"),
        seed=seed,
        population=PopulationConfig(
            pods=PodsConfig(min=1, max=pods), algorithms={"ppo": 2.0, "sac": 1.0}, **given
        ),
        round=RoundConfig(env_steps=STEPS, episodes=8),
        stop=stop or StopConfig(rounds=ROUNDS),
    )  # fmt: skip
    return Rules.of(config, deepcopy(SPACES))  # a rule may change what it is shown


@dataclass
class Population:
    """A run in which slots answer any number of orders at once, some fail, and some are lost."""

    rules: Rules
    seed: int = 0
    failing: float = 0.08
    """Share of the rounds that fail."""
    shuffled: bool = False
    """True if reports and pods come in another order at each merge. It changes no board."""
    board: Board = field(init=False)
    """Its board so far."""
    merges: int = field(default=0, init=False)
    """Merges so far."""

    def __post_init__(self) -> None:
        self.board = first_board(self.rules, 0.0)

    def play(self, merges: int = MERGES) -> Population:
        """Go on until the run has finished, for so many merges at most."""
        for now in range(self.merges + 1, self.merges + merges + 1):
            if self.board.phase == "finished":
                break
            self.merges = now
            rng = Random(f"{self.seed} {now} merge")
            waiting = sorted(orders(self.board), key=lambda order: order.id)
            taken = rng.sample(waiting, rng.randint((len(waiting) + 1) // 2, len(waiting)))
            reports = [self._report(order) for order in sorted(taken, key=lambda order: order.id)]
            lost = [order.id for order in waiting if rng.random() < 0.03]
            board = self.board
            if self.shuffled:
                rng.shuffle(reports)
                board = backwards(board)
            self.board = fold(board, reports, self.rules, now=60.0 * now, lost=lost)
        return self

    def _report(self, order: Order) -> Report:
        rng = Random(f"{self.seed} {order.id}")
        done = Report(order.id, order.pod, order.round, order.attempt, slot="s", wall_seconds=1.0)
        if isinstance(order, Birth) and rng.random() < self.failing:
            return replace(done, failure="it broke", failure_kind="diverged")
        panel = Random(f"{self.seed} panel {order.round}")
        skill = Random(f"{self.seed} {order.pod}").uniform(0, 6) * order.round**0.5
        returns = tuple(skill + panel.gauss(0, 3) + rng.gauss(0, 2) for _ in range(8))
        seconds = {"ppo": 10.0, "sac": 100.0}[order.algorithm] * rng.uniform(0.9, 1.1)
        return replace(
            done,
            returns=returns,
            checkpoint=Checkpoint(f"core of {order.id}", env_steps=STEPS * order.round),
            trained_steps=STEPS if isinstance(order, Birth) else 0,
            wall_seconds=seconds,
            metrics={"loss": rng.random()},
        )


def backwards(board: Board) -> Board:
    """The same board with its pods in the opposite order, as another process may have it."""
    return replace(board, pods=dict([*board.pods.items()][::-1]))


@dataclass(frozen=True)
class Moment:
    """A decision of a run, and the board on which it is made."""

    rules: Rules = field(compare=False)
    board: Board
    pod: PodState
    key: int
    report: Report | None = None
    """The pod's, which is to be judged; None if the pod is dead and to be replaced."""
    verdict: Verdict = field(default_factory=lambda: Verdict(admit=False))
    """The ranking's."""

    def cohorts(self, *, reverse: bool = False) -> Cohorts:
        """The board's cohorts, made anew; reverse: of the board backwards."""
        board = backwards(self.board) if reverse else self.board
        return Cohorts(board, self.rules.config, self.rules.algorithms)

    def __str__(self) -> str:
        at = f"of round {self.report.round}" if self.report else "which is dead"
        return f"pod {self.pod.id}, {at}"


class _Notes(GentleTruncation, Ranking):
    """A ranking and a generator that note what they were asked."""

    def __init__(self, rules: Rules) -> None:
        self.config = rules.config.population
        self.rules = rules
        self.moments: list[Moment] = []
        self._last: Report | None = None

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """See ``Ranking``."""
        self._last = report
        return super().judge(cohorts, report)

    def challenge(
        self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int
    ) -> Copy | Fresh | None:
        """See ``GentleTruncation``."""
        self._note(Moment(self.rules, cohorts.board, pod, key, self._last, verdict))
        return super().challenge(cohorts, pod, verdict, key)

    def replace(self, cohorts: Cohorts, dead: PodState, key: int) -> Copy | Fresh:
        """See ``GentleTruncation``."""
        self._note(Moment(self.rules, cohorts.board, dead, key))
        return super().replace(cohorts, dead, key)

    def _note(self, moment: Moment) -> None:
        self.moments.append(moment)


def moments() -> tuple[Moment, ...]:
    """Decisions of two runs, of twelve pods and of five: every one at which a pod was beaten or
    dead, and every fifth of the others. They are made anew at each call: a rule that changes what
    it is shown would spoil those of all later tests."""
    return tuple(_restored(rules, kept) for rules, kept in _kept())


def _restored(rules: Rules, kept: bytes) -> Moment:
    config, algorithms, *rest = pickle.loads(kept)
    return Moment(replace(rules, config=config, algorithms=algorithms), *rest)


@cache
def _kept() -> tuple[tuple[Rules, bytes], ...]:
    """The rules of each moment, and all else of it as bytes, which nothing can change."""
    found = []
    for pods, seed in ((12, 1), (5, 2)):
        rules = rules_of(pods, seed=seed)
        notes = _Notes(rules)
        Population(replace(rules, updater=notes, generator=notes), seed).play()
        found += [
            each
            for place, each in enumerate(notes.moments)
            if each.report is None or each.verdict.beaten_by or place % 5 == 0
        ]
    return tuple((each.rules, pickle.dumps(_parts(each), -1)) for each in found)


def _parts(moment: Moment) -> tuple[object, ...]:
    rules, own = moment.rules, (each.name for each in fields(moment) if each.name != "rules")
    return rules.config, rules.algorithms, *(getattr(moment, name) for name in own)


@cache
def boards() -> tuple[tuple[Rules, Board], ...]:
    """The boards of runs that end by steps, by minutes and by rounds, each at several times."""
    limits = (
        StopConfig(rounds=ROUNDS), StopConfig(env_steps=150 * STEPS), StopConfig(minutes=60.0)
    )  # fmt: skip
    found = []
    for seed, stop in enumerate(limits):
        population = Population(rules_of(seed=seed, stop=stop), seed)
        for _ in range(4):
            found.append((population.rules, population.board))
            population.play(4)
    return tuple(found)


def check_untouched(moment: Moment, cohorts: Cohorts, before: Moment) -> None:
    """Fail if a rule has changed what it was shown.

    Args:
        moment: that it was asked about.
        cohorts: the moment's, as they were shown.
        before: the same moment, made anew.
    """
    now, then = _seen(cohorts), _seen(before.cohorts())
    changed = [name for name in then if now[name] != then[name]]
    asked = ("pod", "report", "verdict")
    changed += [name for name in asked if getattr(moment, name) != getattr(before, name)]
    assert not changed, f"{before}: the board or its cohorts have changed: {', '.join(changed)}"


def _seen(cohorts: Cohorts) -> dict[str, object]:
    """All that a decision must leave alone, by name."""
    board = {f"board.{each.name}": getattr(cohorts.board, each.name) for each in fields(Board)}
    return {
        **board,
        "living": cohorts.living,
        "members": dict(cohorts.members),
        "copies": dict(cohorts.copies),
        "config": cohorts.config,
        "algorithms": cohorts.algorithms,
    }


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if what is done here takes longer."""
    begun = time.monotonic()
    yield
    taken = time.monotonic() - begun
    assert taken <= seconds, f"it took {taken:.3g} s, and may take {seconds:.3g} s"


def check_kept(where: str, answer: object) -> None:
    """Fail if a board can't keep an answer of a rule: its values are not of their fields' types."""
    assert not unkept(answer), f"{where}: {unkept(answer)}"


class _Peace(Ranking):
    """A ranking by which nobody is beaten."""

    def __init__(self) -> None:
        pass

    def judge(self, cohorts: Cohorts, report: Report) -> Verdict:
        """See ``Ranking``."""
        found = super().judge(cohorts, report)
        return replace(found, beaten_by=(), evidence={}, tests=())


def same_run(rules: Callable[[], Rules], seed: int = 3, *, peace: bool = False) -> Board:
    """The last board of a run, which ends, does not depend on the order of reports and pods, and
    which another process reads as it is.

    Args:
        rules: makes the run's.
        seed: of the population.
        peace: after ``MERGES`` merges nobody is beaten any more. Where fresh draws replace pods
            that a ranking finds beaten, as half of them are, a run of rounds may last for hundreds.
    """
    run, other = (Population(rules(), seed, shuffled=shuffled).play() for shuffled in (False, True))
    one = run.board
    assert one.document() == other.board.document(), (
        "the run is another one if reports or pods come in another order"
    )
    document = unpack(pack(one.document()), "the board")
    assert Board.from_document(document) == one, "another process reads another board"
    if peace:
        run.rules = replace(run.rules, updater=_Peace())
    return _ended(run.play(MOST - run.merges), peace)


def _ended(run: Population, peace: bool) -> Board:
    board, config = run.board, run.rules.config
    limits = {"rounds": config.stop.rounds, "environment steps": config.stop.env_steps}
    stop = " or ".join(f"{most} {name}" for name, most in limits.items() if most is not None)
    calm = f", though no pod was beaten after the first {MERGES}" if peace else ""
    assert board.phase == "finished", (
        f"the run of {stop} has not ended after {run.merges} merges of a population of "
        f"{config.population.pods.max} pods, which have finished {board.rounds} rounds{calm}"
    )
    return board
