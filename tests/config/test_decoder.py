"""Strict construction of dataclasses: every problem with its path, none guessed away."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcpod.config.decoder import build, encode
from hpcpod.config.loader import from_mapping, from_plain, to_mapping
from hpcpod.config.schema import (
    EnvConfig,
    PodConfig,
    PodsConfig,
    PopulationConfig,
    RoundConfig,
    RunConfig,
    StopConfig,
)
from hpcpod.config.space import Choice, Int, LogUniform, Uniform, Value
from hpcpod.errors import ConfigError

LEAST: dict[str, Any] = {"name": "a", "env": {"id": "CartPole-v1"}}


def problems(changes: dict[str, Any]) -> list[str]:
    """The problems of the smallest configuration with these changes."""
    with pytest.raises(ConfigError) as caught:
        from_mapping(LEAST, changes)
    return caught.value.problems


def test_a_name_and_an_environment_are_enough() -> None:
    assert from_mapping(LEAST) == RunConfig("a", EnvConfig("CartPole-v1"))


def test_a_run_config_is_checked_like_plain_data() -> None:
    config = from_mapping(LEAST)
    assert from_mapping(config) == config
    changes: dict[str, Any] = {"seed": "three"}
    wrong = replace(config, **changes)
    with pytest.raises(ConfigError, match="seed: expected int, got 'three'"):
        from_mapping(wrong)


class Word(Enum):
    RELU = "relu"


class Few(IntEnum):
    THREE = 3


def test_numbers_of_numpy_and_members_of_enums_are_python_s_own() -> None:
    changes = {
        "seed": np.int64(7),
        "env": {"num_envs": np.int32(4), "kwargs": {"g": np.float32(0.5), "on": np.bool_(True)}},
        "round": {"episodes": Few.THREE},
        "agents": {
            "ppo": {
                "gamma": np.float64(0.9), "normalize_obs": np.bool_(False), "activation": Word.RELU,
                "hidden": {"choice": np.array([32, 64])},
                "clip": {"uniform": [np.float32(0.125), np.float64(0.25)]},
            }
        },
        "cluster": {"site": Path("site.yaml")},
    }  # fmt: skip
    written = json.loads(json.dumps(to_mapping(from_mapping(LEAST, changes))))
    assert (written["seed"], written["env"]["num_envs"], written["round"]["episodes"]) == (7, 4, 3)
    assert written["env"]["kwargs"] == {"g": 0.5, "on": True}
    assert written["agents"]["ppo"] == {
        "gamma": 0.9, "normalize_obs": False, "activation": "relu",
        "hidden": {"choice": [32, 64]}, "clip": {"uniform": [0.125, 0.25]},
    }  # fmt: skip
    assert written["cluster"]["site"] == "site.yaml"
    by_hand: Any = RunConfig("a", EnvConfig("CartPole-v1", num_envs=np.int64(2)))
    assert type(from_mapping(by_hand).env.num_envs) is int


def test_no_number_of_numpy_is_taken_for_another_type() -> None:
    assert problems({"seed": np.float64(1.5)}) == ["seed: expected int, got 1.5"]
    assert problems({"seed": np.bool_(True)}) == ["seed: expected int, got true"]
    [said] = problems({"env": {"num_envs": np.array([1, 2])}})
    assert said == "env.num_envs: expected int, got a list"


def test_nested_dataclasses_are_taken_as_they_are() -> None:
    config = from_mapping({"name": "a", "env": EnvConfig("CartPole-v1", num_envs=3)})
    assert config.env.num_envs == 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nam": "x"}, "nam: unknown key; did you mean 'name'?"),
        (
            {"pod": {"checkpoint_secs": 3}},
            "pod.checkpoint_secs: unknown key; did you mean 'checkpoint_seconds'?",
        ),
        ({"round": {"zzz": 3}}, "round.zzz: unknown key (known: env_steps, episodes)"),
        ({"env": {"id": None}}, "env: missing key 'id'"),
        ({"round": 5}, "round: expected a mapping, got 5 (env_steps, episodes)"),
        ({"round": {"env_steps": "many"}}, "round.env_steps: expected int, got 'many'"),
        ({"round": {"env_steps": 2.5}}, "round.env_steps: expected int, got 2.5"),
        ({"round": {"env_steps": True}}, "round.env_steps: expected int, got true"),
        (
            {"round": {"env_steps": "1e6"}},
            "round.env_steps: expected int, got '1e6'; write 1000000, without quotes",
        ),
        ({"round": {"env_steps": 0}}, "round.env_steps: must be at least 1, got 0"),
        ({"env": {"num_envs": 2**20}}, "env.num_envs: must be at most 131072, got 1048576"),
        ({"stop": {"alpha": 1}}, "stop.alpha: must be between 0 and 1, got 1.0"),
        (
            {"stop": {"target": "3e-4"}},
            "stop.target: expected float, got '3e-4'; write 3.0e-4, without quotes",
        ),
        ({"stop": {"target": [1]}}, "stop.target: expected float, got a list"),
        ({"stop": {"target": float("nan")}}, "stop.target: expected a finite number, got .nan"),
        ({"stop": {"target": -float("inf")}}, "stop.target: expected a finite number, got -.inf"),
        (
            {"seed": 2**63},
            "seed: expected a number of at most 63 bits, got 9223372036854775808",
        ),
        ({"name": 42}, "name: expected str, got 42; put it in quotes: '42'"),
        ({"cluster": {"setup": "ls"}}, "cluster.setup: expected a list, got 'ls'"),
        (
            {"cluster": {"setup": ["ls", 5]}},
            "cluster.setup[1]: expected str, got 5; put it in quotes: '5'",
        ),
        ({"cluster": {"sbatch": "x"}}, "cluster.sbatch: expected a mapping, got 'x'"),
        ({"cluster": {"sbatch": {3: "x"}}}, "cluster.sbatch: a key must be text, got 3"),
        ({"pod": {"ranks": 0}}, "pod.ranks: must be at least 1, got 0"),
        ({"pod": {"pipeline": 0}}, "pod.pipeline: expected bool, got 0; write false"),
        (
            {"population": {"scheme": "islands"}},
            "population.scheme: expected one of 'tournament', 'generational', got 'islands'",
        ),
        (
            {"population": {"pods": {"min": 9, "max": 2}}},
            "population.pods: max must be at least min, got min 9 and max 2",
        ),
        (
            {"population": {"algorithms": {"ppo": 0}}},
            "population.algorithms.ppo: must be above 0, got 0.0",
        ),
        (
            {"population": {"algorithms": {}}},
            "population: algorithms must name at least one algorithm, such as {ppo: 1}",
        ),
        (
            {"env": {"wrappers": [{"a:B": {}, "a:C": {}}]}},
            "env: each wrapper is a path or a mapping with one path as its key,"
            " got 2 keys: a:B, a:C",
        ),
        ({"env": {"wrappers": [{"a:B": 3}]}}, "env.wrappers[0].a:B: expected a mapping, got 3"),
        (
            {"agents": {"sac": {"gamma": 0.9}}},
            "agents.sac has hyperparameters, but population.algorithms names only ppo",
        ),
    ],
)
def test_a_problem_has_its_path_and_a_remedy(changes: dict[str, Any], problem: str) -> None:
    assert problems(changes) == [problem]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (
            {"log_uniform": [0.01, 0.0001]},
            ".log_uniform: the range's ends are swapped: [0.01, 0.0001]; write [0.0001, 0.01]",
        ),
        ({"int": [8, 4]}, ".int: the range's ends are swapped: [8, 4]; write [4, 8]"),
        (
            {"uniform": [1, 1]},
            ".uniform: both ends are 1.0: write the value alone, without a range",
        ),
        (
            {"log_uniform": [0, 1]},
            ".log_uniform: a logarithm needs values above 0, got [0.0, 1.0]",
        ),
        ({"uniform": [1]}, ".uniform: expected [low, high], got 1 values"),
        ({"uniform": 3}, ".uniform: expected [low, high], got 3"),
        ({"uniform": [0, float("nan")]}, ".uniform[1]: expected a finite number, got .nan"),
        ({"int": [1.5, 3]}, ".int[0]: expected int, got 1.5"),
        ({"choice": [3]}, ".choice: expected at least two values, all different, got [3]"),
        ({"choice": [3, 3]}, ".choice: expected at least two values, all different, got [3, 3]"),
        ({"choice": 3}, ".choice: expected [a, b, ...], got 3"),
        (
            {"loguniform": [1, 2]},
            ": unknown range 'loguniform'; did you mean 'log_uniform'?"
            " (known: log_uniform, uniform, int, choice)",
        ),
        (
            {"int": [1, 2], "uniform": [1, 2]},
            ": a range is a mapping with one key (one of log_uniform, uniform, int, choice)",
        ),
        ([1, 2], ": a list is no value: write {choice: [a, b]} to search in it"),
    ],
)
def test_a_range_that_can_not_be_drawn_from_is_refused(value: Any, problem: str) -> None:
    assert problems({"agents": {"ppo": {"x": value}}}) == [f"agents.ppo.x{problem}"]


def test_every_problem_is_said_at_once() -> None:
    found = problems(
        {
            "env": {"id": None, "num_envs": 0},
            "round": {"env_steps": "many", "episodes": 1},
            "pod": {"ranks": 0, "checkpoint_secs": 1},
            "agents": {"ppo": {"a": {"int": [2, 1]}, "b": [1]}},
        }
    )
    assert [problem.split(": ")[0] for problem in found] == [
        "env",
        "env.num_envs",
        "round.env_steps",
        "round.episodes",
        "agents.ppo.a.int",
        "agents.ppo.b",
        "pod.checkpoint_secs",
        "pod.ranks",
    ]


def test_the_error_counts_its_problems_and_names_its_source() -> None:
    with pytest.raises(ConfigError, match=r"^run\.json has 2 problems\n  missing key 'name'\n"):
        from_mapping({}, source="run.json")


def test_a_whole_float_is_an_int_and_an_int_is_a_float() -> None:
    config = from_mapping(LEAST, {"round": {"env_steps": 1.0e6}, "stop": {"target": -200}})
    assert (config.round.env_steps, config.stop.target) == (1_000_000, -200.0)
    assert isinstance(config.round.env_steps, int)
    assert isinstance(config.stop.target, float)


def test_overrides_merge_mappings_and_replace_the_rest() -> None:
    base = {
        **LEAST,
        "population": {"pods": {"min": 3}, "algorithms": {"ppo": 1, "dqn": 2}},
        "agents": {"ppo": {"lr": {"choice": [1, 2]}, "gamma": 0.9}},
        "cluster": {"setup": ["a", "b"]},
    }
    config = from_mapping(
        base,
        {
            "population": {"pods": {"max": 4}, "algorithms": {"dqn": None}},
            "agents": {"ppo": {"lr": {"uniform": [0, 1]}}},
            "cluster": {"setup": ["c"]},
        },
    )
    assert config.population.pods == PodsConfig(3, 4)
    assert config.population.algorithms == {"ppo": 1.0}
    assert config.agents == {"ppo": {"lr": Uniform(0, 1), "gamma": 0.9}}
    assert config.cluster.setup == ("c",)


def test_overrides_apply_to_a_run_config_too() -> None:
    config = from_mapping(from_mapping(LEAST), {"seed": 3, "agents": {"ppo": {"n": Int(1, 2)}}})
    assert (config.seed, config.agents) == (3, {"ppo": {"n": Int(1, 2)}})


def test_overrides_leave_the_base_as_it_was() -> None:
    base = {**LEAST, "round": {"episodes": 3}}
    from_mapping(base, {"round": {"episodes": 4}})
    assert base["round"] == {"episodes": 3}


def test_the_mapping_of_a_config_is_json() -> None:
    config = from_mapping(
        LEAST,
        {
            "env": {"wrappers": ["a:B", {"a:C": {"sizes": [1, {"x": None}]}}]},
            "agents": {"ppo": {"a": {"log_uniform": [1e-5, 1]}, "b": {"choice": ["x", "y"]}}},
        },
    )
    mapping = to_mapping(config)
    assert mapping["agents"]["ppo"] == {
        "a": {"log_uniform": [1e-5, 1]},
        "b": {"choice": ["x", "y"]},
    }
    assert from_mapping(json.loads(json.dumps(mapping))) == config


@pytest.mark.parametrize(
    "value", [True, 3, 0.5, "relu", LogUniform(1, 2), Uniform(0, 1), Int(1, 3), Choice((1, 2))]
)
def test_a_hyperparameter_survives_its_plain_form(value: Value) -> None:
    again = from_plain(Value, json.loads(json.dumps(encode(value))), "a value")
    assert (again, type(again)) == (value, type(value))


def test_a_plain_hyperparameter_that_is_neither_value_nor_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown range"):
        from_plain(Value, {"between": [1, 2]}, "a value")


def test_limits_hold_for_what_is_built_in_python_too() -> None:
    with pytest.raises(ValueError, match="env_steps must be at least 1, got 0; episodes must be"):
        RoundConfig(env_steps=0, episodes=1)
    with pytest.raises(ValueError, match="minutes must be above 0"):
        StopConfig(minutes=0)
    with pytest.raises(ValueError, match="checkpoint_seconds must be above 0, got nan"):
        PodConfig(checkpoint_seconds=float("nan"))
    with pytest.raises(ValueError, match=r"algorithms.ppo must be above 0"):
        PopulationConfig(algorithms={"ppo": -1})
    with pytest.raises(ValueError, match="fewer than the 2 algorithms"):
        PopulationConfig(pods=PodsConfig(1, 1), algorithms={"ppo": 1, "dqn": 1})


@pytest.mark.parametrize("name", ["", " ", ".hidden", "-x", "a/b", "a\nb", ".."])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    assert "name must be made of" in problems({"name": name})[0]


def test_a_name_is_measured_in_bytes() -> None:
    assert from_mapping(LEAST, {"name": "a" * 200}).name
    assert problems({"name": "é" * 101}) == ["name must be at most 200 bytes long, got 202"]


def test_build_works_for_any_dataclass_below_any_path() -> None:
    assert build(RoundConfig, {"episodes": 4}) == (RoundConfig(episodes=4), [])
    assert build(RoundConfig, {"episodes": 1}, "round") == (
        None,
        ["round.episodes: must be at least 2, got 1"],
    )
