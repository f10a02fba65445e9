"""Evidence that a pod has learnt anything: by hand, on the null, and what waits for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.config.start_from import StartFrom
from hpcpod.tournament.allocation import Candidate, prospects
from hpcpod.tournament.allocators.halving import Halving, learning
from hpcpod.tournament.leaderboard import first_board
from hpcpod.tournament.learnt import above, middle, negligible
from hpcpod.tournament.statistics import mean
from tests.tournament.test_allocators import POPULATION, STEPS, pod, seen
from tests.tournament.world import flat, play_round, rules

FLAT = [pod(f"p{n}", *[-20.0 - n] * 3) for n in range(4)]
"""The better, the less their scores moved: none is above what it had at first."""


def test_the_middle_panel_is_the_lower_one_of_two() -> None:
    assert middle([(3.0, 5.0), (0.0, 0.0), (1.0, 2.0)]) == (1.0, 2.0)
    assert middle([(3.0, 5.0), (0.0, 0.0)]) == (0.0, 0.0)


def test_of_five_panels_the_middle_is_the_mean_of_three_seed_by_seed() -> None:
    first = [(9.0, 9.0), (0.0, -9.0), (1.0, 2.0), (3.0, 3.0), (2.0, 4.0)]
    assert middle(first) == (2.0, 3.0)  # of 1, 3, 2 and of 2, 3, 4


def test_one_bad_episode_of_the_untrained_hides_nothing_that_was_learnt() -> None:
    first = [panel(centre) for centre in (-50, -50, -50, 0, 0, 0, 0)]
    first[3] = (-1000.0, *first[3][1:])  # its mean is -31, the middle one, its error 31
    pods = [with_panels(f"p{n}", each) for n, each in enumerate(first)]
    top = with_panels("top", first[-1], panel(40))
    assert learning(seen(*pods, top)) and not learning(seen(*pods))


def panel(centre: float) -> tuple[float, ...]:
    """32 episodes with a standard deviation of 5."""
    return tuple(centre + each for each in (-5.0, 5.0) * 16)


def with_panels(name: str, *panels: tuple[float, ...]) -> Candidate:
    """A candidate with these panels."""
    each = pod(name, *map(mean, panels))
    points = zip(each.curve, panels, strict=True)
    return replace(each, curve=tuple(replace(point, returns=own) for point, own in points))


@pytest.mark.parametrize(
    ("gained", "tests", "least", "shown"),
    [  # of 0, 2 and 0, 2 the variances are 2: Welch's error is 2 ** 0.5, its t(2) at 5 % 2.92
        (4.2, 1, 0.0, True), (4.1, 1, 0.0, False),
        (4.2, 2, 0.0, False),  # t(2) at 2.5 % is 4.30, so 6.09 are needed
        (6.1, 2, 0.0, True), (6.1, 2, 6.2, False),
    ],
)  # fmt: skip
def test_above_is_welch_s_test(gained: float, tests: int, least: float, shown: bool) -> None:
    untrained = (0.0, 2.0)
    assert above((gained, gained + 2.0), untrained, least, tests) is shown


def test_a_single_episode_shows_nothing_and_counts_as_above() -> None:
    assert above((-5.0,), (0.0,), 0.0, 1)


def test_a_negligible_gain_is_half_a_percent_of_the_way_from_the_worst() -> None:
    assert negligible(100.0, -100.0, None) == pytest.approx(1.0)
    assert negligible(100.0, -1e9, 0.0) == pytest.approx(5.0)  # ten times as far as the floor
    assert negligible(None, -100.0, None) == negligible(100.0, None, None) == 0.0


@pytest.mark.long
@pytest.mark.parametrize("rounds", [1, 8])
def test_where_none_learns_one_is_said_to_in_five_percent_of_cases_at_most(rounds: int) -> None:
    rng, said = np.random.default_rng(0), 0
    for _ in range(1000):
        pods = []
        for n in range(8):
            panels = rng.normal(0, 1, (rounds, 32)).tolist()
            pods.append(with_panels(f"p{n}", *map(tuple, panels)))
        said += learning(seen(*pods))
    assert said <= 50 + 2 * 7  # two standard errors


def test_one_that_has_collapsed_had_learnt() -> None:
    fell = pod("fell", -20.0, 80.0, -20.0)
    assert learning(seen(*FLAT, fell)) and not learning(seen(*FLAT))
    assert learning(seen(*FLAT, done=(fell,))) and not learning(seen())


HAD = [replace(each, curve=each.curve[:n]) for each, n in zip(FLAT, (3, 3, 2, 1), strict=True)]
"""Rounds that they have had."""


def test_before_any_has_learnt_all_have_a_fresh_draw_s_share() -> None:
    # by scores alone p0 and p1 would train from a third of the budget on
    untried = [replace(each, untried=True) for each in HAD]
    found = Halving(POPULATION).allocate(seen(*untried, spent=0.4))
    assert found.order == ("p3", "p2", "p0", "p1") and not found.resting
    found = Halving(POPULATION).allocate(seen(*HAD[:2], *untried[2:], spent=0.4))
    assert found.order == ("p3", "p2")
    assert all(why.startswith("no pod has learnt anything yet") for why in found.resting.values())


def test_then_those_train_that_have_had_least_beside_fresh_draws() -> None:
    found = Halving(POPULATION).allocate(seen(*HAD, spent=0.4))
    assert set(found.order) == {"p2", "p3"}
    assert found.fresh == {"p1": "no pod has learnt anything yet"} and set(found.resting) == {"p0"}
    grown = seen(*FLAT[1:], pod("p0", -20.0, 0.0, 40.0), spent=0.4)
    assert Halving(POPULATION).allocate(grown).order == ("p0", "p1")


@pytest.mark.parametrize(
    ("stop", "rounds"),
    [  # a 32nd of the budget; of 8 pods a 32nd of 8 times stop.rounds comes first
        (StopConfig(env_steps=96 * STEPS), 3), (StopConfig(env_steps=960 * STEPS, rounds=8), 2),
    ],
)  # fmt: skip
def test_a_fresh_draw_s_share_is_over_by_the_first_of_the_limits(
    stop: StopConfig, rounds: int
) -> None:
    game = rules(8, stop=stop)
    board = first_board(game, 0.0)
    for _ in range(rounds):
        assert all(each.untried for each in prospects(board, game.config, 1.0).candidates)
        board = play_round(board, game, lambda order: 0.0)
    assert not any(each.untried for each in prospects(board, game.config, 1.0).scored)


def test_where_no_pod_has_a_score_all_train() -> None:
    had = replace(FLAT[0], share=0.0)
    found = Halving(POPULATION).allocate(seen(pod("new"), done=(had,), spent=0.5))
    assert found.order == ("new",) and not found.resting and not found.fresh


def test_pods_that_start_from_a_trained_policy_are_halved_at_once() -> None:
    population = replace(POPULATION, start_from=StartFrom("other"))
    found = Halving(population).allocate(seen(*FLAT, spent=0.9))
    assert found.order == ("p0",) and list(found.fresh) == ["p3"]
    assert all(why.startswith("stage 3 of 3") for why in found.resting.values())


@pytest.mark.parametrize("stop", [StopConfig(rounds=50), StopConfig(env_steps=50 * 8 * STEPS)])
def test_in_a_budget_no_copy_is_made_of_a_pod_that_has_learnt_nothing(stop: StopConfig) -> None:
    game = rules(8, stop=stop, controls=0, warmup_rounds=0)

    def births(first: float) -> int:
        board = first_board(game, 0.0)
        for turn in range(20):  # p0001 gets worse; the others stay, or have learnt since the first
            score = first if turn == 0 else 0.0
            board = play_round(board, game, lambda o, s=score: -9.0 * (o.pod == "p0001") + s)  # type: ignore[misc]
        return sum(each.cause == "copy" for each in board.pods.values())

    assert len(flat(0.0)) >= 4  # enough episodes for a test
    assert births(-40.0) > 0
    assert (births(0.0) == 0) is (stop.env_steps is not None)
