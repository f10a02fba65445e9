"""Observations on which an export is checked: met in play, drawn at random, and extreme ones."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from hpcpod.deploy.environment_terms import Part, parts_of_observation
from hpcpod.envs.arrays import Array
from hpcpod.envs.vec_env import Box, EnvSpec

Inputs = Mapping[str, Array]
"""A batch of observations, by the names of the exported policy's inputs."""

_BOUNDLESS = 1e6
"""Bounds beyond this are none: some environments declare the largest float."""
_FAR = 100.0
"""Standard deviations to which an extreme observation without bounds goes."""
_MOST_LISTED = 2**17
"""Numbers that ``check.json`` has as a list; larger arrays are packed."""


def drawn(spec: EnvSpec, count: int, rng: np.random.Generator, met: Inputs | None) -> Inputs:
    """Random observations: uniform between bounds; without bounds normal, of twice the spread of
    those that were ``met``, or of 1."""
    return {
        part.name: _uniform(part, *ends, count, rng, None if met is None else met[part.name])
        for part, ends in _with_bounds(spec)
    }


def extreme(spec: EnvSpec, count: int, rng: np.random.Generator, met: Inputs | None) -> Inputs:
    """Observations at their bounds, 100 standard deviations off where there are none, and zeros.

    The first row is zero, or the nearest that is allowed; the next two are all low and all high.
    """
    found = {}
    for part, (low, high) in _with_bounds(spec):
        if part.choices is not None:
            found[part.name] = _choices(part, rng.random((count, len(part.choices))).round())
            continue
        centre, spread = _spread(part, None if met is None else met[part.name])
        least, most = centre - _FAR * spread, centre + _FAR * spread
        least, most = (
            np.where(np.isfinite(low), low, least),
            np.where(np.isfinite(high), high, most),
        )
        up = rng.random((count, part.width)) < 0.5
        up[1:2], up[2:3] = False, True
        values = np.where(up, most, least)
        values[0] = np.clip(0.0, least, most)
        found[part.name] = _in_dtype(part, values)
    return found


def packed(array: Array) -> dict[str, Any]:
    """An array for ``check.json``; ``numpy_policy.unpacked`` reads it."""
    form = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size <= _MOST_LISTED:
        return {**form, "values": array.tolist()}
    data = zlib.compress(np.ascontiguousarray(array).tobytes())
    return {**form, "zlib_base64": base64.b64encode(data).decode()}


def some(inputs: Inputs, count: int) -> Inputs:
    """``count`` of these observations, evenly spaced; all if there are no more."""
    size = len(next(iter(inputs.values())))
    chosen = np.linspace(0, size - 1, min(count, size)).astype(int)
    return {name: array[chosen] for name, array in inputs.items()}


def _with_bounds(spec: EnvSpec) -> list[tuple[Part, tuple[Array, Array]]]:
    """Each part, and of its numbers the bounds; infinite where there are none."""
    parts, found, at = parts_of_observation(spec), [], 0
    space = spec.observation
    for part in parts:
        ends = np.full(part.width, -np.inf), np.full(part.width, np.inf)
        if isinstance(space, Box):
            width = int(np.prod(space.shape))
            bounds = [np.broadcast_to(np.asarray(end, float), (width,)) for end in
                      (space.low, space.high)]  # fmt: skip
            low, high = (bound[at : at + part.width] for bound in bounds)
            ends = (
                np.where(low < -_BOUNDLESS, -np.inf, low),
                np.where(high > _BOUNDLESS, np.inf, high),
            )
        at += part.width
        found.append((part, ends))
    return found


def _uniform(
    part: Part, low: Array, high: Array, count: int, rng: np.random.Generator, met: Array | None
) -> Array:
    if part.choices is not None:
        return _choices(part, rng.random((count, len(part.choices))))
    centre, spread = _spread(part, met)
    normal = np.clip(centre + 2 * spread * rng.normal(size=(count, part.width)), low, high)
    both = np.isfinite(low) & np.isfinite(high)
    least, most = np.where(both, low, 0.0), np.where(both, high, 1.0)
    uniform = least + rng.random((count, part.width)) * (most - least)
    return _in_dtype(part, np.where(both, uniform, normal))


def _spread(part: Part, met: Array | None) -> tuple[Array, Array]:
    """Mean and standard deviation of each number."""
    if met is None:
        return np.zeros(part.width), np.ones(part.width)
    flat = met.reshape(len(met), -1).astype(float)
    spread = flat.std(axis=0)
    return flat.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _choices(part: Part, share: Array) -> Array:
    """The choices at these shares of each one's range, float [B, k] in [0, 1]."""
    assert part.choices is not None
    first, n = (np.asarray(each) for each in zip(*part.choices, strict=True))
    chosen = first + np.minimum((share * n).astype(int), n - 1)
    found: Array = chosen.reshape(-1, *part.shape).astype(part.dtype)
    return found


def _in_dtype(part: Part, values: Array) -> Array:
    dtype = np.dtype(part.dtype)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        values = np.clip(np.round(values), float(ends.min), float(ends.max))
    elif dtype.kind == "b":
        values = values > 0.5
    return values.astype(dtype).reshape(-1, *part.shape)
