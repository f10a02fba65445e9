"""Curves of a run: a row for each look at a pod in training, from the run folder's files alone."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from hpcpod.run.data import as_dicts
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


def table_of(folder: RunFolder, pod: str | None = None) -> dict[str, Sequence[Any]]:
    """The columns of a run's curves, or of one pod's: by pod, then by steps of experience.

    It may be asked at any time, of a copied folder and of one that can't be written, too. What is
    damaged is left out. A number that a row lacks is NaN.
    """
    about: dict[str, list[Any]] = {name: [] for name in ("pod", "algorithm", "round", "attempt")}
    # Arrays: as mappings, 96,000 rows of 15 numbers took 110 MiB more at their peak.
    numbers = {name: array("d") for name in FIRST}
    count = 0
    for name in folder.curves.pods() if pod is None else [pod]:
        for curve in counted_curves(folder, name):
            more = max(map(len, curve.columns.values()), default=0)
            for key, values in about.items():
                values += [getattr(curve, key)] * more
            for key in curve.columns.keys() - numbers.keys() - about.keys():
                numbers[key] = array("d", [math.nan]) * count
            for key, column in numbers.items():
                given = curve.columns.get(key, (None,) * more)
                column.extend(math.nan if value is None else value for value in given)
            count += more
    others = sorted(numbers.keys() - {*FIRST})
    return {**about, **{name: numbers[name] for name in (*FIRST, *others)}}


def curves_of(folder: RunFolder, pod: str | None = None) -> list[Row]:
    """The rows of ``table_of``; every one has the same names."""
    return as_dicts(table_of(folder, pod))


def frame_of(folder: RunFolder, pod: str | None = None) -> Any:
    """The table as a pandas DataFrame; where pandas is not installed, ``curves_of``."""
    try:
        import pandas
    except ImportError:
        return curves_of(folder, pod)
    return pandas.DataFrame(table_of(folder, pod))
