"""The worker steps the batched environment with the agent and fills the buffer."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpcpod.agents.base import Agent, Buffer
from hpcpod.envs.suspect_values import Strange
from hpcpod.envs.vec_env import EnvSpec, State, Step, VecEnv

LOOK_SECONDS = 1.0
"""Interval between two looks at the numbers of a step."""

log = logging.getLogger(__name__)

RECENT = 64
"""Training episodes in the running means that the progress display and the curves show."""


class Worker:
    """One batched environment and what is going on in it."""

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        self.spec: EnvSpec = env.spec
        """Spec of the environments."""
        n = env.spec.num_envs
        self.obs: Tensor = torch.empty(0)
        """The observations on which the agent acts next, [N, *observation]."""
        # Return and length of the episodes in progress, then of those that ended last.
        # NumPy's: an operation on so few numbers takes a tenth of torch's time.
        self._running = np.zeros((2, n))
        # NaN: no episode has ended yet.
        self._recent = np.full((2, RECENT), np.nan)
        self._episodes = 0
        self._strange, self._looked = Strange(env.spec), 0.0

    def reset(self, seeds: Tensor) -> None:
        """Begin every environment anew: int64 ``seeds`` of shape [N]."""
        self.obs = self._env.reset(seeds)
        self._running[:], self._recent[:] = 0.0, np.nan
        self._episodes = 0

    def go_on(self, seeds: Tensor) -> None:
        """Begin a round in the episodes in progress.

        Args:
            seeds: of a ``reset``, int64 [N]. Nothing here is drawn from them.
        """

    def walk(self, agent: Agent, steps: int) -> None:
        """Step ``steps`` times as the agent acts without exploring. No step is kept or counted, but
        as a part of its episode."""
        for _ in range(steps):
            step = self._env.step(agent.act(self.obs, explore=False))
            self.obs = step.obs
            self._count([step])

    def collect(self, agent: Agent, buffer: Buffer, steps: int, *, cut: bool) -> int:
        """Step ``steps`` times; return the environment steps that counted.

        Args:
            agent: acts, exploring.
            buffer: takes every step.
            steps: vector steps.
            cut: the round ends here. Where the environments' state can't be saved, they are
                reset before the next one, and the last step is marked as truncated.
        """
        taken: list[Step] = []
        for index in range(steps):
            action = agent.act(self.obs, explore=True)
            step = self._env.step(action)
            taken.append(step)
            if cut and index == steps - 1 and self._env.state() is None:
                step = step._replace(truncated=~step.terminated)
            buffer.add(self.obs, action, step)
            self.obs = step.obs
        # Asked once, not at every step: a GPU would have to stop for each answer.
        self._count(taken)
        self._look_at(taken[-1])
        return int(torch.stack([step.valid for step in taken]).sum())

    def _look_at(self, step: Step) -> None:
        """Warn of numbers that are hardly meant, at some steps: they would be seen again."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            for said in self._strange.look(step):
                log.warning("%s", said)

    def _count(self, taken: Sequence[Step]) -> None:
        """Add rewards and steps up, and remember returns and lengths of the episodes that ended."""
        reward = torch.stack([step.reward for step in taken]).cpu().numpy()
        counts = torch.stack([step.valid for step in taken]).cpu().numpy()
        over = torch.stack([step.terminated for step in taken])
        ended = over.logical_or_(torch.stack([step.truncated for step in taken])).cpu().numpy()
        begin = 0
        for t in ended.any(axis=1).nonzero()[0].tolist():
            self._add(reward[begin : t + 1], counts[begin : t + 1])
            self._remember(self._running[:, ended[t]])
            self._running[:, ended[t]] = 0.0
            begin = t + 1
        self._add(reward[begin:], counts[begin:])

    def _add(self, reward: NDArray[Any], counts: NDArray[Any]) -> None:
        """Add steps to the episodes in progress, [steps, N]."""
        self._running[0] += reward.sum(0, dtype=np.float64)
        self._running[1] += counts.sum(0)

    def _remember(self, over: NDArray[Any]) -> None:
        """Keep return and length of episodes that ended, [2, episodes]."""
        first, self._episodes = self._episodes, self._episodes + over.shape[1]
        places = np.arange(max(first, self._episodes - RECENT), self._episodes) % RECENT
        self._recent[:, places] = over[:, -RECENT:]

    @property
    def mean_return(self) -> float:
        """Mean return of the last training episodes; NaN before the first has ended."""
        return _mean(self._recent[0])

    @property
    def mean_length(self) -> float:
        """Mean steps of the same episodes; NaN before the first has ended."""
        return _mean(self._recent[1])

    def state(self) -> State | None:
        """Everything that stepping on needs; None if the environment can't be saved."""
        env = self._env.state()
        if env is None:
            return None
        return {
            **{f"env.{name}": tensor for name, tensor in env.items()},
            "obs": self.obs,
            **{name: torch.tensor(values) for name, values in self._tallies().items()},
            "episodes": torch.tensor(self._episodes),
        }

    def restore(self, state: State) -> bool:
        """The inverse of ``state``.

        Returns:
            Whether all environments are where they were. If not, what was collected last has
            another successor than what is acted on next: no episode goes on behind it.
        """
        found = self._env.restore(
            {name[4:]: tensor for name, tensor in state.items() if name.startswith("env.")}
        )
        self.obs = state["obs"].to(self._env.spec.device, copy=True)
        for name, values in self._tallies().items():
            # Earlier versions did not count the steps of an episode.
            values[:] = state[name].numpy() if name in state else np.nan
        self._episodes = int(state["episodes"])
        if found is None or torch.equal(found, self.obs):
            return True
        # BipedalWalker's world outlives a reset: played again, its last bits may differ.
        elsewhere = (found != self.obs).reshape(len(found), -1).any(1)
        self._running[:, elsewhere.cpu().numpy()] = np.nan  # unknown from here on
        self.obs = found
        return False

    def _tallies(self) -> dict[str, NDArray[Any]]:
        """All that is counted of episodes, by its name in a state: float64 [N] and [64]."""
        names = "episode_return", "episode_length", "recent", "recent_length"
        return dict(zip(names, (*self._running, *self._recent), strict=True))


def _mean(values: NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
