"""The worker steps the batched environment with the agent and fills the buffer."""

from __future__ import annotations

import torch
from torch import Tensor

from hpcpod.agents.base import Agent, Buffer
from hpcpod.envs.vec_env import State, VecEnv

RECENT = 64
"""Training episodes in the running mean that the progress display shows."""


class Worker:
    """One batched environment and what is going on in it."""

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        n = env.spec.num_envs
        self._obs: Tensor = torch.empty(0)
        self._episode_return = torch.zeros(n, dtype=torch.float64)
        self._recent = torch.full((RECENT,), float("nan"), dtype=torch.float64)
        self._episodes = 0

    def reset(self, seeds: Tensor) -> None:
        """Begin every environment anew: int64 ``seeds`` of shape [N]."""
        self._obs = self._env.reset(seeds)
        self._episode_return.zero_()

    def collect(self, agent: Agent, buffer: Buffer, steps: int, *, cut: bool) -> int:
        """Step ``steps`` times; return the environment steps that counted.

        Args:
            agent: acts, exploring.
            buffer: takes every step.
            steps: vector steps.
            cut: mark the last step as truncated: the round ends here, and its environments
                are reset before the next one.
        """
        counted = 0
        for index in range(steps):
            action = agent.act(self._obs, explore=True)
            step = self._env.step(action)
            counted += int(step.valid.sum())
            self._count(step.reward, step.terminated | step.truncated)
            if cut and index == steps - 1:
                step = step._replace(truncated=~step.terminated)
            buffer.add(self._obs, action, step)
            self._obs = step.obs
        return counted

    def _count(self, reward: Tensor, ended: Tensor) -> None:
        self._episode_return += reward.to(self._episode_return)
        if bool(ended.any()):
            for value in self._episode_return[ended.cpu()].tolist():
                self._recent[self._episodes % RECENT] = value
                self._episodes += 1
            self._episode_return[ended.cpu()] = 0.0

    @property
    def obs(self) -> Tensor:
        """What the agent acts on next, [N, *observation]."""
        return self._obs

    @property
    def mean_return(self) -> float:
        """Mean return of the last training episodes; NaN before the first has ended."""
        return float(self._recent.nanmean())

    def state(self) -> State | None:
        """Everything that stepping on needs; None if the environment can't be saved."""
        env = self._env.state()
        if env is None:
            return None
        return {
            **{f"env.{name}": tensor for name, tensor in env.items()},
            "obs": self._obs,
            "episode_return": self._episode_return,
            "recent": self._recent,
            "episodes": torch.tensor(self._episodes),
        }

    def restore(self, state: State) -> None:
        """The inverse of ``state``."""
        self._env.restore(
            {name[4:]: tensor for name, tensor in state.items() if name.startswith("env.")}
        )
        self._obs = state["obs"].clone()
        self._episode_return = state["episode_return"].clone()
        self._recent = state["recent"].clone()
        self._episodes = int(state["episodes"])
