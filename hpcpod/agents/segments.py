"""A segment: consecutive rows of experience, as ``Buffer.segment`` gives them.

A segment stores no successor twice: the successor of row t is the observation of row t + 1, but
for truncated steps, whose true final observation is kept aside. Terminated steps need none:
their future is worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hpcpod.envs.vec_env import State, Step

Row = tuple[Tensor, Tensor, Step]
"""Observation, action, and the step that followed."""

FLAGS = ("terminated", "truncated", "valid")
"""The columns of a segment that are bool [T, N]."""


def segment_of(rows: Sequence[Row], into: Mapping[str, Tensor] | None = None) -> State:
    """The rows as one segment: see ``Buffer.segment``.

    Args:
        rows: at least one.
        into: memory to lay ``obs``, ``action``, ``reward`` and the flags into, each with as many
            rows; new memory by default.
    """
    steps = [step for _, _, step in rows]
    columns: dict[str, list[Tensor]] = {
        "obs": [obs for obs, _, _ in rows],
        "action": [action for _, action, _ in rows],
        "reward": [step.reward for step in steps],
        **{name: [getattr(step, name) for step in steps] for name in FLAGS},
    }
    out = into or dict.fromkeys(columns)
    laid = {name: torch.stack(column, out=out[name]) for name, column in columns.items()}
    last = steps[-1]
    cut = laid["truncated"] & laid["valid"]
    some = [t for t, any_cut in enumerate(cut.any(dim=1).tolist()) if any_cut]
    finals = last.next_obs[:0].clone()
    if some:
        finals = torch.stack([steps[t].next_obs for t in some])[cut[some]]
    return {
        **laid,
        "next_obs": blank(last.terminated | ~last.valid, last.next_obs),
        "final_obs": finals,
    }


def rows_of(segment: State) -> list[Row]:
    """The rows as they were added: their successors are put together again."""
    next_obs = torch.cat([segment["obs"][1:], segment["next_obs"][None]])
    next_obs[segment["truncated"] & segment["valid"]] = segment["final_obs"]
    return [
        (
            segment["obs"][t],
            segment["action"][t],
            Step(
                obs=next_obs[t],
                reward=segment["reward"][t],
                terminated=segment["terminated"][t],
                truncated=segment["truncated"][t],
                next_obs=next_obs[t],
                valid=segment["valid"][t],
            ),
        )
        for t in range(len(segment["reward"]))
    ]


def newest(segment: State, rows: int) -> State:
    """The last ``rows`` rows of a segment, complete in themselves."""
    gone = len(segment["reward"]) - rows
    if gone <= 0:
        return segment
    # Whole segments only: of 10,000 a copy got 0, 4,000 or 8,000, as checkpoints fell.
    finals = int((segment["truncated"] & segment["valid"])[:gone].sum())
    return {
        **{name: segment[name][gone:] for name in ("obs", "action", "reward", *FLAGS)},
        "next_obs": segment["next_obs"],
        "final_obs": segment["final_obs"][finals:],
    }


def cut_off(segment: State) -> State:
    """A segment whose last step is truncated wherever no episode ended: the episodes that it left
    in progress go on nowhere, so the rows behind it are of others."""
    terminated, valid = segment["terminated"][-1], segment["valid"][-1]
    truncated = segment["truncated"].clone()
    before = int((truncated & segment["valid"])[:-1].sum())
    # else a lost rank's rows ran on into the episodes that begin anew
    truncated[-1] = ~terminated
    return {
        **segment,
        "truncated": truncated,
        "final_obs": torch.cat(
            [segment["final_obs"][:before], segment["next_obs"][~terminated & valid]]
        ),
    }


def check_range(start: int, stop: int, oldest: int, rows: int) -> None:
    """Refuse rows that a buffer does not hold (IndexError)."""
    if not oldest <= start < stop <= rows:
        raise IndexError(f"rows {start} to {stop} were asked for, but {oldest} to {rows} are here")


def check_contiguous(rows: int, segments: Sequence[tuple[int, State]]) -> int:
    """The first row that the segments cover; they must end at ``rows`` (ValueError)."""
    end = segments[0][0] if segments else rows
    for start, segment in segments:
        if start != end:
            raise ValueError(f"a replay segment begins at row {start}, but row {end} is next")
        end = start + len(segment["reward"])
    if end != rows:
        raise ValueError(f"the replay segments end at row {end}, but the buffer counted {rows}")
    return segments[0][0] if segments else rows


def blank(where: Tensor, obs: Tensor) -> Tensor:
    """The same with zeros in rows that mean nothing, so that equal segments are equal bytes."""
    return obs.masked_fill(spread(where, obs), 0)


def spread(mask: Tensor, obs: Tensor) -> Tensor:
    """The mask [B] in a shape that spreads over observations [B, ...]."""
    return mask.view(-1, *[1] * (obs.dim() - 1))
