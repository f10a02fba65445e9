"""The size of a tournament, by numbers that are worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.config.auto.plan import (
    ROUNDS,
    SCORING,
    Budget,
    Fixed,
    Sizing,
    panel_length,
    panel_seconds,
)
from hpcpod.config.auto.task import Pace, Task
from tests.config.auto.tasks import ALONE, CONTINUOUS, DISCRETE

REPLAY = {"ppo": False, "dqn": True, "sac": True, "td3": True}


def sizing(task: Task, seconds: float | None, env_steps: int | None = None) -> Sizing:
    replay = {name: REPLAY[name] for name in task.paces}
    return Sizing(task, replay, Budget(seconds, env_steps), 2, 16)


def test_a_round_is_long_enough_for_its_panel_and_short_enough_for_the_budget() -> None:
    # 88 s x 10,000 steps/s are 8.8 trainings of 100,000. 0.25 s of scoring want 1 s of training,
    # 10,000 steps, which are 19.5 rollouts of 32 x 16.
    found = sizing(ALONE, 88.0).plan()
    assert (found.algorithms, found.pods, found.episodes) == (("ppo",), 8, 32)
    assert found.env_steps == 20 * 512
    assert found.scoring == pytest.approx(0.25 / (0.25 + 1.024))
    assert found.rounds == pytest.approx(88 / 8 / 1.274)
    assert found.fits


def test_fewer_pods_come_before_shorter_panels() -> None:
    # 6 rounds of 1.25 s: 40 s are enough for 5 pods, though they are 4 trainings.
    found = sizing(ALONE, 40.0).plan()
    assert (found.pods, found.episodes, found.fits) == (4, 32, True)
    # 16 s: of two pods each has 8 s, 6 rounds.
    found = sizing(ALONE, 16.0).plan()
    assert (found.pods, found.episodes, found.fits) == (2, 32, True)
    # 12 s: 4.7 rounds of 1.274 s, fewer than 4.8; a panel of 16 is two thirds as long.
    found = sizing(ALONE, 12.0).plan()
    assert (found.pods, found.episodes, found.fits) == (2, 16, True)


def test_a_slow_algorithm_is_left_out_where_equal_rounds_can_t_suit_both() -> None:
    # PPO's panel wants 10,000 steps, which take DQN 5 s: with 4 pods 6 rounds of 5.25 s.
    assert sizing(DISCRETE, 4 * 6 * 5.4).plan().algorithms == ("ppo", "dqn")
    # With 16 episodes they are 6,667 steps, 3.6 s. A panel of 8 would do for 5,000 steps, 2.6 s,
    # but is for one algorithm alone.
    assert sizing(DISCRETE, 4 * 6 * 2.7).plan().algorithms == ("ppo",)


def test_an_algorithm_needs_a_share_of_the_budget_that_buys_a_training() -> None:
    # 100 steps/s: a budget of 1,000 s is one training of PPO, five of SAC.
    slow = replace(CONTINUOUS, paces=dict.fromkeys(("ppo", "sac"), Pace(100.0, 1e-3)))
    assert sizing(slow, 1_000.0).plan().algorithms == ("sac",)
    assert sizing(slow, 1_000_000.0).plan().algorithms == ("ppo", "sac")
    assert sizing(slow, 10.0).plan().algorithms == ("sac",), "the one that gets closest"


def test_a_budget_of_steps_is_shared_out() -> None:
    # 1,000,000 steps are 10 trainings of PPO: 6 rounds of 10 pods are of 16,666 steps at most.
    found = sizing(ALONE, None, env_steps=1_000_000).plan()
    assert (found.pods, found.env_steps) == (10, 20 * 512)
    assert found.rounds == pytest.approx(1_000_000 / 10 / 10_240)


@pytest.mark.parametrize("seconds", [1.0, 60.0, 1e4, 1e7])
@pytest.mark.parametrize(
    "task", [ALONE, DISCRETE, CONTINUOUS], ids=lambda task: str(len(task.paces))
)
def test_every_budget_has_a_plan(task: Task, seconds: float) -> None:
    found = sizing(task, seconds).plan()
    assert 2 <= found.pods <= 16 and found.env_steps % 512 == 0
    assert found.pods >= 2 * len(found.algorithms)
    if found.fits:
        assert found.scoring <= 1.01 * SCORING and found.rounds >= 0.8 * ROUNDS


def test_a_budget_that_fits_nothing_gets_what_misses_least() -> None:
    long = replace(ALONE, max_episode_steps=100_000, random_steps=90_000.0)
    found = sizing(long, 60.0).plan()
    assert not found.fits
    assert (found.pods, found.episodes) == (2, 8)


def test_what_the_user_has_set_stays() -> None:
    fixed = Fixed(algorithms=True, pods=5, episodes=24, env_steps=3_000)
    found = replace(sizing(DISCRETE, 10.0), fixed=fixed).plan()
    assert (found.algorithms, found.pods) == (("ppo", "dqn"), 5)
    assert (found.episodes, found.env_steps) == (24, 3_000)


def test_as_many_pods_as_slots_at_least() -> None:
    assert replace(sizing(ALONE, 16.0), slots=40).plan().pods == 40


def test_a_budget_of_steps_that_is_too_small_for_all_slots_leaves_some_without_a_pod() -> None:
    small = replace(sizing(ALONE, None, 30_000), slots=64, num_envs=16)
    # the shortest round is of 32 x 16 steps, and six of them are wanted: 30,000 / 3,072
    assert small.plan().pods == 9


@pytest.mark.parametrize(
    ("limit", "seen", "length"),
    [
        (500, 22.0, 500),
        (1_000, None, 1_000),
        (27_000, 800.0, 8_000),  # ten times as long as by random actions
        (27_000, 30.0, 1_000),
        (27_000, None, 1_000),
        (None, 30.0, 300),
        (None, 400.0, 4_000),
        (None, None, 1_000),
    ],
)
def test_the_longest_episode_of_a_panel(limit: int | None, seen: float | None, length: int) -> None:
    task = replace(DISCRETE, max_episode_steps=limit, random_steps=seen)
    assert panel_length(task) == length


def test_a_panel_of_fewer_episodes_takes_less_but_not_in_proportion() -> None:
    pace = DISCRETE.paces["ppo"]
    assert panel_seconds(DISCRETE, pace, 32) == pytest.approx(0.25)
    assert panel_seconds(DISCRETE, pace, 8) == pytest.approx(0.125)
