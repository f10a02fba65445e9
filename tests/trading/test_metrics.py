"""Numbers of a backtest, beside empyrical's, the paper's index, and their own nulls."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from hpcpod._student_t import t_quantile
from hpcpod.errors import UserError
from hpcpod.trading.metrics import (
    deflated_sharpe,
    drawdown,
    overfitting,
    paired_bootstrap,
    performance,
    sharpe_error,
    stationary_bootstrap,
)

INDEX = Path(__file__).parents[3] / "shared" / "data" / "benchmarks_daily.parquet"


def returns(seed: int, days: int = 250, mean: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 0.01, days)


def test_the_five_numbers_are_empyrical_s() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import empyrical  # type: ignore[import-untyped,unused-ignore]
    moves = returns(1, mean=0.001)
    found = performance(np.cumprod([1.0, *(1 + moves)]))
    assert found.cumulative_return == pytest.approx(empyrical.cum_returns_final(moves))
    assert found.annual_return == pytest.approx(empyrical.annual_return(moves))
    assert found.annual_volatility == pytest.approx(empyrical.annual_volatility(moves))
    assert found.max_drawdown == pytest.approx(empyrical.max_drawdown(moves))
    assert found.sharpe == pytest.approx(empyrical.sharpe_ratio(moves))


@pytest.mark.skipif(not INDEX.is_file(), reason="needs the index, which is not the project's")
def test_the_index_s_row_of_the_paper_s_table_2() -> None:
    import pandas as pd

    index = pd.read_parquet(INDEX)["qqq_adjclose"].dropna()["2019-05-13":"2021-05-26"]
    found = performance(index.to_numpy(), paper=True)
    rounded = [round(100 * each, 3) for each in (
        found.cumulative_return, found.annual_return, found.annual_volatility, found.max_drawdown,
    )]  # fmt: skip
    assert rounded == [89.614, 36.763, 28.256, -28.559]
    assert round(found.sharpe, 2) == 1.25


def test_drawdown_by_hand_and_what_has_no_performance() -> None:
    assert drawdown(np.array([1.0, 2.0, 1.0, 3.0, 2.4])) == -0.5
    for values in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, float("nan"), 1.0]):
        with pytest.raises(UserError, match="values above 0"):
            performance(values)


def test_the_error_of_a_sharpe_ratio_is_its_spread_over_samples() -> None:
    samples = [returns(seed, mean=0.001) for seed in range(400)]
    ratios = [each.mean() / each.std(ddof=1) for each in samples]
    told = np.mean([sharpe_error(each) for each in samples])
    assert np.std(ratios) == pytest.approx(told, rel=0.12)


@pytest.mark.parametrize("days", [27, 45, 120])
@pytest.mark.parametrize("lasts", [0.0, 0.2])
def test_the_interval_of_a_difference_covers_0_where_there_is_none(days: int, lasts: float) -> None:
    """400 pairs of fat tails, independent days and such that last: 95 % within three binomial
    errors, or more."""
    draw, inside = np.random.default_rng(days), 0
    for _ in range(400):
        common, gap = draw.normal(0, 0.01, days), draw.standard_t(5, days) * 0.005
        for day in range(1, days):
            gap[day] += lasts * gap[day - 1]
        low, high = paired_bootstrap(common + gap, common)[1:]
        inside += low <= 0 <= high
    assert inside / 400 > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 400)
    assert inside / 400 < 0.99


def test_the_variance_is_that_of_drawn_blocks() -> None:
    """Beside 4,000 stationary resamples of 60 days that last."""
    draw, days = np.random.default_rng(3), 60
    gap = np.convolve(draw.normal(0, 10, days + 2), [1, 0.7, 0.4], "valid")
    fresh = draw.random((4000, days)) < days ** (-1 / 3)
    fresh[:, 0] = True
    begins = draw.integers(0, days, (4000, days))
    place = np.maximum.accumulate(np.where(fresh, np.arange(days), 0), axis=1)
    rows = (np.take_along_axis(begins, place, axis=1) + np.arange(days) - place) % days
    drawn = gap[rows].mean(1).std(ddof=1)
    stays = 1 - days ** (-1 / 3)
    lags = np.arange(1, days)
    weights = 2 * (1 - lags / days) * stays**lags
    mean, low, _ = stationary_bootstrap(gap)
    freedom = int(days / (1 + weights @ weights / 2)) - 1
    told = (mean - low) / t_quantile(0.975, freedom) * math.sqrt(1 - (1 + weights.sum()) / days)
    assert told == pytest.approx(drawn, rel=0.03)


def test_a_difference_of_the_same_days_is_seen() -> None:
    common = returns(1)
    mean, low, high = paired_bootstrap(common + 0.0005, common)
    assert low > 0
    assert mean == pytest.approx((low + high) / 2)
    assert mean == pytest.approx(5.0, rel=0.05)


def test_the_best_of_many_without_skill_is_deflated() -> None:
    """By the mean of 60 draws of 50 strategies each: a level near one half, not 0.99."""
    told, naive = [], []
    for draw in range(60):
        trials = np.stack([returns(1000 * draw + i) for i in range(50)])
        ratios = trials.mean(1) / trials.std(1, ddof=1)
        best = trials[ratios.argmax()]
        told.append(deflated_sharpe(best, ratios.tolist()))
        naive.append(deflated_sharpe(best, [float(ratios.max())]))
    assert 0.35 < np.mean(told) < 0.65
    assert np.mean(naive) > 0.97


def test_overfitting_is_a_half_of_noise_and_rare_of_skill() -> None:
    draw = np.random.default_rng(5)
    for count in (2, 3, 12):
        told = [overfitting(draw.normal(0, 0.01, (60, count))) for _ in range(80)]
        error = np.std(told) / math.sqrt(len(told))
        assert abs(np.mean(told) - 0.5) < 3 * error < 0.15
    noise = np.stack([returns(i, 400) for i in range(20)], axis=1)
    skilled = noise.copy()
    skilled[:, 7] += 0.004
    assert overfitting(skilled) < 0.01
    with pytest.raises(UserError, match="two strategies"):
        overfitting(noise[:, :1])
