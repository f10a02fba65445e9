"""The worker steps the batched environment with the agent and fills the buffer."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from hpcpod.agents.base import Agent, Buffer
from hpcpod.envs.suspect_values import Strange
from hpcpod.envs.vec_env import EnvSpec, State, Step, VecEnv

LOOK_SECONDS = 1.0
"""Interval between two looks at the numbers of a step."""

log = logging.getLogger(__name__)

RECENT = 64
"""Training episodes in the running mean that the progress display shows."""


class Worker:
    """One batched environment and what is going on in it."""

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        self.spec: EnvSpec = env.spec
        """Spec of the environments."""
        n = env.spec.num_envs
        self.obs: Tensor = torch.empty(0)
        """The observations on which the agent acts next, [N, *observation]."""
        self._episode_return = torch.zeros(n, dtype=torch.float64)
        # NaN: no episode has ended yet.
        self._recent = torch.full((RECENT,), float("nan"), dtype=torch.float64)
        self._episodes = 0
        self._strange, self._looked = Strange(env.spec), 0.0

    def reset(self, seeds: Tensor) -> None:
        """Begin every environment anew: int64 ``seeds`` of shape [N]."""
        self.obs = self._env.reset(seeds)
        self._episode_return.zero_()
        self._recent.fill_(float("nan"))
        self._episodes = 0

    def go_on(self, seeds: Tensor) -> None:
        """Begin a round in the episodes in progress.

        Args:
            seeds: of a ``reset``, int64 [N]. Nothing here is drawn from them.
        """

    def walk(self, agent: Agent, steps: int) -> None:
        """Step ``steps`` times as the agent acts without exploring. No step is kept or counted, but
        as a part of its episode's return."""
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
        """Add the rewards up, and remember the returns of the episodes that ended."""
        reward = torch.stack([step.reward for step in taken]).cpu()
        terminated = torch.stack([step.terminated for step in taken])
        ended = terminated.logical_or_(torch.stack([step.truncated for step in taken])).cpu()
        begin = 0
        for t in ended.any(dim=1).nonzero().view(-1).tolist():
            self._episode_return += reward[begin : t + 1].sum(0, dtype=torch.float64)
            for value in self._episode_return[ended[t]].tolist():
                self._recent[self._episodes % RECENT] = value
                self._episodes += 1
            self._episode_return[ended[t]] = 0.0
            begin = t + 1
        self._episode_return += reward[begin:].sum(0, dtype=torch.float64)

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
            "obs": self.obs,
            "episode_return": self._episode_return,
            "recent": self._recent,
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
        self._episode_return = state["episode_return"].clone()
        self._recent = state["recent"].clone()
        self._episodes = int(state["episodes"])
        if found is None or torch.equal(found, self.obs):
            return True
        # BipedalWalker's world outlives a reset: played again, its last bits may differ.
        elsewhere = (found != self.obs).reshape(len(found), -1).any(1)
        self._episode_return[elsewhere.cpu()] = float("nan")  # unknown from here on
        self.obs = found
        return False
