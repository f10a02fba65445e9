"""The speed of a task, measured for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.auto.task import CANDIDATES, PANEL, Task
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.pod.trial import speed
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


class SlowReset(gym.Env[Any, Any]):
    """Episodes of 40 steps that cost nothing, each after a reset of 20 ms."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        time.sleep(0.02)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(2, np.float32), 0.0, self.steps == 40, False, {}


@pytest.mark.long
def test_resets_count_though_all_environments_have_them_in_one_step() -> None:
    """40 steps take 20 ms at least: 2,000 steps/s at most, by whatever agent."""
    task = measured(f"{__name__}:SlowReset", 0.2)
    assert task.random_steps == pytest.approx(40, rel=0.3)
    for pace in task.paces.values():
        assert pace.train < 2000 / 0.7
        assert pace.panel_step > 0.7 * PANEL * 0.02 / 40


class CutsItself(SlowReset):
    """Episodes that the environment itself cuts after 40 steps."""

    def step(self, action: Any) -> Any:
        seen, reward, over, _, info = super().step(action)
        return seen, reward, False, over, info


class EndsItself(CutsItself):
    """The same, but that one of 70 steps is the last of its episode."""

    def step(self, action: Any) -> Any:
        seen, reward, _, over, info = super().step(action)
        ends = bool(self.np_random.random() < 1 / 70)
        return seen, reward, ends, over and not ends, info


@pytest.mark.long
def test_a_limit_that_an_environment_keeps_by_itself_is_seen() -> None:
    task = measured(f"{__name__}:CutsItself", 0.2)
    assert (task.max_episode_steps, task.random_steps) == (40, 40.0)
    for env in ("EndsItself", "SlowReset"):  # ends of its own: a policy may avoid them
        assert measured(f"{__name__}:{env}", 0.2).max_episode_steps is None


@pytest.mark.long
def test_resets_are_timed_once_however_many_algorithms_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed, least = list[float](), speed._least

    def counted(call: Callable[[], Any], seconds: float) -> tuple[float, Any]:
        timed.append(seconds)
        return least(call, seconds)

    monkeypatch.setattr(speed, "_least", counted)
    assert len(measured("CartPole-v1", 0.05).paces) == 2
    assert len(timed) == 2, "of training and of a panel"


def test_spaces_alone_need_no_time() -> None:
    task = measured("Pendulum-v1", 0.0)
    assert (task.actions, task.observation_size, task.action_size) == ("continuous", 3, 1)
    assert set(task.paces) == {"ppo", "sac", "td3"}
    assert not task.measured and task.random_steps is None


def test_an_environment_that_can_t_be_made_is_the_user_s_mistake() -> None:
    with pytest.raises(ConfigError, match=r"env\.id: "):
        measured("CartPole-v1", 0.0, kwargs={"no_such": 1})
