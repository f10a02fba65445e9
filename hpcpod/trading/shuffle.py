"""Panels whose days stand in another order, so that one tells nothing of the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from hpcpod.trading.panel import MarketPanel


def shuffled(panel: MarketPanel, blocks: Sequence[int], seed: int) -> MarketPanel:
    """A panel whose sessions are permuted, of all stocks together, within each block.

    A session keeps its bars, as multiples of the close before it, and its ``extra`` numbers; prices
    are chained anew. So the returns of each day are there, and what one day tells of the next is
    not; what is told within a session stays.

    Args:
        panel: the bars.
        blocks: the first session of each block but the first one: no day changes its block.
        seed: of the permutation.
    """
    draw = np.random.default_rng([seed, 0x5AFF1E])
    bounds = [0, *blocks, len(panel.dates)]
    order = np.concatenate(
        [begin + draw.permutation(past - begin) for begin, past in pairwise(bounds)]
    )
    ends = panel.marks[panel.is_last]
    first = np.isfinite(panel.marks).argmax(0)
    begun = panel.marks[first, np.arange(panel.shape[1])]
    base = np.vstack([np.where(np.isfinite(panel.open[0]), panel.open[0], begun), ends[:-1]])
    base = np.where(np.isfinite(base), base, begun)
    growth = np.nan_to_num((ends / base)[order], nan=1.0)
    fresh = base[0] * np.vstack([np.ones((1, panel.shape[1])), np.cumprod(growth, axis=0)[:-1]])
    rows = np.concatenate([np.flatnonzero(panel.sessions == day) for day in order])
    sessions = np.repeat(np.arange(len(order)), np.bincount(panel.sessions)[order])
    scale = fresh[sessions] / base[panel.sessions[rows]]
    moved = (panel.dates - panel.dates[order])[sessions]
    return replace(
        panel,
        times=panel.times[rows] + moved,
        sessions=sessions,
        open=panel.open[rows] * scale,
        high=panel.high[rows] * scale,
        low=panel.low[rows] * scale,
        close=panel.close[rows] * scale,
        volume=panel.volume[rows],
        member=panel.member[rows],
        extra={name: each[rows] for name, each in panel.extra.items()},
        card=replace(panel.card, source=f"{panel.card.source}, days shuffled", sha256=""),
    )
