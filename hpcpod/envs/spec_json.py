"""An environment's spec as plain data, for checkpoints and for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import gymnasium as gym
import numpy as np

from hpcpod.envs.observations import is_structured, parts_of
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space
from hpcpod.records.records import encode

_SPACES = {"Box": Box, "Discrete": Discrete, "MultiDiscrete": MultiDiscrete}


def spec_to_plain(spec: EnvSpec) -> dict[str, Any]:
    """A spec as JSON-able data; each space says its kind."""
    plain: dict[str, Any] = encode(spec)
    for field in ("observation", "action"):
        plain[field]["kind"] = type(getattr(spec, field)).__name__
    return plain


def spec_from_plain(plain: Mapping[str, Any]) -> EnvSpec:
    """The inverse of ``spec_to_plain``, for a batch on the CPU."""
    bounds = plain["action_bounds"]
    own = {field.name: plain[field.name] for field in fields(EnvSpec) if field.name in plain}
    own |= {name: _space(plain[name]) for name in ("observation", "action")}
    own |= {"action_bounds": None if bounds is None else tuple(map(_tuples, bounds))}
    return EnvSpec(**own | {"device": "cpu"})


def _space(plain: Mapping[str, Any]) -> Space:
    fields = {name: _tuples(value) for name, value in plain.items() if name != "kind"}
    space: Space = _SPACES[plain["kind"]](**fields)
    return space


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def structure_of(space: gym.Space[Any]) -> dict[str, Any] | None:
    """``EnvSpec.structure`` of an environment's own observation space."""
    return _space_to_plain(space) if is_structured(space) and _named(space) else None


def space_of(structure: Mapping[str, Any]) -> gym.Space[Any]:
    """The space that ``structure_of`` describes; each ``Box`` of it has the bounds 0 and 1, unless
    they are given, for ``structure_of`` does not keep them.

    Raises:
        TypeError, ValueError, LookupError, AssertionError: it describes no space.
    """
    kind = structure["kind"]
    if kind == "Dict":
        return gym.spaces.Dict([(key, space_of(part)) for key, part in structure["parts"]])
    if kind == "Tuple":
        return gym.spaces.Tuple([space_of(part) for part in structure["parts"]])
    if kind == "Discrete":
        return gym.spaces.Discrete(structure["n"], start=structure["start"])
    if kind == "MultiDiscrete":
        nvec = np.asarray(structure["nvec"])
        return gym.spaces.MultiDiscrete(nvec, start=np.full(nvec.shape, structure["start"]))
    shape, dtype = tuple(structure["shape"]), np.dtype(structure["dtype"])
    low, high = (np.full(shape, structure.get(*end), dtype) for end in (("low", 0), ("high", 1)))
    return gym.spaces.Box(low, high, shape, dtype.type)


def _space_to_plain(space: gym.Space[Any]) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Dict):
        parts = [[key, _space_to_plain(part)] for key, part in space.spaces.items()]
        return {"kind": "Dict", "parts": parts}
    if isinstance(space, gym.spaces.Tuple):
        return {"kind": "Tuple", "parts": [_space_to_plain(part) for part in space.spaces]}
    if isinstance(space, gym.spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, gym.spaces.MultiDiscrete):
        nvec, start = space.nvec.tolist(), np.asarray(space.start).tolist()
        return {"kind": "MultiDiscrete", "nvec": nvec, "start": start}
    return {"kind": "Box", "shape": list(space.shape or ()), "dtype": str(space.dtype)}


def _named(space: gym.Space[Any]) -> bool:
    """True if all parts, and theirs, have keys that JSON can hold."""
    parts = parts_of(space) if is_structured(space) else []
    return all(isinstance(key, str | int) and _named(part) for key, part in parts)
