"""Remarks on ranges: in which nothing learns, that nothing moves, that have no effect, and none."""

from __future__ import annotations

from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.run.preflight import check
from tests.run.test_remarks import LONGER, lone, ppo, remarks_on
from tests.support.small_runs import AGENTS, mapping


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ({"log_uniform": [1e-10, 1e-8]}, "1e-10, 1e-08 are all so small that weights hardly move"),
        ({"choice": [0.1, 1.0]}, "0.1, 1 are all so large that weights diverge"),
        (0.3, "0.3 is so large that weights diverge"),
    ],
)
def test_a_range_in_which_nothing_learns_is_remarked_on(rate: Any, said: str) -> None:
    remark = lone(agents=ppo({"learning_rate": rate}))
    assert remark.startswith(f"agents.ppo.learning_rate: {said}, and no pod learns")
    assert remark.endswith("give it a range around the default, 0.0003")
    part = {"learning_rate": {"log_uniform": [1e-10, 1e-4]}}
    assert not remarks_on(agents=ppo(part))


def test_of_an_agent_that_was_not_measured_no_measurement_is_told() -> None:
    sections = {"env": {"id": "Pendulum-v1"}, "population": {"algorithms": {"sac": 1}}}
    (said,) = remarks_on("sac", agents={"sac": {"learning_rate": 1.0}}, **sections)
    assert "so large that weights diverge, and no pod can be expected to learn; give it" in said
    assert "CartPole" not in said


def test_ranges_that_no_mutation_moves_are_remarked_on() -> None:
    ranges = {"log_std_init": {"uniform": [-2.0, 0.0]}, "hidden": {"choice": [16, 32]}}
    several = {"pods": {"min": 1, "max": 4}}
    said = lone(agents=ppo(ranges), population=several, stop=LONGER)
    assert said.startswith("agents.ppo: the only ranges are of")
    assert "every copy will be a clone of its parent" in said
    rate = {"learning_rate": {"log_uniform": [1e-4, 1e-2]}}
    assert not remarks_on(agents=ppo({**ranges, **rate}), population=several, stop=LONGER)
    assert not remarks_on(agents=ppo(ranges))  # one pod is never copied


def test_a_population_that_searches_nothing_is_remarked_on() -> None:
    def said(*algorithms: str, pods: int, **sections: Any) -> tuple[str, ...]:
        sections["population"] = {"pods": {"min": 1, "max": pods}, **sections.get("population", {})}
        return check(from_mapping(mapping(*algorithms, stop=LONGER, **sections))).remarks

    (remark,) = said(pods=4)
    assert remark.startswith("agents.ppo: there is no range, so every copy will be a clone")
    assert remark.endswith("such as learning_rate: {log_uniform: [0.0001, 0.0009]}")
    rate = {"learning_rate": {"log_uniform": [1e-4, 1e-2]}}
    assert not said(pods=4, agents=ppo(rate))
    # Where no copy is ever born nothing could be searched.
    assert not said(pods=1)
    assert not any("there is no range" in r for r in said("ppo", "dqn", pods=2))
    # A user's generator may mutate what it likes.
    own = {"generator": "hpcpod.tournament.generators.gentle_truncation:GentleTruncation"}
    assert not any("there is no range" in r for r in said(pods=4, population=own))


def test_a_range_without_effect_beside_one_that_has_some_is_remarked_on() -> None:
    rate = {"learning_rate": {"log_uniform": [1e-4, 1e-2]}}
    idle = {"anneal_to": {"uniform": [0.1, 0.9]}}
    several = {"pods": {"min": 1, "max": 4}}
    (said,) = remarks_on(agents=ppo({**rate, **idle}), population=several, stop=LONGER)
    assert said == (
        "agents.ppo.anneal_to: its range has no effect while anneal and anneal_steps are off;"
        " leave it out"
    )
    on = ppo({**rate, **idle, "anneal": True})
    assert not remarks_on(agents=on, population=several, stop=LONGER)


@pytest.mark.parametrize(
    ("agent", "ranges", "why", "on"),
    [
        ("ppo", {"h_steps": {"int": [2, 8]}}, "no effect while h_term is off", {"h_term": 0.1}),
        (
            "ppo",
            {"anneal_to": {"uniform": [0.1, 0.9]}},
            "no effect while anneal and anneal_steps are off",
            {"anneal": True},
        ),
        (
            "dqn",
            {"priority_beta": {"uniform": [0.1, 0.9]}},
            "no effect while priority_exponent is off",
            {"priority_exponent": 0.6},
        ),
        (
            "dqn",
            {"epsilon_fraction": {"uniform": [0.1, 0.9]}, "epsilon_steps": 300},
            "no effect while epsilon_steps is on",
            {"epsilon_steps": 0},
        ),
    ],
)
def test_ranges_of_what_has_no_effect_are_remarked_on(
    agent: str, ranges: dict[str, Any], why: str, on: dict[str, Any]
) -> None:
    population = {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 4}}
    sections = {"population": population, "stop": LONGER}
    (said,) = remarks_on(agent, **sections, agents={agent: {**AGENTS[agent], **ranges}})
    assert said.startswith(
        f"agents.{agent}: the only ranges are of {next(iter(ranges))}, which has"
    )
    assert why in said and "every copy will be a clone of its parent" in said
    assert not remarks_on(agent, **sections, agents={agent: {**AGENTS[agent], **ranges, **on}})
