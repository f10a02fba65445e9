"""Drift: a test of whether features and rewards are distributed as they were in training.

Rows that follow one another depend on each other, so whole blocks of them are exchanged between old
and new, not rows. Where blocks depend on each other, too, as sessions of a market do, they are as
long as can be: half of what is new, which is a pair of blocks, and is compared with every other
pair. The statistic of a column is the Kolmogorov-Smirnov distance on the reference's quantiles;
each is put in units of its own spread over all exchanges, and the largest over all columns gives
p-values that hold for all of them at once (Westfall and Young 1993). The population stability index
stands beside it, as it is read in the trade: above 0.25 a great shift.

What is so persistent that half of the new data is one excursion of it (volatility that lasts for
months) is told as a drift more often than the p-value says: ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BINS = 16
DEALS = 1999
"""Times that independent blocks are dealt anew."""
FEWEST_PAIRS = 21
"""Pairs of blocks below which nothing can be told: p-values begin at one over their number."""


class Sample(NamedTuple):
    """Rows that a policy met."""

    names: tuple[str, ...]
    """Of the columns."""
    rows: Floats
    """[N, F]; NaN where a value is not known."""
    blocks: npt.NDArray[np.int64]
    """The block of each row, from 0, in the order of time, [N]."""
    independent: bool = False
    """True if blocks do not depend on each other, as episodes do not."""
    untested: tuple[str, ...] = ()
    """Columns that are told without a p-value: in training they were of another kind, as rewards on
    the very data that were fitted."""


@dataclass(frozen=True)
class Reference:
    """The distribution of a sample, small enough to be kept."""

    names: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    """Of each column its quantiles, which bound ``BINS`` bins."""
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    """Rows of each block, column and bin."""
    means: tuple[float, ...]
    deviations: tuple[float, ...]


@dataclass(frozen=True)
class Shift:
    """One column, then and now."""

    name: str
    distance: float
    """Kolmogorov-Smirnov distance, from 0 to 1, on the reference's quantiles."""
    psi: float
    """Population stability index."""
    mean: float
    """Shift of the mean, in standard deviations of the reference."""
    p: float | None
    """Probability of a distance as extreme without any drift, for all tested columns at once; None:
    it is not tested."""


def reference_of(sample: Sample) -> Reference:
    """Keep a sample as counts in bins of equal share."""
    shares = np.linspace(0, 1, BINS + 1)[1:-1]
    columns = [each[np.isfinite(each)] for each in sample.rows.T]
    edges = [np.quantile(each, shares) if len(each) else np.zeros(BINS - 1) for each in columns]
    return Reference(
        sample.names,
        tuple(tuple(map(float, each)) for each in edges),
        tuple(
            tuple(tuple(map(int, row)) for row in block) for block in _counts(sample, edges)
        ),
        tuple(float(each.mean()) if len(each) else 0.0 for each in columns),
        tuple(float(each.std()) if len(each) else 0.0 for each in columns),
    )  # fmt: skip


def shifts(then: Reference, now: Sample, seed: int = 0) -> tuple[Shift, ...]:
    """Compare a sample with a reference, the most shifted column first, those without a test last.

    Args:
        then: the reference.
        now: a sample of the same columns; others are left out.
        seed: of the deals.

    Returns:
        Nothing, if there are too few blocks, or no column is in both.
    """
    kept = [i for i, name in enumerate(then.names) if name in now.names]
    own = [now.names.index(then.names[i]) for i in kept]
    taken = now._replace(names=tuple(now.names[i] for i in own), rows=now.rows[:, own])
    new = _counts(taken, [np.asarray(then.edges[i]) for i in kept])
    old = np.asarray(then.counts, float)[:, kept] if kept and then.counts else np.zeros((0, 0, 0))
    exchanged = _exchanges(old, new, now.independent, seed)
    if exchanged is None:
        return ()
    tested = np.array([name not in now.untested for name in taken.names])
    distances, p = _tested(*exchanged, tested)
    with np.errstate(invalid="ignore"):
        means = np.array([_mean(column) for column in taken.rows.T])
    found = [
        Shift(
            name, float(distances[i]), _psi(old.sum(0)[i], new.sum(0)[i]),
            float((means[i] - then.means[k]) / (then.deviations[k] or 1.0)),
            float(p[i]) if tested[i] else None,
        )
        for i, (k, name) in enumerate(zip(kept, taken.names, strict=True))
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (each.p is None, each.p or 0.0, -each.distance)))


