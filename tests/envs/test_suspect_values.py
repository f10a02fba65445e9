"""Rewards near the end of float32 and observations beyond their bounds are told of, once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from hpcpod.api import train_config
from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.envs.make import make_env
from hpcpod.envs.suspect_values import Strange, component
from hpcpod.envs.vec_env import Bound, Box, Discrete, EnvSpec, MultiDiscrete, Space, Step
from hpcpod.errors import Diverged
from hpcpod.pod import worker
from hpcpod.run.preflight import check
from tests.support.small_runs import mapping

STRAYING = "tests.support.endless_envs:Straying"
PLACE = "observation pose/place[1, 0]"
OBSERVED = f"{PLACE} of {STRAYING} is 7.5, and its space declares -1 to 1: declare what it can be"
REWARDED = (
    f"the reward of environment 0 of {STRAYING} is 1e+30, where float32 ends at 3.4e+38: what is"
    " computed of it may not be finite; scale rewards down"
)


def straying(**kwargs: Any) -> dict[str, Any]:
    return {"id": STRAYING, "kwargs": kwargs, "max_episode_steps": 50}


def test_a_launch_remarks_on_each_once() -> None:
    env = straying(reward=1e30)
    told = [r for r in check(from_mapping(mapping(env=env))).remarks if r.startswith("env.id: ")]
    assert told == [f"env.id: {REWARDED}", f"env.id: {OBSERVED}, or clip it"]


def test_a_trial_of_an_environment_says_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--num-envs", "2", "--steps", "20", "--seconds", "0.01")
    assert main(["envs", "check", STRAYING, *words]) == 0
    said = capsys.readouterr().out
    assert said.count("declares -1 to 1") == 1
    assert f"\n  but {OBSERVED}" in said


def test_a_training_warns_once_of_what_comes_later_and_before_it_diverges(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.0)
    env = straying(after=150, reward=-1e30)
    config = from_mapping(mapping(env=env, stop={"env_steps": 1024}))
    with pytest.raises(Diverged):
        train_config(config)
    assert [line for line in caplog.messages if PLACE in line] == [f"{OBSERVED}, or clip it"]
    assert len([line for line in caplog.messages if "is -1e+30, where" in line]) == 1
    assert not [line for line in caplog.messages if line.startswith("env.id: ")]


def looked_at(space: Space, value: Any, reward: float = 1.0) -> list[str]:
    spec = EnvSpec("it", space, Discrete(2), 2, "cpu", None, "none")
    obs, flags = torch.tensor([value, value]), torch.zeros(2, dtype=torch.bool)
    step = Step(obs, torch.tensor([1.0, reward]), flags, flags, obs, ~flags)
    strange = Strange(spec)
    first = list(strange.look(step))
    assert list(strange.look(step)) == []
    return first


@pytest.mark.parametrize(
    ("space", "value", "said"),
    [
        (Box((2,), (-1.0, 0.0), (1.0, math.inf)), [0.5, -0.1], "observation[1] of it is -0.1, and"),
        (Box((), 0.0, 1.0), 2.0, "observation of it is 2, and its space declares 0 to 1"),
        (Discrete(3), 3, "observation of it is 3, and its space declares 0 to 2"),
        (MultiDiscrete((2, 3)), [1, 5], "observation[1] of it is 5, and its space declares 0 to 2"),
    ],
)
def test_a_component_is_named_by_its_index(space: Space, value: Any, said: str) -> None:
    [told] = looked_at(space, value)
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [(-1.0, 1.0, 1.000001), (0.1, 1e6, 1_000_001.0), (-math.inf, math.inf, 1e30)],
)
def test_what_float32_makes_of_a_bound_is_not_beyond_it(
    low: Bound, high: Bound, value: float
) -> None:
    assert looked_at(Box((1,), low, high), [value]) == []


def test_rewards_of_ordinary_size_are_not_told_of() -> None:
    assert looked_at(Box((1,), -1.0, 1.0), [0.0], reward=-1e12) == []
    [told] = looked_at(Box((1,), -1.0, 1.0), [0.0], reward=-2e38)
    assert told.startswith("the reward of environment 1 of it is -2e+38, where")


def test_the_places_of_a_structured_observation_have_their_paths() -> None:
    spec = make_env(STRAYING, 1).spec
    names = [component(spec, place).removeprefix("observation ") for place in range(8)]
    places = [f"pose/place[{i}, {j}]" for i in (0, 1) for j in (0, 1)]
    assert names == ["goal", *["pose/angle"] * 3, *places]
