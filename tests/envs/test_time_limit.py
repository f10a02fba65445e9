"""``env.max_episode_steps``: a time limit for whoever has none, by every backend that can."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import pytest
import torch

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.checking import check_env
from hpcpod.envs.make import configured
from hpcpod.envs.vec_env import VecEnv, random_actions
from hpcpod.errors import UserError

NEVER = {"end": 10**9, "cut": 10**9}
COUNTING = "tests.envs.small_envs:Counting"
LIMIT = 12

BACKENDS: dict[str, dict[str, Any]] = {
    "gymnasium": {"id": COUNTING, "kwargs": NEVER},
    "processes": {"id": COUNTING, "kwargs": NEVER, "processes": 2},
    "another Python": {"id": COUNTING, "kwargs": NEVER, "python": sys.executable},
    "torch": {"id": "MountainCar-v0", "backend": "torch"},
    "mujoco": {"id": "Swimmer-v5"},
    "envpool": {"id": "Swimmer-v5", "backend": "envpool"},
}


def limited(name: str, steps: int = LIMIT) -> VecEnv:
    if name == "mujoco":
        pytest.importorskip("mujoco")
    if name == "envpool":
        pytest.importorskip("envpool")
    return configured(EnvConfig(max_episode_steps=steps, **BACKENDS[name]), 2, "cpu")


@pytest.mark.parametrize("name", BACKENDS)
def test_an_episode_is_truncated_at_the_limit_with_its_true_last_observation(name: str) -> None:
    with closing(limited(name)) as env:
        assert env.spec.max_episode_steps == LIMIT
        env.reset(torch.tensor([3, 4]))
        actions = random_actions(env.spec, LIMIT, torch.Generator().manual_seed(0))
        for action in actions[:-1]:
            step = env.step(action)
            assert not bool((step.truncated | step.terminated).any())
            before = step.obs
        step = env.step(actions[-1])
        assert step.truncated.tolist() == [True, True]
        assert step.terminated.tolist() == [False, False]
        if "Counting" in env.spec.id:
            assert torch.equal(step.next_obs, before + 1)  # and not a reset one
            assert bool((step.obs < 1).all())
        check_env(env, 3 * LIMIT)


def test_a_limit_of_its_own_that_comes_before_stays() -> None:
    for backend in ("gymnasium", "torch"):
        env = EnvConfig("CartPole-v1", backend=backend, max_episode_steps=1000)
        with closing(configured(env, 2, "cpu")) as made:
            assert made.spec.max_episode_steps == 500
    env = EnvConfig("Swimmer-v5", kwargs={"max_episode_steps": 7}, max_episode_steps=9)
    with closing(configured(env, 2, "cpu")) as made:
        assert made.spec.max_episode_steps == 7


def test_in_another_python_the_environment_ends_as_it_does_before_the_limit() -> None:
    env = EnvConfig(COUNTING, kwargs={"end": 5, "cut": 10**9}, python=sys.executable)
    limit = EnvConfig(env.id, kwargs=env.kwargs, python=env.python, max_episode_steps=5)
    with closing(configured(limit, 2, "cpu")) as made:
        made.reset(torch.tensor([1, 2]))
        ends = [made.step(torch.zeros(2, 1)) for _ in range(10)]
    assert [bool(step.terminated.all()) for step in ends] == [False] * 4 + [True] + [False] * 4 + [
        True
    ]
    assert not any(bool(step.truncated.any()) for step in ends)


@pytest.mark.parametrize(
    "env",
    [
        {"id": "tests.envs.test_vector_env:make", "backend": "vector"},
        {"id": "Docking", "backend": "my_simulator:Fleet"},
        {"id": "Ant", "backend": "isaacgym", "python": sys.executable},
    ],
)
def test_a_backend_that_ends_episodes_itself_refuses_it(env: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"ends episodes itself, and can't be given env\.max_ep"):
        configured(EnvConfig(max_episode_steps=9, **env), 2, "cpu")


def test_a_limit_is_at_least_a_step() -> None:
    with pytest.raises(ValueError, match="max_episode_steps must be at least 1, got 0"):
        EnvConfig("CartPole-v1", max_episode_steps=0)
