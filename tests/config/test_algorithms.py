"""The space of each algorithm, resolved from the agent's own ``Config``."""

from __future__ import annotations

from typing import Any

import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.config.space import AlgorithmSpace, Choice, LogUniform
from hpcpod.errors import ConfigError

GOOD = "tests.config.agents:Good"


def resolve(hyperparameters: dict[str, Any], agent: str = GOOD) -> AlgorithmSpace:
    """The space of one agent with these hyperparameters."""
    config = from_mapping(
        {
            "name": "a",
            "env": {"id": "CartPole-v1"},
            "population": {"algorithms": {agent: 1}},
            "agents": {agent: hyperparameters},
        }
    )
    return resolve_algorithms(config)[agent]


def problems(hyperparameters: dict[str, Any], agent: str = GOOD) -> list[str]:
    """The problems of these hyperparameters, without the path of the agent."""
    with pytest.raises(ConfigError) as caught:
        resolve(hyperparameters, agent)
    return [problem.removeprefix(f"agents.{agent}") for problem in caught.value.problems]


def test_the_space_joins_the_agents_defaults_and_the_runs_values() -> None:
    space = resolve({"learning_rate": {"log_uniform": [1e-5, 1e-2]}, "gamma": 1})
    assert space == AlgorithmSpace(
        agent=GOOD,
        values={
            "learning_rate": LogUniform(1e-5, 1e-2),
            "gamma": 1.0,
            "batch_size": 64,
            "rows": 256,
            "activation": "tanh",
            "normalise": True,
        },
        defaults={
            "learning_rate": 3e-4,
            "gamma": 0.99,
            "batch_size": 64,
            "rows": 256,
            "activation": "tanh",
            "normalise": True,
        },
        structural=("batch_size",),
        near_one=("gamma",),
    )


def test_a_value_takes_the_type_that_its_agent_says() -> None:
    space = resolve({"gamma": 1, "rows": 128.0, "batch_size": {"choice": [8.0, 16]}})
    assert isinstance(space.values["gamma"], float)
    assert isinstance(space.values["rows"], int)
    assert space.values["batch_size"] == Choice((8, 16))
    assert isinstance(space.values["batch_size"].values[0], int)


@pytest.mark.parametrize(
    ("hyperparameters", "problem"),
    [
        (
            {"learning_rat": 0.1},
            ".learning_rat: unknown hyperparameter; did you mean 'learning_rate'? (known:"
            " learning_rate, gamma, batch_size, rows, activation, normalise)",
        ),
        ({"gamma": 1.7}, ".gamma: must be in (0, 1], got 1.7"),
        ({"gamma": {"uniform": [0.9, 1.1]}}, ".gamma: must be in (0, 1], got 1.1"),
        ({"gamma": {"choice": [0.9, 2]}}, ".gamma: must be in (0, 1], got 2.0"),
        ({"gamma": "high"}, ".gamma: expected float, got 'high'"),
        ({"gamma": "9e-1"}, ".gamma: expected float, got '9e-1'; write 9.0e-1, without quotes"),
        ({"normalise": 1}, ".normalise: expected bool, got 1; write true"),
        (
            {"activation": "gelu"},
            ".activation: expected one of 'tanh', 'relu', got 'gelu'; did you mean 'relu'?",
        ),
        ({"rows": 2.5}, ".rows: expected int, got 2.5"),
        ({"rows": {"choice": [64, "x"]}}, ".rows.choice[1]: expected int, got 'x'"),
        (
            {"rows": {"log_uniform": [64, 128]}},
            ".rows: expected int; its range is written int or choice",
        ),
        (
            {"gamma": {"int": [0, 1]}},
            ".gamma: expected float; its range is written uniform, log_uniform or choice",
        ),
        (
            {"normalise": {"int": [0, 1]}},
            ".normalise: expected bool; its range is written choice",
        ),
    ],
)
def test_a_hyperparameter_that_its_agent_would_refuse_is_said_before_the_run(
    hyperparameters: dict[str, Any], problem: str
) -> None:
    assert problems(hyperparameters) == [problem]


def test_both_ends_of_every_range_are_tried() -> None:
    assert problems({"learning_rate": {"uniform": [-1, 0]}, "gamma": {"uniform": [0, 2]}}) == [
        ".learning_rate: must be above 0, got -1.0",
        ".learning_rate: must be above 0, got 0.0",
        ".gamma: must be in (0, 1], got 0.0",
        ".gamma: must be in (0, 1], got 2.0",
    ]


def test_values_that_only_fit_together_are_tried_together() -> None:
    assert resolve({"batch_size": 100, "rows": 200}).values["rows"] == 200


def test_values_that_do_not_fit_together_blame_no_single_one() -> None:
    assert problems({"batch_size": 100, "rows": 250, "gamma": 0.5}) == [
        ": rows 250 must be a multiple of batch_size 100"
    ]


def test_every_algorithm_says_its_problems_at_once() -> None:
    agents = ["tests.config.agents:NoConfig", "tests.config.agents:Missing", "nothing", GOOD]
    config = from_mapping(
        {
            "name": "a",
            "env": {"id": "CartPole-v1"},
            "population": {"algorithms": {**dict.fromkeys(agents, 1)}},
            "agents": {GOOD: {"gamma": 2, "rows": "x"}},
        }
    )
    with pytest.raises(ConfigError, match=r"run\.yaml has 5 problems") as caught:
        resolve_algorithms(config, source="run.yaml")
    text = str(caught.value)
    assert "NoConfig has no dataclass 'Config' of its hyperparameters" in text
    assert "module tests.config.agents has no 'Missing'" in text
    assert "population.algorithms.nothing: unknown agent 'nothing'" in text


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("Nested", ".hidden: the agent's default is no single value: (64, 64)"),
        ("Required", ": the agent's defaults are no configuration"),
        ("RaisesAsItLikes", ": the agent's defaults are no configuration: KeyError: 'a file'"),
        ("Untyped", ": the agent's defaults are no configuration: NameError: name 'Nothing'"),
    ],
)
def test_an_agent_whose_config_has_no_plain_defaults_is_refused(agent: str, problem: str) -> None:
    [found] = problems({}, f"tests.config.agents:{agent}")
    assert found.startswith(problem)


def test_an_agent_that_raises_as_it_likes_at_a_value_is_refused() -> None:
    [found] = problems({"batches": {"int": [0, 2]}}, "tests.config.agents:RaisesAtSome")
    assert found.startswith(".batches: ZeroDivisionError: ")


def test_a_family_is_an_algorithm_and_its_structure() -> None:
    space = resolve({})
    assert space.family("ppo", space.defaults) == "ppo(batch_size=64)"