def _exchanges(
    old: Floats, new: Floats, independent: bool, seed: int
) -> tuple[Floats, Floats] | None:
    """Blocks, and the exchanges of them, [E, blocks]: 1.0 where one is taken for new, as it was in
    the first row; None if there are too few."""
    if not len(old) or len(new) < 2:
        return None
    if independent:
        blocks = np.concatenate([old, new])
        draw = np.random.default_rng([seed, 0xD21F7])
        labels = np.zeros((DEALS + 1, len(blocks)))
        labels[0, len(old) :] = 1.0
        for row in labels[1:]:
            row[draw.permutation(len(blocks))[: len(new)]] = 1.0
        return blocks, labels
    half = len(new) // 2
    blocks = np.concatenate([_joined(old, half), _joined(new[-2 * half :], half)])
    pairs = list(combinations(reversed(range(len(blocks))), 2))  # the first one is the new data
    if len(pairs) < FEWEST_PAIRS:
        return None
    labels = np.zeros((len(pairs), len(blocks)))
    for row, pair in zip(labels, pairs, strict=True):
        row[list(pair)] = 1.0
    return blocks, labels


def _joined(counts: Floats, length: int) -> Floats:
    """Blocks of so many blocks; what is left over is the oldest."""
    count = len(counts) // length
    rest = counts[len(counts) - count * length :]
    return np.asarray(rest.reshape(count, length, *counts.shape[1:]).sum(1))


def _tested(blocks: Floats, labels: Floats, tested: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Distances of the columns, and p-values of those that are tested; counts are [blocks, columns,
    bins]."""
    flat = blocks.reshape(len(blocks), -1)
    inside = (labels @ flat).reshape(-1, *blocks.shape[1:])
    outside = flat.sum(0).reshape(blocks.shape[1:]) - inside
    distances = np.abs(_cumulated(inside) - _cumulated(outside)).max(2)
    # Of the lower half: a block that has drifted is in many exchanges, and widens the upper one.
    low, middle = np.quantile(distances, [0.25, 0.5], axis=0)
    # A flag that was alike in all old blocks has few distances, and these two are the same one.
    above = np.where(distances > middle + 1e-9, distances - middle, np.inf).min(0)
    spread = np.where(middle > low, middle - low, np.where(np.isfinite(above), above, 1.0))
    scaled = (distances - middle) / spread
    largest = scaled[:, tested].max(1, initial=0.0)
    p = (largest[:, None] >= scaled[0] - 1e-12).mean(0)
    return distances[0], p


def _cumulated(counts: Floats) -> Floats:
    totals = np.maximum(counts.sum(-1, keepdims=True), 1.0)
    return np.asarray(counts.cumsum(-1) / totals)


def _counts(sample: Sample, edges: list[Floats]) -> Floats:
    """Rows of each block in each bin, [blocks, columns, bins]."""
    found = np.zeros((int(sample.blocks.max()) + 1 if len(sample.blocks) else 0, len(edges), BINS))
    for i, (column, bounds) in enumerate(zip(sample.rows.T, edges, strict=True)):
        known = np.isfinite(column)
        bins = np.searchsorted(bounds, column[known], side="right")
        np.add.at(found, (sample.blocks[known], i, bins), 1.0)
    return found


def _psi(old: Floats, new: Floats) -> float:
    """With half a row in each bin, so that an empty one is no infinity."""
    p, q = (old + 0.5) / (old + 0.5).sum(), (new + 0.5) / (new + 0.5).sum()
    return float(((q - p) * np.log(q / p)).sum())


def _mean(column: Floats) -> float:
    known = column[np.isfinite(column)]
    return float(known.mean()) if len(known) else 0.0
