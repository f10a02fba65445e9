"""Runs that are looked at in a terminal: their records without training, and the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from hpcpod.records.records import Board, Checkpoint
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import fold, orders
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.rules import Rules
from tests.support.small_runs import create
from tests.tournament.world import by_number, flat, report

PATIENCE = 60.0
"""Seconds that something may take on a busy machine."""

_ROW = re.compile(r"\x1b\[2J|\x1b\[(\d+);1H((?:[^\x1b]|\x1b\[[\d;]*m)*)")
_STYLE = re.compile(r"\x1b\[[\d;]*m")


def made(
    home: Path, pods: int = 4, rounds: int = 3, *, copies: bool = False, **sections: Any
) -> RunFolder:
    """A run in which pod k has scored k in each round; nobody works in it.

    Args:
        home: where runs are.
        pods: in training.
        rounds: of each.
        copies: whether pods give way to copies.
        sections: of the configuration.
    """
    population = {"pods": {"min": 1, "max": pods}, "warmup_rounds": 0 if copies else 50}
    folder = create(home, population=population, **{"stop": {"rounds": 50}, **sections})
    for _ in range(rounds):
        played(folder)
    return folder


def played(folder: RunFolder) -> Board:
    """One more round of every pod, on the board."""
    board, rules = read_board(folder), Rules.of_run(folder)
    done = [
        report(
            order, flat(by_number(order), 16), trained_steps=512, wall_seconds=60.0,
            checkpoint=Checkpoint(sha256(order.id.encode()).hexdigest(), 512 * order.round),
        )
        for order in orders(board)
    ]  # fmt: skip
    board = fold(board, done, rules, now=time.time())
    publish(folder, board)
    return board


def publish(folder: RunFolder, board: Board) -> None:
    """Make a board the latest one."""
    found = folder.board.read()
    assert found is not None
    assert folder.board.publish(*found, board.document(), "test")


class Screen:
    """A terminal with a process that draws rows in it."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self.rows: dict[int, str] = {}
        self.sent = ""
        """All that came, with what steers the terminal."""
        self.code: int | None = None
        """The exit code, once the process has ended."""
        self.terminal = terminal
        self._parsed = 0

    @property
    def text(self) -> str:
        """The rows that are shown."""
        return "\n".join(
            self.rows.get(row, "").rstrip() for row in range(1, max(self.rows, default=0) + 1)
        )

    def press(self, keys: str) -> None:
        """Send keys."""
        os.write(self.terminal, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Be of another size; the process is told."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)

    def wait_for(self, *words: str) -> str:
        """The screen, as soon as all these words are on it."""
        self.until(lambda: all(word in self.text for word in words), str(words))
        return self.text

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds of the screen."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"not {what} on\n{self.text}"
            assert self.more(), f"it ended with {self.code}: {self.sent[-2000:]}"

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code."""
        end = time.monotonic() + seconds
        while self.more():
            assert time.monotonic() < end, "it does not end"
        assert self.code is not None
        return self.code

    def more(self) -> bool:
        """Take what comes in a tenth of a second; False if the process has ended."""
        if self.code is not None:
            return False
        if select.select([self.terminal], [], [], 0.1)[0]:
            try:
                self.sent += os.read(self.terminal, 65536).decode()
            except OSError:  # EIO: nobody writes any more
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                return False
        self._parse()
        return True

    def _parse(self) -> None:
        # what comes last may be cut in the middle of a row: it is looked at again
        for found in _ROW.finditer(self.sent, self._parsed):
            if found.end() == len(self.sent):
                break
            self._parsed = found.end()
            if found[1] is None:
                self.rows.clear()
            else:
                self.rows[int(found[1])] = _STYLE.sub("", found[2])


@contextmanager
def watching(
    words: Sequence[str], size: tuple[int, int] = (80, 24), **variables: str
) -> Iterator[Screen]:
    """``hpcpod`` with these words in a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.environ.update({"TERM": "xterm-256color", "PYTHONUTF8": "1", **variables})
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            os.execv(sys.executable, [sys.executable, "-m", "hpcpod", *words])
        finally:
            os._exit(127)
    screen = Screen(pid, terminal)
    try:
        yield screen
    finally:
        if screen.code is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)
