"""Heirs: how many first pods start from another run's policy."""

from __future__ import annotations

import pytest

from hpcpod.config.space import AlgorithmSpace
from hpcpod.config.start_from import StartFrom
from hpcpod.records.origins import Origin
from hpcpod.records.records import Checkpoint
from hpcpod.tournament.heirs import Parent, heirs

PARENT = Parent("ppo", {}, Checkpoint("core", 0), Origin("a", "/a", "p0001", 1, "core", 0, 0))


@pytest.mark.parametrize(
    ("share", "places", "inherit"),
    [(0.5, 8, 4), (0.5, 7, 4), (0.01, 8, 1), (1.0, 3, 3), (0.55, 20, 11), (0.07, 100, 7)],
)
def test_the_share_is_rounded_up_and_no_rounding_error_is(
    share: float, places: int, inherit: int
) -> None:
    space = AlgorithmSpace("ppo", {}, {})
    assert heirs(space, PARENT, places, StartFrom("a", share=share)) == inherit


def test_another_agent_inherits_nothing_unless_it_is_taught() -> None:
    space = AlgorithmSpace("dqn", {}, {})
    assert heirs(space, PARENT, 8, StartFrom("a")) == 0
    assert heirs(space, PARENT, 8, StartFrom("a", distill=100)) == 4
