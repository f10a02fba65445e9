"""Arguments of verbs, as ``add_argument`` takes them."""

from __future__ import annotations

import argparse
from typing import Any

Argument = tuple[tuple[str, ...], dict[str, Any]]
"""Names and options of ``add_argument``."""


def arg(*names: str, **options: Any) -> Argument:
    """An argument, by the options of ``add_argument``."""
    return names, options


def flag(name: str, text: str) -> Argument:
    """An option without a value."""
    return arg(name, action="store_true", help=text)


def count(text: str) -> int:
    """A whole number, at least 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, got '{text}'")
    return int(text)


def seed(text: str) -> int:
    """A seed: a whole number from 0, below 2 ** 31.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) >= 2**31:
        said = f"expected a seed, a whole number from 0 and below 2147483648, got '{text}'"
        raise argparse.ArgumentTypeError(said)
    return int(text)
