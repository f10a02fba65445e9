"""The ranges that agents declare themselves."""

from __future__ import annotations

import pytest

from hpcpod.config.algorithms import resolve_algorithms, search_space
from hpcpod.config.auto.task import CANDIDATES
from hpcpod.config.loader import from_mapping
from hpcpod.config.space import AlgorithmSpace, Choice, Range

AGENTS = (*CANDIDATES, "a2c", "ddpg")
ZOO = {
    "learning_rate": 3e-4, "gamma": 0.999, "gae_lambda": 0.98, "entropy": 0.01, "epochs": 4,
    "horizon": 1024, "minibatch_size": 64, "clip": 0.2,
}  # fmt: skip
"""rl-baselines3-zoo's PPO for LunarLander, of 16 environments."""


def _ranges(space: AlgorithmSpace) -> dict[str, Range]:
    return {name: value for name, value in space.values.items() if isinstance(value, Range)}


@pytest.mark.parametrize("name", AGENTS)
def test_every_value_is_valid_and_a_control_has_the_defaults(name: str) -> None:
    searched = search_space(name, continuous=True)
    ranges = _ranges(searched)
    run = from_mapping(
        {
            "name": "x",
            "env": {"id": "E-v0"},
            "population": {"algorithms": {name: 1}},
            "agents": {name: ranges},
        }
    )
    [space] = resolve_algorithms(run).values()
    assert {"learning_rate", "gamma", "horizon"} <= set(ranges)
    assert space.unmutated() == searched.defaults
    assert not set(space.structural) & set(ranges), "a range of shapes would split the population"


def test_the_ranges_hold_rl_zoo_s_corner() -> None:
    ranges = _ranges(search_space("ppo", continuous=False))
    for name, value in ZOO.items():
        allowed = ranges[name]
        inside = (
            value in allowed.values
            if isinstance(allowed, Choice)
            else allowed.low < value < allowed.high
        )
        assert inside, name


def test_noise_is_searched_for_continuous_actions_alone() -> None:
    everywhere = search_space("ppo", continuous=False).ranged
    more = set(search_space("ppo", continuous=True).ranged) - set(everywhere)
    assert more == {"noise_memory", "log_std_init"}
