"""Packed states: summed and unpacked without any process but this one."""

from __future__ import annotations

import pytest
import torch

from hpcpod.agents.fusion import fusion_rules
from hpcpod.agents.normalizer import RunningNorm
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.envs.vec_env import State
from hpcpod.pod.ranks.packing import Packing, merged
from tests.agents.training import spec


def fused(states: list[State], since: State, weights: list[float]) -> list[State]:
    agent = PPO(spec(), PPOConfig(), seed=0)
    rules = fusion_rules(agent, states[0])
    packings = [Packing(rules, s, rank, len(states)) for rank, s in enumerate(states)]
    for packing, state, weight in zip(packings, states, weights, strict=True):
        packing.pack(state, weight)
    total = torch.stack([packing.vector for packing in packings]).sum(0)
    for packing in packings:
        packing.vector.copy_(total)
    return [packing.unpack(s, since) for packing, s in zip(packings, states, strict=True)]


def replicas(count: int) -> list[State]:
    states = []
    for seed in range(count):
        state = PPO(spec(), PPOConfig(), seed=seed).state()
        state["env_steps"] = torch.tensor(3_000_000_000 + seed)  # 0, 1 and 2 since the last fusion
        state["optimizer/step"] = torch.tensor(17 * (seed + 1))
        states.append(state)
    return states


def test_weights_are_averaged_counters_are_added_or_the_largest_random_streams_stay() -> None:
    states = replicas(3)
    found = fused(states, states[0], [100.0, 300.0, 0.0])
    for state, own in zip(found, states, strict=True):
        weight = "network/policy.weight"
        expected = 0.25 * states[0][weight] + 0.75 * states[1][weight]
        assert torch.allclose(state[weight], expected, atol=1e-7)
        assert int(state["env_steps"]) == 3_000_000_003
        assert int(state["optimizer/step"]) == 51
        assert torch.equal(state["rng"], own["rng"])
    for name, tensor in found[0].items():
        if name != "rng":
            assert all(torch.equal(tensor, other[name]) for other in found), name
            assert tensor.dtype == states[0][name].dtype and tensor.shape == states[0][name].shape


@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_moments_are_those_of_all_that_was_seen_each_part_once(far: float) -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(rows: int, offset: float) -> torch.Tensor:
        return far + offset + torch.randn(rows, 3, generator=generator)

    norms = [RunningNorm(3, "cpu") for _ in range(3)]
    everything: list[torch.Tensor] = []
    since = norms[0].state()
    for _ in range(4):
        for rank, norm in enumerate(norms):
            part = draw(20 + 30 * rank, float(rank))
            norm.update(part)
            everything.append(part)
        told = [norm.state() for norm in norms]
        count, mean, var = (
            torch.stack([state[name].double().view(-1) for state in told])
            for name in ("count", "mean", "var")
        )
        since = merged(count, mean, var, {name: t.double() for name, t in since.items()})
        since = {name: t.view_as(told[0][name]).to(told[0][name]) for name, t in since.items()}
        for norm in norms:
            norm.load(since)
    seen = torch.cat(everything)
    assert int(since["count"]) == len(seen)
    assert torch.allclose(since["mean"], seen.mean(0), rtol=1e-6, atol=1e-5)
    assert torch.allclose(since["var"], seen.var(0, correction=0), rtol=2e-3)


def test_nothing_seen_moves_no_moments() -> None:
    fresh = {n: t.double() for n, t in RunningNorm(2, "cpu").state().items()}
    zero = torch.zeros(2, 2, dtype=torch.float64)
    found = merged(zero[:, :1], zero, torch.ones_like(zero), fresh)
    assert found["mean"].tolist() == [0.0, 0.0] and found["var"].tolist() == [1.0, 1.0]
    assert float(found["count"]) == 0.0
