"""A disk that is seen by several machines, each in its own way: see ``stale_view``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BIND = 'mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class Bad:
    """As ``stale_view.Settings``, which is read where FUSE is."""

    attributes: float = 3.0
    names: float = 30.0
    lost: float = 0.0
    skew: float = 0.0


@dataclass
class Views:
    """One folder, and what each of some machines sees in its place."""

    disk: Path
    """The folder; here it is what the server has."""
    home: Path
    """Outside of it: mounts, settings, logs."""
    machines: Sequence[str]
    bad: Bad = field(default_factory=Bad)
    hung: set[str] = field(default_factory=set)
    """Machines to which it does not answer."""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def mounted(
        cls, disk: Path, home: Path, machines: Sequence[str], bad: Bad | None = None
    ) -> Iterator[Views]:
        """They are there while the body runs."""
        views = cls(disk, home, machines)
        home.mkdir()
        views.set(bad or Bad())
        try:
            for machine in machines:
                views._mount(machine)
            yield views
        finally:
            for machine in views._processes:
                views._unmount(machine)

    def place(self, machine: str) -> Path:
        """Where a machine's view is mounted."""
        return self.home / machine

    def within(self, machine: str) -> tuple[str, ...]:
        """The words before a command that sees the folder as a machine does, under its own name,
        and begins there."""
        alone = ("unshare", "-m", "--propagation", "private")
        return (*alone, "sh", "-c", _BIND, str(self.place(machine)), str(self.disk))

    def set(self, bad: Bad) -> None:
        """From now on, or a moment later, all views are so."""
        self.bad = bad
        beside = self.home / ".settings"
        beside.write_text(json.dumps(asdict(bad)))
        beside.rename(self._settings)

    def lose(self, share: float) -> None:
        """Have so many replies lost."""
        self.set(replace(self.bad, lost=share))

    def hang(self, machine: str) -> None:
        """Have a machine's disk answer nobody."""
        self.hung.add(machine)
        self._processes[machine].send_signal(signal.SIGSTOP)

    def answer(self, machine: str) -> None:
        """Have it answer again."""
        self.hung.discard(machine)
        self._processes[machine].send_signal(signal.SIGCONT)

    @property
    def _settings(self) -> Path:
        return self.home / "settings.json"

    def _mount(self, machine: str) -> None:
        place = self.place(machine)
        place.mkdir()
        with (self.home / f"{machine}.log").open("ab") as log:
            words = [str(self.disk), str(place), str(self._settings)]
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.stale_view", *words], cwd=ROOT,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._processes[machine] = process
        end = time.monotonic() + 30
        while not place.is_mount():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.home / f"{machine}.log").read_text())
            time.sleep(0.02)

    def _unmount(self, machine: str) -> None:
        process = self._processes[machine]
        process.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "-l", str(self.place(machine))], check=False)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def lacking() -> str:
    """Why there can be no views here; empty if they can."""
    if os.geteuid() != 0:
        return "only root may mount"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"there is no FUSE here: {error}"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        return "mounting is not permitted here"
    return ""


def require_views() -> None:
    """Skip a test where FUSE can't be; fail where it only was not installed, and should be."""
    if why := lacking():
        pytest.skip(why)
    if shutil.which("fusermount3") is None or find_spec("mfusepy") is None:
        why = "FUSE is not installed here (Debian: apt-get install fuse3; pip: mfusepy)"
        (pytest.fail if os.environ.get("HPCPOD_REQUIRE_ALL") else pytest.skip)(why)
