"""Slots as real processes, each with its real training process."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import psutil

from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus, read_status
from tests.support.small_runs import wait_for

ROOT = Path(__file__).parents[2]


def statuses(shown: Mapping[str, Any]) -> dict[str, SlotStatus]:
    """Statuses as they are read, from what slots write."""
    found = {slot: read_status(each) for slot, each in shown.items()}
    return {slot: each for slot, each in found.items() if each is not None}


class SlotProcess:
    """``python -m hpcpod.slot`` on a run; its output goes to a file beside the run."""

    started: ClassVar[list[SlotProcess]] = []
    """Those of the test that runs."""

    def __init__(
        self,
        folder: RunFolder,
        slot: str = "s",
        job: str = "j",
        token: str | None = None,
        logs: Path | None = None,
        seen: Path | None = None,
    ) -> None:
        """``seen``: where the slot sees the run folder, if elsewhere."""
        self.folder = folder
        self.slot = slot
        self._log = (logs or folder.path.parent) / f"{slot}-{job}.log"
        words = ["--slot", slot, "--job", job, *(["--token", token] if token else [])]
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hpcpod.slot", str(seen or folder.path), *words],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        SlotProcess.started.append(self)

    @classmethod
    def end_all(cls) -> None:
        """Kill those that a failed test has left, with all that they have started: they would
        hold the cores, and be in the way of tests that look for processes."""
        while cls.started:
            process = cls.started.pop().process
            if process.poll() is None:
                left = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                process.wait()
                for each in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()

    @property
    def log(self) -> str:
        """All that it and its training process have said."""
        return self._log.read_text()

    def status(self) -> dict[str, Any]:
        """What it shows of itself."""
        shown = self.folder.slots.all().get(self.slot)
        return {} if shown is None else shown.document()

    def child(self) -> psutil.Process:
        """Its training process, once there is one."""

        def children() -> list[psutil.Process]:
            assert self.process.poll() is None, self.log
            return psutil.Process(self.process.pid).children()

        wait_for("a training process", lambda: len(children()) > 0)
        return children()[0]

    def until(self, what: str, key: str) -> None:
        """Wait until its status has this key."""

        def there() -> bool:
            assert self.process.poll() is None, self.log
            return key in self.status()

        wait_for(what, there)

    def until_in_mid_round(self) -> None:
        """Wait until it has trained a little."""
        self.until("progress in a round", "env_steps")

    def until_checkpointed(self, pod: str = "p0001", number: int = 1) -> None:
        """Wait until it can resume its round."""

        def there() -> bool:
            assert self.process.poll() is None, self.log
            return self.folder.checkpoints.latest(pod, number) is not None

        wait_for("a checkpoint in the round", there)

    def end(self, seconds: float = 240.0) -> int:
        """Wait for its end; its exit code."""
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                print(self.log)
                self.process.kill()
                self.process.wait()


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
