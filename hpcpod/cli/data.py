"""The verb ``data``: market data, made, fetched, checked."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from hpcpod.cli.output import say, say_json
from hpcpod.errors import UserError
from hpcpod.run.text import many

TASKS = ("synth", "fetch", "info", "check", "features")
ARGUMENTS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("task",), {"metavar": "TASK", "choices": TASKS,
                 "help": "synth, fetch, info, check or features"}),
    (("source",), {"metavar": "SOURCE", "help": "a file, or the name of a source; of check"
                   " a file; of synth and fetch, the file to write"}),
    (("features",), {"metavar": "FEATURE", "nargs": "*",
                     "help": "of features: these alone; names, or paths such as mine:ratio"}),
    (("--set",), {"action": "append", "default": [], "metavar": "NAME=VALUE", "dest": "overrides",
                  "help": "an argument of the source, such as seed=3; may be given again"}),
    (("--overwrite",), {"action": "store_true", "help": "write the file even if it is"
                        " there"}),
    (("--json",), {"action": "store_true", "help": "print JSON, for scripts"}),
)  # fmt: skip


def data(options: Namespace) -> int:
    """``hpcpod data``: make, describe or check bars."""
    given: dict[str, Any] = dict(_pair(each) for each in options.overrides)
    if options.features and options.task != "features":
        raise UserError(f"hpcpod data {options.task} takes no features")
    return {
        "synth": _synth, "fetch": _fetch, "info": _info, "check": _check, "features": _features
    }[options.task](options, given)  # fmt: skip


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"--set takes NAME=VALUE, got '{text}'")
    from hpcpod.config.scalars import Plain
    from hpcpod.config.yaml_file import NotYaml, parse

    try:
        found, problems = parse(value)
    except NotYaml as error:
        raise UserError(f"--set {text}: {error}") from error
    if problems:
        raise UserError(f"--set {text}: {problems[0]}")
    if name == "tickers" and found is not None:  # ON and NO are stocks
        names = found if isinstance(found, list) else [found]
        return name, [each.text if isinstance(each, Plain) else str(each) for each in names]
    return name, found.value if isinstance(found, Plain) else found


def _synth(options: Namespace, given: dict[str, Any]) -> int:
    from pathlib import Path

    from hpcpod.storage.disk import check_writable
    from hpcpod.trading.files import write_bars
    from hpcpod.trading.sources import markets

    if "markets" in given:
        raise UserError("a file holds one market: leave markets out, and take several seeds")
    check_writable(Path(options.source), overwrite=options.overwrite)
    [panel] = markets({**given, "source": "synthetic"})
    write_bars(panel, options.source)
    bars, stocks = panel.shape
    say(f"{options.source}: {many(stocks, 'stock')}, {many(bars, 'bar')} of {panel.card.source}")
    return 0


def _fetch(options: Namespace, given: dict[str, Any]) -> int:
    from pathlib import Path

    from hpcpod.storage.disk import check_writable
    from hpcpod.trading.files import write_table
    from hpcpod.trading.vendors import fetched, vendor_of

    for name in ("vendor", "tickers", "start", "end"):
        if name not in given:
            raise UserError(f"hpcpod data fetch takes --set {name}=...; see docs/trading.md")
    unknown = sorted(set(given) - {"vendor", "tickers", "start", "end", "every", "calendar"})
    if unknown:
        raise UserError(f"hpcpod data fetch has no '{unknown[0]}'")
    check_writable(Path(options.source), overwrite=options.overwrite)
    vendor, tickers = str(given.pop("vendor")), given.pop("tickers") or []
    words: Any = {key: value if value is None else str(value) for key, value in given.items()}
    table, outside = fetched(vendor_of(vendor), tickers, **words)
    write_table(table, options.source)
    told = f"{many(len(table), 'row')} of {many(len(tickers), 'stock')} from {vendor}"
    say(f"{options.source}: {told}; left out {many(outside, 'bar')} of outside exchange hours")
    return 0


def _info(options: Namespace, given: dict[str, Any]) -> int:
    from hpcpod.trading.sources import markets

    panel = markets({**given, "source": options.source})[0]
    bars, stocks = panel.shape
    told = {
        "source": panel.card.source, "stocks": stocks, "bars": bars, "sessions": len(panel.dates),
        "from": str(panel.dates[0]), "to": str(panel.dates[-1]),
        "tradable": float(panel.tradable.mean()), "extra": sorted(panel.extra),
        "currency": panel.card.currency, "licence": panel.card.licence,
        "survivorship": panel.card.survivorship, "sha256": panel.card.sha256 or panel.digest(),
    }  # fmt: skip
    if options.json:
        say_json(told)
    else:
        told["tradable"] = f"{panel.tradable.mean():.1%} of all bars"
        told["extra"] = ", ".join(sorted(panel.extra)) or "none"
        for name, value in told.items():
            say(f"{name:13} {value}")
    return 0


def _check(options: Namespace, given: dict[str, Any]) -> int:
    from dataclasses import asdict

    from hpcpod.trading.checks import findings
    from hpcpod.trading.files import frame_of

    calendar = given.pop("calendar", "XNYS")
    timezone = given.pop("timezone", None)
    if given:
        raise UserError(f"hpcpod data check has no '{min(given)}' (calendar and timezone)")
    found = list(findings(frame_of(options.source, timezone, calendar), calendar))
    if options.json:
        say_json([asdict(each) for each in found])
    else:
        for each in found:
            say(f"{each.kind}: {each}")
        say(f"{options.source}: {many(len(found), 'finding')}" if found else "nothing is odd")
    return 2 if any(each.kind == "error" for each in found) else 0


def _features(options: Namespace, given: dict[str, Any]) -> int:
    import numpy as np

    from hpcpod.trading.features import FEATURES, compute, truncated
    from hpcpod.trading.sources import markets

    panel = markets({**given, "source": options.source})[0]
    for name in options.features or [*FEATURES, *panel.extra]:
        # A column of a file is cut off with its rows: nothing can be said of it.
        told = "of the file's own, untested"
        if name not in panel.extra:
            told = f"no look-ahead found in {many(truncated(panel, name), 'cut')}"
        values = compute(panel, [name])[..., 0]
        traded = panel.tradable.any(0)
        known = np.isfinite(values[:, traded]).all(1) & traded.any()
        warm = f"known from bar {int(known.argmax())} on" if known.any() else "never known here"
        spread = f"{np.nanmean(values):.4g} ± {np.nanstd(values):.3g}" if known.any() else ""
        say(f"{name:14} {told}, {warm}   {spread}".rstrip())
    return 0
