"""Small markets that the tests of trading share."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from hpcpod.trading.panel import MarketPanel, SourceCard
from hpcpod.trading.synthetic import SyntheticMarket


@cache
def market(stocks: int = 3, days: int = 90, seed: int = 3, alpha: float = 1.0) -> MarketPanel:
    """A synthetic one of 39 bars a session."""
    return SyntheticMarket(stocks=stocks, days=days, seed=seed, alpha=alpha, minutes=39).panel()


def daily(close: npt.ArrayLike, volume: float = 1e9) -> MarketPanel:
    """A panel whose bars are days that open where the last one has closed."""
    return minutes(np.asarray(close, np.float64)[:, None], volume)


def minutes(close: npt.ArrayLike, volume: float = 1e9) -> MarketPanel:
    """The same of closes [sessions, bars, stocks], whose bars end a minute apart."""
    days, bars, stocks = np.shape(close)
    prices = np.asarray(close, np.float64).reshape(-1, stocks)
    dates = np.busday_offset("2020-01-06", np.arange(days), roll="forward")
    sessions, minute = np.divmod(np.arange(len(prices)), bars)
    opened = np.vstack([prices[:1], prices[:-1]])
    return MarketPanel(
        tuple(f"{chr(65 + i // 26)}{chr(65 + i % 26)}"[i < 26 :] for i in range(stocks)),
        dates[sessions].astype("datetime64[s]") + 60 * minute, sessions, dates, opened,
        np.maximum(opened, prices), np.minimum(opened, prices), prices,
        np.full_like(prices, volume), np.ones(prices.shape, bool),
        SourceCard("by hand", "none", "none"),
    )  # fmt: skip
