"""A policy in its environment's own terms: parts of observations in, actions for ``step`` out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from hpcpod.agents.observations import one_hot
from hpcpod.agents.operations import NotPortable, Program, Value
from hpcpod.deploy.ensemble_operations import write_policy
from hpcpod.envs.arrays import Array, form_of
from hpcpod.envs.observations import is_structured, parts_of
from hpcpod.envs.spec_json import space_of
from hpcpod.envs.vec_env import Bound, Box, Discrete, EnvSpec, MultiDiscrete
from hpcpod.pod.policy import Policy

ACTION = "action"
"""Name of the output."""


Choices = tuple[tuple[int, int], ...]
"""Of each choice its first number and their count."""


@dataclass(frozen=True)
class Part:
    """A part of the environment's observation: an input of the exported policy."""

    name: str
    """Unique, and never ``ACTION``; of a dictionary the keys, outermost first: ``arm/pos``."""
    path: tuple[str | int, ...]
    """Keys and places at which it is in an observation; () if that is an array or a number."""
    dtype: str
    shape: tuple[int, ...]
    """Of one observation."""
    choices: Choices | None = None
    """Of a Discrete or a MultiDiscrete part each choice's first number and count."""

    @property
    def width(self) -> int:
        """Numbers of it in the vector that agents read of a structured observation."""
        if self.choices is None:
            return math.prod(self.shape)
        return sum(n for _, n in self.choices)


@dataclass(frozen=True)
class Portability:
    """A policy as operations, from the parts of an observation to the action."""

    parts: tuple[Part, ...]
    program: Program
    output: Value
    dtype: str
    """Of the action."""
    shape: tuple[int, ...]
    """Of one action."""
    obstacle: str = ""
    """The reason for which torch's exporter has to write the agent's part; empty if none."""


def portable(policy: Policy) -> Portability:
    """The operations of a policy."""
    spec, program = policy.spec, Program()
    parts = parts_of_observation(spec)
    rows, obstacle = _rows(spec, parts, program), ""
    before = len(program.operations)
    agent = policy.agent
    try:
        acted = write_policy(program, agent, rows)
    except NotPortable as error:
        obstacle = str(error)
        del program.operations[before:]
        acted = program.add("torch", rows, agent=agent)
    shape, dtype = form_of(spec.action)
    if not isinstance(spec.action, Box):
        start = np.asarray(spec.action.start, np.int64)
        acted = program.add("offset", acted, arrays={"by": start}) if start.any() else acted
    elif spec.action_bounds is not None:
        dtype = np.dtype(spec.action_dtype)
        acted = program.add("box", acted, arrays=_bounds(spec, shape, dtype), dtype=str(dtype))
    return Portability(parts, program, acted, str(dtype), shape, obstacle)


def parts_of_observation(spec: EnvSpec) -> tuple[Part, ...]:
    """The inputs of an exported policy of this environment."""
    if spec.structure is not None:
        taken: set[str] = {ACTION}
        return tuple(_leaves(space_of(spec.structure), (), taken))
    space = spec.observation
    shape, dtype = form_of(space)
    choices: Choices | None = None
    if isinstance(space, Discrete):
        choices = ((space.start, space.n),)
    elif isinstance(space, MultiDiscrete):
        starts = np.broadcast_to(np.asarray(space.start), (len(space.nvec),)).tolist()
        choices = tuple(zip(starts, space.nvec, strict=True))
    return (Part("observation", (), str(dtype), shape, choices),)


def in_parts(spec: EnvSpec, rows: Array) -> dict[str, Array]:
    """Rows that an agent reads, [B, *observation], as the inputs of an exported policy."""
    parts = parts_of_observation(spec)
    if spec.structure is None:
        (part,) = parts
        shifted = rows if part.choices is None else rows + np.asarray(spec.observation.start)  # type: ignore[union-attr]
        return {part.name: shifted.astype(part.dtype)}
    found, at = {}, 0
    for part in parts:
        columns, at = rows[:, at : at + part.width], at + part.width
        if part.choices is not None:
            ends = np.cumsum([n for _, n in part.choices])[:-1]
            hot = zip(np.split(columns, ends, axis=1), part.choices, strict=True)
            columns = np.stack([each.argmax(1) + start for each, (start, _) in hot], axis=1)
        found[part.name] = columns.reshape(-1, *part.shape).astype(part.dtype)
    return found


