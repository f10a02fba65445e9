"""How torch computes while a pod trains, and that less precision still learns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from hpcpod.api import train_config
from hpcpod.config.loading import from_mapping
from hpcpod.envs.threads import env_threads
from hpcpod.envs.vec_env import State
from hpcpod.pod.numerics import numerics
from tests.agents.test_agent_contract import own_spec
from tests.agents.training import row, small_agent
from tests.small_runs import mapping


def state() -> tuple[int, int, str, bool, bool]:
    smallest = torch.tensor([1e-40]) * torch.ones(1)
    return (
        torch.get_num_threads(),
        env_threads(),
        torch.get_float32_matmul_precision(),
        float(smallest) == 0.0,
        torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"),
    )


def test_a_process_computes_as_configured_and_afterwards_as_before() -> None:
    config = from_mapping(
        mapping(pod={"matmul": "medium", "torch_threads": 2}, resources={"cpus_per_pod": 3})
    )
    before = state()
    assert before == (1, 1, "highest", False, False)
    with pytest.raises(RuntimeError, match="in the middle"), numerics(config):
        assert state() == (2, 3, "medium", True, False)
        raise RuntimeError("in the middle")
    assert state() == before


@pytest.mark.parametrize("name", ["ppo", "a2c", "dqn", "sac", "td3", "ddpg"])
def test_autocast_multiplies_in_bfloat16_and_keeps_float32(name: str) -> None:
    def learned(matmul: str) -> tuple[State, torch.Tensor]:
        agent = small_agent(name, own_spec(name))
        buffer = agent.make_buffer()
        with numerics(from_mapping(mapping(pod={"matmul": matmul}))):
            for t in range(3 * agent.horizon):
                obs, _, step = row(t)
                obs = obs / 100
                step = step._replace(obs=step.obs / 100, next_obs=step.next_obs / 100)
                buffer.add(obs, agent.act(obs, explore=True), step)
                if (t + 1) % agent.horizon == 0:
                    assert all(map(math.isfinite, agent.update(buffer).values()))
            return agent.state(), agent.act(obs, explore=False).float()

    before = state()
    (exact, chosen), (cast, alike) = learned("highest"), learned("bfloat16")
    assert state() == before
    assert {key: t.dtype for key, t in cast.items()} == {key: t.dtype for key, t in exact.items()}
    weights = [key for key in exact if key.startswith("network/")]
    assert any(not torch.equal(exact[key], cast[key]) for key in weights)
    assert all(torch.allclose(exact[key], cast[key], atol=0.05) for key in weights)
    assert torch.allclose(chosen, alike, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["sac", "td3"])
def test_products_in_bfloat16_still_swing_the_pendulum_up(agent: str) -> None:
    whole: dict[str, Any] = {
        "name": "gate",
        "env": {"id": "Pendulum-v1", "num_envs": 1},
        "population": {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 1}},
        "agents": {agent: {"learning_rate": 1e-3, "hidden": 64}},
        "round": {"env_steps": 1000, "episodes": 16},
        "stop": {"env_steps": 9000},
        "pod": {"matmul": "medium"},
    }
    training = train_config(from_mapping(whole))
    assert max(point.mean_return for point in training.curve) >= -200
