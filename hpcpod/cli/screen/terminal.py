"""The terminal: its size, its keys, and lines of which only those that changed are written."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from hpcpod.run.score_curves import LEVELS

if TYPE_CHECKING:
    from rich.text import Text

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # another screen, no cursor, no wrapping, empty
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_KEYS = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[C": "right", "\x1bOC": "right", "\x1b[D": "left", "\x1bOD": "left",
    "\x1b[5~": "page up", "\x1b[6~": "page down", "\x1b[H": "home", "\x1b[F": "end",
    "\x1b[1~": "home", "\x1b[4~": "end", "\x1b[Z": "back tab", "\t": "tab",
    "\r": "enter", "\n": "enter", "\x1b": "escape", " ": "page down", "\x04": "q",
}  # fmt: skip
_TOKEN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)
_SPLIT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
"""The end of what was read, where a key may be cut in two."""
_REST_SECONDS = 0.05
"""Time in which the rest of a key comes, also over ssh: later an Escape is one."""
_PLAIN = str.maketrans(
    {**dict(zip(LEVELS, "__..--^^", strict=True)), "█": "#", "░": ".", "…": ".", "·": "|"}
)
"""Characters for a terminal that has no others."""


def usable() -> bool:
    """True if a person sits at a terminal that can show a screen."""
    there = sys.stdin.isatty() and sys.stdout.isatty()
    return there and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def keys(read: str) -> list[str]:
    """The names of keys in what a terminal has sent; of what is no key that is known, nothing."""
    found = [_KEYS.get(token, token) for token in _TOKEN.findall(read)]
    return [key for key in found if not key.startswith("\x1b")]


class Terminal:
    """A terminal in this process's hands, given back as it was: ``with Terminal() as terminal``."""

    def __init__(self) -> None:
        from rich.console import Console

        self._in, self._out = sys.stdin.fileno(), sys.stdout
        self._ascii = not (sys.stdout.encoding or "").lower().startswith("utf")
        self._console = Console(highlight=False, emoji=False)
        self._shown: list[tuple[object, ...]] = []
        self._wakes, self._waker = os.pipe()
        self._before: dict[int, Any] = {}
        self._wakeup = -1

    def __enter__(self) -> Terminal:
        self._mode = termios.tcgetattr(self._in)
        os.set_blocking(self._waker, False)
        self._wakeup = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number, handler in (
            (signal.SIGWINCH, lambda *_: None), (signal.SIGTERM, _end), (signal.SIGTSTP, self._rest)
        ):  # fmt: skip
            self._before[number] = signal.signal(number, handler)
        self._take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._wakes)
        os.close(self._waker)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows now; a terminal that says 0 is taken to have 80 and 24."""
        columns, rows = os.get_terminal_size(self._out.fileno())
        return columns or 80, rows or 24

    def wait(self, seconds: float) -> list[str]:
        """The keys that are pressed, as soon as there are any, or the size changes, or after so
        many seconds; ``q`` once nobody can press any more."""
        ready, _, _ = select.select([self._in, self._wakes], [], [], seconds)
        if self._wakes in ready:
            os.read(self._wakes, 4096)
        return self._read() if self._in in ready else []

    def _read(self) -> list[str]:
        read = ""
        while not read or _SPLIT.search(read):
            if read and not select.select([self._in], [], [], _REST_SECONDS)[0]:
                break
            try:
                data = os.read(self._in, 4096)
            except OSError:  # EIO: the terminal is gone
                data = b""
            if not data:
                return ["q"]
            read += data.decode(errors="ignore")
        return keys(read)

    def draw(self, lines: Sequence[Text]) -> None:
        """Show lines, from the top: what stands there already is not written again."""
        from rich.text import Text

        columns, rows = self.size
        size: tuple[object, ...] = (columns, rows)
        if not self._shown or self._shown[0] != size:
            self._shown = [size]
            self._console.size = (columns, rows)
            self._out.write("\x1b[2J")
        for row in range(1, rows + 1):
            line = lines[row - 1] if row <= len(lines) else Text()
            key = (line.plain, line.style, *line.spans)
            if row >= len(self._shown):
                self._shown.append(())
            if self._shown[row] != key:
                self._shown[row] = key
                self._out.write(f"\x1b[{row};1H{self._written(line, columns)}")
        self._out.flush()

    def _written(self, line: Text, columns: int) -> str:
        """A line of just so many columns: no end of a line has to be erased."""
        line = line.copy()
        if self._ascii:
            line.plain = line.plain.translate(_PLAIN).encode("ascii", "replace").decode()
        line.truncate(columns, overflow="crop" if self._ascii else "ellipsis", pad=True)
        with self._console.capture() as captured:
            self._console.print(line, end="", no_wrap=True, crop=False, soft_wrap=True)
        return captured.get()

    def _take(self) -> None:
        tty.setcbreak(self._in)
        self._shown = []
        self._out.write(_ENTER)
        self._out.flush()

    def _give(self) -> None:
        self._out.write(_LEAVE)
        self._out.flush()
        termios.tcsetattr(self._in, termios.TCSADRAIN, self._mode)

    def _rest(self, *_: object) -> None:
        """Ctrl-Z: give the terminal back, stop, and take it again when this goes on."""
        self._give()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        self._take()


def _end(number: int, frame: FrameType | None) -> None:
    """End as of a signal, after the terminal was given back."""
    raise SystemExit(128 + number)
