"""Off-policy learning: draws from a replay buffer, n-step returns, target networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hpcpod.agents import h_term, networks
from hpcpod.agents.base import Acting, Buffer, Metrics, check_finite
from hpcpod.agents.gradient_agent import GradientAgent
from hpcpod.agents.observations import Observations
from hpcpod.agents.optimizer import Adam, flatten
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.envs.vec_env import EnvSpec, State

_GATHERED = 16_384
"""Transitions that are gathered at once at most: 64 batches of 256."""
_GATHERED_NUMBERS = 2**22
"""Numbers of their observations: wide ones and images are gathered fewer at a time."""


class OffPolicyAgent(GradientAgent):
    """An agent that learns from a replay buffer, in as many updates as its new rows are worth."""

    def __init__(self, spec: EnvSpec, config: Any, seed: int, device: str) -> None:
        """Keep the arguments; make no weights."""
        super().__init__(spec, config, seed, device)
        self._owed = 0.0
        self._teacher: Acting | None = None

    def imitate(self, buffer: Buffer, teacher: Acting) -> Metrics:
        """Learn from a replay of the teacher's rows; see ``Imitating``. Critics learn as ever."""
        self._env_steps += self._config.horizon * self._spec.num_envs  # which ``act`` counts else
        self._teacher = teacher
        try:
            return self.update(buffer)
        finally:
            self._teacher = None

    def update(self, buffer: Buffer) -> Metrics:
        """Sample and descend, once there is enough to sample.

        Raises:
            Diverged: a loss is not finite.
        """
        if not isinstance(buffer, ReplayBuffer):
            kind = type(buffer).__name__
            raise TypeError(f"{self.name} learns from a ReplayBuffer, got a {kind}")
        config = self._config
        learn_statistics(buffer, self._observations, config.horizon)
        if not has_enough(buffer, config.learning_starts, self._spec.num_envs):
            return {}
        count = self._due()
        if count == 0:
            return {}
        for optimizer in self.optimizers():
            optimizer.learning_rate = self.learning_rate
        metrics = self._learn(buffer, count)
        self._updates += count
        check_finite(self.name, self._updates, metrics)
        return metrics

    def state(self) -> State:
        """Weights, target networks, optimizers, statistics, random stream and counters."""
        owed = torch.tensor(self._owed, dtype=torch.float64)
        return {**super().state(), "updates_owed": owed}

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        super().load(state)
        self._owed = float(state.get("updates_owed", 0.0))

    def _due(self) -> int:
        """Updates that the last ``horizon`` rows are worth; what is left of one is owed."""
        config = self._config
        # Rounded, and at least one, it was ten times what 0.1 for each single step asks for.
        self._owed += config.updates_per_step * config.horizon * self._spec.num_envs
        count = int(self._owed)
        self._owed -= count
        return count

    @abstractmethod
    def _learn(self, ring: ReplayBuffer, count: int) -> Metrics:
        """Update ``count`` times; ``_updates`` still counts those before."""


def has_enough(buffer: ReplayBuffer, learning_starts: int, num_envs: int) -> bool:
    """True if that many transitions are there, or as many as the buffer can hold."""
    rows = min(learning_starts / num_envs, buffer.capacity)
    return buffer.rows - buffer.oldest >= max(1, rows)


def learn_statistics(buffer: ReplayBuffer, observations: Observations, horizon: int) -> None:
    """Take the newest ``horizon`` rows into the statistics of observations, if there are any."""
    if observations.learns and buffer.rows > buffer.oldest:
        rows = buffer.segment(max(buffer.oldest, buffer.rows - horizon), buffer.rows)
        observations.learn(rows["obs"][rows["valid"]])


def batches_at_once(size: int, observations: Observations) -> int:
    """Batches of ``size`` that are gathered at once at most, so that memory stays bounded."""
    most = min(_GATHERED, _GATHERED_NUMBERS // observations.size)
    return max(1, most // size)


def batches(
    buffer: ReplayBuffer,
    observations: Observations,
    count: int,
    size: int,
    gamma: float,
    generator: torch.Generator,
    teacher: Acting | None = None,
) -> Iterator[State]:
    """``count`` batches of ``size`` transitions B, gathered many at a time.

    Yields:
        ``inputs`` and ``next_inputs`` as ``Observations`` prepares them, ``action`` float32
        [B, A], ``reward`` and ``discount`` float32 [B] as ``ReplayBuffer.sample`` gives them; of a
        ``teacher`` also ``taught``, its best actions, float32 [B, A].
    """
    while count > 0:
        now = min(count, batches_at_once(size, observations))
        many = buffer.sample(now * size, generator, gamma)
        ready = {
            "inputs": observations(many["obs"]),
            "next_inputs": observations(many["next_obs"]),
            "action": many["action"].view(now * size, -1),
            "reward": many["reward"],
            "discount": many["discount"],
        }
        if teacher is not None:
            ready["taught"] = teacher.act(many["obs"], explore=False).view(now * size, -1)
        for parts in zip(*[tensor.tensor_split(now) for tensor in ready.values()], strict=True):
            yield dict(zip(ready, parts, strict=True))
        count -= now


def runs(
    buffer: ReplayBuffer,
    observations: Observations,
    size: int,
    steps: int,
    generator: torch.Generator,
) -> Iterator[State | None]:
    """Without end, the best runs of ``steps`` K for the Hamiltonian term, a batch at a time.

    Yields:
        ``inputs`` [M, K, ...] as ``Observations`` prepares them, ``action`` float32 [M, K, A]
        and ``worth`` float32 [M, K]; None while there are no K rows.
    """
    while buffer.rows - buffer.oldest < steps:
        yield None
    while True:
        drawn = buffer.sample_runs(h_term.candidates(size, steps), steps, generator)
        best, worth = h_term.best_runs(drawn["reward"], drawn["whole"])
        inputs, action = observations(drawn["obs"][best].flatten(0, 1)), drawn["action"][best]
        yield {
            "inputs": inputs.view(len(best), steps, *inputs.shape[1:]),
            "action": action.reshape(len(best), steps, -1),
            "worth": worth,
        }


def critic_target(batch: State, next_value: Tensor) -> Tensor:
    """r + γ V(s'), or r alone where s' is terminal: a truncated step is worth its future.

    Args:
        batch: ``reward`` and ``discount`` float32 [B], as ``ReplayBuffer.sample`` gives them.
        next_value: V at the true successors, float32 [B].

    Returns:
        float32 [B].
    """
    return batch["reward"] + batch["discount"] * next_value


def squared_error(
    critics: networks.Critics, inputs: Tensor, action: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ_k mean (Q_k - y)² and the mean of all Q_k.

    Args:
        critics: K of them.
        inputs: s, as ``Observations`` prepares them.
        action: a, float32 [B, A].
        target: y, float32 [B].

    Returns:
        Two float32 scalars, the first one differentiable.
    """
    values: Tensor = critics(critics.encoder(inputs), action)
    loss = (values - target).square().mean(dim=-1).sum()
    return loss, values.detach().mean()


class Follower:
    """A target network, which follows the one that learns."""

    def __init__(self, target: nn.Module, optimizer: Adam, tau: float) -> None:
        """``target`` has the shape of the module that ``optimizer`` moves; copies it now."""
        self._slow, self._fast, self._tau = flatten(target), optimizer.vector, tau
        self._slow.copy_(self._fast)

    def move(self) -> None:
        """θ' ← θ' + τ (θ - θ') in place (Lillicrap et al. 2016, algorithm 1)."""
        self._slow.lerp_(self._fast, self._tau)
