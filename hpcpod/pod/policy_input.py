"""Input of a policy: a user's observations as the rows that an agent reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from hpcpod.envs.arrays import Array, form_of
from hpcpod.envs.observations import as_vector, is_structured
from hpcpod.envs.spec_json import space_of
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space
from hpcpod.errors import UserError

MOST_WORDS = 300
"""Characters in which parts are described."""

Part = Space | gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete


class Reader:
    """Reads an environment's own observations, one or a batch of them; refuses all others."""

    def __init__(self, spec: EnvSpec) -> None:
        """Read those of the environment that ``spec`` describes.

        Raises:
            TypeError, ValueError, LookupError, AssertionError: its ``structure`` is none, or is not
                of its ``observation``.
        """
        self._space = spec.observation
        self._parts: Any = None if spec.structure is None else space_of(spec.structure)
        self._shape = form_of(spec.observation)[0]
        if self._parts is None:
            batch = ", ".join(["batch", *map(str, self._shape)])
            described = f"{_described(self._space)}, or a batch of them ({batch})"
        else:
            if (gym.spaces.flatdim(self._parts),) != self._shape:
                raise ValueError(f"its parts are no vector of shape {self._shape}")
            words = _described(self._parts)
            short = words if len(words) <= MOST_WORDS else f"{words[:MOST_WORDS]}..."
            described = f"{short}, or a batch of them, in which each part has one axis more"
        self._wanted = f"{spec.id} observes {described}"

    def __call__(self, obs: Any) -> tuple[Array, bool]:
        """One observation or a batch as rows.

        Args:
            obs: as the environment gives it; a batch as arrays that have one axis more, or as a
                list of observations. Of an environment with parts, their vector will do, too.

        Returns:
            [B, *observation] in memory of its own, as ``VecEnv.step`` gives it, and whether it was
            one observation.

        Raises:
            UserError: it is none of the environment's, or the batch is empty.
        """
        try:
            return self._read(obs)
        except (TypeError, ValueError) as error:
            raise UserError(f"{self._wanted}; {error}") from error

    def _read(self, obs: Any) -> tuple[Array, bool]:
        parts = self._parts
        if parts is None or not _has_parts(parts, obs):
            return self._rows(obs)
        if not _is_list_of_observations(parts, obs):
            lead = _lead(parts, obs)
            return self._of_parts(obs, lead), lead == ()
        rows = []
        for i, each in enumerate(obs):
            try:
                rows.append(self._of_parts(each, ()))
            except ValueError as error:
                raise ValueError(f"at {i} of this batch, {error}") from error
        return np.concatenate(rows), False

    def _of_parts(self, obs: Any, lead: tuple[int, ...]) -> Array:
        """Rows of observations in parts, whose arrays have ``lead`` before their own axes: [B, D].

        Raises:
            ValueError: they are none of the environment's, or there is none.
        """
        _check(self._parts, obs, lead, "")
        if lead == (0,):
            raise ValueError("this batch is empty")
        rows = as_vector(self._parts, obs, lead)
        return rows if lead else rows[None]

    def _rows(self, obs: Any) -> tuple[Array, bool]:
        """Rows of observations that are arrays."""
        array = _numbers(obs, "this observation")
        axes = len(self._shape)
        if array.shape[array.ndim - axes :] != self._shape or array.ndim > axes + 1:
            raise ValueError(f"this observation has shape {array.shape}")
        single = array.ndim == axes
        if not single and len(array) == 0:
            raise ValueError("this batch is empty")
        _check_numbers(self._space, array, "this observation")
        dtype = form_of(self._space)[1]
        rows: Array = np.array(array[None] if single else array, dtype=dtype, order="C")
        if not isinstance(self._space, Box):
            rows -= np.asarray(self._space.start)  # agents count from 0
        return rows, single


def _has_parts(space: gym.Space[Any], obs: Any) -> bool:
    """True of observations in parts, false of the vector that these become."""
    if isinstance(obs, Mapping | tuple) or _is_list_of_observations(space, obs):
        return True
    return (
        isinstance(space, gym.spaces.Tuple)
        and isinstance(obs, list)
        and len(obs) == len(space.spaces)
    )


def _is_list_of_observations(space: gym.Space[Any], obs: Any) -> bool:
    kind = Mapping if isinstance(space, gym.spaces.Dict) else tuple
    return isinstance(obs, list) and bool(obs) and all(isinstance(each, kind) for each in obs)


