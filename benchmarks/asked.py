"""Arguments of benchmarks: a mistake in them is one sentence, and exit code 2.

Types for ``argparse``, readers of kept rows, and the end of a ``main``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from hpcpod.errors import HpcpodError, UserError, exit_code, in_words
from hpcpod.plugins import find

Number = TypeVar("Number", int, float)
Kept = TypeVar("Kept")


def number(
    kind: Callable[[str], Number], least: float, most: float = sys.float_info.max
) -> Callable[[str], Number]:
    """A number from ``least`` to ``most``, both included."""

    def number(text: str) -> Number:
        value = kind(text)
        if not least <= value <= most:
            words = f" and at most {most:g}" if most < sys.float_info.max else ""
            raise argparse.ArgumentTypeError(f"at least {least:g}{words}, got {text}")
        return value

    return number


def plugin(group: str) -> Callable[[str], str]:
    """The name of a part of hpcpod, or a path to one, such as of the group ``"allocators"``."""

    def known(name: str) -> str:
        try:
            find(group, name)
        except HpcpodError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return name

    return known


def rows(kind: Callable[..., Kept], files: Iterable[Path]) -> list[Kept]:
    """The rows that are kept in files, a line of JSON each.

    Raises:
        UserError: a file holds something else.
    """
    found = []
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
            found += [kind(**json.loads(line)) for line in lines]
        except (ValueError, TypeError, OSError) as error:
            words = f"{file} does not hold lines of JSON that this benchmark has kept"
            raise UserError(f"{words}: {in_words(error)}") from error
    return found


def ended(main: Callable[[], int | None]) -> int:
    """The exit code of a benchmark; an error that hpcpod raises on purpose is told in words."""
    return exit_code(lambda: main() or 0, lambda text: print(text, file=sys.stderr))
