"""Remarks on generators that can't work as meant."""

from __future__ import annotations

from typing import Any

import pytest

from hpcpod.run.remarks_on_generators import FINALISTS
from hpcpod.tournament.allocators import replicates
from tests.run.test_remarks import ppo, remarks_on

RATE = ppo({"learning_rate": {"log_uniform": [1e-4, 1e-2]}})


def said(generator: str, pods: int, **stop: Any) -> list[str]:
    """Remarks on a run of a generator; a round is 64 steps."""
    population = {"generator": generator, "pods": {"min": 1, "max": pods}}
    found = remarks_on(agents=RATE, population=population, stop=stop)
    return [each for each in found if each.startswith("population")]


@pytest.mark.parametrize(
    ("generator", "pods", "stop", "words"),
    [
        ("random_search", 4, {"rounds": 50}, "one draw in each of the 4 places"),
        (
            "random_search",
            4,
            {"rounds": None, "minutes": 50},
            "give it stop.rounds, too, to try more",
        ),
        ("random_search", 4, {"rounds": 50, "minutes": 5}, ""),
        ("multi_frequency", 7, {"rounds": 50}, "needs 8 pods of an algorithm"),
        ("multi_frequency", 8, {"rounds": 10}, "which selects every 10, never does"),
        ("multi_frequency", 8, {"rounds": 11}, ""),
        ("restarts", 8, {"rounds": 8}, "begins nothing anew before 9"),
        ("restarts", 8, {"rounds": 9}, ""),
        ("pb2", 8, {"rounds": 50}, ""),
    ],
)
def test_a_generator_that_can_not_work_is_remarked_on(
    generator: str, pods: int, stop: dict[str, Any], words: str
) -> None:
    found = said(generator, pods, **stop)
    assert len(found) == (1 if words else 0), found
    assert all(words in each for each in found)


def test_where_nobody_is_copied_nothing_is_said_of_copies() -> None:
    short = said("random_search", 2, rounds=1, minutes=5)
    assert not any("copy" in each for each in short)


@pytest.mark.parametrize(
    ("generator", "stop", "words"),
    [
        ("gentle_truncation", {"rounds": 50, "minutes": 5}, "write generator: random_search"),
        ("gentle_truncation", {"rounds": None, "minutes": 5}, "give it stop.rounds, and"),
        ("random_search", {"rounds": 50, "env_steps": 10_000}, ""),
    ],
)
def test_replicates_want_trainings_from_scratch_their_end_and_a_budget(
    generator: str, stop: dict[str, Any], words: str
) -> None:
    population = {"generator": generator, "allocator": "replicates", "pods": {"min": 1, "max": 12}}
    found = remarks_on(agents=RATE, population=population, stop=stop)
    said = [each for each in found if each.startswith("population.allocator")]
    assert len(said) == (1 if words else 0), found
    assert all(words in each for each in said)


def test_replicates_want_a_place_for_each_training_that_counts() -> None:
    assert FINALISTS == replicates.RIVALS * replicates.MOST
    stop = {"rounds": 50, "env_steps": 500_000}
    for pods in (FINALISTS - 1, FINALISTS):
        places = {"pods": {"min": 1, "max": pods}}
        population = {"generator": "random_search", "allocator": "replicates", **places}
        found = remarks_on(agents=RATE, population=population, stop=stop)
        said = [each for each in found if "a training whose place is taken" in each]
        assert len(said) == (pods < FINALISTS)


def test_a_run_that_may_end_before_an_agent_has_started_is_remarked_on() -> None:
    for seconds in (9, 11):
        found = remarks_on(
            population={"pods": {"min": 1, "max": 4}},
            stop={"rounds": None, "minutes": seconds / 60},
        )
        said = [each for each in found if "may end before any pod has finished a round" in each]
        assert len(said) == (seconds < 10)
