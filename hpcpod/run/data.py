"""A run as data: tables of plain rows, each column documented by the field that it comes from.

Everything is read from the run folder's files, so a copy of it will do, on a machine without Slurm
and without torch, and so will a run that is going on: each call looks anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from hpcpod.config.decoder import is_mapping
from hpcpod.config.limits import hints
from hpcpod.config.manual import field_docs
from hpcpod.errors import UserError
from hpcpod.plugins import suggest
from hpcpod.records.records import Board, Checkpoint, Decision
from hpcpod.run.configuration_scores import ConfigurationScore, configuration_scores
from hpcpod.run.data_rows import (
    BirthRow,
    EpisodeRow,
    PodRow,
    TestRow,
    birth_rows,
    episode_rows,
    pod_rows,
    test_rows,
)
from hpcpod.run.history import Result, results
from hpcpod.run.leaderboard import Row, rows
from hpcpod.run.population_scores import PodScore, pod_scores
from hpcpod.run.snapshot_scores import SnapshotScore, snapshot_scores
from hpcpod.run.usage import SlotUse, Usage, slots, usage
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board

Columns = dict[str, list[Any]]
"""The values of a table by column, from the first row to the last."""


class Look:
    """A look at a run, for several tables at once: its files are read when they are needed."""

    def __init__(self, folder: RunFolder, board: Board | None = None) -> None:
        self.folder = folder
        self.board = read_board(folder) if board is None else board

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """Its reports, oldest first."""
        return results(self.folder, self.board)

    @cached_property
    def decisions(self) -> list[Decision]:
        """Its decisions, oldest first."""
        return [*{**self.folder.decisions.all(), **self.board.decisions}.values()]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a run."""

    text: str
    """A row of it, in a few words."""
    kind: Any
    """The dataclass of a row: a column for each field, of a mapping one for each key."""
    rows: Callable[[Look], Iterable[Any]]
    """Gives the rows, which are of ``kind``."""
    without: tuple[str, ...] = ()
    """Fields that are no columns: another table has them."""

    @property
    def columns(self) -> dict[str, str]:
        """Its columns with their meanings; ``metrics.*`` stands for one for each metric."""
        return columns_of_kind(self.kind, self.without)


def columns_of_kind(kind: Any, without: Iterable[str] = ()) -> dict[str, str]:
    """The columns of rows of a dataclass with their meanings: its fields and their docstrings."""
    kinds = hints(kind)
    return {
        f"{name}.*" if is_mapping(kinds[name]) else name: text.replace("``", "")
        for name, text in field_docs(kind).items()
        if name not in {*without}
    }


TABLES: Mapping[str, Table] = {
    "pods": Table("a pod, alive or dead", PodRow, lambda run: pod_rows(run.board, run.results)),
    "births": Table(
        "a pod's birth: when, from whom, why", BirthRow,
        lambda run: birth_rows(run.board, run.decisions),
    ),
    "rounds": Table(
        "a report: of a round, or of a score on fresh seeds", Result, lambda run: run.results,
        without=("returns",),
    ),
    "episodes": Table(
        "an episode of a report that counted", EpisodeRow, lambda run: episode_rows(run.results)
    ),
    "leaderboard": Table("a row of the leaderboard, best first", Row, lambda run: rows(run.board)),
    "scores": Table(
        "a living pod's last panel, and what it shows", PodScore,
        lambda run: pod_scores(run.board),
    ),
    "configurations": Table(
        "hyperparameters over the seeds that trained them, with `allocator: replicates`",
        ConfigurationScore,
        lambda run: configuration_scores(run.board, run.folder.resolved.config),
    ),
    "decisions": Table(
        "a decision of the updater, generator or allocator", Decision, lambda run: run.decisions,
        without=("tests",),
    ),
    "tests": Table(
        "a test of one pod against another", TestRow, lambda run: test_rows(run.decisions)
    ),
    "usage": Table(
        "the slots' time that went to one purpose", Usage,
        lambda run: usage(run.folder, run.board, run.results),
    ),
    "slots": Table(
        "a slot, and its time by purpose", SlotUse,
        lambda run: slots(run.folder, run.board, run.results),
    ),
    "snapshots": Table(
        "the leader's policy at one of equal wall times", SnapshotScore,
        lambda run: snapshot_scores(run.folder, run.board), without=("returns",),
    ),
}  # fmt: skip
"""Every table of a run, by name."""


def table_of(name: str) -> Table:
    """The table of this name.

    Raises:
        UserError: there is none.
    """
    if name not in TABLES:
        raise UserError(
            f"a run has no table '{name}'{suggest(name, [*TABLES])} (it has: {', '.join(TABLES)})"
        )
    return TABLES[name]


def plain_rows(kind: Any, found: Iterable[Any], without: Iterable[str] = ()) -> Columns:
    """Rows of a dataclass as columns of plain values, all of one length.

    A mapping becomes a column for each of its keys, ``name.key``, with None where a row lacks it. A
    tuple becomes a text, with commas.
    """
    fields = [field.name for field in dataclasses.fields(kind) if field.name not in {*without}]
    mappings, listed = {name for name in fields if is_mapping(hints(kind)[name])}, list(found)
    columns: Columns = {}
    for name in fields:
        values = [getattr(row, name) for row in listed]
        if name not in mappings:
            columns[name] = [_cell(value) for value in values]
            continue
        keys = sorted({key for value in values for key in value})
        columns |= {f"{name}.{key}": [value.get(key) for value in values] for key in keys}
    return columns


_EMPTY: Mapping[Any, type] = {int: int, bool: bool}
"""Types of a column without rows that are no objects."""


def as_dicts(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """A table as a mapping for each row."""
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def as_frame(kind: Any, columns: Columns) -> Any:
    """A table as a pandas DataFrame; where pandas is missing, as a list of mappings."""
    try:
        import pandas
    except ImportError:
        return as_dicts(columns)
    frame = pandas.DataFrame(columns)
    for name, hint in hints(kind).items():
        number = hint is float or set(get_args(hint)) == {float, type(None)}
        # Else a column would have another type wherever it has no value.
        if name in frame and (number or frame.empty):
            frame[name] = frame[name].astype(float if number else _EMPTY.get(hint, object))
    return frame


def columns_of(look: Look, name: str) -> Columns:
    """A table of a run, by column."""
    table = table_of(name)
    return plain_rows(table.kind, table.rows(look), table.without)


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Checkpoint):
        return value.core
    return str(value) if isinstance(value, Path) else value
