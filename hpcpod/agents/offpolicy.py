"""What the agents that learn from a replay buffer share; most of it is for actor-critics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from hpcpod.agents import networks
from hpcpod.agents.base import Buffer
from hpcpod.agents.buffers import ReplayBuffer
from hpcpod.agents.state import (
    adam_state,
    load_adam,
    load_module,
    module_state,
    prefixed,
    under,
)
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, Space, State
from hpcpod.errors import UnsupportedSpace

GATHERED = 16_384
"""Transitions that are gathered at once at most: 64 batches of 256, so memory stays bounded."""
MOST_CRITICS = 64
"""Critics of one agent."""


def continuous(algorithm: str, spec: EnvSpec) -> Box:
    """The action space, if it is continuous.

    Raises:
        UnsupportedSpace: it is not; says which algorithm can act in it.
    """
    if isinstance(spec.action, Box):
        return spec.action
    discrete = isinstance(spec.action, Discrete)
    kind, remedy = ("discrete", "dqn or ppo") if discrete else ("multi-discrete", "ppo")
    raise UnsupportedSpace(
        f"{algorithm} acts in continuous spaces only, but {spec.id} has a {kind} action space;"
        f" use {remedy}"
    )


def uniform(like: Tensor, action: Box, generator: torch.Generator) -> Tensor:
    """Actions that know nothing: uniform in [-1, 1], float32 [N, *action], N = len(``like``)."""
    shape = (len(like), *action.shape)
    return torch.empty(shape, device=like.device).uniform_(-1.0, 1.0, generator=generator)


def replay(algorithm: str, buffer: Buffer) -> ReplayBuffer:
    """The same buffer, if transitions can be sampled from it; else raises TypeError."""
    if not isinstance(buffer, ReplayBuffer):
        raise TypeError(f"{algorithm} learns from a ReplayBuffer, got a {type(buffer).__name__}")
    return buffer


def has_enough(buffer: ReplayBuffer, learning_starts: int, num_envs: int) -> bool:
    """Whether that many transitions are there, or as many as the buffer can hold."""
    rows = min(learning_starts / num_envs, buffer.capacity)
    return buffer.rows - buffer.oldest >= max(1, rows)


def batches(
    buffer: ReplayBuffer, space: Space, count: int, size: int, generator: torch.Generator
) -> Iterator[State]:
    """``count`` batches of ``size`` transitions B, gathered many at a time.

    Yields:
        ``inputs`` and ``next_inputs`` float32 [B, features] (``networks.encode``), ``pairs``
        float32 [B, features + A] (inputs and action, as critics read them), ``reward``
        float32 [B] and ``terminated`` bool [B].
    """
    while count > 0:
        now = min(count, max(1, GATHERED // size))
        many = buffer.sample(now * size, generator)
        inputs = networks.encode(space, many["obs"])
        ready = {
            "inputs": inputs,
            "pairs": torch.cat([inputs, many["action"].view(now * size, -1)], dim=-1),
            "next_inputs": networks.encode(space, many["next_obs"]),
            "reward": many["reward"],
            "terminated": many["terminated"],
        }
        for parts in zip(*[tensor.tensor_split(now) for tensor in ready.values()], strict=True):
            yield dict(zip(ready, parts, strict=True))
        count -= now


def critic_target(batch: State, next_value: Tensor, gamma: float) -> Tensor:
    """r + γ (1 - terminated) V(s'): a truncated step is worth its future like any other.

    Args:
        batch: ``reward`` float32 [B] and ``terminated`` bool [B].
        next_value: V at the true successors, float32 [B].
        gamma: discount factor.

    Returns:
        float32 [B].
    """
    return batch["reward"] + gamma * next_value * ~batch["terminated"]


def smallest(critics: networks.Critics, inputs: Tensor, action: Tensor) -> Tensor:
    """min_k Q_k(s, a) (clipped double Q-learning, Fujimoto et al. 2018).

    Args:
        critics: K of them.
        inputs: s, float32 [B, features].
        action: a, float32 [B, A].

    Returns:
        float32 [B].
    """
    values: Tensor = critics(torch.cat([inputs, action], dim=-1))
    return values.amin(dim=0)


def squared_error(critics: networks.Critics, pairs: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """Σ_k mean (Q_k - y)² and the mean of all Q_k.

    Args:
        critics: K of them.
        pairs: s and a, float32 [B, features + A].
        target: y, float32 [B].

    Returns:
        Two float32 scalars, the first one differentiable.
    """
    values: Tensor = critics(pairs)
    loss = (values - target).square().mean(dim=-1).sum()
    return loss, values.detach().mean()


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down the gradient of the optimizer's own weights; that of no other is computed."""
    optimizer.zero_grad()
    loss.backward(inputs=optimizer.param_groups[0]["params"])  # type: ignore[no-untyped-call]
    optimizer.step()


def trained_state(
    trained: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Adam]
) -> State:
    """Weights and moments of every trained module, by its name: ``network/``, ``optimizer/``."""
    state: State = {}
    for name, module in trained.items():
        state |= prefixed(f"network/{name}", module_state(module))
        state |= prefixed(f"optimizer/{name}", adam_state(module, optimizers[name]))
    return state


def load_trained(
    trained: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Adam], state: State
) -> None:
    """Take over a ``trained_state``."""
    for name, module in trained.items():
        load_module(module, under(f"network/{name}", state))
        load_adam(module, optimizers[name], under(f"optimizer/{name}", state))


class Followers:
    """Target networks, which follow the ones that learn."""

    def __init__(self, *pairs: tuple[nn.Module, nn.Module], tau: float) -> None:
        """Pairs of a target and the network of the same shape that it follows; copies it now."""
        self._slow: list[Tensor] = [p for slow, _ in pairs for p in slow.parameters()]
        self._fast: list[Tensor] = [p for _, fast in pairs for p in fast.parameters()]
        self._tau = tau
        self._move(1.0)

    def move(self) -> None:
        """θ' ← θ' + τ (θ - θ') in place (Lillicrap et al. 2016, algorithm 1)."""
        self._move(self._tau)

    def _move(self, tau: float) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(self._slow, self._fast, tau)
