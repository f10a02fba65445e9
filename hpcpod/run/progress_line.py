"""The progress of a training or a run in one line, for a terminal or a notebook."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from hpcpod.pod.ipc.messages import Progress

PLAIN_SECONDS = 10.0
"""Pause between two texts where there is no terminal."""

CELL_SECONDS = 0.25
"""Pause between two texts in a notebook."""

Show = Callable[[str], None]


@contextmanager
def progress_line(
    wanted: bool | None, also: Callable[[Progress], None] | None = None
) -> Iterator[Callable[[Progress], None]]:
    """A function to call with each update, which shows it on standard error.

    Args:
        wanted: as for ``progress_text``.
        also: called with the same.
    """
    console = _console()
    with ExitStack() as stack:
        shows: list[Callable[[Progress], None]] = [] if also is None else [also]
        if console.is_interactive and not console.is_jupyter and wanted is not False:
            shows.append(stack.enter_context(_bar(console)))
        else:
            show = stack.enter_context(progress_text(wanted))
            shows.append(lambda progress: show(_said(progress)))

        def tell(progress: Progress) -> None:
            for each in shows:
                each(progress)

        yield tell


@contextmanager
def progress_text(wanted: bool | None) -> Iterator[Show]:
    """A function that shows a text in place of the one before, on standard error or in a cell.

    Args:
        wanted: None: in a terminal or a notebook. True: elsewhere, too, as lines now and then.
    """
    console = _console()
    if wanted is False or not (wanted or console.is_interactive or console.is_jupyter):
        yield lambda text: None
    elif console.is_jupyter:
        cell = _Cell()
        yield cell.show
        cell.end()
    elif console.is_interactive:
        with _drawn(console) as show:
            yield show
    else:
        yield _Plain().show


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[Progress], None]]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    bar = Bar(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())
    task = bar.add_task("training begins", total=None)

    def tell(progress: Progress) -> None:
        bar.start()  # not before: what is said until then is not drawn over
        done, total = progress.env_steps, progress.target_steps
        bar.update(task, completed=done, total=total, description=_said(progress))

    try:
        yield tell
    finally:
        bar.stop()


@contextmanager
def _drawn(console: Console) -> Iterator[Show]:
    from rich.live import Live
    from rich.text import Text

    # What is printed comes above the line; rich would print it there, too, if it went to a file.
    live = Live(
        console=console, transient=True, refresh_per_second=4, redirect_stdout=sys.stdout.isatty()
    )

    def show(text: str) -> None:
        live.start()
        live.update(Text(text))

    try:
        yield show
    finally:
        live.stop()


class _Cell:
    """A text of a notebook's cell."""

    # Not by rich: without ipywidgets its live display shows a warning there, and no text.

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = -math.inf
        self._waiting = ""

    def show(self, text: str) -> None:
        self._waiting = text
        if time.monotonic() - self._shown > CELL_SECONDS:
            self.end()

    def end(self) -> None:
        """Show the last text."""
        data, self._shown = {"text/plain": self._waiting}, time.monotonic()
        if self._handle is not None:
            self._handle.update(data, raw=True)
        elif self._waiting:
            from IPython.display import display

            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]


class _Plain:
    """A text now and then."""

    def __init__(self) -> None:
        self._written = time.monotonic()

    def show(self, text: str) -> None:
        if time.monotonic() - self._written > PLAIN_SECONDS:
            self._written = time.monotonic()
            sys.stderr.write(text + "\n")


def _said(progress: Progress) -> str:
    mean = progress.mean_return  # NaN until an episode has ended
    score = "" if math.isnan(mean) else f", training return {mean:.4g}"
    return (
        f"{progress.env_steps:,} of {progress.target_steps:,} env steps,"
        f" {progress.steps_per_second:,.0f} steps/s{score}"
    )
