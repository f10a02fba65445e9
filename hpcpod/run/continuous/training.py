"""The training of a cycle's run: to its end, wherever it was; and once more, to compare."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.errors import Interrupted, RunExists, UserError
from hpcpod.run import preflight
from hpcpod.run.best_policy import kept
from hpcpod.run.launch import create_run
from hpcpod.run.run import Run
from hpcpod.storage.requests import Drain
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.continuous.stream import Stream

if TYPE_CHECKING:
    from hpcpod.run.continuous.entries import Plan
    from hpcpod.run.continuous.registry import Registry

POLL_SECONDS = 5.0
"""Pause between two looks at a run on a cluster."""


@dataclass(frozen=True)
class Repeated:
    """A version that was trained again."""

    run: Path
    """The folder of the second run."""
    same_bits: bool
    """True if it ended in the very weights that are registered."""


def trained(
    registry: Registry, plan: Plan, tell: Callable[[str], object], progress: bool | None
) -> Run:
    """The run of a cycle, once it has finished.

    Raises:
        UserError: it is paused, or the scheduler refuses.
        HpcpodError: the processes that trained it are gone: the next call goes on.
    """
    config = from_mapping(plan.config)
    return to_its_end(config, registry.runs, tell, progress)


def to_its_end(
    config: RunConfig, home: Path, tell: Callable[[str], object], progress: bool | None
) -> Run:
    """Have a run trained: made if it is not there, gone on with, waited for.

    Args:
        config: of the run.
        home: folder of its folder.
        tell: called with what is being done.
        progress: show how far it is, on standard error.
    """
    path = home / config.name
    if not (path / "config.json").exists():
        tell(f"makes the run {config.name}")
        checked = preflight.check(config, source=config.name, probe=False, anew=False)
        with contextlib.suppress(RunExists):  # another process was first
            create_run(checked.resolved, home)
    run = Run(RunFolder.open(path), progress)
    if run.board().phase != "finished":
        tell(f"trains {config.name}")
        drive(run)
    return run


def drive(run: Run) -> None:
    """Have slots train a run to its end: those of another process, as long as it has them, then
    its own.

    Raises:
        UserError: it is paused, or the scheduler refuses.
        HpcpodError: the processes that trained it are gone.
    """
    if run.folder.requests.read(Drain) is not None:
        raise UserError(_paused(run))
    if run.local and run.folder.locks.driven():
        with contextlib.suppress(Interrupted):  # then it is this process's turn
            _wait(run)
            return
    run.resume()
    _wait(run)


def _wait(run: Run) -> None:
    run.wait(poll=0.5 if run.local else POLL_SECONDS)
    if run.board().phase != "finished":
        raise UserError(_paused(run))


def _paused(run: Run) -> str:
    return f"{run.name} is paused: `hpcpod resume {run.word}` goes on with it"


def repeat(
    registry: Registry, number: int, to: Path, stream: Stream, *,
    tell: Callable[[str], object] = lambda text: None, progress: bool | None = None,
) -> Repeated:  # fmt: skip
    """Train a version again, by what the registry says, and compare the weights.

    On a CPU, with one slot and a limit of rounds or steps, equal births end in equal bits; with
    several slots the order of their reports decides who is born.

    Args:
        registry: the registry.
        number: the version's.
        to: folder in which the run is made; in another one below it, where one of it has ended.
        stream: of the configuration.
        tell: called with what is being done.
        progress: show how far it is, on standard error.

    Raises:
        UserError: there is no such version, or its data are not what they were.
    """
    version = registry.verify(number)
    if stream.digest(version.windows) != version.windows.digest:
        raise UserError(
            f"the data of version {number} are not what they were (sha256"
            f" {version.windows.digest[:12]}): put back the file of then"
        )
    config = from_mapping(version.config)
    run = to_its_end(config, _not_trained_in(to, config.name), tell, progress)
    _, weights = weights_of(kept(run.folder).checkpoint.read_bytes())
    return Repeated(run.path, weights == version.weights)


def _not_trained_in(home: Path, name: str) -> Path:
    """The first of ``home``, ``home/2``, ``home/3`` and so on that has no finished run of a name:
    one that was killed goes on, and one that has ended is no training of today."""
    for count in itertools.count(1):
        place = home if count == 1 else home / str(count)
        path = place / name
        if not (path / "config.json").exists():
            return place
        if Run(RunFolder.open(path)).board().phase != "finished":
            return place
    raise AssertionError


def weights_of(data: bytes) -> tuple[str, str]:
    """SHA-256 of a policy's file, and of its weights alone: names, shapes, types, bits."""
    from hpcpod.storage.blobs import decode_blob

    hashed = hashlib.sha256()
    for name, array in sorted(decode_blob(data, "the policy")[0].items()):
        if "agent/" in name:  # not the optimizer's, the environments', the buffer's
            hashed.update(f"{name} {array.dtype} {array.shape}\0".encode() + array.tobytes())
    return hashlib.sha256(data).hexdigest(), hashed.hexdigest()
