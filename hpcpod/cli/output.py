"""Output of all verbs: lines, remarks, strict JSON."""

from __future__ import annotations

import json
import logging
import math
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from hpcpod.run.tables import visible


def say(text: str = "") -> None:
    """Print a line at once, whatever standard output is."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()  # a pipe is buffered by the block: a follower would see nothing for long


def say_error(message: str) -> None:
    """Print why a verb has failed on standard error: it may name what others have written."""
    sys.stderr.write(visible(f"hpcpod: {message}") + "\n")
    sys.stderr.flush()


def log_to_terminal() -> None:
    """Have warnings that are logged come as messages of a verb, on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("hpcpod: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class _Visible(logging.Formatter):
    """A form of log lines without what steers a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def say_remarks(remarks: Iterable[str]) -> None:
    """Print remarks on a configuration on standard error, a line each."""
    for remark in remarks:
        sys.stderr.write(visible(f"remark: {remark}") + "\n")
    sys.stderr.flush()


def say_json(data: Any) -> None:
    """Print strict JSON: what is not a number is null."""
    say(json.dumps(_finite(data), indent=2, default=str))


def wrapped(text: str, title: str, indent: int) -> list[str]:
    """A text in lines of 100 columns, behind its title; paths and options stay whole."""
    return textwrap.wrap(
        text, 100, initial_indent=title, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None  # Python would write NaN, which is no JSON
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
