"""How the replicas of one pod become one agent again, from time to time."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from hpcpod.agents.base import Agent
from hpcpod.agents.fusion import fusion_rules
from hpcpod.envs.vec_env import State
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.layout import Layout

_LEAST = 1e-6
"""Samples: a rank without any has no say, unless none has."""


class Fusion(Protocol):
    """Makes the replicas of an agent, one on each rank, equal."""

    def fuse(self, weight: float) -> None:
        """Exchange and load, on all ranks at once; ``weight``: samples learned from since.

        Raises:
            RankLost: another rank is gone.
        """
        ...

    def state(self) -> State:
        """What fusing on needs, the same on every rank."""
        ...

    def load(self, state: State) -> None:
        """Take over a ``state()``; the agent has been loaded already."""
        ...


class Mean:
    """The mean of the replicas, weighted by samples (McMahan et al. 2017, arXiv:1602.05629)."""

    def __init__(self, agent: Agent, ranks: Communicator) -> None:
        """The replicas need not be equal yet: all take over rank 0's."""
        self._agent, self._ranks = agent, ranks
        state = agent.state()
        self._rules = fusion_rules(agent, state)
        self._layout = Layout(self._rules, state, ranks.rank, ranks.size)
        self._since = state
        self._since = self._exchange(1.0 if ranks.rank == 0 else 0.0)
        agent.load(self._since)

    def fuse(self, weight: float) -> None:
        """See ``Fusion``. Where no rank has learned from anything, all count alike."""
        fused = self._combined(self._exchange(max(weight, _LEAST)))
        self._agent.load(fused)
        self._since = fused

    def _exchange(self, weight: float) -> State:
        state = self._agent.state()
        self._layout.pack(state, weight)
        self._ranks.sum_(self._layout.vector)
        return self._layout.unpack(state, self._since)

    def _combined(self, mean: State) -> State:
        """What the replicas become, of their mean."""
        return mean

    def state(self) -> State:
        """Nothing: the last fusion's moments are the agent's own when it is saved."""
        return {}

    def load(self, state: State) -> None:
        """See ``Fusion``."""
        self._since = self._agent.state()


class Nesterov(Mean):
    """The mean as one step of an outer optimizer with Nesterov's momentum.

    DiLoCo (Douillard et al. 2023, arXiv:2311.08105): the outer gradient is g = θ - mean(θ_r), then
    u ← μ u + g and θ ← θ - η (g + μ u). Only weights have a momentum; the rest is averaged.
    """

    def __init__(
        self, agent: Agent, ranks: Communicator, rate: float = 0.7, momentum: float = 0.9
    ) -> None:
        """η is ``rate``, μ is ``momentum``."""
        super().__init__(agent, ranks)
        self._rate, self._momentum = rate, momentum
        weights = [name for name in self._layout.mean if name.startswith("network/")]
        self._velocity = {name: torch.zeros_like(self._since[name]) for name in weights}

    def _combined(self, mean: State) -> State:
        moved = dict(mean)
        for name, velocity in self._velocity.items():
            gradient: Tensor = self._since[name] - mean[name]
            velocity.mul_(self._momentum).add_(gradient)
            moved[name] = self._since[name] - self._rate * (gradient + self._momentum * velocity)
        return moved

    def state(self) -> State:
        """The momentum, by the weights' names."""
        return {name: velocity.clone() for name, velocity in self._velocity.items()}

    def load(self, state: State) -> None:
        """See ``Fusion``."""
        super().load(state)
        for name, velocity in self._velocity.items():
            velocity.copy_(state[name])
