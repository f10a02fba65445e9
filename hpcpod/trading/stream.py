"""The stream of a trading task: sessions that arrive, and the windows that are cut from them.

A cycle judges on the last sessions, on which no cycle has judged before, and trains on those before
them: ::

    ... | since  fit | selection | judged | nothing yet
                                 ^ holdout of the cycle's run   ^ below

Its run's panel ends at ``below``, so that what is appended later changes nothing of it, and its
environments have no row from ``holdout`` on. A session that is still going on is no session yet.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hpcpod.config.continuous import CtConfig
from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.pod.policy import load_policy_file
from hpcpod.tournament.continuous.drift import Sample
from hpcpod.tournament.continuous.stream import (
    Look,
    NotComparable,
    Part,
    Player,
    Score,
    Verdict,
    Windows,
)
from hpcpod.trading.backtest import Backtest, backtest
from hpcpod.trading.exchanges import exchange
from hpcpod.trading.features import FEATURES, compute
from hpcpod.trading.files import is_bars
from hpcpod.trading.holdout import agent_of, opening
from hpcpod.trading.ledger import LEDGERS, Ledger, digest_of
from hpcpod.trading.metrics import paired_bootstrap
from hpcpod.trading.panel import Floats, MarketPanel, day_of, is_whole
from hpcpod.trading.rules import MEANING
from hpcpod.trading.sources import markets
from hpcpod.trading.tables import decisions
from hpcpod.trading.task import RETURNS, Task, task_of

ARGUMENTS: Mapping[str, Any] = {"judge": 20, "window": None, "selection": 0.2}
FEWEST = 5
"""Sessions that are judged on at least, behind the embargo."""
LOST_DAILY = 2
"""Days of daily bars without a return: the first order is filled in the second, and the last is
only marked."""
REWARD = "reward"


class TradingStream:
    """See ``Stream``; ``ct.kwargs`` are ``judge``, ``window`` and ``selection``."""

    def __init__(self, config: RunConfig) -> None:
        """Keep the configuration.

        Raises:
            UserError: an argument of it can't be.
        """
        self._config, self._ct = config, config.ct or CtConfig()
        self._task = task_of(config.env.id, config.env.kwargs)
        if self._task.folds > 1:
            raise UserError(
                "env.kwargs: folds and fold cut windows of their own, and ct cuts others: leave"
                " them out"
            )
        given = {**ARGUMENTS, **self._ct.kwargs}
        for name in given:
            if name not in ARGUMENTS:
                raise UserError(f"ct.kwargs: trading has no '{name}' ({', '.join(ARGUMENTS)})")
        self._judged, self._window = given["judge"], given["window"]
        least = FEWEST + self._task.embargo
        for name, value in (("judge", self._judged), ("window", self._window)):
            if (name == "judge" or value is not None) and not is_whole(value, least):
                raise UserError(
                    f"ct.kwargs: {name} is a number of sessions, at least {least} ({FEWEST} and the"
                    f" embargo of {self._task.embargo}), got {value!r}"
                )
        share = given["selection"]
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
            raise UserError(f"ct.kwargs: selection is a share in (0, 1), got {share!r}")
        self._share = float(share)

    def look(self, before: Windows | None, cycle: int) -> Look:
        """See ``Stream``: due are ``judge`` sessions that the last cycle has not seen."""
        seen = before.train.get("market") if before else None
        pinned = seen.get("tickers") if isinstance(seen, Mapping) else None
        self._same_stocks(pinned)
        panels, remarks = self._panels(pinned), list[str]()
        for name in self._task.features:
            if ":" not in name and name not in FEATURES and name not in panels[0].extra:
                raise UserError(
                    f"{panels[0].card.source} has no column {name}, which env.kwargs.features names"
                )
        whole, there = [self._whole(each) for each in panels], panels[0].dates[-1]
        if whole[0] is not panels[0]:
            remarks.append(f"the session of {there} is not whole yet: it is left to a later look")
        panels, dates = whole, whole[0].dates
        fresh = dates if before is None else dates[dates >= np.datetime64(before.end, "D")]
        if before is not None:
            if there < np.datetime64(before.end, "D") - 1:
                raise UserError(
                    f"{panels[0].card.source} ends on {there}, and an earlier cycle has seen"
                    f" sessions until before {before.end}: bars are missing"
                )
            if self.digest(before) != before.digest:
                remarks.append(f"bars before {before.end} are not what an earlier cycle saw")
            remarks += self._newcomers(pinned)
        until = f"{len(fresh)} of {self._judged} new sessions are there, the last is {dates[-1]}"
        least = FEWEST + self._task.embargo + LOST_DAILY * _daily(panels[0])
        if self._judged < least:
            raise UserError(
                f"ct.kwargs: judge is at least {least} for daily bars ({FEWEST}, the embargo of"
                f" {self._task.embargo}, and {LOST_DAILY} without a return), got {self._judged}"
            )
        if len(fresh) < least:
            return Look(None, False, until, tuple(remarks))
        windows = self._windows(panels, min(self._judged, len(fresh)))
        remarks += self._closed(windows)
        why = "nothing is deployed yet" if before is None else f"{len(fresh)} sessions are new"
        due = before is None or len(fresh) >= self._judged
        return Look(windows, due, why if due else until, tuple(remarks))

    def unlike(self, player: Player) -> str:
        """The reason why no pod can start from a policy's weights, in words; empty if it can: of as
        many other features they would read each for another."""
        theirs = task_of(player.env.id, player.env.kwargs)
        for what, own, other in (
            ("sees", self._task.features, theirs.features),
            ("acts by", (f"mode: {self._task.rules.mode}",), (f"mode: {theirs.rules.mode}",)),
        ):
            if own != other:
                return f"it {what} {', '.join(other)}, and env.kwargs say {', '.join(own)}"
        return ""

    def adopted(self) -> Windows:
        """See ``Stream``: all sessions that there are now count as seen."""
        panels = [self._whole(each) for each in self._panels(None)]
        return Windows(
            {"market": self._market(panels, None)}, {}, 0, "all sessions so far",
            str(panels[0].dates[-1] + 1), _digest(panels), asdict(panels[0].card),
        )  # fmt: skip

    def digest(self, windows: Windows) -> str:
        """See ``Stream``."""
        market = windows.train["market"]
        assert isinstance(market, Mapping)
        return _digest(markets(market))

    def judge(
        self, windows: Windows, challenger: Player, incumbent: Player | None, folder: Path
    ) -> Verdict:
        """See ``Stream``: both play the judged sessions through, the same days are resampled."""
        days, ours = self._judged_days(windows, challenger, folder)
        level, unit = self._ct.level, "bp a day"
        words = f"of the sessions from {windows.train['holdout']} on"
        if incumbent is None:
            words = f"{len(ours)} {words}"
            return Verdict(_score(ours), None, None, None, level, unit, words)
        other, theirs = self._judged_days(windows, incumbent, folder)
        # By date: where warm-ups and strides differ, so do the days.
        both, here, there = np.intersect1d(days, other, return_indices=True)
        _enough(len(both))
        ours, theirs = ours[here], theirs[there]
        ahead, low, _ = paired_bootstrap(ours, theirs, level=1 - 2 * level)
        words = f"{len(both)} {words}, the same for both"
        return Verdict(_score(ours), _score(theirs), ahead, low, level, unit, words)

    def _judged_days(
        self, windows: Windows, player: Player, folder: Path
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """The judged sessions and the return of each: a look at a holdout, which the ledger counts
        once for each policy. Days of several markets follow one another.

        Raises:
            NotComparable: too few days can be played.
            UserError: the ledger can't be written.
        """
        tests = self._played(windows, player, "judge")
        days, moves = (
            np.concatenate(each)
            for each in zip(*((test.sessions, test.moves) for test in tests), strict=True)
        )
        _enough(len(moves))
        home = folder.parents[2]  # runs/, above mine.ct/cycles/0002
        digest = digest_of([player.policy])
        task, spread = self._task_of(windows, player, "judge"), float(moves.std(ddof=1))
        sharpe = float(moves.mean()) / spread if spread > 0 else 0.0
        line, book = opening(task, folder.parents[1].name, digest, sharpe), Ledger(home / LEDGERS)
        looks = [each for each in book.openings() if each.policy == digest and not each.beside]
        if not any(each.overlaps(line) for each in looks):
            book.write(line)
        return days, moves

    def sample(self, windows: Windows, player: Player, part: Part) -> Sample:
        """See ``Stream``: features of each stock at each decision, and the growth of the account
        until the next one; sessions are blocks."""
        task = self._task_of(windows, player, part)
        rows, blocks, begun = [], [], 0
        tests = self._played(windows, player, part)
        for (panel, session), test in zip(task.panels(), tests, strict=True):
            found, of_session = _met(task, panel, session, test)
            rows.append(found)
            blocks.append(begun + of_session - of_session.min())
            begun = int(blocks[-1].max()) + 1
        names = (*task.features, REWARD)
        # In training it is the reward of what was fitted: that it falls is no drift yet.
        return Sample(names, np.vstack(rows), np.concatenate(blocks), untested=(REWARD,))

    def _panels(self, tickers: object) -> list[MarketPanel]:
        given = dict(self._task.market)
        return markets(given if tickers is None else {**given, "tickers": tickers})

    def _same_stocks(self, pinned: object) -> None:
        """See that the configuration names no other stocks than the deployed policies know."""
        named = self._task.market.get("tickers")
        if isinstance(pinned, (list, tuple)) and named is not None and list(named) != list(pinned):
            raise UserError(
                f"env.kwargs.market.tickers names {', '.join(map(str, named))}, and the policies of"
                f" this registry know {', '.join(pinned)}: give a configuration of other stocks"
                " another name"
            )

    def _closed(self, windows: Windows) -> list[str]:
        """A remark on a holdout of the configuration that a cycle trains on."""
        given, judged = self._config.env.kwargs.get("holdout"), windows.train["holdout"]
        if given is None or (isinstance(given, str) and day_of(given) >= day_of(str(judged))):
            return []
        return [
            f"env.kwargs.holdout is {given}, which ct does not keep: this cycle trains on sessions"
            f" until {judged}, and judges on those from then on"
        ]

    def _whole(self, panel: MarketPanel) -> MarketPanel:
        """The panel without its last session, while bars of it may still come.

        By a calendar its close has to be past, and bars of parts of a day have to reach as near to
        it as those of the five sessions before, in the median. Without one, these have to be as
        many as there usually are, and of daily bars the day in UTC has to be past. Once a later
        session is there, all before it are whole.
        """
        source = str(self._task.market.get("source", "synthetic"))
        if not is_bars(source) or len(panel.dates) < 2:
            return panel
        day, closes = panel.dates[-1], _closes(panel, self._task.market.get("calendar", "XNYS"))
        daily, now = _daily(panel), np.datetime64(int(time.time()), "s")
        if closes is not None:
            missing = closes - panel.times[_last_bars(panel, len(closes))]
            whole = now >= closes[-1] and (daily or missing[-1] <= np.median(missing[:-1]))
        elif daily:
            whole = now >= day + np.timedelta64(1, "D")
        else:
            counts = np.bincount(panel.sessions)
            whole = counts[-1] >= np.median(counts[:-1])
        return panel if whole else panel.below(day)

    def _newcomers(self, pinned: object) -> list[str]:
        """A remark on stocks that the file has and the policy does not know."""
        if "tickers" in self._task.market or not isinstance(pinned, (list, tuple)):
            return []
        more = sorted(set(self._panels(None)[0].tickers) - set(pinned))
        return [f"stocks that were not there at first are left out: {', '.join(more)}"] * bool(more)

    def _market(self, panels: list[MarketPanel], since: np.datetime64 | None) -> dict[str, Any]:
        market = {
            **self._task.market, "tickers": list(panels[0].tickers),
            "below": str(panels[0].dates[-1] + 1),
        }  # fmt: skip
        return market if since is None else {**market, "since": str(since)}

    def _windows(self, panels: list[MarketPanel], count: int) -> Windows:
        dates = panels[0].dates
        judged = len(dates) - count
        first = 0 if self._window is None else max(0, judged - self._window)
        least = RETURNS + LOST_DAILY * _daily(panels[0])
        scored = max(round(self._share * (judged - first)), self._task.embargo + least)
        if judged - scored - first < least:
            if first:
                raise UserError(
                    f"ct.kwargs: a window of {self._window} sessions is too short to score pods on"
                    f" ({scored}) and to train on (at least {least})"
                )
            raise UserError(
                f"{panels[0].card.source} has {len(dates)} sessions, too few to train on, to score"
                f" pods on ({scored}) and to judge on ({count})"
            )
        selection, holdout = dates[judged - scored], dates[judged]
        market = self._market(panels, None if first == 0 else dates[first])
        train = {
            **self._config.env.kwargs, "market": market, "part": "fit",
            "selection": str(selection), "holdout": str(holdout),
        }  # fmt: skip
        words = (
            f"it trains on {dates[first]} to {dates[judged - 1]}, its pods are scored from"
            f" {selection} on, and it is judged on {holdout} to {dates[-1]}"
        )
        judge = {name: value for name, value in train.items() if name != "features"}
        return Windows(
            train, {**judge, "part": "holdout"}, 0, words, str(dates[-1] + 1),
            _digest(markets(market)), asdict(panels[0].card),
        )  # fmt: skip

    def _task_of(self, windows: Windows, player: Player, part: Part) -> Task:
        if part == "train" or not windows.judge:
            return task_of(player.env.id, {**player.env.kwargs, **windows.train})
        # The prices, costs and dates that hold for both; what it sees and does is its own.
        common = task_of(player.env.id, windows.judge)
        own = task_of(player.env.id, player.env.kwargs)
        rules = replace(common.rules, **{name: getattr(own.rules, name) for name in MEANING})
        return replace(common, features=own.features, rules=rules)

    def _played(self, windows: Windows, player: Player, part: Part) -> list[Backtest]:
        """The policy's backtest on each market."""
        agent = agent_of(load_policy_file(player.policy))
        task = self._task_of(windows, player, part)
        with torch.no_grad():
            return [tests[0] for tests in backtest(task, {"policy": agent}, frozenset(["policy"]))]


