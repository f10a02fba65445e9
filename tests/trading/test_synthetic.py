"""The synthetic market: reproducible, like real minutes where it says so, with a planted alpha."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hpcpod.errors import UserError
from hpcpod.trading.panel import MarketPanel
from hpcpod.trading.synthetic import SyntheticMarket
from tests.trading.small import market


def test_equal_arguments_give_equal_bars() -> None:
    once, again = (SyntheticMarket(stocks=2, days=5, minutes=10).panel() for _ in range(2))
    assert once.digest() == again.digest()
    assert once.digest() != SyntheticMarket(stocks=2, days=5, minutes=10, seed=1).panel().digest()


def test_bars_are_consistent_and_half_days_are_short() -> None:
    panel = market(days=250)
    assert (panel.high >= np.maximum(panel.open, panel.close)).all()
    assert (panel.low <= np.minimum(panel.open, panel.close)).all()
    assert (panel.volume > 0).all() and (panel.low > 0).all()
    lengths = np.bincount(panel.sessions)
    assert set(lengths) == {39, 21}
    assert 1 <= (lengths == 21).sum() <= 12
    assert (np.diff(panel.times) > 0).all()


def test_daily_volatility_and_correlation_are_those_of_stocks() -> None:
    panel = SyntheticMarket(stocks=8, days=500, minutes=13, alpha=0.0).panel()
    moves = np.diff(np.log(panel.close[panel.is_last]), axis=0)
    assert 0.15 < moves.std(0).mean() * 252**0.5 < 0.4
    off = np.corrcoef(moves.T)[np.triu_indices(8, 1)]
    assert 0.2 < off.mean() < 0.5


def correlation(panel: MarketPanel, bars: int = 39) -> float:
    later = np.log(panel.close[bars:] / panel.close[:-bars])
    return float(np.corrcoef(later.ravel(), panel.extra["signal"][:-bars].ravel())[0, 1])


def test_the_signal_tells_the_next_day_only_where_alpha_is_planted() -> None:
    planted = [correlation(market(days=250, seed=seed)) for seed in range(3)]
    null = [correlation(market(days=250, seed=seed, alpha=0.0)) for seed in range(3)]
    assert min(planted) > 0.15
    assert max(map(abs, null)) < 0.1


def test_after_a_change_the_signal_means_the_opposite() -> None:
    panel = SyntheticMarket(stocks=3, days=240, minutes=39, change=120).panel()
    before, after = panel.below(panel.dates[118]), panel.between(panel.dates[121], "2099-01-01")
    assert correlation(before) > 0.15
    assert correlation(after) < -0.15


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"days": 1}, "days, a whole number from 2, got 1"), ({"days": "foo"}, "from 2, got 'foo'"),
     ({"stocks": 0}, "stocks, a whole number from 1, got 0"), ({"alpha": -1.0}, "an alpha from 0"),
     ({"half_life": 0.0}, "a half_life above 0"), ({"alpha": math.nan}, "alpha, a number, got nan"),
     ({"drift": "up"}, "drift, a number, got 'up'")],
)  # fmt: skip
def test_impossible_markets_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        SyntheticMarket(**wrong).panel()
