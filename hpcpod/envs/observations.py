"""Observations of gymnasium as arrays of the form that the spec declares.

A ``Dict`` or a ``Tuple`` becomes one vector, its parts one after another: a Tuple's as they stand,
a Dict's in the order of its own ``spaces``, nested ones in their place. (gymnasium sorts the keys
of a plain dictionary; those of an ``OrderedDict`` or of a list of pairs stay as they were given.)
A Box or a MultiBinary is laid out in C order, a Discrete is one-hot, a MultiDiscrete is one-hot for
each of its choices. Numbers and order are those of ``gymnasium.spaces.utils.flatten``, which does
one environment at a time; this does a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from hpcpod.envs.arrays import Array
from hpcpod.errors import UnsupportedSpace


def is_structured(space: gym.Space[Any]) -> bool:
    """True if it is one of several parts, whose observations become one vector."""
    return isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple))


def vector_space(name: str, space: gym.Space[Any]) -> gym.spaces.Box:
    """The bounds of the vector that a structured space's observations become.

    Args:
        name: the environment's, for the message.
        space: one for which ``is_structured``.

    Raises:
        UnsupportedSpace: a part is an image, or of a kind that is no vector.
    """
    leaves = list(_leaves(space, ""))
    for path, part in leaves:
        if isinstance(part, gym.spaces.Box) and part.dtype == np.uint8 and len(part.shape) > 1:
            raise UnsupportedSpace(
                f"{name} observes an image ('{path}') among other things, and agents read an image"
                " only if it is the whole observation; leave it out by"
                " gymnasium.wrappers:FilterObservation in env.wrappers, or read its pixels as"
                " plain numbers by gymnasium.wrappers:FlattenObservation"
            )
        flat = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete)
        if not isinstance(part, (*flat, gym.spaces.MultiBinary)):
            raise UnsupportedSpace(
                f"{name} observes a {type(part).__name__} space ('{path}') among other things,"
                " which agents can't read; leave it out by gymnasium.wrappers:FilterObservation in"
                " env.wrappers"
            )
    if not leaves:
        raise UnsupportedSpace(f"{name} observes nothing: its {type(space).__name__} has no parts")
    box = gym.spaces.utils.flatten_space(space)
    assert isinstance(box, gym.spaces.Box)
    return box


def as_vector(space: gym.Space[Any], values: Any, lead: tuple[int, ...] = ()) -> Array:
    """Observations of a structured space, float32 [*lead, D], in memory of its own.

    Args:
        space: of one environment's observation.
        values: in the structure of the space; arrays have ``lead`` before their own axes.
        lead: () for one environment, (N,) for a batch.

    Raises:
        TypeError, ValueError: they are not of the space.
    """
    return np.concatenate(list(_columns(space, values, lead, "")), axis=-1)


def as_rows(space: gym.Space[Any], values: Any, lead: tuple[int, ...] = ()) -> Array:
    """Rows of any space that ``gymnasium_make.observation_space`` takes, in memory of their own:
    float32 or uint8 [*lead, *shape], or choices counted from 0, int64 [*lead] or [*lead, k].

    Args and errors are those of ``as_vector``.
    """
    if is_structured(space):
        return as_vector(space, values, lead)
    array = _shaped(space, values, lead, "the observation")
    if isinstance(space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete)):
        return array.astype(np.int64) - np.asarray(space.start, np.int64)
    is_image = isinstance(space, gym.spaces.Box) and space.dtype == np.uint8
    return array.astype(np.uint8 if is_image else np.float32)  # a MultiBinary is int8: numbers


def _leaves(space: gym.Space[Any], path: str) -> Iterator[tuple[str, gym.Space[Any]]]:
    if not is_structured(space):
        yield path, space
        return
    for key, part in parts_of(space):
        yield from _leaves(part, f"{path}/{key}" if path else str(key))


def _columns(
    space: gym.Space[Any], values: Any, lead: tuple[int, ...], path: str
) -> Iterator[Array]:
    """One array for each part, float32 [*lead, width]."""
    if is_structured(space):
        parts = parts_of(space)
        if isinstance(values, tuple | list) and len(values) != len(parts):
            raise ValueError(f"{_at(path)} has {len(values)} parts, not {len(parts)}")
        for key, part in parts:
            try:
                value = values[key]
            except (KeyError, IndexError):
                raise ValueError(f"{_at(path)} has no '{key}'") from None
            yield from _columns(part, value, lead, f"{path}/{key}" if path else str(key))
        return
    array = _shaped(space, values, lead, _at(path))
    if isinstance(space, gym.spaces.Discrete):
        yield _one_hot(array, int(space.start), int(space.n), path)
    elif isinstance(space, gym.spaces.MultiDiscrete):
        flat = array.reshape(*lead, -1)
        starts = np.asarray(space.start).ravel()
        for j, n in enumerate(np.asarray(space.nvec).ravel()):
            yield _one_hot(flat[..., j], int(starts[j]), int(n), path)
    else:
        yield array.astype(np.float32).reshape(*lead, -1)


def parts_of(space: Any) -> list[tuple[Any, gym.Space[Any]]]:
    """The parts of a structured space, by their keys or places."""
    named = isinstance(space, gym.spaces.Dict)
    return list(space.spaces.items() if named else enumerate(space.spaces))


def _one_hot(values: Array, start: int, n: int, path: str) -> Array:
    hot: Array = values[..., None] == np.arange(start, start + n)
    if not hot.any(axis=-1).all():
        raise ValueError(f"{_at(path)} is not from {start} to {start + n - 1}: {values.tolist()}")
    return hot.astype(np.float32)


def _shaped(space: gym.Space[Any], values: Any, lead: tuple[int, ...], named: str) -> Array:
    array = np.asarray(values)
    if array.shape != (*lead, *(space.shape or ())):
        wanted = (*lead, *(space.shape or ()))
        raise ValueError(f"{named} is of shape {array.shape}, not {wanted}")
    return array


def _at(path: str) -> str:
    return f"'{path}' of the observation" if path else "the observation"
