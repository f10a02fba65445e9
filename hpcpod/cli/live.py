"""A live view of a run: a table in a terminal, plain lines without one."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hpcpod.records.records import Board
from hpcpod.run.events import events
from hpcpod.run.progress_line import PLAIN_SECONDS
from hpcpod.run.run import Run
from hpcpod.run.tables import screen, summary, visible

if TYPE_CHECKING:
    from rich.live import Live as RichLive


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Go on when standard output can't be written any more, as after ``| head``: it is dropped."""
    try:
        raw = _Lasting(sys.stdout.fileno(), "w", closefd=False)
    except io.UnsupportedOperation:  # a notebook's or a test's stream: it has no descriptor
        yield
        return
    sys.stdout.flush()
    text = io.TextIOWrapper(io.BufferedWriter(raw), sys.stdout.encoding, sys.stdout.errors)
    with text, contextlib.redirect_stdout(text):
        yield


class _Lasting(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


class Live:
    """Shows a run: call ``update`` as often as there is something to see."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen: Board | None = None
        self._headline_at = 0.0
        self._rich: RichLive | None = None

    def __enter__(self) -> Live:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live as RichLive

            self._rich = RichLive(
                console=Console(highlight=False), refresh_per_second=4, transient=True
            )
            self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rich is not None:
            self._rich.stop()

    def say(self, text: str) -> None:
        """A line above the tables."""
        text = visible(text)
        if self._rich is not None:
            self._rich.console.print(text, markup=False)  # others' text in [brackets] is no markup
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def update(self, board: Board) -> None:
        """Show what is new on the board."""
        for line in events(self._seen, board, self._run.word):
            self.say(line)
        self._seen = board
        if self._rich is not None:
            self._rich.update(screen(self._run.status(board), board))
        elif time.monotonic() - self._headline_at > PLAIN_SECONDS:
            self._headline_at = time.monotonic()
            self.say(summary(self._run.status(board)))
