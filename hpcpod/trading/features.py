"""Features: numbers of each bar that are known at its end, and nothing else.

A feature is a function of a panel that gives [T, S]. ``truncated`` tests that it is causal: its
values on bars [0, t] must not change when later bars are there. Its warm-up is NaN, and episodes
begin after it; nothing is filled backward. A panel's arrays are read-only: a feature that works in
place would change the prices that are traded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hpcpod import plugins
from hpcpod.errors import UnknownPlugin, UserError, in_words, raised_at
from hpcpod.trading.panel import Floats, MarketPanel

Feature = Callable[[MarketPanel], Floats]
TOLERANCE = 1e-9


def returns(panel: MarketPanel, bars: int) -> Floats:
    """Log return of the last ``bars`` bars."""
    return _each(panel, lambda close: _since(np.log(close), bars))


def sma_ratio(panel: MarketPanel, bars: int) -> Floats:
    """Close over its simple moving average, less 1."""
    average = _talib().SMA
    return _each(panel, lambda close: close / average(close, timeperiod=bars) - 1)


def percent_b(panel: MarketPanel, bars: int = 20) -> Floats:
    """The close between the Bollinger bands (2 deviations): 0 at the lower, 1 at the upper."""
    bands = _talib().BBANDS

    def place(close: Floats) -> Floats:
        upper, _, lower = bands(close, timeperiod=bars, nbdevup=2.0, nbdevdn=2.0)
        width = upper - lower
        found = np.where(width > 0, (close - lower) / np.where(width > 0, width, 1.0), 0.5)
        return np.asarray(found + 0 * width)

    return _each(panel, place)


def rsi(panel: MarketPanel, bars: int = 30) -> Floats:
    """Relative strength index (Wilder), from -1 to 1."""
    index = _talib().RSI
    return _each(panel, lambda close: index(close, timeperiod=bars) / 50 - 1)


def cci(panel: MarketPanel, bars: int = 30) -> Floats:
    """Commodity channel index, over 100."""
    index = partial(_talib().CCI, timeperiod=bars)
    return _each(panel, lambda *prices: index(*prices) / 100, "high", "low", "close")


def dx(panel: MarketPanel, bars: int = 30) -> Floats:
    """Directional movement index (Wilder), from 0 to 1."""
    index = partial(_talib().DX, timeperiod=bars)
    return _each(panel, lambda *prices: index(*prices) / 100, "high", "low", "close")


def macd(panel: MarketPanel) -> Floats:
    """Moving average convergence (12, 26), over the close."""
    lines = partial(_talib().MACD, fastperiod=12, slowperiod=26, signalperiod=9)
    return _each(panel, lambda close: lines(close)[0] / close)


def volume_z(panel: MarketPanel, bars: int = 390) -> Floats:
    """Logarithm of the volume, standardised by its last ``bars`` bars."""

    def standardised(volume: Floats) -> Floats:
        logs = np.log1p(volume)
        mean, square = _mean(logs, bars), _mean(logs**2, bars)
        spread = np.sqrt(np.maximum(square - mean**2, 1e-12))
        return np.clip((logs - mean) / spread, -5, 5)

    return _each(panel, standardised, "volume")


def minute_sin(panel: MarketPanel) -> Floats:
    """Sine of the time since the session's first bar, in turns of 24 hours, of every stock."""
    return _clock(panel, np.sin)


def minute_cos(panel: MarketPanel) -> Floats:
    """Cosine of the time since the session's first bar."""
    return _clock(panel, np.cos)


def turbulence(panel: MarketPanel, sessions: int = 60) -> Floats:
    """Logarithm of 1 plus the turbulence of the *last ended* session, of every stock.

    The squared Mahalanobis distance of a session's returns to those of the sessions before it, at
    least three for each stock, over the number of stocks (Kritzman and Li 2010): 1 is usual. It is
    known when the session has ended, so bars show the one before theirs.
    """
    return np.broadcast_to(np.log1p(turbulence_of(panel, sessions))[:, None], panel.shape)


