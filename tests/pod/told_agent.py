"""PPO that says how far it was told the run has come: where it learned, and where it acted."""

from __future__ import annotations

import torch

from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.ppo import PPO
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.envs.vec_env import State


class Told(PPO):
    """Its metrics: what the learner was told, and what the actor of the same rollout was."""

    def _told(self) -> float:
        return -1.0 if self._clock.progress is None else self._clock.progress

    def behaviour(self, rollout: State) -> State:
        """Beside log-probabilities what the actor knows, float32 [T, N]."""
        said = super().behaviour(rollout)
        return {**said, "told": torch.full_like(said["log_p"], self._told())}

    def update(self, buffer: Buffer) -> Metrics:
        """See ``Agent.update``."""
        assert isinstance(buffer, RolloutBuffer)
        acting = buffer.rollout().get("behaviour/told", torch.full((1,), self._told()))
        return {**super().update(buffer), "learning": self._told(), "acting": float(acting.mean())}
