"""Numerics of torch while a pod trains; less precision still learns."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
import torch

from hpcpod.api import train_config
from hpcpod.config.loader import from_mapping
from hpcpod.envs.threads import env_threads
from hpcpod.pod.numerics import numerics
from tests.agents.test_agent_contract import own_spec
from tests.agents.training import row, small_agent
from tests.support.small_runs import mapping

Casts = tuple[bool, torch.dtype]


def state() -> tuple[int, int, str, bool, Casts, Casts, bool, bool]:
    smallest = torch.tensor([1e-40]) * torch.ones(1)
    return (
        torch.get_num_threads(),
        env_threads(),
        torch.get_float32_matmul_precision(),
        float(smallest) == 0.0,
        (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")),
        torch.is_autocast_cache_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )


OFF: Casts = (False, torch.bfloat16)
OFF_GPU: Casts = (False, torch.float16)


def test_a_process_computes_as_configured_and_afterwards_as_before() -> None:
    config = from_mapping(
        mapping(
            pod={"matmul": "medium", "torch_threads": 2, "deterministic": True},
            resources={"cpus_per_pod": 3},
        )
    )
    before = state()
    assert before == (1, 1, "highest", False, OFF, OFF_GPU, True, False)
    with pytest.raises(RuntimeError, match="in the middle"), numerics(config):
        assert state() == (2, 3, "medium", True, OFF, OFF_GPU, True, True)
        raise RuntimeError("in the middle")
    assert state() == before


def test_what_sets_a_process_up_leaves_the_compiler_unloaded_and_tells_it_all_the_same() -> None:
    """Torch's own switch would load it: 0.9 s of each training process."""
    set_up = """
import sys, torch
from hpcpod.pod.numerics import set_deterministic
set_deterministic(False)
set_deterministic(True)
print(torch.get_deterministic_debug_mode(), "torch._inductor" in sys.modules)
from torch._inductor import config as compiler
print(compiler.deterministic)
set_deterministic(False)
print(torch.get_deterministic_debug_mode(), compiler.deterministic)
"""
    words = [sys.executable, "-c", set_up]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["2 False", "True", "0 False"]


def test_a_callers_own_autocast_is_put_aside_and_comes_back() -> None:
    config = from_mapping(mapping())
    with torch.autocast("cpu", torch.float16, cache_enabled=False):
        before = state()
        with numerics(config):
            assert state()[4:] == ((False, torch.float16), OFF_GPU, True, False)
        assert state() == before
        casting = from_mapping(mapping(pod={"matmul": "bfloat16"}))
        with numerics(casting):
            assert state()[4:] == ((True, torch.bfloat16), (True, torch.bfloat16), False, False)
        assert state() == before


@pytest.mark.parametrize("name", ["ppo", "a2c", "dqn", "sac", "td3", "ddpg"])
def test_autocast_multiplies_in_bfloat16_and_keeps_float32(name: str) -> None:
    config: dict[str, Any] = {} if name in ("a2c", "dqn") else {"h_term": 0.125}
    first = small_agent(name, own_spec(name), **config)
    buffers, generator = [first.make_buffer(), first.make_buffer()], torch.Generator()
    for t in range(3 * first.horizon):
        obs, _, step = row(t)
        obs = torch.randn(obs.shape, generator=generator.manual_seed(t))
        step = step._replace(obs=obs + 0.1, next_obs=obs + 0.1)
        action = first.act(obs, explore=True)
        for buffer in buffers:
            buffer.add(obs, action, step)
    before, learned = state(), []
    for matmul, buffer in zip(("highest", "bfloat16"), buffers, strict=True):
        agent = small_agent(name, own_spec(name), **config)
        with numerics(from_mapping(mapping(pod={"matmul": matmul}))):
            assert all(map(math.isfinite, agent.update(buffer).values()))
            assert agent.act(obs, explore=False).dtype in (torch.float32, torch.int64)
        learned.append(agent.state())
    assert state() == before
    exact, cast = learned
    assert {key: t.dtype for key, t in cast.items()} == {key: t.dtype for key, t in exact.items()}
    moments = [key for key in exact if "exp_avg/" in key]
    some, other = (torch.cat([of[key].flatten() for key in moments]) for of in (exact, cast))
    assert 0 < float((some - other).norm()) < 0.1 * float(some.norm())


@pytest.mark.slow
def test_products_in_bfloat16_still_swing_the_pendulum_up() -> None:
    agent = "td3"
    whole: dict[str, Any] = {
        "name": "gate",
        "seed": 1,
        "env": {"id": "Pendulum-v1", "num_envs": 1},
        "population": {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 1}},
        "agents": {agent: {"learning_rate": 1e-3, "hidden": 64}},
        "round": {"env_steps": 1000, "episodes": 16},
        "stop": {"env_steps": 6000},
        "pod": {"matmul": "medium"},
    }
    training = train_config(from_mapping(whole))
    assert max(point.mean_return for point in training.curve) >= -200
