"""The folder of a sweep: its plan, which never changes, and the runs of its cells.

::

    runs/<name>/
      sweep.json            the plan: factors, cells, what an element asks for; immutable
      cells/<cell>/         an ordinary run each
      claims/<cell>         the lease of the process that runs it, with a heartbeat
      results/<cell>.json   its outcome, once it has ended
      control/stop          asked to stop
      control/leaving       ids of the arrays that were cancelled last
      logs/  scripts/       of the elements of the array
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.decoder import encode
from hpcpod.config.loader import from_mapping, from_plain, to_mapping
from hpcpod.config.resolved import Resolved, versions
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Value
from hpcpod.config.sweep import SweepConfig
from hpcpod.errors import Corrupt, HpcpodError, RunExists, RunNotFound, UserError
from hpcpod.records.records import decode
from hpcpod.run.launch import create_at, source_state
from hpcpod.run.run import Run, open_run, runs_home
from hpcpod.run.sweeps.design import Cell, Factor
from hpcpod.run.sweeps.outcome import Outcome, outcome_of, tidy
from hpcpod.storage.checksummed import pack, unpack
from hpcpod.storage.disk import Disk, explain, explained
from hpcpod.storage.layout import plain
from hpcpod.storage.locks import LEASE_SECONDS, Lease
from hpcpod.storage.os_errors import may_exist
from hpcpod.storage.ownership import Ownership, read_config

if TYPE_CHECKING:
    from hpcpod.run.data import Columns
    from hpcpod.run.sweeps.cells import Plan
    from hpcpod.run.sweeps.effects import Analysis

PLAN = "sweep.json"
FORMAT = 1
"""The layout of a sweep's folder; one of another layout is refused."""
_CLOSED = ("cells", "results", "claims", "control", "logs", "scripts")


class Sweep:
    """A sweep, by its folder. Every call looks anew."""

    def __init__(self, path: Path, document: dict[str, Any], owner: Ownership) -> None:
        self.path = path
        self.owner = owner
        self.disk = Disk(document["publish"])
        self.disk.root = path
        self._document = document
        plan = document["plan"]
        self.name: str = plan["name"]
        self.design: SweepConfig = from_plain(SweepConfig, plan["sweep"], PLAN)
        self.factors = tuple(_factor(each) for each in plan["factors"])
        self.cells: tuple[Cell, ...] = tuple(decode(Cell, each) for each in plan["cells"])
        self._leases: dict[str, Lease] = {}

    @cached_property
    def element(self) -> RunConfig:
        """The configuration of an element of its array: what it asks a cluster for."""
        if self.owner.trusted:
            plugins.look_in(self._document["modules"])
        return from_mapping(self._document["element"])

    def folder(self, cell: Cell) -> Path:
        """The run folder of a cell."""
        return self.path / "cells" / plain(cell.name)

    def run(self, cell: Cell) -> Run:
        """The run of a cell."""
        return open_run(self.folder(cell))

    def outcome(self, cell: Cell) -> Outcome:
        """The outcome of a cell so far; of one that has ended as it was kept."""
        kept = self._result(cell)
        if kept is not None:
            return kept
        try:
            return outcome_of(self.run(cell))
        except HpcpodError as error:
            return Outcome("lost", str(error))

    def rows(self) -> list[tuple[Cell, Outcome]]:
        """Every cell with its outcome so far."""
        return [(cell, self.outcome(cell)) for cell in self.cells]

    def table(self) -> Columns:
        """A row for each run: its cell, its levels, its seed's number, its outcome so far;
        ``pandas.DataFrame`` takes it."""
        heads, rows = tidy(self.factors, self.rows())
        return {head: [row[place] for row in rows] for place, head in enumerate(heads)}

    def analyses(self) -> list[Analysis]:
        """The effects on the score, with their intervals; of several environments one each."""
        from hpcpod.run.sweeps.effects import analyse

        return list(analyse(self.factors, self.rows()))

    def keep(self, cell: Cell, outcome: Outcome) -> None:
        """Keep the outcome of a cell that has ended: the first one stands."""
        self.disk.publish(self._kept_at(cell), pack(asdict(outcome)))

    def kept(self) -> set[str]:
        """Names of the cells that have ended.

        Raises:
            StorageError: the filesystem refuses.
        """
        with explained("list", self.path / "results"):  # glob() of Python 3.13 hides an EIO
            paths = list((self.path / "results").iterdir())
        return {path.stem for path in paths if path.suffix == ".json" and path.name[0] != "."}

    def _kept_at(self, cell: Cell) -> Path:
        return self.path / "results" / f"{cell.name}.json"

    def _result(self, cell: Cell) -> Outcome | None:
        data = self.disk.read(self._kept_at(cell))
        if data is None:
            return None
        try:
            return decode(Outcome, unpack(data, str(self._kept_at(cell))))
        except (Corrupt, TypeError, KeyError, ValueError):  # its run has the truth
            return None

    @contextlib.contextmanager
    def claimed(self, cell: Cell) -> Iterator[bool]:
        """Try to be the process that runs a cell, without waiting. A claim ends with its process;
        one of another machine is free after a minute and a half without a sign of life."""
        path = self.path / "claims" / cell.name
        lease = self._leases.setdefault(cell.name, Lease(path, LEASE_SECONDS))
        with lease.taken() as mine:
            yield mine

    @property
    def stopping(self) -> bool:
        """True once it was asked to stop."""
        return self.disk.exists(self.path / "control" / "stop")

    @property
    def leaving(self) -> set[str]:
        """Ids of the arrays that were cancelled: what is left of them checkpoints and ends."""
        found = self.disk.read(self.path / "control" / "leaving") or b""
        return set(found.decode(errors="replace").split())

    def note_leaving(self, arrays: set[str]) -> None:
        """Keep the ids of the arrays that were cancelled, in place of those before."""
        self.disk.replace(self.path / "control" / "leaving", " ".join(sorted(arrays)).encode())

    def ask_stop(self) -> None:
        """Have every process of it checkpoint and leave, and begin no further cell.

        Raises:
            UserError: it is another user's.
        """
        self.owner.require_mine()
        self.disk.replace(self.path / "control" / "stop", str(time.time()).encode())

    def take_stop_back(self) -> None:
        """Let its cells go on, as far as processes run them.

        Raises:
            UserError: it is another user's.
        """
        self.owner.require_mine()
        self.disk.remove(self.path / "control" / "stop")


