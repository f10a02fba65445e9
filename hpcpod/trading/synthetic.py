"""A synthetic market of minute bars, with a planted alpha or with none.

Regimes after Hamilton (1989), volatility after Taylor (1982), a U-shaped day (Andersen and
Bollerslev 1997), jumps after Merton (1976), the bid-ask bounce of Roll (1984), volume that goes
with volatility (Clark 1973), and a signal that decays as in Garleanu and Pedersen (2013). The
constants are set to the daily volatility, correlation and intraday shape of US stocks; its
returns are more often extreme, and their volatility lasts longer, than those of real minutes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hpcpod.errors import UserError
from hpcpod.trading.panel import Floats, MarketPanel, SourceCard, day_of, is_whole

MINUTES = 390
"""Of a session; a half-day has 210."""
HALF_DAY = 210
BPS = 1e-4
SECTORS = 4
OPENING = 14 * 3600 + 30 * 60
"""Seconds after midnight, UTC, at which a session begins."""


class Days(NamedTuple):
    """Conditions of the market on each session, [days]."""

    volatility: Floats
    """Standard deviation of the common factor's return in a session."""
    mean: Floats


@dataclass(frozen=True)
class SyntheticMarket:
    """The arguments of a synthetic market; equal arguments give equal bars."""

    stocks: int = 10
    days: int = 250
    """Sessions; about one in 60 is a half-day."""
    seed: int = 0
    alpha: float = 1.0
    """Strength of the planted signal: a unit of it earns 80 bp times this over its life; 0: none.
    It is the panel's ``extra`` called ``signal``, seen with noise."""
    half_life: float = MINUTES
    """Minutes after which half of the signal is gone."""
    drift: float = 1.0
    """Scale of the market's mean return, +8 bp a session in calm times and -25 bp in a crisis."""
    change: int | None = None
    """The session from which the signal means the opposite; None: none."""
    minutes: int = MINUTES
    """Bars of a full session."""
    start: str = "2000-01-03"
    """The date of the first session."""
    leak: int | None = None
    """For a proof alone: ``extra`` has ``tomorrow``, the return of so many bars after the next
    one, in percent."""

    def panel(self) -> MarketPanel:
        """Make the bars.

        Raises:
            UserError: an argument is out of its range.
        """
        for name, least in (("stocks", 1), ("days", 2), ("minutes", 2)):
            value = getattr(self, name)
            if not is_whole(value, least):
                raise UserError(
                    f"a synthetic market has {name}, a whole number from {least}, got {value!r}"
                )
        for name in ("alpha", "half_life", "drift"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise UserError(f"a synthetic market has {name}, a number, got {value!r}")
        if self.alpha < 0 or self.half_life <= 0:
            raise UserError("a synthetic market has an alpha from 0 and a half_life above 0")
        draw = np.random.default_rng([self.seed, 0x5EED])
        short = draw.random(self.days) < 1 / 60
        lengths = np.where(short, max(1, self.minutes * HALF_DAY // MINUTES), self.minutes)
        sessions = np.repeat(np.arange(self.days), lengths)
        minute = np.arange(len(sessions)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        days = self._days(draw)
        shape = _diurnal(minute / self.minutes)
        signal = self._signal(draw, len(sessions))
        moves = self._moves(draw, sessions, minute == 0, days, shape, signal)
        return self._bars(draw, sessions, minute, days, shape, signal, moves)

    def _days(self, draw: np.random.Generator) -> Days:
        crisis, log = np.zeros(self.days, bool), np.zeros(self.days)
        for day in range(1, self.days):
            turns = draw.random() < (0.12 if crisis[day - 1] else 0.02)
            crisis[day] = crisis[day - 1] ^ turns
            log[day] = 0.95 * log[day - 1] + 0.15 * draw.standard_normal()
        level = np.where(crisis, 0.018, 0.0085) * np.exp(log - log.var())
        return Days(level, self.drift * np.where(crisis, -25 * BPS, 8 * BPS))

    def _signal(self, draw: np.random.Generator, bars: int) -> Floats:
        """An autoregression of unit variance for each stock, [T, S]."""
        rho = 0.5 ** (MINUTES / self.minutes / self.half_life)
        signal = draw.standard_normal((bars, self.stocks))
        signal[1:] *= np.sqrt(1 - rho**2)
        for t in range(1, bars):
            signal[t] += rho * signal[t - 1]
        return signal

    def _moves(
        self, draw: np.random.Generator, sessions: npt.NDArray[np.int64],
        first: npt.NDArray[np.bool_], days: Days, shape: Floats, signal: Floats,
    ) -> Floats:  # fmt: skip
        """Log returns of the bars, [T, S]: a quarter of a session's variance is overnight's."""
        bars, stocks = signal.shape
        beta = draw.uniform(0.6, 1.4, stocks)
        sector = np.arange(stocks) % SECTORS
        # Student's t with 5 degrees of freedom, of unit variance
        common, own, of_sector = (
            draw.standard_t(5, (bars, n)) * np.sqrt(3 / 5) for n in (1, stocks, SECTORS)
        )
        spread = days.volatility[sessions] * np.sqrt(0.75 / self.minutes) * shape
        spread = np.where(first, days.volatility[sessions] * np.sqrt(0.25), spread)[:, None]
        moves = spread * (beta * common + 0.6 * of_sector[:, sector] + 0.9 * own)
        jumps = draw.random((bars, stocks)) < 0.05 / self.minutes
        moves += jumps * draw.normal(0.0, 0.004, (bars, stocks))
        moves += (days.mean[sessions] / self.minutes)[:, None]
        rho = 0.5 ** (MINUTES / self.minutes / self.half_life)
        sign = np.ones(bars) if self.change is None else np.where(sessions < self.change, 1.0, -1.0)
        moves[1:] += (sign[1:, None] * signal[:-1]) * self.alpha * 80 * BPS * (1 - rho)
        return np.asarray(moves)

    def _bars(
        self, draw: np.random.Generator, sessions: npt.NDArray[np.int64],
        minute: npt.NDArray[np.int64], days: Days, shape: Floats, signal: Floats, moves: Floats,
    ) -> MarketPanel:  # fmt: skip
        bars, stocks = moves.shape
        level = np.log(draw.uniform(20, 200, stocks)) + np.cumsum(moves, axis=0)
        before = np.vstack([level[:1] - moves[:1], level[:-1]])
        first = (minute == 0)[:, None]
        opening = np.where(first, level - 0.1 * moves, before)  # the night's move is in the open
        spread = (days.volatility[sessions] * np.sqrt(0.75 / self.minutes) * shape)[:, None]
        wings = spread * np.abs(draw.standard_normal((2, bars, stocks)))
        bounce = 1 * BPS * draw.choice([-1.0, 1.0], (2, bars, stocks))
        opened, closed = opening + bounce[0], level + bounce[1]
        high = np.maximum(opened, closed) + wings[0]
        low = np.minimum(opened, closed) - wings[1]
        busy = np.exp(0.35 * np.abs(moves) / spread + 0.5 * draw.standard_normal((bars, stocks)))
        volume = np.ceil(20_000 * (MINUTES / self.minutes) * shape[:, None] ** 2 * busy)
        seen = np.sqrt(0.75) * signal + 0.5 * draw.standard_normal((bars, stocks))
        dates = weekdays(day_of(self.start), self.days)
        seconds = OPENING + (minute + 1) * 60 * MINUTES // self.minutes
        card = SourceCard(
            f"synthetic market, seed {self.seed}, alpha {self.alpha:g}", "made here",
            "no stock ever leaves it", adjusted="yes",
        )  # fmt: skip
        extra = {"signal": seen}
        if self.leak is not None:
            extra["tomorrow"] = np.zeros_like(level)
            extra["tomorrow"][: -self.leak - 1] = 100 * (
                level[self.leak + 1 :] - level[1 : -self.leak]
            )
        cents = [np.asarray(np.exp(each).round(2)) for each in (opened, high, low, closed)]
        return MarketPanel(
            tuple(f"SYN{i:02d}" for i in range(stocks)),
            dates[sessions].astype("datetime64[s]") + seconds.astype("timedelta64[s]"),
            sessions, dates, cents[0], cents[1], cents[2], cents[3], volume,
            np.ones((bars, stocks), bool), card, extra,
        )  # fmt: skip


def _diurnal(x: Floats) -> Floats:
    """Volatility within a session that is 0 at its beginning and 1 at its end: mean square 1."""
    shape = 0.75 + 2.1 * np.exp(-20 * x) + 0.2 * np.exp(-10 * (1 - x))
    return np.asarray(shape / np.sqrt(np.mean(shape**2)))


def weekdays(start: np.datetime64, count: int) -> npt.NDArray[np.datetime64]:
    """``count`` Mondays to Fridays, from ``start`` on."""
    return np.busday_offset(start, np.arange(count), roll="forward")
