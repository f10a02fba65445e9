"""The argument ``RUN``: a run by its name or path; ``RUN POD``, or ``POD`` where one run is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hpcpod.errors import RunNotFound
from hpcpod.run.run import Run, only_run, open_run


def run_and(words: Sequence[str], means: Callable[[str], bool]) -> tuple[Run, str | None]:
    """A run and what is said beside it, if anything is.

    Args:
        words: one or two. A single one that names no run is about the only one there is.
        means: whether a word looks like what may stand beside a run's name.

    Raises:
        RunNotFound: no run is meant.
    """
    if len(words) == 2:
        return open_run(words[0]), words[1]
    try:
        return open_run(words[0]), None
    except RunNotFound:
        run = only_run() if means(words[0]) else None
        if run is None:
            raise
        return run, words[0]


def is_pod(word: str) -> bool:
    """True if a word looks like a pod's name."""
    return re.fullmatch(r"p\d{4,}", word) is not None
