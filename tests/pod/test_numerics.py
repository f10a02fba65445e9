"""How torch computes while a pod trains, and that less precision still learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hpcpod.api import train_config
from hpcpod.config.loading import from_mapping
from hpcpod.envs.threads import env_threads
from hpcpod.pod.numerics import numerics
from tests.small_runs import mapping


def state() -> tuple[int, int, str, bool]:
    smallest = torch.tensor([1e-40]) * torch.ones(1)
    return (
        torch.get_num_threads(),
        env_threads(),
        torch.get_float32_matmul_precision(),
        float(smallest) == 0.0,
    )


def test_a_process_computes_as_configured_and_afterwards_as_before() -> None:
    config = from_mapping(
        mapping(pod={"matmul": "medium", "torch_threads": 2}, resources={"cpus_per_pod": 3})
    )
    before = state()
    assert before == (1, 1, "highest", False)
    with pytest.raises(RuntimeError, match="in the middle"), numerics(config):
        assert state() == (2, 3, "medium", True)
        raise RuntimeError("in the middle")
    assert state() == before


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
