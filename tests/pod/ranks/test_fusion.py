"""Fusion of agents whose critics have scales of their own: ranks that are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.pod.ranks.fusion import GradAllReduce, Mean, Nesterov
from tests.agents.training import spec

RANKS = 2
FEATURES = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


class Thread:
    """A rank that adds up with the others in memory."""

    size = RANKS

    def __init__(self, rank: int, vectors: list[Tensor], meet: Callable[[], object]) -> None:
        self.rank, self._vectors, self._meet = rank, vectors, meet

    def sum_(self, vector: Tensor) -> None:
        """The sum of all, in place."""
        self._vectors[self.rank] = vector.clone()
        self._meet()
        vector.copy_(torch.stack(self._vectors).sum(0))
        self._meet()


def values(agent: PPO, features: Tensor) -> Tensor:
    """The critic's values in units of reward."""
    assert agent._returns is not None
    with torch.no_grad():
        return agent._returns.denormalize(agent._network(features)[1])


@pytest.mark.parametrize("scheme", [Mean, Nesterov, GradAllReduce])
def test_replicas_that_have_only_seen_other_returns_value_states_as_before(
    scheme: type[Mean],
) -> None:
    """PopArt keeps what each says; what all say, and no step has changed, stays, too."""
    features = FEATURES
    meet, vectors = threading.Barrier(RANKS, timeout=60).wait, [torch.empty(0)] * RANKS

    def fused(rank: int) -> tuple[Tensor, Tensor, Tensor]:
        agent = PPO(spec(), PPOConfig(hidden=8, layers=1), seed=0)
        assert agent._returns is not None
        fusion = scheme(agent, Thread(rank, vectors, meet))  # type: ignore[arg-type]
        before = values(agent, features)
        for _ in range(3):
            drawn = torch.randn(64, generator=torch.Generator().manual_seed(rank))
            agent._returns.learn([1.0, 40.0][rank] * drawn + 100.0 * rank, agent._network.value)
            fusion.fuse(64.0)
        return before, values(agent, features), agent.state()["normalizer/returns/var"]

    with ThreadPoolExecutor(RANKS) as pool:
        (before, after, var), (_, theirs, _) = pool.map(fused, range(RANKS))
    assert float(var) > 1000.0
    assert torch.equal(after, theirs)
    assert torch.allclose(after, before, atol=1e-3)


def test_a_member_s_critic_is_taken_in_its_own_units() -> None:
    features = FEATURES
    agent = PPO(spec(), PPOConfig(hidden=8, layers=1), seed=0)
    assert agent._returns is not None
    alone = Thread(0, [torch.zeros(0)], lambda: None)
    alone.size = 1
    fusion = Mean(agent, alone)  # type: ignore[arg-type]
    own, before = agent.state(), values(agent, features)
    agent._returns.learn(torch.linspace(-500.0, 900.0, 64), agent._network.value)
    fusion.take(0, own)
    assert torch.allclose(values(agent, features), before, atol=1e-3)
