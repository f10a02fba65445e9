"""The policies that an evaluation is about, by their runs or their files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod._version import __version__
from hpcpod.config.resolved import code_in
from hpcpod.config.schema import EnvConfig
from hpcpod.errors import ConfigError, Corrupt, RunNotFound, UserError
from hpcpod.records.records import Keep, encode
from hpcpod.run.best_policy import kept
from hpcpod.run.leaderboard import rows
from hpcpod.run.run import Run, open_run
from hpcpod.storage.ownership import user_name
from hpcpod.storage.run_folder import RunFolder

Source = Run | str | Path
"""A run, its folder or its name, or a policy's file."""


@dataclass(frozen=True)
class Candidate:
    """A policy that is to be scored."""

    label: str
    """Its name in tables: the run's and the pod's, or the file."""
    source: str
    """The run's folder, or the file."""
    pod: str
    """The pod's name; empty if its file does not say."""
    round: int | None
    """The round after which it was saved; None if its file does not say."""
    agent: str
    """The algorithm."""
    data: bytes
    """The content of its file."""
    env: EnvConfig
    """The environment in which its run's evaluator scores: mostly that in which it was trained."""


def candidates(
    sources: Sequence[Source], *, pods: Sequence[str] | None = None,
    top: int | None = None, keep: Keep = "best", trust: bool = False,
) -> list[Candidate]:  # fmt: skip
    """The policies that are meant.

    Args:
        sources: runs, their folders or names, or policies' files.
        pods: of each run; None: its best policy alone.
        top: instead of ``pods``, the first rows of each leaderboard.
        keep: which of a pod's policies.
        trust: take what names code that is not built in, though another user has written it.

    Raises:
        UserError: there is none, or it can't be read, or it names another user's code.
    """
    if pods is not None and top is not None:
        raise UserError("pods and top both say which pods are meant: give one of them")
    found = [
        candidate
        for source in sources
        for candidate in _of(source, pods=pods, top=top, keep=keep, trust=trust)
    ]
    if not found:
        raise UserError("there is nothing to evaluate: name a run, or a policy's .h5 file")
    homes = {(each.label, each.source) for each in found}
    twice = {label for label, count in Counter(label for label, _ in homes).items() if count > 1}
    return [
        replace(each, label=f"{each.source} {each.pod}") if each.label in twice else each
        for each in found
    ]


def _of(
    source: Source, *, pods: Sequence[str] | None, top: int | None, keep: Keep,
    trust: bool,
) -> Iterator[Candidate]:  # fmt: skip
    if not isinstance(source, Run) and Path(source).is_file():
        if pods is not None or top is not None or keep != "best":
            raise UserError(f"{source} is one policy: --pods, --top and --keep are of runs")
        yield _read(Path(source), str(source), str(source), None, trust=trust)
        return
    run = source if isinstance(source, Run) else _opened(source)
    names: Sequence[str | None] = [None] if pods is None else pods
    if top is not None:
        names = [row.pod for row in rows(run.board(), top)]
        if not names:
            raise UserError(f"{run.name} has no policy yet: no round was reported")
    for name in names:
        file = kept(run.folder, name, keep).checkpoint
        found = _read(file, "", str(run.path), run.folder, trust=trust)
        words = [run.name, found.pod or name or "", "last" if keep == "last" else ""]
        yield replace(found, label=" ".join(filter(None, words)))


def _opened(source: str | Path) -> Run:
    try:
        return open_run(source)
    except RunNotFound as error:
        if str(source).endswith(".h5"):
            raise UserError(f"there is no file {source}") from error
        raise


def _read(path: Path, label: str, source: str, run: RunFolder | None, *, trust: bool) -> Candidate:
    """A policy's file, and what it says of itself. Of a run's, the run's configuration says the
    environment and which agents there are: others of a group may have written the file."""
    from hpcpod.storage.blobs import decode_blob
    from hpcpod.storage.disk import explained
    from hpcpod.storage.safe_paths import content

    with explained("read", path):
        data = content(None, path, most=None)
    if data is None:
        raise UserError(f"there is no policy at {path}: it was removed")
    try:
        meta = decode_blob(data, str(path))[1]
    except Corrupt as error:
        raise UserError(f"{path} is damaged, or is no policy: give a run or its .h5") from error
    members = meta.get("members", [meta])  # an ensemble's say each what a single policy says
    try:
        played = [each["scored_in" if "scored_in" in each else "env"] for each in members]
        env = _env(path, played[0]) if run is None else _scored_in(run)
        named = [
            {"agent": each["agent"], "env": own if run is None else encode(env)}
            for each, own in zip(members, played, strict=True)
        ]
        agents = {str(each["agent"]) for each in named}
    except (LookupError, TypeError) as error:
        said = f"{path} is no policy that hpcpod {__version__} can read"
        raise UserError(said) from error
    if run is not None:
        trained = {space.agent for space in run.resolved.algorithms.values()}
        if others := sorted(agents - trained):
            said = f"{path} is of an agent that its run does not train"
            raise UserError(f"{said}: {', '.join(others)}")
    if not trust:
        for each in named:
            _check_code(path, each, run)
    agent = ", ".join(sorted(agents))
    if len(members) > 1:
        agent = f"{meta.get('rule', 'ensemble')} of {len(members)}: {agent}"
    number = meta.get("round")
    return Candidate(
        label, source, str(meta.get("pod", "")), number if isinstance(number, int) else None,
        agent, data, env,
    )  # fmt: skip


def _scored_in(run: RunFolder) -> EnvConfig:
    """The environment in which a run's evaluator scores; without importing another user's."""
    config, named = run.resolved.config, run.resolved.config.pod.evaluator
    if named == "panel" or (":" in named and not run.owner.trusted):
        return config.env
    with plugins.needing_torch():
        from hpcpod.pod.evaluator import scored_in
    return scored_in(config)


def _env(path: Path, plain: dict[str, Any]) -> EnvConfig:
    from hpcpod.config.loader import from_plain

    try:
        env: EnvConfig = from_plain(EnvConfig, plain, str(path))
    except ConfigError as error:
        said = f"{path} is of an environment that hpcpod {__version__} can't read: "
        raise UserError(said + "; ".join(error.problems)) from error
    return env


def _check_code(path: Path, meta: dict[str, Any], run: RunFolder | None) -> None:
    """See that a policy names no code of another user's."""
    named = code_in(meta)
    if not named:
        return
    if run is not None:
        run.owner.require_code(named, "evaluate")
        return
    uid = path.stat().st_uid
    if uid not in (os.geteuid(), 0):
        raise UserError(
            f"{path} is of {user_name(uid)}, and names code that is not built in"
            f" ({', '.join(named)}): if you trust that, say --trust"
        )