def turbulence_of(panel: MarketPanel, sessions: int = 60) -> Floats:
    """The turbulence of the session before that of each bar, [T]; NaN in the warm-up."""
    closes = panel.marks[panel.is_last]
    days = len(closes)
    moves = np.diff(np.log(closes), axis=0)
    window = _window(panel, sessions)
    distance = np.full(days + 1, np.nan)  # of session d, shown on d + 1
    for day in range(window + 1, days):
        past, today = moves[day - 1 - window : day - 1], moves[day - 1]
        good = np.isfinite(past).all(0) & np.isfinite(today)
        if good.any():
            centred = today[good] - past[:, good].mean(0)
            covariance = np.cov(past[:, good].T).reshape(good.sum(), -1)
            found = centred @ np.linalg.pinv(covariance) @ centred
            distance[day + 1] = found / good.sum()
    return distance[panel.sessions]


def first_turbulence(panel: MarketPanel, sessions: int = 60) -> int:
    """Sessions of a panel that are enough for a decision at which the turbulence is known."""
    return _window(panel, sessions) + 4


def _window(panel: MarketPanel, sessions: int) -> int:
    # With S + 2 sessions of 100 stocks four in five calm days were wild.
    return max(sessions, 3 * panel.shape[1])


BY_STOCK: Mapping[str, Feature] = {
    **{f"return_{n}": partial(returns, bars=n) for n in (1, 5, 30, 390)},
    **{f"sma_{n}": partial(sma_ratio, bars=n) for n in (30, 60)},
    "percent_b": percent_b,
    "rsi_30": rsi,
    "cci_30": cci,
    "dx_30": dx,
    "macd": macd,
    "volume_z": volume_z,
}
"""Features of each stock that no other stock changes."""
FEATURES: Mapping[str, Feature] = {
    **BY_STOCK,
    "minute_sin": minute_sin,
    "minute_cos": minute_cos,
    "turbulence": turbulence,
}
"""Features by name; a panel's ``extra`` numbers are features, too, by theirs, but for one of the
name of a feature here: who names that gets what is causal by construction."""


def compute(
    panel: MarketPanel, names: Sequence[str], rows: npt.NDArray[np.int64] | slice = slice(None)
) -> npt.NDArray[np.float32]:
    """Features of a panel, float32 [rows, S, K], NaN where they are not known yet.

    Args:
        panel: the bars.
        names: of ``FEATURES``, of the panel's ``extra``, or paths ``"pkg.mod:function"``.
        rows: the bars whose features are wanted; they are made of all bars before.

    Raises:
        UserError: there is no such feature, or it fails, or gives another shape.
    """
    if not names:
        raise UserError("trading needs at least one feature")
    out = np.empty((len(panel.times[rows]), panel.shape[1], len(names)), np.float32)
    own = {place: name for place, name in enumerate(names) if name in BY_STOCK}
    for place in set(range(len(names))) - set(own):
        out[..., place] = _one(panel, names[place])[rows]
    for stock, ticker in enumerate(panel.tickers if own else ()):  # all at once took 2 GB more
        alone = panel.of([ticker])
        for place, name in own.items():
            out[:, stock, place] = _one(alone, name)[rows, 0]
    return out


def truncated(panel: MarketPanel, name: str) -> int:
    """See that a feature is causal: bars that are cut off change none of the values before.

    Args:
        panel: bars on which it is tried, cut to each length of ``cuts``. A feature that fails on
            less than a third of them is not tried there, and has no value there either.
        name: as for ``compute``.

    Returns:
        The number of lengths on which it was tried.

    Raises:
        UserError: it looks ahead; the sentence names the first row whose value depends on later
            ones.
    """
    whole = _one(panel, name)
    bars = len(panel.times)
    sizes = np.abs(whole[np.isfinite(whole) & (whole != 0)])
    slack = TOLERANCE * float(np.median(sizes)) if len(sizes) else 0.0
    tried, early = 0, ""
    for cut in cuts(panel):
        shorter = panel.first(cut)
        # Of its own: a feature that keeps what it has computed, by this, would pass.
        shorter = replace(shorter, card=replace(panel.card, sha256=f"{panel.card.sha256} {cut}"))
        try:
            part = _one(shorter, name)
        except UserError as error:
            if cut >= bars // 3:
                raise
            known = np.isfinite(whole[:cut]).any(1)
            if known.any():
                row = int(known.argmax())
                early = early or (
                    f"feature {name} may look ahead: it has a value at row {row}"
                    f" ({panel.times[row]}), and fails where the rows from"
                    f" {panel.times[cut]} on are cut off; let it be NaN there: {error}"
                )
            continue
        same = np.isclose(part, whole[:cut], rtol=TOLERANCE, atol=slack, equal_nan=True)
        if not same.all():
            row = int((~same).any(1).argmax())
            raise UserError(
                f"feature {name} looks ahead: its value at row {row} ({panel.times[row]}) changes"
                f" when the rows from {panel.times[cut]} on are cut off"
            )
        tried += 1
    if early:
        raise UserError(early)
    return tried