def _lead(space: Any, values: Any) -> tuple[int, ...]:
    """The axes before those of the first part: (B,) of a batch, else ()."""
    try:
        while is_structured(space):
            key = next(iter(space.spaces)) if isinstance(space, gym.spaces.Dict) else 0
            space, values = space[key], values[key]
        shape = np.shape(values)
    except (LookupError, TypeError, ValueError):
        return ()
    return shape[:1] if len(shape) == len(space.shape) + 1 else ()


def _check(space: Any, values: Any, lead: tuple[int, ...], path: str) -> None:
    """See that values are of a space, part by part.

    Raises:
        ValueError: they are not; says which part.
    """
    named = f"'{path}' of this observation" if path else "this observation"
    if not is_structured(space):
        array, shape = _numbers(values, named), (*lead, *space.shape)
        if array.shape != shape:
            raise ValueError(f"{named} has shape {array.shape}, not {shape}")
        _check_numbers(space, array, named)
        return
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(values, Mapping):
            raise ValueError(f"{named} is of type {type(values).__name__}, not a dictionary")
        missing = [repr(key) for key in space.spaces if key not in values]
        if missing:
            raise ValueError(f"{named} has no {', '.join(missing)}")
    elif not isinstance(values, tuple | list):
        raise ValueError(f"{named} is of type {type(values).__name__}, not a tuple")
    elif len(values) != len(space.spaces):
        raise ValueError(f"{named} has {len(values)} parts, not {len(space.spaces)}")
    named_parts = isinstance(space, gym.spaces.Dict)
    for key, part in space.spaces.items() if named_parts else enumerate(space.spaces):
        _check(part, values[key], lead, f"{path}/{key}" if path else str(key))


def _numbers(values: Any, named: str) -> Array:
    """The values as an array, of whatever type they are.

    Raises:
        ValueError: they are no numbers.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{named} is no array: {error}") from error
    if array.dtype.kind not in "biuf":  # bool, int, unsigned, float
        kind = type(values).__name__ if array.dtype.kind == "O" else str(array.dtype)
        raise ValueError(f"{named} is no array of numbers, but of type {kind}")
    return array


def _check_numbers(space: Part, array: Array, named: str) -> None:
    """See that an array has choices or bytes where these are observed, else finite numbers.

    Raises:
        ValueError: it has something else; says where.
    """
    ends = _whole_numbers(space)
    if ends is not None:
        fine = (array >= ends[0]) & (array <= ends[1]) & (array == np.floor(array))
    else:
        with np.errstate(over="ignore"):  # 1e39 is infinite in float32, and refused
            fine = np.isfinite(array.astype(np.float32, copy=False))
    if np.all(fine):
        return
    place = tuple(np.argwhere(~fine)[0].tolist())
    at = f" at {list(place)}" if place else ""
    wanted = "a finite float32"
    if ends is not None:
        low, high = (np.broadcast_to(end, array.shape)[place] for end in ends)
        wanted = f"a whole number from {low} to {high}"
    raise ValueError(f"{named} has {array[place]}{at}, not {wanted}")


def _whole_numbers(space: Part) -> tuple[Any, Any] | None:
    """The least and the greatest whole number that an environment may observe, of each element;
    None where it observes real numbers."""
    if isinstance(space, Discrete | gym.spaces.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, MultiDiscrete | gym.spaces.MultiDiscrete):
        start = np.asarray(space.start)
        return start, start + np.asarray(space.nvec) - 1
    # Bytes are images: one that was scaled to 1 is refused.
    return (0, 255) if np.dtype(space.dtype) == np.uint8 else None


def _described(space: Any) -> str:
    """An observation space in words."""
    if isinstance(space, gym.spaces.Dict):
        parts = (f"{key!r}: {_described(part)}" for key, part in space.spaces.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(space, gym.spaces.Tuple):
        return f"({', '.join(map(_described, space.spaces))})"
    if isinstance(space, MultiDiscrete):
        return f"choices of shape ({len(space.nvec)},)"
    if isinstance(space, gym.spaces.MultiDiscrete):
        return f"choices of shape {space.shape}"
    if isinstance(space, Discrete | gym.spaces.Discrete):
        return f"a number from {space.start} to {space.start + space.n - 1}"
    return f"{'shape' if _whole_numbers(space) is None else 'bytes of shape'} {space.shape}"
