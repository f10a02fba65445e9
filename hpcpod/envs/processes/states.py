"""The state of a batch, joined from those of its parts and split again for other processes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hpcpod.envs.vec_env import State


def joined(parts: Sequence[State], rows: Sequence[range]) -> State:
    """The state of the whole batch: of backend ``gymnasium`` the one that one process gives.

    Tensors named ``i/...`` are of the part's i-th environment, and tensors with a row for each of
    its environments are laid one below the other. What is neither becomes ``process<k>/...``, which
    only as many processes can go on from.

    Args:
        parts: of each process.
        rows: of the batch, which each of them has.
    """
    whole: State = {}
    for k, (part, own) in enumerate(zip(parts, rows, strict=True)):
        for name, value in part.items():
            place, slash, rest = name.partition("/")
            if slash and place.isdigit():
                whole[f"{own.start + int(place)}/{rest}"] = value
            elif not all(_by_rows(p.get(name), len(r)) for p, r in zip(parts, rows, strict=True)):
                whole[f"process{k}/{name}"] = value
            elif k == 0:
                whole[name] = torch.cat([each[name] for each in parts])
    return whole


def parted(whole: State, rows: Sequence[range]) -> list[State]:
    """The states of the parts, as ``joined`` was given them.

    Raises:
        ValueError: it is the state of a batch of another size, or of other processes.
    """
    parts: list[State] = [{} for _ in rows]
    count = rows[-1].stop
    refusal = f"the state is not of {count} environments in {len(rows)} processes"
    for name, value in whole.items():
        place, slash, rest = name.partition("/")
        process = place.removeprefix("process")
        if slash and place.isdigit() and int(place) < count:
            (k,) = (k for k, own in enumerate(rows) if int(place) in own)
            parts[k][f"{int(place) - rows[k].start}/{rest}"] = value
        elif slash and process.isdigit() and process != place and int(process) < len(rows):
            parts[int(process)][rest] = value
        elif _by_rows(value, count):
            for part, own in zip(parts, rows, strict=True):
                part[name] = value[own.start : own.stop]
        else:
            raise ValueError(f"{refusal}: it has {name!r}")
    if not all(parts):
        raise ValueError(f"{refusal}: it has fewer")
    return parts


def _by_rows(value: torch.Tensor | None, count: int) -> bool:
    return value is not None and value.dim() > 0 and len(value) == count