def cuts(panel: MarketPanel) -> list[int]:
    """Lengths to which a panel is cut for the truncation test: powers of two, which lie in any
    warm-up, the first bars of a week's sessions, four that are spread over two thirds of the
    panel, and four at random. In all some ten times the panel's bars, whatever its length."""
    bars = len(panel.times)
    spread = np.linspace(bars // 3, bars - 1, 4).astype(int)
    begins = 1 + np.flatnonzero(np.append(True, panel.is_last[:-1]))
    middle = len(begins) // 2
    drawn = np.random.default_rng(0).integers(1, max(2, bars), 4)
    early = 2 ** np.arange(bars.bit_length())
    found = {*early.tolist(), *begins[middle : middle + 5].tolist(), *spread.tolist(), *drawn}
    return sorted(int(each) for each in found if 0 < each < bars)


def _one(panel: MarketPanel, name: str) -> Floats:
    if ":" in name:
        try:
            function = plugins.load(name)
        except UnknownPlugin as error:  # by its own type the backend was blamed
            raise UserError(f"feature {error}") from error
        try:
            found = np.asarray(function(panel), np.float64)
        except Exception as error:  # it is a user's
            said = f"feature {name} fails: {in_words(error)}{raised_at(error)}"
            raise UserError(said) from error
    elif name in FEATURES:
        found = FEATURES[name](panel)
    elif name in panel.extra:
        found = panel.extra[name]
    else:
        known = [*FEATURES, *panel.extra]
        raise UserError(
            f"there is no feature {name}{plugins.suggest(name, known)} (known: {', '.join(known)};"
            " or the path of a function, 'pkg.mod:function')"
        )
    if found.shape != panel.shape:
        raise UserError(f"feature {name} is {list(found.shape)}, not {list(panel.shape)}")
    return found


def _since(values: Floats, bars: int) -> Floats:
    out = np.full_like(values, np.nan)
    out[bars:] = values[bars:] - values[:-bars]
    return out


def _mean(values: Floats, bars: int) -> Floats:
    """Mean of the last ``bars`` numbers; NaN before there are as many."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    out = np.full_like(values, np.nan)
    out[bars - 1 :] = (sums[bars:] - sums[:-bars]) / bars
    return out


def _clock(panel: MarketPanel, turn: Callable[[Floats], Floats]) -> Floats:
    # Not of the day: in UTC an exchange opens an hour earlier in summer.
    begins = panel.times[np.flatnonzero(np.append(True, panel.is_last[:-1]))]
    seconds = (panel.times - begins[panel.sessions]).astype(np.float64)
    return np.broadcast_to(turn(2 * np.pi * seconds / 86_400)[:, None], panel.shape)


def _talib() -> Any:
    try:
        import talib
    except ImportError as error:
        raise UserError("features need TA-Lib: pip install 'hpcpod[trading]'") from error
    return talib


def _each(panel: MarketPanel, function: Callable[..., Floats], *fields: str) -> Floats:
    """A function of each stock's closes, or of other fields of its bars, [T]: [T, S]."""
    out = np.empty(panel.shape)
    for stock in range(panel.shape[1]):
        inputs = [_filled(panel, name, stock) for name in fields or ("close",)]
        out[:, stock] = function(*inputs)
    return out


def _filled(panel: MarketPanel, name: str, stock: int) -> Floats:
    """A field of a stock's bars, [T]; of a missing bar the last known close, and no volume."""
    if name == "close":
        return np.ascontiguousarray(panel.marks[:, stock])
    values: Floats = getattr(panel, name)[:, stock]
    if name == "volume":
        return np.nan_to_num(values)
    return np.where(np.isfinite(values), values, panel.marks[:, stock])
