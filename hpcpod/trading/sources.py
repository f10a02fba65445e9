"""Sources of panels, by name: the synthetic market, files, and panels that pip brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from hpcpod.errors import UserError
from hpcpod.plugins import suggest
from hpcpod.trading.panel import MarketPanel
from hpcpod.trading.synthetic import SyntheticMarket


def markets(given: Mapping[str, Any]) -> list[MarketPanel]:
    """The panels of a task: one, or of the synthetic source ``markets`` with successive seeds.

    Args:
        given: ``source`` (default: ``synthetic``), and the arguments of that source.

    Raises:
        UserError: there is no such source, or an argument does not fit.
    """
    arguments = dict(given)
    source = arguments.pop("source", "synthetic")
    if source not in SOURCES:
        raise UserError(f"there is no market {source!r}{suggest(str(source), list(SOURCES))}")
    return SOURCES[source](arguments)


def _synthetic(arguments: dict[str, Any]) -> list[MarketPanel]:
    count = arguments.pop("markets", 1)
    known = [each.name for each in fields(SyntheticMarket)]
    for name in arguments:
        if name not in known:
            raise UserError(f"a synthetic market has no '{name}'{suggest(name, known)}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UserError(f"trading: markets is a whole number from 1, got {count!r}")
    seed = arguments.pop("seed", 0)
    return [SyntheticMarket(seed=seed + i, **arguments).panel() for i in range(count)]


SOURCES: Mapping[str, Callable[[dict[str, Any]], list[MarketPanel]]] = {"synthetic": _synthetic}
