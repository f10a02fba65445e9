"""A session: a program's process, and the folder by which hpcpod and it speak.

The folder may outlive the process: what pods have saved there is loaded by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcpod.config.program import ProgramConfig, variable
from hpcpod.config.space import Scalar
from hpcpod.program import files
from hpcpod.program.answers import MOST_STEPS as MOST
from hpcpod.program.guard import Guarded

FORMAT = 1

LAST_LINES = 3
"""Of what a program has printed, in the reason of its failure."""
_LINE = 160  # letters

MOST_KEPT, MOST_KEPT_BYTES = 8, 2**28
"""Of the folders that pods have saved here, to be loaded without the run's disk; one may be
larger. The node's own disk may be its memory."""

RANK_VARIABLES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK",
    "PMI_RANK", "PMIX_RANK",
)  # fmt: skip
"""Variables that number the slot's process among others; what the program starts numbers anew."""

_SAVED = re.compile(r"saved-(\d{1,18})\.json")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class Task:
    """The next piece of work of a program."""

    mode: str
    """``train`` or ``score``."""
    pod: str
    round: int
    attempt: int
    hyperparameters: Mapping[str, Scalar]
    seed: int
    panel_seeds: tuple[int, ...]
    steps: int | None = None
    """The round's budget."""
    steps_done: int = 0
    """Steps of it that the checkpoint holds."""
    seconds: float | None = None
    """Seconds of it that are left."""


def _state(folder: Path) -> tuple[int, int]:
    """Bytes of a folder's files, and the time of the latest change of one in nanoseconds."""
    files = (os.lstat(Path(above, name)) for above, _, names in os.walk(folder) for name in names)
    found = [(file.st_size, file.st_mtime_ns) for file in files]
    return sum(size for size, _ in found), max((time for _, time in found), default=0)


def _shown(line: bytes) -> str:
    """A line of a program's as a part of a sentence: its end, if it is long."""
    return _CONTROLS.sub(" ", line.decode(errors="replace")).strip()[-_LINE:]


