"""The part of ``population: auto`` that knows where slots run."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.run.auto import SLOTS, Auto, slots_of


def placed(**cluster: Any) -> tuple[int, str]:
    resources = {"cpus_per_pod": cluster.pop("cpus", 1)}
    small = {"name": "x", "env": {"id": "E-v0"}, "cluster": cluster, "resources": resources}
    return slots_of(from_mapping(small))


def test_slots_are_those_of_the_machine_or_those_that_are_named() -> None:
    cores = len(os.sched_getaffinity(0))
    assert placed() == (cores, f"this machine has room for {cores} slots at once")
    assert placed(cpus=cores)[0] == 1, "a slot has all cores"
    assert placed(slots=40, launcher="slurm")[0] == 40
    slots, because = placed(launcher="slurm")
    assert slots == SLOTS and "assumed" in because


def test_all_problems_are_said_before_anything_is_measured() -> None:
    told: list[str] = []
    auto = Auto(source="mine.yaml", tell=told.append)
    small = {"name": "x", "env": {"id": "E-v0"}, "population": "auto"}
    wrong = {"env": {"id": "E-v0", "num_env": 1}, "stop": {"minutes": -1}}
    with pytest.raises(ConfigError) as refused:
        auto({**small, **wrong, "population": {"auto": True, "capacity": 0}})
    assert refused.value.source == "mine.yaml"
    assert len(refused.value.problems) == 3 and told == []
    with pytest.raises(ConfigError, match=r"agents\.ppo\.gama: unknown hyperparameter"):
        auto({**small, "agents": {"ppo": {"gama": 1}}})
    assert auto.yaml is None and not auto.because
