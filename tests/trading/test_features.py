"""Features: causal, in their ranges, late by their warm-up and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpcpod.errors import UnusablePlugin, UserError
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
    with pytest.raises(UserError, match=r"^feature 'nowhere:ratio' can't be imported") as caught:
        compute(market(), ["nowhere:ratio"])
    assert not isinstance(caught.value, UnusablePlugin)  # the trial blames env.backend for these
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


def filled_back(panel: MarketPanel) -> Floats:
    """A feature whose warm-up has the first number after it."""
    moves = compute(panel, ["return_30"])[..., 0].astype(np.float64)
    known = moves[30] if len(moves) > 30 else np.full(panel.shape[1], np.nan)
    return np.where(np.isnan(moves), known, moves)


def of_openings(panel: MarketPanel) -> Floats:
    """A feature that knows the next bar, at each session's first bar alone."""
    begins = np.append(True, panel.is_last[:-1])
    return np.where(begins[:, None], tomorrow(panel), 0.0)


def of_mondays(panel: MarketPanel) -> Floats:
    """A feature that knows Monday's close, at Monday's first bar alone."""
    begins = np.append(True, panel.is_last[:-1])
    monday = panel.dates[panel.sessions].astype("datetime64[D]").astype(int) % 7 == 4
    ends = np.append(np.flatnonzero(panel.is_last), len(panel.times) - 1)[panel.sessions]
    return np.where((begins & monday)[:, None], panel.close[ends] / panel.close, 1.0)


def small(panel: MarketPanel) -> Floats:
    """A feature that knows the next bar, in a unit in which it is far below the tolerance."""
    return 1e-12 * np.abs(tomorrow(panel))


def filled_from(panel: MarketPanel) -> Floats:
    """A feature whose warm-up has the first number after it, and that fails if there is none."""
    moves = compute(panel, ["return_30"])[..., 0].astype(np.float64)
    return np.where(np.isnan(moves), moves[30], moves)


KEPT: dict[str, Floats] = {}


def kept(panel: MarketPanel) -> Floats:
    """A feature that knows the mean of all bars, and computes it once for each file."""
    if panel.card.sha256 not in KEPT:
        KEPT[panel.card.sha256] = standardised(panel)
    return KEPT[panel.card.sha256][: len(panel.times)]


@pytest.mark.parametrize(
    "name", ["filled_back", "filled_from", "of_openings", "of_mondays", "small", "kept"]
)
def test_a_look_ahead_that_hides_is_found(name: str) -> None:
    panel = market()
    panel = replace(panel, card=replace(panel.card, sha256="of the file"))
    sure = "may look" if name == "filled_from" else "looks"  # it fails where it would differ
    with pytest.raises(UserError, match=f"feature .*:{name} {sure} ahead"):
        truncated(panel, f"tests.trading.test_features:{name}")


def long_ago(panel: MarketPanel) -> Floats:
    """A causal feature that fails on fewer than a hundred bars."""
    panel.close[100]
    return np.vstack([np.full((100, panel.shape[1]), np.nan), panel.close[:-100]])


def test_a_causal_feature_may_fail_on_a_few_bars() -> None:
    truncated(market(), "tests.trading.test_features:long_ago")


def in_place(panel: MarketPanel) -> Floats:
    """A feature that would change the prices that are traded."""
    close = panel.close
    close /= close[0]
    return close


@pytest.mark.parametrize("at", ["close", "marks", "signal"])
def test_a_feature_can_t_change_the_bars(at: str) -> None:
    with pytest.raises(UserError, match=r"in_place fails: ValueError: .* read-only"):
        compute(market(), ["tests.trading.test_features:in_place"])
    panel = market()
    array = panel.extra[at] if at in panel.extra else getattr(panel, at)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


def test_a_feature_s_name_is_that_feature_s_whatever_a_file_calls_so() -> None:
    panel = market()
    panel = replace(panel, extra={"return_1": tomorrow(panel), "ahead": tomorrow(panel)})
    assert np.isnan(compute(panel, ["return_1"])[0]).all()
    assert (compute(panel, ["ahead"])[..., 0] == tomorrow(panel).astype(np.float32)).all()
