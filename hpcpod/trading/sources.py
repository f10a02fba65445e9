"""Sources of panels, by name: the synthetic market, files, and panels that pip brings."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from hpcpod.errors import UserError, in_words
from hpcpod.plugins import suggest
from hpcpod.trading.exchanges import pandas
from hpcpod.trading.files import ENDINGS, has_volume, is_bars, read_bars, universe
from hpcpod.trading.panel import MarketPanel, SourceCard, is_whole
from hpcpod.trading.synthetic import SyntheticMarket, weekdays


def markets(given: Mapping[str, Any]) -> list[MarketPanel]:
    """The panels of a task: one, or of the synthetic source ``markets`` with successive seeds.

    Args:
        given: ``source`` (default: ``synthetic``), and the arguments of that source; of every
            source ``below``, a date ceiling, ``since``, the first date, ``tickers``, and ``index``,
            the ticker of one that is not traded: to hold it, without costs, is a baseline.

    Raises:
        UserError: there is no such source, or an argument does not fit.
    """
    arguments = dict(given)
    source = str(arguments.pop("source", "synthetic"))
    below, tickers = arguments.pop("below", None), arguments.pop("tickers", None)
    tickers = [tickers] if isinstance(tickers, str) else tickers
    index, since = arguments.pop("index", None), arguments.pop("since", None)
    if is_bars(source):
        found = _file(source, arguments)
    elif source in SOURCES:
        found = SOURCES[source](arguments)
    else:
        files = f"files whose names end in {', '.join(ENDINGS)}"
        known = suggest(source, list(SOURCES)) or f" (there are {', '.join(SOURCES)}, and {files})"
        raise UserError(f"there is no market {source!r}{known}")
    if index is not None:
        found = [_without(each, str(index)) for each in found]
    found = found if tickers is None else [each.of(tickers) for each in found]
    if since is not None:
        found = [each.between(since, each.dates[-1] + 1) for each in found]
    return found if below is None else [each.below(below) for each in found]


def stamp(given: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Marks of the files of a market, by which a rewritten one is told from what it was.

    Args:
        given: as of ``markets``. A file that is not there has no mark: reading it will tell.
    """
    marks, source = [], str(given.get("source", ""))
    for named in (source if is_bars(source) else None, given.get("universe")):
        if isinstance(named, (str, Path)):
            with contextlib.suppress(OSError):
                seen = Path(named).stat()
                marks.append((seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    return tuple(marks)


def without_volume(given: Mapping[str, Any]) -> bool:
    """True for a market whose bars have no volume, so that any order is filled. Of a file the names
    of its columns alone are read.

    Args:
        given: as of ``markets``.
    """
    source = str(given.get("source", "synthetic"))
    if is_bars(source):
        return not has_volume(source)
    return source in SOURCES and source != "synthetic"


def _without(panel: MarketPanel, index: str) -> MarketPanel:
    if index not in panel.tickers:
        raise UserError(f"{panel.card.source} has no {index}, which is named as its index")
    return panel.of([name for name in panel.tickers if name != index])


def _synthetic(arguments: dict[str, Any]) -> list[MarketPanel]:
    count, seed = arguments.pop("markets", 1), arguments.pop("seed", 0)
    _known("a synthetic market", arguments, [each.name for each in fields(SyntheticMarket)])
    for name, value, least in (("markets", count, 1), ("seed", seed, 0)):
        if not is_whole(value, least):
            raise UserError(f"trading: {name} is a whole number from {least}, got {value!r}")
    try:
        return [SyntheticMarket(seed=seed + i, **arguments).panel() for i in range(count)]
    except (TypeError, ValueError, MemoryError) as error:
        # a trial says by this word that more memory is needed
        why = in_words(error) if isinstance(error, MemoryError) else error
        raise UserError(f"a synthetic market of {arguments} can't be made: {why}") from error


def _file(path: str, arguments: dict[str, Any]) -> list[MarketPanel]:
    _known("a file", arguments, ["calendar", "timezone", "licence", "universe"])
    members = arguments.pop("universe", None)
    panel = read_bars(path, **arguments)
    return [panel if members is None else universe(panel, members)]


def _known(what: str, arguments: Mapping[str, Any], known: list[str]) -> None:
    for name in arguments:
        if name not in known:
            raise UserError(f"{what} has no '{name}'{suggest(name, known)}")


def _skfolio(arguments: dict[str, Any]) -> list[MarketPanel]:
    """20 stocks of the S&P 500, adjusted closes, 1990 to 2022."""
    _known("skfolio:sp500", arguments, [])
    path = _inside("skfolio", "skfolio/datasets/data/sp500_dataset.csv.gz")
    panel = read_bars(path, licence="BSD-3-Clause (the package's)")
    words = "20 names that were large at its end: those that failed are not in it"
    card = replace(
        panel.card, source=_versioned("skfolio", "sp500"), survivorship=words, adjusted="yes"
    )
    return [replace(panel, card=card)]


def _nyse_o(arguments: dict[str, Any]) -> list[MarketPanel]:
    """36 stocks of the NYSE, 5,651 days from 1962 to 1984, as the wealth of 1 that was put into
    each at the start, without dates."""
    _known("universal-portfolios:nyse_o", arguments, [])
    path = _inside("universal-portfolios", "universal/data/nyse_o.csv")
    table = pandas().read_csv(path)
    close = table.to_numpy(np.float64)
    days = weekdays(np.datetime64("1962-07-03"), len(close))
    card = SourceCard(
        _versioned("universal-portfolios", "nyse_o"), "MIT (the package's)",
        "36 names that were there for 22 years; dates are made up, the data has none",
        hashlib.sha256(path.read_bytes()).hexdigest(), adjusted="yes",
    )  # fmt: skip
    return [
        MarketPanel(
            tuple(map(str, table.columns)), days.astype("datetime64[s]"), np.arange(len(close)),
            days, close, close, close, close, np.full_like(close, np.inf),
            np.ones(close.shape, bool), card,
        )
    ]  # fmt: skip


def _inside(package: str, name: str) -> Path:
    """A file inside an installed package, which is not imported: it may need much more.

    Raises:
        UserError: the package, or the file in it, is not there.
    """
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError as error:
        raise UserError(
            f"{package} is not installed here: pip install --no-deps {package}"
        ) from error
    found = next((each for each in files if str(each) == name), None)
    if found is None or not Path(str(found.locate())).is_file():
        raise UserError(f"{package} {metadata.version(package)} has no {name}")
    return Path(str(found.locate()))


def _versioned(package: str, part: str) -> str:
    return f"{package} {metadata.version(package)}, {part}"


SOURCES: Mapping[str, Callable[[dict[str, Any]], list[MarketPanel]]] = {
    "synthetic": _synthetic,
    "skfolio:sp500": _skfolio,
    "universal-portfolios:nyse_o": _nyse_o,
}
"""Sources by name; whatever ends in ``.parquet`` or ``.csv`` is a file."""
