"""Loggers of a user's, good and bad ones, and a library of Weights & Biases' shape."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from hpcpod.metrics.logger import Logged


class Lines:
    """Writes each row as a line of JSON, and a last one when it is closed."""

    def __init__(self, logged: Logged) -> None:
        logged.folder.mkdir(parents=True, exist_ok=True)
        self._file = (logged.folder / f"{logged.pod}.jsonl").open("a", encoding="utf-8")

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._file.write(json.dumps({"step": step, **row}) + "\n")

    def close(self) -> None:
        self._file.write('{"closed": true}\n')
        self._file.close()


class Raises(Lines):
    """Takes one row."""

    def log(self, row: Mapping[str, float], step: int) -> None:
        super().log(row, step)
        raise SystemExit("enough")


class Hangs(Lines):
    """Takes no row."""

    def log(self, row: Mapping[str, float], step: int) -> None:
        time.sleep(60)  # as long as no test waits


class Unmade:
    """Can't be made."""

    def __init__(self, logged: Logged) -> None:
        raise OSError("no such server")


RUNS: list[LibraryRun] = []
"""Runs that ``init`` has made."""


class LibraryRun:
    """A run of the library."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.rows: list[tuple[dict[str, float], int]] = []
        self.finished = False

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.rows.append((metrics, step))

    def finish(self) -> None:
        self.finished = True


def init(*, project: str, name: str, **more: Any) -> LibraryRun:
    """Begin a run."""
    RUNS.append(LibraryRun({"project": project, "name": name, **more}))
    return RUNS[-1]