def as_policy_takes(spec: EnvSpec, inputs: Mapping[str, Array]) -> Any:
    """A batch of inputs as ``Policy`` takes a batch of observations."""
    parts = parts_of_observation(spec)
    if spec.structure is None:
        return inputs[parts[0].name]
    values = {part.path: inputs[part.name] for part in parts}
    return _nested(space_of(spec.structure), (), values)


def to_agent(spec: EnvSpec, action: Array) -> torch.Tensor:
    """Actions of the environment as agents give them, on the CPU: what ``VecEnv.step`` takes."""
    if not isinstance(spec.action, Box):
        return torch.from_numpy(action - np.asarray(spec.action.start))
    if spec.action_bounds is None:
        return torch.from_numpy(action)
    bounds = _bounds(spec, action.shape[1:], np.dtype(spec.action_dtype))
    low, high = bounds["low"].astype(np.float64), bounds["high"].astype(np.float64)
    # by halves: finite bounds may be so far apart that their distance is infinite
    half = high / 2 - low / 2
    own = (action / 2 - low / 2) / np.where(half > 0, half, 1.0) * 2 - 1
    same = (low == -1.0) & (high == 1.0)
    return torch.from_numpy(np.where(same, action, own).astype(np.float32))


def action_scale(spec: EnvSpec, shape: tuple[int, ...]) -> Array:
    """Half of the distance of an action's bounds, for each number; 1 for choices, and where both
    bounds are one number."""
    if not isinstance(spec.action, Box) or spec.action_bounds is None:
        return np.ones(shape)
    bounds = _bounds(spec, shape, np.dtype(spec.action_dtype))
    half = bounds["high"].astype(np.float64)[0] / 2 - bounds["low"].astype(np.float64)[0] / 2
    return np.where(half > 0, half, 1.0)


def _rows(spec: EnvSpec, parts: tuple[Part, ...], program: Program) -> Value:
    """Operations from the parts of an observation to what the agent reads."""
    if spec.structure is None:
        (part,) = parts
        start = np.asarray([first for first, _ in part.choices or ()], np.int64)
        if not start.any():
            return part.name
        return program.add("offset", part.name, arrays={"by": -start.reshape(part.shape)})
    vectors = []
    for part in parts:
        if part.choices is not None:
            flat = program.add("reshape", part.name, shape=[len(part.choices)])
            vectors.append(one_hot(program, flat, part.choices))
            continue
        x = part.name
        if part.dtype != "float32":
            x = program.add("cast", x, dtype="float32")
        vectors.append(x if len(part.shape) == 1 else program.add("reshape", x, shape=[part.width]))
    return vectors[0] if len(vectors) == 1 else program.add("concat", *vectors)


def _leaves(space: Any, path: tuple[str | int, ...], taken: set[str]) -> Iterator[Part]:
    if is_structured(space):
        for key, inner in parts_of(space):
            yield from _leaves(inner, (*path, key), taken)
        return
    # A model's names are UTF-8, and those that begin with % are its operations'.
    name = "/".join(str(key) for key in path).encode("utf-8", "backslashreplace").decode()
    name = f"_{name}" if name.startswith("%") or not name else name
    while name in taken:
        name += "_"
    taken.add(name)
    shape, dtype = tuple(space.shape or ()), str(space.dtype)
    choices: Choices | None = None
    if isinstance(space, gym.spaces.Discrete):
        choices = ((int(space.start), int(space.n)),)
    elif isinstance(space, gym.spaces.MultiDiscrete):
        each = zip(np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist(), strict=True)
        choices = tuple(each)
    yield Part(name, path, dtype, shape, choices)


def _nested(space: Any, path: tuple[str | int, ...], values: Mapping[Any, Array]) -> Any:
    if not is_structured(space):
        return values[path]
    inner = {key: _nested(part, (*path, key), values) for key, part in parts_of(space)}
    return inner if isinstance(space, gym.spaces.Dict) else tuple(inner.values())


def _bounds(spec: EnvSpec, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Low and high of actions, [1, *shape], as ``arrays.box_map`` computes with them."""
    assert spec.action_bounds is not None
    wide = np.promote_types(dtype, np.float32)

    def of_all(bound: Bound) -> Array:
        own = np.asarray(bound, dtype).astype(wide)
        spread: Array = np.broadcast_to(own, (math.prod(shape),)).reshape(1, *shape).copy()
        return spread

    low, high = spec.action_bounds
    return {"low": of_all(low), "high": of_all(high)}
