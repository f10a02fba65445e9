"""The part of ``population: auto`` that knows where slots run."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping, from_words
from hpcpod.errors import ConfigError
from hpcpod.run.auto import SLOTS, Auto, slots_of
from hpcpod.run.preflight import problems_of


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


def test_no_default_refuses_what_leaves_the_rest_to_be_chosen() -> None:
    env = {"id": "E-v0", "processes": 12}
    nine = {f"pkg.mod:A{number}": 1 for number in range(9)}
    enough: list[dict[str, Any]] = [
        {"population": {"pods": {"max": 1}}}, {"population": {"pods": {"min": 12}}},
        {"population": {"algorithms": nine}}, {"agents": {name: {} for name in nine}},
    ]  # fmt: skip
    for given in enough:
        Auto()._read({"name": "x", "env": env, **given})
    own = {"pods": {"min": 2, "max": 1}}
    with pytest.raises(ConfigError, match=r"^x has 1 problem\n  population\.pods: max must be at"):
        Auto(source="x")._read({"name": "x", "env": env, "population": own})


def test_a_field_of_one_s_own_stays_and_the_rest_is_chosen() -> None:
    small = {"name": "x", "env": {"id": "CartPole-v1"}, "population": "auto"}
    words = ["population.pods.max=1", "stop.minutes=3", "pod.ranks=2"]
    config = from_words(small, words, source="x", choose=Auto(measure=False))
    pods, agents = config.population.pods, config.population.algorithms
    assert (pods.min, pods.max, len(agents), config.env.num_envs) == (1, 1, 1, 16)
    assert not list(problems_of(config, resolve_algorithms(config), None))


def test_the_number_of_environments_on_a_gpu_is_asked_for() -> None:
    told: list[str] = []
    small = {"name": "x", "env": {"id": "CartPole-v1", "backend": "torch"}, "population": "auto"}
    with pytest.raises(ConfigError, match=r"env\.num_envs: backend torch steps thousands at once"):
        Auto(tell=told.append)({**small, "resources": {"gpus_per_pod": 1}})
    assert told == []


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