def _factor(data: dict[str, Any]) -> Factor:
    found = data.get("range")
    ranged = None if found is None else from_plain(Value, found, PLAN)
    return Factor(data["path"], tuple(data["levels"]), ranged)


def create(plan: Plan, element: RunConfig, resolved: dict[int, Resolved], runs: Path) -> Sweep:
    """Make a sweep's folder, with the run folder of each cell; ``sweep.json`` comes last.

    Args:
        plan: of the sweep.
        element: the configuration of an element of its array.
        resolved: the configuration of each combination, by its number.
        runs: the folder that holds runs.

    Raises:
        RunExists: something of this name is there.
        UserError: the folder can't be written.
    """
    path, disk = (runs / plan.name).absolute(), Disk()
    check_free(path)
    disk.make_folder(path.parent)
    try:
        path.mkdir()
        for name in _CLOSED:
            (path / name).mkdir()
            disk.close(path / name)
        disk.close(path)
    except OSError as error:
        raise UserError(f"can't create the sweep's folder {path}: {explain(error)}") from error
    more = {"source": source_state(), "versions": versions()}  # 5 ms for each of the cells
    for cell in plan.cells:
        found = resolved[cell.number]
        config = plan.config_of(cell)
        folder = create_at(path / "cells" / cell.name, Resolved(config, found.algorithms), more)
    document = {
        "format": FORMAT, "publish": folder.disk.scheme, "made": time.time(), "plan": _plain(plan),
        "element": to_mapping(element), "modules": plugins.module_folders(),
    }  # fmt: skip
    disk.root = path
    disk.replace(path / PLAN, pack(document, indent=1))
    return open_sweep(path)


def _plain(plan: Plan) -> dict[str, Any]:
    factors = [
        {"path": f.path, "levels": list(f.levels), "range": encode(f.range)} for f in plan.factors
    ]
    cells = [asdict(cell) for cell in plan.cells]
    return {"name": plan.name, "sweep": encode(plan.sweep), "factors": factors, "cells": cells}


def check_free(path: Path) -> None:
    """See whether a sweep could be made at a path.

    Raises:
        RunExists: something is there.
    """
    if not os.path.lexists(path):
        return
    said = f"there is something else at {path} already"
    if may_exist(path / PLAN):
        said = f"there is a sweep at {path} already: `hpcpod sweep resume {path}` goes on with it"
    elif (path / "cells").is_dir():
        said = f"at {path} is a sweep whose launch was cut off: remove it"
    raise RunExists(f"{said}; `--set name=...` gives this one another name")


def open_sweep(path: str | Path) -> Sweep:
    """A sweep, by the path of its folder or by its name under ``runs/``.

    Raises:
        RunNotFound: there is none.
        Corrupt: its plan is damaged, or of another version.
    """
    direct, named = Path(path), runs_home() / path
    for folder in (direct, named):
        if may_exist(folder / PLAN):
            data, owner = read_config(folder.absolute(), PLAN)
            document = unpack(data, str(folder / PLAN))
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise Corrupt(f"{folder / PLAN} was written by another version of hpcpod")
            try:
                return Sweep(folder.absolute(), document, owner)
            except (KeyError, TypeError, AttributeError, ValueError, UserError) as error:
                said = f"{folder / PLAN} was written by another version of hpcpod: {error}"
                raise Corrupt(said) from error
    for folder in (direct, named):
        if may_exist(folder / "config.json"):
            raise RunNotFound(f"{folder} is a run, no sweep: see `hpcpod status {path}`")
    raise RunNotFound(
        f"there is no sweep at {direct}, and none named so in {runs_home().absolute()}"
    )


def home_of(run: Path) -> Path:
    """The folder in which a run lies; of a sweep's cell, and of a run that continuous training has
    launched, that in which the sweep or the registry does."""
    from hpcpod.run.continuous.registry import DOCUMENT  # which imports numpy

    runs = run.absolute().parent
    inside = any((runs.parent / name).exists() for name in (PLAN, DOCUMENT))
    return runs.parent.parent if inside else runs


def sweeps_here() -> list[Path]:
    """The folders of all sweeps under ``runs_home()``, by name."""
    return sorted(path.parent for path in runs_home().glob(f"[!.]*/{PLAN}"))


def is_sweep(word: str) -> bool:
    """True if a word names a sweep, by its folder or by its name under ``runs/``."""
    return any((path / PLAN).exists() for path in (Path(word), runs_home() / word))
