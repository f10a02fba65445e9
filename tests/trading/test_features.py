"""Features: causal, in their ranges, late by their warm-up and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpcpod.errors import UserError
from hpcpod.trading.features import FEATURES, compute, truncated, turbulence_of
from hpcpod.trading.panel import Floats, MarketPanel
from tests.trading.small import daily, market, minutes

LATE = {"return_390": 390, "volume_z": 389, "sma_60": 59, "rsi_30": 30, "macd": 33, "return_1": 1}


def tomorrow(panel: MarketPanel) -> Floats:
    """A feature that knows the next bar."""
    return np.vstack([np.diff(np.log(panel.close), axis=0), np.zeros((1, panel.shape[1]))])


def standardised(panel: MarketPanel) -> Floats:
    """A feature that knows the mean of all bars, as many a notebook does."""
    return np.asarray((panel.close - panel.close.mean(0)) / panel.close.std(0))


def flat(panel: MarketPanel) -> Floats:
    """A feature without stocks."""
    return np.asarray(panel.close[:, 0])


@pytest.mark.parametrize("name", [*FEATURES, "signal"])
def test_no_feature_looks_ahead(name: str) -> None:
    truncated(market(days=90), name)


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_is_nan_in_its_warm_up_alone(name: str) -> None:
    known = np.isfinite(compute(market(days=90), [name])[..., 0])
    first = int(known.all(1).argmax())
    assert known[first:].all()
    assert not known[:first].any()
    if name in LATE:
        assert first == LATE[name]


@pytest.mark.parametrize("name", ["tomorrow", "standardised"])
def test_a_feature_of_a_user_s_that_looks_ahead_is_named_with_its_row(name: str) -> None:
    said = f"feature .*:{name} looks ahead: its value at row [0-9]+ .* are cut off"
    with pytest.raises(UserError, match=said):
        truncated(market(), f"tests.trading.test_features:{name}")


def raising(panel: MarketPanel) -> Floats:
    """A feature with a bug."""
    raise KeyError("close")


def test_a_feature_of_another_shape_or_name_or_that_fails_is_refused() -> None:
    with pytest.raises(UserError, match=r"flat is \[3510\], not \[3510, 3\]"):
        compute(market(), ["tests.trading.test_features:flat"])
    with pytest.raises(UserError, match=r"raising fails: KeyError: 'close' \(line \d+ of test_f"):
        truncated(market(), "tests.trading.test_features:raising")
    with pytest.raises(UserError, match="feature math:sqrt fails: TypeError: must be real"):
        compute(market(), ["math:sqrt"])
    with pytest.raises(UserError, match=r"no feature rsi_3; .*'rsi_30'.* \(known: return_1, .*"):
        compute(market(), ["rsi_3"])
    with pytest.raises(UserError, match="at least one feature"):
        compute(market(), [])


def test_numbers_by_hand() -> None:
    panel = daily([[100.0], [110.0], [99.0]])
    moves = compute(panel, ["return_1"])[:, 0, 0]
    assert np.isnan(moves[0])
    assert moves[1:] == pytest.approx([np.log(1.1), np.log(0.9)])
    rising = daily(np.arange(100.0, 200.0)[:, None])
    assert compute(rising, ["rsi_30"])[-1, 0, 0] == pytest.approx(1.0)  # it never fell
    assert compute(rising, ["sma_30"])[-1, 0, 0] == pytest.approx(199 / 184.5 - 1)


def test_the_clock_of_a_session_is_the_same_in_summer_and_in_winter() -> None:
    """Two sessions of three bars six hours apart, the second an hour earlier in UTC."""
    panel = minutes(np.full((2, 3, 1), 10.0))
    hours = np.array([14, 20, 26, 24 + 13, 24 + 19, 24 + 25])
    panel = replace(panel, times=panel.dates[0] + (3600 * hours).astype("timedelta64[s]"))
    found = compute(panel, ["minute_sin", "minute_cos"])[:, 0]
    assert found == pytest.approx(np.array([[0, 1], [1, 0], [0, -1]] * 2), abs=1e-6)


def test_turbulence_is_that_of_the_session_before() -> None:
    draw = np.random.default_rng(0)
    moves = 0.01 * draw.standard_normal((90, 2))
    moves[80] = [0.2, -0.2]  # the return of day 80, of which day 81 is told
    panel = daily(100 * np.exp(np.cumsum(moves, axis=0)))
    told = turbulence_of(panel)
    assert np.isnan(told[:62]).all()
    assert np.isfinite(told[62:]).all()
    assert told[81] > 100
    assert np.nanmax(np.delete(told, 81)) < 20


def test_calm_days_of_many_stocks_are_not_turbulent() -> None:
    """Of 60 independent stocks: with a window of little more than 60 days most days were."""
    moves = 0.01 * np.random.default_rng(1).standard_normal((260, 60))
    panel = daily(100 * np.exp(np.cumsum(moves, axis=0)))
    told = turbulence_of(panel)[182:]
    assert 1.0 < np.median(told) < 2.0
    assert told.max() < 5.0  # the presets' limit
