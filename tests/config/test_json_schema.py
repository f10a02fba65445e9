"""An independent validator refuses by our JSON Schema what the loader refuses."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hpcpod.cli.parser import main
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.limits import hints
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.errors import ConfigError
from hpcpod.plugins import known, resolve

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml"))
SCHEMA = json.loads((CONFIGS / "hpcpod.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
LEAST: dict[str, Any] = {"name": "a", "env": {"id": "CartPole-v1"}}

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2.5, 4.0, 0.5, 2**17, 2**18, "x", "", "3", [], [1], ["x"],
    [None], {}, {"a": 1}, {"a": "x"}, {"a": {"b": 1}}, [{"a": {"b": [1]}}], {"a": None},
]  # fmt: skip
RANGES: list[Any] = [
    {"log_uniform": [0.1, 1]}, {"log_uniform": [0, 1]}, {"uniform": [0, 1.5]}, {"int": [1, 2]},
    {"int": [1.5, 2]}, {"choice": [1, 2]}, {"choice": [1, 1]}, {"choice": [1]}, {"choice": 3},
    {"choice": [True, False]}, {"choice": ["x", "tanh"]}, {"choice": ["relu", "tanh"]},
    {"uniform": [1]}, {"uniform": 1}, {"normal": [0, 1]}, {"int": [1, 2], "uniform": [1, 2]},
]  # fmt: skip


def problems(config: Mapping[str, Any], *, agents: bool = False) -> list[str]:
    """Problems by the loader, and with ``agents`` those of their hyperparameters."""
    try:
        loaded = from_mapping(config)
        if agents:
            resolve_algorithms(loaded)
    except ConfigError as error:
        return error.problems
    return []


def fits(config: Mapping[str, Any]) -> bool:
    """True if the independent validator takes a configuration."""
    return bool(VALIDATOR.is_valid(config))


def fields(cls: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The path of every field of the schema, and whether it is a section."""
    for name, kind in hints(cls).items():
        section = dataclasses.is_dataclass(kind)
        yield (*path, name), section
        if section:
            yield from fields(kind, (*path, name))


FIELDS = [path for path, _ in fields(RunConfig)]
SECTIONS = [(), *(path for path, section in fields(RunConfig) if section)]


def changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The smallest configuration with another value there."""
    config = copy.deepcopy(LEAST)
    section = config
    for name in path[:-1]:
        section = section.setdefault(name, {})
    section[path[-1]] = value
    return config


def at_field(problem: str, path: tuple[str, ...]) -> bool:
    """True if a problem is one of this field's value: rules of several are their section's."""
    return re.match(rf"{re.escape('.'.join(path))}[:.\[]", problem) is not None


def test_the_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--schema"]) == 0
    printed = capsys.readouterr().out
    assert (CONFIGS / "hpcpod.schema.json").read_text() == printed, (
        "run hpcpod validate --schema > configs/hpcpod.schema.json"
    )


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_that_comes_along_fits_and_says_so_to_editors(name: str) -> None:
    path = CONFIGS / name
    text = path.read_text()
    VALIDATOR.validate(yaml.safe_load(text))
    line = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert line is not None
    assert (path.parent / line[1]).resolve() == CONFIGS / "hpcpod.schema.json"


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_a_value_is_refused_by_both_or_by_none(path: tuple[str, ...]) -> None:
    verdicts = set()
    for value in VALUES:
        config = changed(path, value)
        said = problems(config, agents=path[-1] == "algorithms")
        # A section that is replaced may lack what it must have: that is said of its parent.
        refused = any(at_field(p, path) or "missing key" in p or "at least one" in p for p in said)
        assert fits(config) is not refused, (value, said)
        verdicts.add(refused)
    assert True in verdicts


def hyperparameters() -> Iterator[tuple[str, str]]:
    """An agent and a field for each name and type of the built-in agents' hyperparameters."""
    seen = set()
    for agent in known("agents"):
        for name, kind in hints(resolve("agents", agent).Config).items():
            if (name, kind) not in seen:
                seen.add((name, kind))
                yield agent, name


def test_a_hyperparameter_is_refused_by_both_or_by_none() -> None:
    for agent, name in hyperparameters():
        path = ("agents", agent, name)
        for value in [None, True, 3, 2.5, 4.0, "x", "tanh", [1], {}, *RANGES]:
            config = changed(path, value)
            config["population"] = {"algorithms": {agent: 1}}
            said = problems(config, agents=True)
            # Limits of an agent's numbers are code of its own: "must be ...".
            of_type = [p for p in said if at_field(p, path) and ": must be " not in p]
            assert not of_type if fits(config) else said, (name, value, said)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda path: ".".join(path) or "root")
def test_an_unknown_key_is_refused_by_both(section: tuple[str, ...]) -> None:
    config = changed((*section, "colour"), 1)
    assert not fits(config)
    assert any(at_field(problem, (*section, "colour")) for problem in problems(config))


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({"population": {"algorithms": {"ppo": 1}}}, True),
        ({"population": {"algorithms": {"pppo": 1}}}, False),
        ({"population": {"algorithms": {"tests.config.agents:Good": 1}}}, True),
        ({"agents": {"ppo": {"gamma": 0.9}}}, True),
        ({"agents": {"ppo": {"gama": 0.9}}}, False),
        ({"agents": {"ppo": {"activation": "gelu"}}}, False),
        ({"env": {"num_envs": 4}}, False),
    ],
)
def test_names_and_what_must_be_there(change: dict[str, Any], good: bool) -> None:
    config = {**LEAST, **change}
    assert fits(config) is good
    assert (problems(config, agents=True) == []) is good


def test_a_sweep_may_have_what_its_file_lacks() -> None:
    sweep = {"over": {"env.id": ["CartPole-v1", "Acrobot-v1"]}}
    assert fits({"name": "a", "env": {"num_envs": 4}, "sweep": sweep})
    assert not fits({"name": "a"})


def test_auto_is_asked_for_by_true_alone() -> None:
    assert fits({**LEAST, "population": {"auto": True, "pods": {"max": 4}}})
    assert not fits({**LEAST, "population": {"auto": False}})


def test_null_takes_an_option_of_sbatch_away() -> None:
    config = {**LEAST, "cluster": {"sbatch": {"constraint": None}}}
    assert fits(config) and not problems(config)


def test_an_editor_shows_the_manual() -> None:
    minutes = SCHEMA["properties"]["stop"]["properties"]["minutes"]
    assert minutes["description"].startswith("Minutes of wall time since the first slot began")
    assert (minutes["type"], minutes["exclusiveMinimum"]) == (["number", "null"], 0)
    assert SCHEMA["properties"]["round"]["properties"]["env_steps"]["default"] == 20_000
