"""The evaluator scores an agent on a panel of episode seeds, the same for every pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from hpcpod.agents.base import Agent
from hpcpod.envs.vec_env import VecEnv, random_seeds

LONGEST_EPISODE = 100_000
"""Steps after which an episode without a time limit of its own is cut."""


_PATIENCE = 16
"""Steps between two questions whether all episodes have ended, on a GPU."""


class Stopped(Exception):
    """An order was stopped on request; what it can resume from is in the run folder."""


def never() -> bool:
    """Nobody asks to stop."""
    return False


class Evaluator(Protocol):
    """Scores an agent; what it scores is decided by the seeds alone."""

    def evaluate(
        self,
        agent: Agent,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        """Undiscounted return of each episode, in the order of the panel's seeds.

        Raises:
            Stopped: ``should_stop``, which is asked at every step, became true.
        """
        ...

    def close(self) -> None:
        """Close its environments."""
        ...


class PanelEvaluator:
    """Runs all episodes of a panel side by side, one environment each, without exploring.

    The batch always has as many rows as the panel has episodes, so that equal weights give
    bit-equal returns: that is how a copied child proves that it is its parent's copy.
    """

    def __init__(self, make: Callable[[int], VecEnv]) -> None:
        self._make = make
        self._envs: dict[int, VecEnv] = {}

    def evaluate(
        self,
        agent: Agent,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        """Score ``episodes`` episodes whose seeds are a hash of ``panel``."""
        if episodes not in self._envs:
            self._envs[episodes] = self._make(episodes)
        env = self._envs[episodes]
        obs = env.reset(random_seeds(*panel, count=episodes))
        device = env.spec.device
        # Whether all have ended is asked of a GPU at times only: it has to stop for the answer.
        patience = 1 if device == "cpu" else _PATIENCE
        returns = torch.zeros(episodes, dtype=torch.float64, device=device)
        running = torch.ones(episodes, dtype=torch.bool, device=device)
        for t in range(env.spec.max_episode_steps or LONGEST_EPISODE):
            if should_stop():
                raise Stopped
            step = env.step(agent.act(obs, explore=False))
            returns += torch.where(running, step.reward.double(), 0.0)
            running &= ~(step.terminated | step.truncated)
            if t % patience == 0 and not bool(running.any()):
                break
            obs = step.obs
        return tuple(returns.tolist())

    def close(self) -> None:
        """See ``Evaluator``."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()
