"""What the ranks of a pod decide together, once an iteration: to stop, to save, that one failed."""

from __future__ import annotations

import json
from typing import NamedTuple

import torch

from hpcpod.errors import Corrupt, Diverged, StorageError
from hpcpod.pod.ranks.communicator import Communicator

_KINDS: dict[str, type[Exception]] = {
    "diverged": Diverged, "storage": StorageError, "corrupt": Corrupt
}  # fmt: skip


class Agreed(NamedTuple):
    """What all ranks know after an iteration."""

    steps: int
    """Environment steps that counted, over all ranks."""
    stop: bool
    """Some rank was asked to stop."""
    save: bool
    """Some rank finds that it is time for a checkpoint."""


class RankFailed(Exception):
    """Another rank could not go on, for a reason that has no error of its own."""


def agree(
    group: Communicator, steps: int, *, stop: bool, save: bool, problem: Exception | None
) -> Agreed:
    """Tell all ranks how the iteration went here, and hear how it went there.

    Args:
        group: every rank must call this at the same place.
        steps: environment steps that counted here.
        stop: whether this rank was asked to stop.
        save: whether it is time for a checkpoint here.
        problem: why this rank can't go on.

    Raises:
        RankLost: a rank is gone.
        Diverged, StorageError, Corrupt, RankFailed: a rank, named in the message, can't go on.
        Exception: ``problem`` itself, on the rank that has it.
    """
    if group.size == 1:
        if problem is not None:
            raise problem
        return Agreed(steps, stop, save)
    told = torch.tensor(
        [steps, stop, save, problem is not None], dtype=torch.float64, device=group.device
    )
    group.sum_(told)
    total, stops, saves, problems = told.tolist()
    if problems:
        kinds = (name for name, kind in _KINDS.items() if isinstance(problem, kind))
        words = "" if problem is None else str(problem)
        said = group.gather(json.dumps([next(kinds, "other"), words]))
        if problem is not None:
            raise problem
        for rank, text in enumerate(said):
            kind, reason = json.loads(text)
            if reason:
                raise _KINDS.get(kind, RankFailed)(f"rank {rank}: {reason}")
    return Agreed(int(total), bool(stops), bool(saves))
