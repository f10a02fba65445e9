"""What is valid but seldom meant is said at launch, in one sentence, and not refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hpcpod.cli import main
from hpcpod.config.loading import from_mapping
from hpcpod.preparing import check
from tests.small_runs import mapping


class OneSeries(gym.Env[Any, Any]):
    """Back-testing on one series of prices: nothing is drawn."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._t += 1
        price = np.sin(self._t, dtype=np.float32)
        return np.array([price], np.float32), float(price * action), False, self._t == 32, {}


def remarks_on(*algorithms: str, **sections: Any) -> tuple[str, ...]:
    return check(from_mapping(mapping(*algorithms, **sections))).remarks


def test_a_sound_configuration_has_no_remark(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "good.yaml"]) == 0
    assert "remark" not in capsys.readouterr().err


@pytest.mark.parametrize("env", [{"num_envs": 1}, {"num_envs": 3}])
def test_a_task_in_which_nothing_is_drawn_is_remarked_on(env: Mapping[str, Any]) -> None:
    (said,) = [r for r in remarks_on(env={"id": f"{__name__}:OneSeries", **env}) if "alike" in r]
    assert said.startswith("env.id: every episode of")


def test_a_population_of_controls_alone_is_remarked_on() -> None:
    (said,) = remarks_on("ppo", "dqn")
    assert said.startswith("population.pods.max: each of the 2 pods is one of its algorithm")
    assert "take 4 or more" in said
    three = {"algorithms": {"ppo": 1}, "pods": {"min": 1, "max": 3}, "controls": 3}
    (said,) = remarks_on(population=three)
    assert said.startswith("population.pods.max: each of the 3 pods is a control")
    assert not remarks_on("ppo", "dqn", population={"pods": {"min": 1, "max": 4}})


def test_one_agent_is_no_failed_population() -> None:
    assert not remarks_on("ppo")


def test_a_panel_that_can_compare_nobody_is_remarked_on() -> None:
    four = {"pods": {"min": 1, "max": 4}}
    (said,) = remarks_on(population=four, round={"episodes": 3})
    assert said.startswith("round.episodes: a panel of 3 episodes has none left to compare")
