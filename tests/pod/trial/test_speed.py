"""The speed of a task, measured for a moment."""

from __future__ import annotations

import time

import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.auto.task import CANDIDATES, Task
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.pod.trial.speed import measure


def measured(env: str, seconds: float, **more: object) -> Task:
    config = from_mapping(
        {
            "name": "x",
            "env": {"id": env, "num_envs": 16, **more},
            "population": {"algorithms": dict.fromkeys(CANDIDATES, 1)},
        }
    )
    return measure(config, resolve_algorithms(config), seconds=seconds)


@pytest.mark.long
def test_a_task_is_described_and_timed() -> None:
    began = time.monotonic()
    task = measured("CartPole-v1", 0.1)
    whole = time.monotonic() - began
    assert (task.actions, task.observation_size, task.action_size) == ("discrete", 4, 1)
    assert (task.image, task.max_episode_steps, task.measured) == (False, 500, True)
    # By random actions an episode lasts 22 steps in the mean; 16 x 16 steps or more were taken.
    assert task.random_steps is not None and 14 < task.random_steps < 35
    assert set(task.paces) == {"ppo", "dqn"} and set(task.unfit) == {"sac", "td3"}
    for pace in task.paces.values():
        # Each has trained at least once: DQN on 4 rows of 16. No step takes less than 1 µs.
        assert 4 * 16 / whole < pace.train < 1e6
        assert 1e-6 < pace.panel_step < whole


def test_spaces_alone_need_no_time() -> None:
    task = measured("Pendulum-v1", 0.0)
    assert (task.actions, task.observation_size, task.action_size) == ("continuous", 3, 1)
    assert set(task.paces) == {"ppo", "sac", "td3"}
    assert not task.measured and task.random_steps is None


def test_an_environment_that_can_t_be_made_is_the_user_s_mistake() -> None:
    with pytest.raises(ConfigError, match=r"env\.id: "):
        measured("CartPole-v1", 0.0, kwargs={"no_such": 1})
