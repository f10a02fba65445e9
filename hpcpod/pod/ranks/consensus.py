"""Consensus of a pod's ranks: to stop, to save, that one of them failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch

from hpcpod.errors import (
    Corrupt,
    Diverged,
    EngineDiffers,
    StorageError,
    UserError,
    in_words,
)
from hpcpod.pod.ranks.communicator import Communicator, RankLost

T = TypeVar("T")

_KINDS: dict[str, type[Exception]] = {
    "diverged": Diverged, "corrupt": Corrupt, "storage": StorageError, "user": UserError,
    "engine": EngineDiffers,
}  # fmt: skip


class Agreed(NamedTuple):
    """The common knowledge of all ranks after an iteration."""

    steps: int
    """Environment steps that counted, over all ranks."""
    stop: bool
    """Some rank was asked to stop."""
    save: bool
    """Some rank finds that it is time for a checkpoint."""


AGREED = "agreed"
"""An attribute of errors that all ranks raise at the same place, or one for each."""


class RankFailed(Exception):
    """Another rank could not go on, for a reason that has no error of its own."""


def agree(
    group: Communicator,
    steps: int = 0,
    *,
    stop: bool = False,
    save: bool = False,
    problem: Exception | None = None,
) -> Agreed:
    """Tell all ranks how it went here, and hear how it went there.

    Args:
        group: every rank must call this at the same place.
        steps: environment steps that counted here.
        stop: whether this rank was asked to stop.
        save: whether it is time for a checkpoint here.
        problem: why this rank can't go on.

    Raises:
        RankLost: a rank is gone.
        Diverged, StorageError, Corrupt, UserError, EngineDiffers, RankFailed: a rank, named in the
            message, can't go on.
        Exception: ``problem`` itself, on the rank that has it.
    """
    if group.size == 1:
        if problem is not None:
            raise problem
        return Agreed(steps, stop, save)
    sums = torch.tensor([steps, stop, save, problem is not None], dtype=torch.float64)
    group.sum_(sums)
    total, stops, saves, problems = sums.tolist()
    if problems:
        _raise(group, problem)
    return Agreed(int(total), bool(stops), bool(saves))


def _raise(group: Communicator, problem: Exception | None) -> None:
    own = ["", ""]
    if problem is not None:
        kinds = (name for name, kind in _KINDS.items() if isinstance(problem, kind))
        kind = next(kinds, "other")
        own = [kind, in_words(problem) if kind == "other" else str(problem)]
    said = group.gather(json.dumps(own))
    if problem is None:
        each = enumerate(json.loads(text) for text in said)
        rank, kind, reason = next((rank, kind, reason) for rank, (kind, reason) in each if kind)
        problem = _KINDS.get(kind, RankFailed)(f"rank {rank}: {reason}")
    vars(problem)[AGREED] = True  # its process serves the next order
    raise problem


def together(group: Communicator, work: Callable[[], T]) -> T:
    """Do something on every rank that the others must not wait for in vain if it fails here.

    Args:
        group: every rank must call this at the same place.
        work: exchanges nothing itself.

    Raises:
        Exception: as ``agree`` does.
    """
    try:
        done = work()
    except RankLost:
        raise
    except Exception as error:
        agree(group, problem=error)
        raise  # never: agreeing has raised it
    agree(group)
    return done
