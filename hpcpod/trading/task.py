"""``Task``: a market, its split, its features and rules, as ``env.kwargs`` name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from hpcpod.errors import UserError
from hpcpod.plugins import suggest
from hpcpod.trading.features import truncated
from hpcpod.trading.panel import MarketPanel, day_of, is_whole
from hpcpod.trading.rules import Rules, rules_of
from hpcpod.trading.shuffle import shuffled
from hpcpod.trading.sources import markets, stamp
from hpcpod.trading.splits import split
from hpcpod.trading.tables import Bars, Tables, bars_of, joined, tables

Part = Literal["fit", "selection", "holdout"]
PARTS: tuple[Part, ...] = get_args(Part)
RETURNS = 2
"""Daily returns of a part, which a Sharpe ratio takes."""
FEATURES = ("return_1", "return_5", "return_30", "sma_30", "percent_b", "rsi_30", "volume_z")


class Market(NamedTuple):
    """Decisions of one market."""

    first: int
    """The first that there is: what lies before is another market's."""
    begins: int
    """The first of the part."""
    past: int
    """The last of the part, after which the account is marked."""
    source: str
    """Of its bars."""
    tickers: tuple[str, ...]
    date: str
    """The first session of the part."""
    end: str
    """The last one."""
    bars: Bars | None = None
    """Of the part; None: not asked for."""


class Windows(NamedTuple):
    """The episodes of a task."""

    tables: Tables
    starts: Tensor
    """int64: decisions at which an episode may begin."""
    steps: int
    """Decisions of an episode."""
    markets: tuple[Market, ...]
    digest: str
    """Of a file's bars below the end of the part, eight hexadecimal digits; of other sources "",
    whose seeded prices another processor may compute with another last bit."""


