"""Means, intervals and tests against tables and hand-worked samples."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcpod.tournament.statistics import (
    chosen_interval,
    difference,
    halves,
    interval,
    mean,
    sd,
    spent,
    t_quantile,
)

RETURNS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [
        (0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 5, 2.571),
        (0.975, 10, 2.228), (0.975, 30, 2.042), (0.975, 120, 1.980), (0.95, 31, 1.6955),
        (0.95, 4, 2.132), (0.995, 10, 3.169), (0.9995, 5, 6.869), (0.9995, 60, 3.460),
    ],
)  # fmt: skip
def test_t_quantiles_equal_the_printed_tables(
    probability: float, freedom: int, table: float
) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(table, abs=6e-4)
    assert t_quantile(1 - probability, freedom) == pytest.approx(-table, abs=6e-4)


def test_t_quantiles_of_many_degrees_of_freedom_go_on_from_those_of_fewer() -> None:
    for probability in (0.6, 0.975, 0.9999):
        below, above = t_quantile(probability, 10_000), t_quantile(probability, 10_001)
        assert above == pytest.approx(below, rel=1e-6) and above < below
    assert t_quantile(0.975, 10**30) == pytest.approx(1.959964, abs=1e-6)  # at once


def test_t_quantiles_approach_the_normal_ones() -> None:
    assert t_quantile(0.975, 5000) == pytest.approx(1.95996, abs=1e-3)
    assert t_quantile(0.5, 7) == pytest.approx(0, abs=1e-9)


def test_an_interval_by_hand() -> None:
    # mean 4, deviations -2 0 2: sd 2, standard error 2 / sqrt(3), t(.975, 2) = 4.3027
    low, high = interval([2.0, 4.0, 6.0])
    assert (mean([2.0, 4.0, 6.0]), sd([2.0, 4.0, 6.0])) == (4.0, 2.0)
    assert low == pytest.approx(4 - 4.3027 * 2 / math.sqrt(3), abs=1e-3)
    assert high == pytest.approx(4 + 4.3027 * 2 / math.sqrt(3), abs=1e-3)


def test_returns_that_are_all_equal_have_no_spread_to_doubt_by() -> None:
    assert interval([500.0] * 32) == (500.0, 500.0)


def test_an_interval_of_a_chosen_score_is_wider() -> None:
    sample = [2.0, 4.0, 6.0, 9.0]
    low, high = interval(sample)
    assert chosen_interval(5.25, low, 4, 1) == pytest.approx((low, high))
    # of ten scores: t(.9975, 3) = 7.4533 instead of t(.975, 3) = 3.1824
    wide, _ = chosen_interval(5.25, low, 4, 10)
    assert (5.25 - wide) / (5.25 - low) == pytest.approx(7.4533 / 3.1824, rel=1e-4)


def test_the_interval_of_the_best_of_equal_scores_holds_the_truth() -> None:
    """The plain one of the best of 160 seldom does."""
    rng, plain, chosen = Random(3), 0, 0
    for _ in range(100):
        samples = [[rng.gauss(0, 1) for _ in range(16)] for _ in range(160)]
        best = max(samples, key=mean)
        low, _ = interval(best)
        plain += low <= 0
        chosen += chosen_interval(mean(best), low, 16, 160)[0] <= 0
    assert plain < 20
    assert chosen >= 90


def test_an_episode_that_was_not_seen_may_have_been_as_bad_as_the_worst() -> None:
    # 500, 500, 500 and 20: mean 380, sd 240, error 120, t(3) 3.1824
    low, high = chosen_interval(500.0, 500.0, 3, 1, 20.0)
    assert low == pytest.approx(380 - 3.1824 * 120, abs=0.01)
    assert high == 500.0
    assert chosen_interval(500.0, 500.0, 3, 1, 500.0) == (500.0, 500.0)
    # 2, 4, 6 and -8: mean 1, sd 6.2183, error 3.1091
    plain, _ = interval([2.0, 4.0, 6.0])
    low, high = chosen_interval(4.0, plain, 3, 1, -8.0)
    assert low == pytest.approx(1 - 3.1824 * 3.1091, abs=1e-3)
    assert high == pytest.approx(4 + 4.3027 * 2 / math.sqrt(3), abs=1e-3)


@pytest.mark.parametrize(("episodes", "candidates"), [(16, 160), (128, 1)])
def test_the_interval_holds_the_truth_where_one_episode_in_a_hundred_fails(
    episodes: int, candidates: int
) -> None:
    rng, plain, held = Random(4), 0, 0
    for _ in range(200):
        samples = [
            [20.0 if rng.random() < 0.01 else 500.0 for _ in range(episodes)]
            for _ in range(candidates)
        ]
        best = max(samples, key=mean)
        score = mean(best), interval(best)[0], episodes, candidates
        plain += chosen_interval(*score)[0] <= 495.2 <= chosen_interval(*score)[1]
        low, high = chosen_interval(*score, 20.0)
        held += low <= 495.2 <= high
    assert plain < 170
    assert held >= 190


def test_attempts_together_spend_no_more_than_alpha() -> None:
    assert spent(0.05, 1) == 0.025
    assert spent(0.05, 2) == pytest.approx(0.05 / 6)
    assert sum(spent(0.05, k) for k in range(1, 10_000)) < 0.05


def test_a_difference_by_hand() -> None:
    # D = 3, 1, 2: mean 2, sd 1, standard error 1 / sqrt(3), t(2) at 95 % is 2.91999
    test = difference([13.0, 21.0, 32.0], [10.0, 20.0, 30.0], paired=True)
    assert test is not None
    assert (test.mean, test.episodes) == (2.0, 3)
    assert test.low == pytest.approx(2 - 2.91999 / math.sqrt(3), abs=1e-5)


def test_common_seeds_cancel_what_makes_an_episode_hard() -> None:
    hard_and_easy = [0.0, 1000.0, -1000.0, 500.0]
    test = difference([r + 1 for r in hard_and_easy], hard_and_easy, paired=True)
    assert test is not None
    assert test.low == pytest.approx(1, abs=1e-3)  # unpaired, the standard error is over 400


def test_equal_samples_and_samples_of_other_lengths_decide_nothing() -> None:
    same = difference([1.0, 2.0], [1.0, 2.0], paired=True)
    assert same is not None and not same.low > 0
    assert difference([1.0, 2.0], [1.0, 2.0, 3.0], paired=True) is None
    assert difference([1.0], [2.0], paired=True) is None


def test_welch_by_hand() -> None:
    # 2 4 6 and 1 1 2 4: means 4 and 2, variances 4 and 2; error sqrt(4/3 + 2/4) = 1.35401;
    # 1.8333^2 / (1.3333^2 / 2 + .5^2 / 3) = 3.458 degrees of freedom, so 3: t(.95) = 2.35336
    test = difference([2.0, 4.0, 6.0], [1.0, 1.0, 2.0, 4.0], paired=False)
    assert test is not None
    assert (test.mean, test.paired) == (2.0, False)
    assert test.low == pytest.approx(2 - 2.35336 * 1.35401, abs=1e-4)


def test_the_level_is_one_sided() -> None:
    sample = [3.0, 1.0, 2.0], [0.0, 0.0, 0.0]
    narrow, wide = (difference(*sample, paired=True, level=a) for a in (0.05, 0.025))
    assert narrow is not None and wide is not None
    # t(2): 2.91999 and 4.30265
    assert (narrow.mean - narrow.low) / (wide.mean - wide.low) == pytest.approx(0.678648, abs=1e-5)


def test_halves_share_no_episode() -> None:
    assert halves((1.0, 2.0, 3.0, 4.0, 5.0)) == ((1.0, 3.0, 5.0), (2.0, 4.0))


@given(one=RETURNS, other=RETURNS)
@example(one=[0.0, 1e-125], other=[0.0, 0.0, 0.0])
def test_two_pods_never_beat_each_other(one: list[float], other: list[float]) -> None:
    paired = len(one) == len(other)
    there, back = (difference(*pair, paired=paired) for pair in ((one, other), (other, one)))
    if there is not None and back is not None:
        assert not (there.low > 0 and back.low > 0)


@given(returns=RETURNS, lead=st.floats(0.01, 1e3))
def test_a_constant_lead_is_a_lead(returns: list[float], lead: float) -> None:
    test = difference([value + lead for value in returns], returns, paired=True)
    assert test is not None
    assert test.low == pytest.approx(lead, abs=1e-3 * max(1, *map(abs, returns)))


@given(RETURNS)
def test_a_mean_lies_inside_its_interval(returns: list[float]) -> None:
    low, high = interval(returns)
    assert low <= mean(returns) <= high
