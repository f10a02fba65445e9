"""Suspect numbers of an environment, valid but hardly meant: one warning for each kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from hpcpod.envs.spec_json import space_of
from hpcpod.envs.vec_env import Bound, Box, Discrete, EnvSpec, Step

LARGEST_REWARD = 1e15
"""Of a reward beyond it the square of an episode's return, as losses have it, may leave float32."""
MARGIN = 1e-5
"""Of a bound, or of 1 if that is more: float32 does not hold the bounds of a float64."""


class Strange:
    """Looks for rewards near the end of float32, and for observations beyond their bounds."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._bounds = _bounds(spec)
        self._rewards_seen = False

    def look(self, step: Step) -> Iterator[str]:
        """A sentence for each fault not yet reported; two at most, over all looks."""
        if not self._rewards_seen:
            yield from self._reward(step.reward)
        if self._bounds is not None:
            yield from self._observation(step.next_obs, *self._bounds)

    def _reward(self, reward: Tensor) -> Iterator[str]:
        worst = int(reward.abs().argmax())
        value = float(reward[worst])
        if abs(value) <= LARGEST_REWARD:
            return
        self._rewards_seen = True
        yield (
            f"the reward of environment {worst} of {self._spec.id} is {value:.6g}, where float32"
            f" ends at {torch.finfo(torch.float32).max:.2g}: what is computed of it may not be"
            " finite; scale rewards down"
        )

    def _observation(self, obs: Tensor, low: Tensor, high: Tensor) -> Iterator[str]:
        flat = obs.reshape(len(obs), -1)
        beyond = (flat < low) | (flat > high)
        if not bool(beyond.any()):
            return
        self._bounds = None
        row, place = beyond.nonzero()[0].tolist()
        least, most = (float(bound[place]) for bound in _declared(self._spec))
        yield (
            f"{component(self._spec, place)} of {self._spec.id} is {float(flat[row, place]):.6g},"
            f" and its space declares {least:.6g} to {most:.6g}: declare what it can be, or clip it"
        )


def component(spec: EnvSpec, place: int) -> str:
    """The name of an element of an observation, by its place in the flat tensor: by its index, or
    in a structured space by the path of keys."""
    if spec.structure is not None:
        return f"observation {_path(spec.structure, place)}"
    shape = spec.observation.shape if isinstance(spec.observation, Box) else ()
    if not isinstance(spec.observation, Box | Discrete):
        shape = (len(spec.observation.nvec),)
    return f"observation{_index(shape, place)}"


def _path(structure: Mapping[str, Any], place: int) -> str:
    kind = structure["kind"]
    if kind not in ("Dict", "Tuple"):
        return _index(structure["shape"], place) if kind == "Box" else ""
    parts = structure["parts"] if kind == "Dict" else enumerate(structure["parts"])
    for key, part in parts:
        width = gym.spaces.flatdim(space_of(part))
        if place < width:
            inside = _path(part, place)
            between = "/" if inside and not inside.startswith("[") else ""
            return f"{key}{between}{inside}"
        place -= width
    raise IndexError(f"no part of the observation has place {place}")


def _index(shape: Sequence[int], place: int) -> str:
    """Such as ``[1, 2]``; empty for what is one number."""
    return f"[{', '.join(map(str, np.unravel_index(place, shape)))}]" if shape else ""


def _bounds(spec: EnvSpec) -> tuple[Tensor, Tensor] | None:
    """Least and most of an observation's elements, with a margin; None if they have no bounds."""
    if isinstance(spec.observation, Box) and spec.observation.dtype == "uint8":
        return None  # the bounds of bytes, but for images that are darker than declared
    low, high = _declared(spec)
    if not bool(low.isfinite().any() | high.isfinite().any()):
        return None
    low, high = low - MARGIN * low.abs().clamp(min=1), high + MARGIN * high.abs().clamp(min=1)
    return low.to(spec.device), high.to(spec.device)


def _declared(spec: EnvSpec) -> tuple[Tensor, Tensor]:
    """Low and high of each element, float64 [D], or [1] if all are alike."""
    space = spec.observation
    if isinstance(space, Box):
        size = math.prod(space.shape)
        return _each(space.low, size), _each(space.high, size)
    most = (space.n,) if isinstance(space, Discrete) else space.nvec
    return torch.zeros(len(most), dtype=torch.float64), torch.tensor(most).double() - 1


def _each(bound: Bound, size: int) -> Tensor:
    values = torch.tensor(bound, dtype=torch.float64)
    return values.expand(size) if values.dim() == 0 else values