class Session:
    """One process of a program after another, each from its start to its end."""

    def __init__(self, program: ProgramConfig, cpus: int, home: Path | None = None) -> None:
        """Make the folder; the first task starts the process.

        Args:
            program: of the run.
            cpus: cores of the pod, for ``OMP_NUM_THREADS`` if nobody has set it.
            home: folder to make it in, which is there on all of a pod's nodes; None: this node's
                own, by ``$TMPDIR``.
        """
        self._program, self._cpus = program, cpus
        self.folder = Path(tempfile.mkdtemp(prefix="hpcpod-session-", dir=home))  # mode 0700
        self.number = -1
        """Of the present process's task, from 0."""
        self.process: Guarded | None = None
        self._kept = dict[str, tuple[Path, tuple[int, int]]]()
        """The folder of each core that was saved here, as it was taken; the latest last."""
        self._saves = 0
        self._taken = 0, 0
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._line = b""
        self.heard = time.monotonic()
        """The last sign of life, by the monotonic clock."""

    @property
    def keeps(self) -> bool:
        """True if the process is to be kept for another task: it asks for it, and may."""
        if not self._program.keep:
            return False
        with contextlib.suppress(files.Unreadable):
            hello = files.read(self.folder / "hello.json")
            return hello is not None and hello.get("keep") is True
        return False

    @property
    def alive(self) -> bool:
        """True while the program's process goes on."""
        return self.process is not None and not self.process.look()

    @property
    def usable(self) -> bool:
        """True if the process can be given a task: it goes on, and has left its folder alone."""
        return self.alive and self.folder.is_dir()

    def path(self, kind: str) -> Path:
        """A place of the present task: ``load``, ``save`` or ``report.json``, by its number."""
        stem, dot, suffix = kind.partition(".")
        return self.folder / f"{stem}-{self.number}{dot}{suffix}"

    def next(self) -> None:
        """Count one task up: its places are free, and there is no stop from now on."""
        self.number += 1
        (self.folder / "stop").unlink(missing_ok=True)
        for mark, _ in self.saves():  # of the task before: it did not wait for them
            mark.unlink(missing_ok=True)

    def begin(self, task: Task) -> None:
        """Give the program its task, after ``next``; what it goes on from lies in ``load``."""
        trains, load = task.mode == "train", self.path("load")
        if trains:
            self.path("save").mkdir()
        document = {
            "format": FORMAT, "number": self.number, "mode": task.mode, "pod": task.pod,
            "round": task.round, "attempt": task.attempt,
            "hyperparameters": dict(task.hyperparameters), "seed": task.seed,
            "checkpoint": str(load) if load.exists() else None,
            "save_to": str(self.path("save")) if trains else None,
            "steps": task.steps, "steps_done": task.steps_done, "seconds": task.seconds,
            "panel_seeds": list(task.panel_seeds), "report_to": str(self.path("report.json")),
            "stop_file": str(self.folder / "stop"),
            "progress_to": str(self.path("progress.jsonl")),
        }  # fmt: skip
        files.write(self.folder / "task.json", document)
        self.last_lines.clear()
        self._line = b""
        self.heard = time.monotonic()
        if self.process is None:
            folder = Path(self._program.folder or ".")
            self.process = Guarded(
                self._program.command, self._variables(task, document), folder, self.folder
            )

    def _variables(self, task: Task, document: Mapping[str, Any]) -> dict[str, str]:
        found = {k: v for k, v in os.environ.items() if k not in RANK_VARIABLES}
        found = {k: v for k, v in found.items() if not k.startswith("HPCPOD_P_")}
        found.setdefault("OMP_NUM_THREADS", str(self._cpus))
        left = None if task.steps is None else max(0, task.steps - task.steps_done)
        given = {
            "SESSION": self.folder, "MODE": task.mode, "SEED": task.seed, "STEPS": left,
            "SECONDS": task.seconds, "CHECKPOINT": document["checkpoint"],
            "SAVE_TO": document["save_to"], "REPORT_TO": document["report_to"],
            "STOP_FILE": document["stop_file"], "PROGRESS_TO": document["progress_to"],
            "PANEL_SEEDS": " ".join(map(str, task.panel_seeds)),
            "HYPERPARAMETERS": json.dumps(dict(task.hyperparameters)),
        }  # fmt: skip
        for name, value in given.items():
            found.pop(f"HPCPOD_{name}", None)
            if value is not None:
                found[f"HPCPOD_{name}"] = str(value)
        for name, value in task.hyperparameters.items():
            found[variable(name)] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def report(self) -> dict[str, Any] | None:
        """The program's report on its task; None if there is none yet.

        Raises:
            Unreadable: it is no JSON mapping.
        """
        return files.read(self.path("report.json"))

    def saves(self) -> Iterator[tuple[Path, int]]:
        """The saves that the program has completed inside its round: their marks, and steps."""
        marks: list[Path] = []
        with contextlib.suppress(FileNotFoundError):  # the program may remove it at any moment
            marks = sorted(self.folder.iterdir())
        for mark in marks:
            if _SAVED.fullmatch(mark.name):
                with contextlib.suppress(files.Unreadable):
                    steps = (files.read(mark) or {}).get("steps")
                    yield mark, steps if isinstance(steps, int) and 0 <= steps < MOST else 0

    def stop(self) -> None:
        """Ask the program to save and to return. One that has removed the folder, or whose disk is
        full, can't be asked: it is ended when its time is over."""
        with contextlib.suppress(OSError):
            (self.folder / "stop").touch()

    def listen(self, seconds: float) -> None:
        """Wait for what the program prints, and pass it on to this process's log."""
        if self.process is None:
            return
        output = self.process.output
        if not select.select([output], [], [], seconds)[0]:
            return
        try:
            chunk = os.read(output, 1 << 16)
        except OSError:
            return
        if not chunk:  # it has closed its output, and goes on
            time.sleep(seconds)
            return
        self.heard = time.monotonic()
        sys.stderr.buffer.write(chunk)
        sys.stderr.flush()
        *lines, self._line = (self._line + chunk).split(b"\n")
        self._line = self._line[-4096:]
        self.last_lines.extend(filter(None, map(_shown, lines)))

    def words(self) -> str:
        """The last lines that the program has printed, for a sentence; empty if there is none."""
        for _ in range(64):
            self.listen(0.0)
        said = [*self.last_lines, *filter(None, [_shown(self._line)])]  # it may lack a newline
        return " | ".join(said[-LAST_LINES:])

    def wait(self, seconds: float) -> bool:
        """Wait until the process has ended; False if it has not."""
        end = time.monotonic() + seconds
        while self.alive and time.monotonic() < end:
            self.listen(0.005)
        return not self.alive

    def note_save(self) -> Path:
        """The folder of the present task's save, which is to be taken as it is now."""
        self._taken = _state(self.path("save"))
        return self.path("save")

    def clear(self, core: str | None = None) -> None:
        """Remove the places of the present task.

        Args:
            core: sha256 of the core that holds what was saved, see ``note_save``: that stays, to
                be loaded by a later task that goes on from there. The oldest gives way.
        """
        shutil.rmtree(self.path("load"), ignore_errors=True)
        if core is not None:
            self._forget(core)
            self._saves += 1
            kept = self.folder / f"kept-{self._saves}"
            with contextlib.suppress(OSError):  # the program has removed it, as it may
                self.path("save").rename(kept)
                self._kept[core] = kept, self._taken
            while len(self._kept) > 1 and (
                len(self._kept) > MOST_KEPT
                or sum(size for _, (size, _) in self._kept.values()) > MOST_KEPT_BYTES
            ):
                self._forget(next(iter(self._kept)))
        shutil.rmtree(self.path("save"), ignore_errors=True)

    def hand_on(self, core: str) -> bool:
        """Give the present task what an earlier one has saved, to load; False if that is not kept
        here."""
        if core not in self._kept:
            return False
        kept, taken = self._kept.pop(core)
        with contextlib.suppress(OSError):
            if _state(kept) == taken:  # else its process wrote on after its report
                kept.rename(self.path("load"))
                return True
        shutil.rmtree(kept, ignore_errors=True)
        return False

    def _forget(self, core: str) -> None:
        if core in self._kept:
            shutil.rmtree(self._kept.pop(core)[0], ignore_errors=True)

    def renew(self) -> None:
        """End the process and all that it has started: the next task is another one's first, and
        finds nothing in the folder but what was kept to be loaded."""
        self._end_process(kindly=False)
        kept = {folder for folder, _ in self._kept.values()}
        for path in [path for path in self.folder.iterdir() if path not in kept]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        self.number = -1

    def close(self, *, kindly: bool = False) -> None:
        """End the process and all that it has started, and remove the folder."""
        self._end_process(kindly=kindly)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_process(self, *, kindly: bool) -> None:
        if self.process is not None:
            self.process.close(kindly=kindly)
            os.close(self.process.output)
            self.process = None

    def dismiss(self) -> None:
        """Tell a process that waits for its next task that there is none."""
        with contextlib.suppress(OSError):  # a full disk: it is ended soon in any case
            files.write(self.folder / "task.json", {"format": FORMAT, "end": True})

    def end(self, seconds: float) -> None:
        """Have a kept process end by itself, and end it if it does not."""
        if self.alive:
            self.dismiss()
            self.stop()
            self.wait(seconds)
        self.close()