def _met(task: Task, panel: MarketPanel, session: int, test: Backtest) -> tuple[Floats, np.ndarray]:
    """Rows of a sample, and the session of each: of each decision all stocks, one below the other,
    with the reward in the first one's row."""
    bars = decisions(panel, task.rules.stride)
    features = compute(panel, task.features)[bars]
    rewards = 100 * np.diff(np.log(test.path))
    own = panel.sessions[bars] >= session
    count = len(rewards)  # after the last decision the account is only marked
    bars, features = bars[own][:-1][-count:], features[own][:-1][-count:]
    stocks = features.shape[1]
    column = np.full((len(features), stocks, 1), np.nan)
    column[:, 0, 0] = rewards
    rows = np.concatenate([np.where(np.isfinite(features), features, np.nan), column], axis=2)
    return rows.reshape(-1, rows.shape[2]), np.repeat(panel.sessions[bars], stocks)


def _daily(panel: MarketPanel) -> bool:
    return len(panel.times) == len(panel.dates)


def _closes(panel: MarketPanel, calendar: object) -> npt.NDArray[np.datetime64] | None:
    """The ends of the panel's last six sessions by a calendar, UTC; None: there is no calendar."""
    if calendar is None:
        return None
    days = panel.dates[-6:]
    made = exchange(str(calendar), days[0], days[-1])
    ends = [made.session_close(str(day)).tz_localize(None) for day in days]
    return np.array(ends, "datetime64[s]")


def _last_bars(panel: MarketPanel, sessions: int) -> npt.NDArray[np.int64]:
    """The rows of the last bars of the last so many sessions."""
    numbers = np.arange(len(panel.dates) - sessions, len(panel.dates))
    rows: npt.NDArray[np.int64] = np.searchsorted(panel.sessions, numbers, side="right") - 1
    return rows


def _enough(days: int) -> None:
    """See that there are days enough for a verdict.

    Raises:
        NotComparable: there are not.
    """
    if days < FEWEST:
        raise NotComparable(
            f"{days} days can be judged on, and {FEWEST} are judged at least: set ct.kwargs.judge"
            " higher, or take features with shorter warm-ups"
        )


def _score(moves: Floats) -> Score:
    mean, low, high = paired_bootstrap(moves, np.zeros_like(moves))
    return Score(mean, low, high, len(moves))


def _digest(panels: list[MarketPanel]) -> str:
    return hashlib.sha256("".join(each.digest() for each in panels).encode()).hexdigest()
