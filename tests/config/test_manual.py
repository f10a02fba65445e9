"""The manual of the configuration."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from hpcpod import plugins
from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.manual import field_docs, field_manual
from hpcpod.config.schema import RunConfig


def test_the_manual_says_type_default_and_meaning_of_a_field() -> None:
    manual = field_manual()
    assert "name: str (required)\n    The run's name: its folder is runs/<name>.\n" in manual
    assert "round.env_steps: int, at least 1 = 20000\n    Environment steps that" in manual
    assert "stop.minutes: float, above 0, or null = null\n" in manual
    assert "population.algorithms: mapping of name to (float, above 0) = {ppo: 1.0}\n" in manual
    assert "{log_uniform: [low, high]}" in manual


def test_the_manual_leaves_no_field_out() -> None:
    lines = field_manual().splitlines()
    for field in dataclasses.fields(ClusterConfig):
        name = f"cluster.{field.name}"
        assert any(line == name or line.startswith(f"{name}:") for line in lines), field.name


def test_the_manual_has_every_hyperparameter_of_every_agent() -> None:
    manual = field_manual()
    assert "agents.ddpg\n    Hyperparameters of DDPG: " in manual
    assert "agents.ddpg.critics: int = 1\n    Critics whose smallest value counts.\n" in manual
    assert "agents.a2c.clip: float = 0.2\n    ε: a gradient that moves" in manual  # PPO's field
    for name in plugins.known("agents"):
        for field in dataclasses.fields(plugins.resolve("agents", name).Config):
            assert f"\nagents.{name}.{field.name}: " in manual


def test_an_agent_that_cannot_be_had_says_why_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "known", lambda group: ["gone"])
    assert "agents.gone\n    unknown agent 'gone'" in field_manual()


def test_a_field_without_a_docstring_has_an_empty_one() -> None:
    assert field_docs(RunConfig)["seed"] == "The root of every random number of the run."
    assert field_docs(RunConfig).keys() == {f.name for f in dataclasses.fields(RunConfig)}


def test_the_configuration_loads_no_torch() -> None:
    code = (
        "import sys, hpcpod.config.loader, hpcpod.config.manual, hpcpod.config.algorithms;"
        "print([m for m in ('torch', 'numpy', 'gymnasium', 'mpi4py') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
