"""Curves of a run: a row for each look at a pod in training, from the run folder's files alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hpcpod.storage.curves import Curve
from hpcpod.storage.run_folder import RunFolder

Row = dict[str, Any]
"""``pod``, ``algorithm``, ``round`` and ``attempt``, then numbers by name."""

FIRST = ("env_steps", "time", "train_seconds", "training_return", "episode_length")
"""Numbers of every pod, in this order."""


def counted_curves(folder: RunFolder, pod: str) -> Iterator[Curve]:
    """The curve of each of a pod's rounds that counts, first to last.

    A slot may have begun the newest one ahead of its order: it counts once a slot has claimed it.
    """
    curves = list(folder.curves.of(pod))
    newest = curves[-1:]
    yield from curves[:-1]
    yield from (curve for curve in newest if folder.claims.owner(curve.order) is not None)


def curves_of(folder: RunFolder, pod: str | None = None) -> list[Row]:
    """All rows of a run's curves, or of one pod's: by pod, then by steps of experience.

    It may be asked at any time, of a copied folder and of one that can't be written, too. What is
    damaged is left out. Every row has the same names; a number that one lacks is NaN.
    """
    pods = folder.curves.pods() if pod is None else [pod]
    found = [(curve, row) for name in pods for curve in counted_curves(folder, name)
             for row in curve.rows]  # fmt: skip
    others = {name for _, row in found for name in row}.difference(FIRST)
    names = [*FIRST, *sorted(others)]
    return [
        {
            "pod": curve.pod, "algorithm": curve.algorithm, "round": curve.round,
            "attempt": curve.attempt, **{name: row.get(name, math.nan) for name in names},
        }
        for curve, row in found
    ]  # fmt: skip


def tidy(rows: list[Row]) -> Any:
    """Rows as a pandas DataFrame, or as they are where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return rows
    names = list(rows[0]) if rows else ["pod", "algorithm", "round", "attempt", *FIRST]
    return pandas.DataFrame(rows, columns=names)