@dataclass(frozen=True)
class Task:
    """The trading task."""

    market: Mapping[str, Any] = field(default_factory=dict)
    """The bars; see ``sources.markets``: ``{source: synthetic, seed: 3}``, ``{source: FILE}``."""
    part: Part = "fit"
    """The part of the panel in which episodes lie: training sees ``fit`` alone."""
    selection: str | float = 0.6
    """The first date of the selection part, or the share of sessions that lies before it."""
    holdout: str | float = 0.8
    """The first date of the holdout, or the share of sessions that lies before it."""
    embargo: int = 5
    """Sessions left out at the beginning of selection and of holdout: no episode of one part
    reaches into another."""
    purge: int = 0
    """Sessions left out at the end of fit and of selection."""
    folds: int = 1
    """Walk-forward folds: the sessions from ``holdout`` on are as many test windows."""
    fold: int = 1
    """This task's fold, from 1. In each the parts are moved ahead by a test window, which is then
    the holdout; see ``splits.split``."""
    anchored: bool = True
    """Fit begins with the panel in every fold; false: it moves ahead, and keeps its length."""
    shuffle: int | None = None
    """Permute the days of fit, and those of selection, by this seed; the holdout stays as it is. A
    baseline: what is learned so can't come from the past."""
    apart: bool = False
    """Episodes begin an episode apart, so that no two overlap; false: at every decision."""
    features: tuple[str, ...] = FEATURES
    """Names of features and of the panel's extra numbers, or paths of functions."""
    sessions: int = 5
    """Length of an episode; 0: all of the part."""
    rules: Rules = field(default_factory=Rules)

    def windows(self, device: str = "cpu", bars: bool = False) -> Windows:
        """The episodes of this part; those of equal tasks share their memory.

        Args:
            device: of the tables.
            bars: each market has its bars, too, which a backtest reads and no episode does.

        Raises:
            UserError: the parts overlap, or no episode fits in this one.
        """
        return _windows(_Key(self), device, bars)

    @property
    def sees(self) -> tuple[Any, ...]:
        """Facts that decide what a policy observes, what its actions mean, and which days it never
        saw: policies of two tasks with the same can be judged on one holdout."""
        market = {k: v for k, v in self.market.items() if k not in ("markets", "index")}
        split = self.selection, self.holdout, self.folds, self.fold
        return market, self.features, self.rules.acts, split

    def panels(self) -> list[tuple[MarketPanel, int]]:
        """Each market as it is seen in this part, and the first session that belongs to it."""
        return [self.seen(whole) for whole in markets(self.market)]

    def seen(self, whole: MarketPanel) -> tuple[MarketPanel, int]:
        """The panel below the end of this part, and the first session that belongs to the part.

        Raises:
            UserError: the parts don't follow one another inside the panel, or one is too short.
        """
        first = _date(whole, "selection", self.selection)
        second = _date(whole, "holdout", self.holdout)
        if not whole.dates[0] < first < second <= whole.dates[-1]:
            raise UserError(
                f"fit, selection and holdout follow one another: selection begins on {first},"
                f" holdout on {second}, and the panel goes from {whole.dates[0]} to"
                f" {whole.dates[-1]}"
            )
        marks = [int(np.searchsorted(whole.dates, each)) for each in (first, second)]
        parts = split(
            len(whole.dates), *marks, fold=self.fold, folds=self.folds, purge=self.purge,
            embargo=self.embargo, anchored=self.anchored,
        )  # fmt: skip
        for part, left in zip(PARTS, parts, strict=True):
            least = RETURNS + _without_return(whole, left)
            if len(left) < least:  # else a run would train, and have no holdout
                of_fold = f" of fold {self.fold} of {self.folds}" if self.folds > 1 else ""
                raise UserError(
                    f"part {part}{of_fold} has {len(left)} sessions after an embargo of"
                    f" {self.embargo} and a purge of {self.purge}, and {least} are needed for"
                    f" {RETURNS} daily returns: take a longer panel, other dates, fewer folds, or"
                    " less of both"
                )
        own = parts[PARTS.index(self.part)]
        panel = whole if own.stop == len(whole.dates) else whole.below(whole.dates[own.stop])
        if self.shuffle is not None and self.part != "holdout":
            begins = (parts.fit.start, parts.selection.start)
            blocks = [each for each in begins if 0 < each < own.stop]
            panel = shuffled(panel, blocks, self.shuffle)
        return panel, own.start


def _without_return(panel: MarketPanel, part: range) -> int:
    """Sessions of a part without a return: the first, if it has one bar, whose order the next bar
    fills, and the last, if it has one, which is only marked."""
    bars = np.bincount(panel.sessions)
    return sum(int(bars[day] == 1) for day in ((part[0], part[-1]) if part else (0, -1)))


class _Key:
    """A task as the key of a cache: two that read the same, of the same files, are equal."""

    def __init__(self, task: Task) -> None:
        marks = stamp(task.market)
        self.task, self.of_a_file, self._text = task, bool(marks), f"{task!r} {marks}"

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._text == self._text


@lru_cache(maxsize=4)
def _windows(key: _Key, device: str, bars: bool) -> Windows:
    task, made, begins, seen = key.task, [], [], list[tuple[Any, ...]]()
    for panel, session in task.panels():
        table = tables(panel, task.features, task.rules, device)
        made.append(table)
        dates = str(panel.dates[session]), str(panel.dates[-1])
        begins.append(max(table.first, int(np.searchsorted(table.sessions, session))))
        own = bars_of(panel, task.rules.stride, begins[-1]) if bars else None
        seen.append((panel.card.source, panel.tickers, *dates, own))
        digest = panel.digest()[:8] if key.of_a_file else ""  # a file is one market
        for name in task.features:
            if ":" in name:
                truncated(panel, name)
        counts = np.bincount(table.sessions)
        per_session = int(np.median(counts[1:-1] if len(counts) > 2 else counts))
    steps = task.sessions * per_session or min(
        len(table.mark) - 1 - begin for table, begin in zip(made, begins, strict=True)
    )
    starts, parts, offset = [], list[Market](), 0
    for table, begin, told in zip(made, begins, seen, strict=True):
        past = len(table.mark) - 1
        if past - steps < begin:
            raise UserError(
                f"part {task.part} has {max(0, past - begin)} decisions, an episode of"
                f" {task.sessions} sessions takes {steps}: take a longer panel, or fewer sessions"
            )
        starts.append(_starts(begin, past - steps, steps if task.apart else 1) + offset)
        parts.append(Market(offset, offset + begin, offset + past, *told))
        offset += len(table.mark)
    return Windows(joined(made), torch.cat(starts).to(device), steps, tuple(parts), digest)


