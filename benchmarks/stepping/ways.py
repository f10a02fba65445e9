"""Ways to step a task: their common part, and those by an interface: hpcpod's, gymnasium's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from hpcpod.envs.vec_env import VecEnv, random_actions, random_seeds


@dataclass(frozen=True)
class Way:
    """One column of the table."""

    begin: Callable[[], object]
    """Go back to the start; not timed."""
    go: Callable[[int], object]
    """So many steps of the batch."""
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Work:
    """What all ways do: the same task from the same seeds by the same actions."""

    env_id: str
    num_envs: int
    kwargs: Mapping[str, object]
    seeds: Tensor
    actions: list[Tensor] = field(default_factory=list)
    """Of steps that follow each other, over and over."""

    @classmethod
    def of(cls, env: VecEnv, kwargs: Mapping[str, object], count: int) -> Work:
        """For a batch like this one, with ``count`` different actions."""
        spec, generator = env.spec, torch.Generator().manual_seed(1)
        actions = random_actions(spec, count, generator)
        seeds = random_seeds("benchmark", count=spec.num_envs)
        return cls(spec.id, spec.num_envs, kwargs, seeds, actions)


def ours(work: Work, env: VecEnv) -> Way:
    """A ``VecEnv``."""

    def go(times: int) -> None:
        for t in range(times):
            env.step(work.actions[t % len(work.actions)])

    return Way(lambda: env.reset(work.seeds), go, env.close)


def theirs(work: Work, mode: str) -> Way:
    """gymnasium's vectors: ``sync``, ``async``, or ``vector_entry_point``, which is numpy's."""
    arguments: dict[str, Any] = dict(work.kwargs)
    env = gym.make_vec(work.env_id, work.num_envs, mode, **arguments)
    # One for each environment, as ours have them; the vector in NumPy has one generator.
    seed: Any = work.seeds.tolist() if mode in ("sync", "async") else 0
    actions = [scaled(action, env.single_action_space) for action in work.actions]

    def go(times: int) -> None:
        for t in range(times):
            env.step(actions[t % len(actions)])

    return Way(lambda: env.reset(seed=seed), go, env.close)


def scaled(action: Tensor, space: gym.Space[Any]) -> np.ndarray[Any, Any]:
    """An action of the policy, in [-1, 1], as the environment takes it."""
    array = action.numpy()
    if not isinstance(space, gym.spaces.Box):
        return array
    found: np.ndarray[Any, Any] = space.low + (array + 1) / 2 * (space.high - space.low)
    return found
