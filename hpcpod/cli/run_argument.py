"""The argument ``RUN``: a run by its name or path; ``RUN POD``, or ``POD`` where one run is."""

from __future__ import annotations

import re
from collections.abc import Callable

from hpcpod.errors import RunNotFound
from hpcpod.run.run import Run, only_run, open_run


def run_and(words: tuple[str, str | None], means: Callable[[str], bool]) -> tuple[Run, str | None]:
    """A run and the word beside it, if there is one.

    Args:
        words: a single one that names no run is about the only one there is.
        means: says of a word if it looks like what may stand beside a run's name.

    Raises:
        RunNotFound: no run is meant.
    """
    first, second = words
    try:
        return open_run(first), second
    except RunNotFound:  # argparse gives a lone POD to RUN
        run = only_run() if second is None and means(first) else None
        if run is None:
            raise
        return run, first


def is_pod(word: str) -> bool:
    """True if a word looks like a pod's name."""
    return re.fullmatch(r"p\d{4,}", word) is not None