def _starts(first: int, last: int, apart: int) -> Tensor:
    """The decisions at which an episode begins, from the first to the last that can, int64."""
    count = (last - first) // apart + 1
    return first + torch.arange(count) * (last - first) // max(1, count - 1)


def task_of(name: object, kwargs: Mapping[str, object]) -> Task:
    """The task that ``env.id`` and ``env.kwargs`` describe.

    Args:
        name: of the environment; unless it is ``trading``, the source of its market.
        kwargs: fields of ``Task``; ``preset`` and the fields of ``Rules`` stand beside them.

    Raises:
        UserError: there is no such field, or a value is not of its kind.
    """
    own = {each.name for each in fields(Task)} - {"rules"}
    of_rules = {each.name for each in fields(Rules)}
    for key in kwargs:
        if key not in own | of_rules | {"preset"}:
            raise UserError(
                f"trading has no argument '{key}'"
                f"{suggest(key, sorted(own | of_rules | {'preset'}))}"
            )
    changed: dict[str, Any] = {key: kwargs[key] for key in kwargs if key in of_rules}
    given: dict[str, Any] = {key: kwargs[key] for key in kwargs if key in own}
    market = given.get("market", {})
    market = {"source": market} if isinstance(market, str) else market
    if not isinstance(market, Mapping):
        raise UserError(f"trading: market is a mapping such as {{source: FILE}}, got {market!r}")
    if name != "trading" and market.get("source", name) != name:
        raise UserError(
            f"env.id {name} is another market than env.kwargs.market.source"
            f" {market['source']}: write env.id: trading, or leave the source out"
        )
    given["market"] = market if name == "trading" else {"source": str(name), **market}
    features = given.get("features", FEATURES)
    if not isinstance(features, (list, tuple)) or not all(isinstance(f, str) for f in features):
        raise UserError(f"trading: features is a list of names, got {features!r}")
    given["features"] = tuple(features)
    task = Task(rules=rules_of(str(kwargs.get("preset", "plain")), changed), **given)
    if task.part not in PARTS:
        raise UserError(f"trading: part is one of {', '.join(PARTS)}, got {task.part!r}")
    _check_numbers(task)
    return task


def _check_numbers(task: Task) -> None:
    for key, least in (("embargo", 0), ("purge", 0), ("sessions", 0), ("folds", 1), ("fold", 1),
                       ("shuffle", 0)):  # fmt: skip
        value = getattr(task, key)
        if value is None and key == "shuffle":
            continue
        if not is_whole(value, least):
            raise UserError(f"trading: {key} is a whole number from {least}, got {value!r}")
    if task.fold > task.folds:
        raise UserError(f"trading: fold {task.fold} is none of {task.folds} (env.kwargs.folds)")
    for key in ("anchored", "apart"):
        if not isinstance(getattr(task, key), bool):
            raise UserError(f"trading: {key} is true or false, got {getattr(task, key)!r}")


def _date(panel: MarketPanel, name: str, given: str | float) -> np.datetime64:
    """A date, or the one before which this share of the sessions lies."""
    if isinstance(given, str):
        try:
            return day_of(given)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < 1:
        said = f"expected a date or a share of the sessions in (0, 1), got {given!r}"
        raise UserError(f"{name}: {said}")
    day: np.datetime64 = panel.dates[int(given * len(panel.dates))]
    return day
