"""A line that shows how far a training is, for whoever waits in a terminal or a notebook."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from hpcpod.pod.round import Progress

PLAIN_SECONDS = 10.0
"""Between two lines where there is no terminal."""


@contextmanager
def progress_line(
    wanted: bool | None, also: Callable[[Progress], None] | None = None
) -> Iterator[Callable[[Progress], None]]:
    """What is to be told of each update, and shows it on standard error.

    Args:
        wanted: None: in a terminal or a notebook. True: elsewhere, too, as a line now and then.
        also: is told the same.
    """
    from rich.console import Console

    console = Console(stderr=True)
    drawn = console.is_interactive or console.is_jupyter
    with ExitStack() as stack:
        shows: list[Callable[[Progress], None]] = [] if also is None else [also]
        if drawn and wanted is not False:
            shows.append(stack.enter_context(_drawn(console)))
        elif wanted:
            shows.append(_Plain().tell)

        def tell(progress: Progress) -> None:
            for show in shows:
                show(progress)

        yield tell


@contextmanager
def _drawn(console: Console) -> Iterator[Callable[[Progress], None]]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    bar = Bar(*columns, console=console, transient=True)
    task = bar.add_task("training begins", total=None)

    def tell(progress: Progress) -> None:
        bar.start()  # not before: what is said until then is not drawn over
        done, total = progress.env_steps, progress.target_steps
        bar.update(task, completed=done, total=total, description=_said(progress))

    try:
        yield tell
    finally:
        bar.stop()


class _Plain:
    """A line now and then."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def tell(self, progress: Progress) -> None:
        if time.monotonic() - self._told > PLAIN_SECONDS:
            self._told = time.monotonic()
            sys.stderr.write(_said(progress) + "\n")


def _said(progress: Progress) -> str:
    mean = progress.mean_return
    told = "" if math.isnan(mean) else f", training return {mean:.4g}"
    return (
        f"{progress.env_steps:,} of {progress.target_steps:,} env steps,"
        f" {progress.steps_per_second:,.0f} steps/s{told}"
    )
