"""The last word on a trading policy: the holdout, opened once, beside baselines, with errors."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.pod.policy import Policy, load_policy_file
from hpcpod.trading.backtest import Agent, Backtest, Strategy, backtest, baselines, hold
from hpcpod.trading.ledger import Ledger, Opening, digest_of, distinct
from hpcpod.trading.metrics import (
    YEAR,
    deflated_sharpe,
    gaps,
    overfitting,
    performance,
    stationary_bootstrap,
)
from hpcpod.trading.panel import Floats
from hpcpod.trading.rules import Rules
from hpcpod.trading.task import Market, Task, task_of
from hpcpod.trading.verdict import BACKENDS, CASH, RISK_OFF, RIVAL, RIVALS, Row, Trials, Verdict

__all__ = ["AGENT", "RIVAL", "Files", "agent_of", "judge", "judge_files", "require_holdout",
           "trials_of"]  # fmt: skip
AGENT = "policy"
MOST_MARKS = 1024
"""Marks that an opening keeps, the least of all: so two that have many days and stocks in common
have marks in common, and a line of the ledger is 20 kB at most. Where one has many more, a small
overlap may have none: it counts only if a source's name is the same."""


def judge(  # noqa: PLR0913 (what one says of a holdout, by name)
    task: Task, agents: Mapping[str, Agent], *, run: str = "", policy: str = "",
    ledger: Path | None = None, more: Mapping[str, Strategy] | None = None,
    beside: Mapping[str, Agent] | None = None, tried: Mapping[str, Agent] | None = None,
    left: int = 0, accounts: Mapping[str, Agent] | None = None,
    digests: Mapping[str, str] | None = None,
) -> Verdict:  # fmt: skip
    """Play policies and the baselines through the holdout of a task.

    Args:
        task: whatever its ``part`` is, the holdout is played.
        agents: one, or the members of an ensemble: each has an equal part of the capital, as an
            account of its own with its own fees.
        run: name of the run, for the ledger.
        policy: SHA-256 of what is judged.
        ledger: folder of ledgers; None: nothing is written, and nothing counts.
        more: further strategies beside the baselines.
        beside: further policies, by the names of their runs, each with all of the capital: each
            counts as one that was shown.
        tried: policies of which the judged one was chosen, to be played on the selection part.
        left: the number of such policies that are not played.
        accounts: members of another ensemble, which is a row below the policy's and counts as one
            that was shown.
        digests: SHA-256 of those beside, by the names of their runs.

    Raises:
        UserError: no agent is given, or the task has no holdout.
    """
    if not agents:
        raise UserError("a holdout is opened for a policy: none was given")
    # First, so that a failure in it costs no opening.
    trials = replace(trials_of(task, tried), left=left) if tried else None
    last = replace(task, part="holdout")
    plain = baselines(risk_off=task.rules.risk_off is not None)
    rivals: dict[str, Strategy | Agent] = {**plain, **(more or {}), **(beside or {})}
    joint = f"accounts {', '.join(accounts)}" if accounts else ""
    ours = {AGENT: agents, **({joint: accounts} if accounts else {})}
    strategies, moves = _played(last, ours, rivals, frozenset(beside or {}))
    rows = [
        _row(tests, each, None if i == 0 else moves[0])
        for i, (tests, each) in enumerate(zip(strategies, moves, strict=True))
    ]
    daily = rows[0].sharpe / YEAR**0.5
    names = [row.name for row in rows]
    apart = {name: gaps(moves[0], moves[names.index(name)]) for name in RIVALS if name in names}
    line, openings = opening(last, run, policy, daily), tuple[Opening, ...]()
    if ledger is not None:
        shown = [row for row in rows if row.name in {*(beside or {}), joint}]
        name, openings = _counted(Ledger(ledger), line, shown, digests or {})
    verdict = Verdict(
        tuple(rows), all(stationary_bootstrap(each)[1] > 0 for each in apart.values()),
        deflated_sharpe(moves[0], [each.sharpe for each in distinct(openings)] or [daily]),
        trials, openings, line.first, line.last, tuple(apart[RIVAL].tolist()),
        tuple(apart[CASH].tolist()), joint, tuple(map(float, apart.get(RISK_OFF, ()))),
    )  # fmt: skip
    if ledger is not None:
        Ledger(ledger).keep(name, verdict)
    return verdict


def _played(
    task: Task, ours: Mapping[str, Mapping[str, Agent]], rivals: Mapping[str, Strategy | Agent],
    policies: frozenset[str],
) -> tuple[list[list[Backtest]], list[Floats]]:  # fmt: skip
    """Ensembles, rivals and the index on each market, and the daily returns of each of them.

    Args:
        task: of the part that is played.
        ours: members of each ensemble, by its name.
        rivals: by name.
        policies: those of the rivals that observe as agents do.
    """
    strategies = [_accounts(task, *each) for each in ours.items()]
    theirs = backtest(task, rivals, policies)
    strategies += [[market[i] for market in theirs] for i in range(len(rivals))]
    if "index" in task.market:
        strategies.append(_index(task))
    moves = [np.concatenate([each.moves for each in tests]) for tests in strategies]
    if {len(each) for each in moves} != {len(moves[0])}:
        raise UserError(f"the index {task.market['index']} has no bars on some of the days")
    return strategies, moves


def trials_of(task: Task, agents: Mapping[str, Agent]) -> Trials:
    """Play policies through the whole selection part of a task.

    Several markets are draws of their own, so their days follow one another as one path.
    """
    played = backtest(
        replace(task, part="selection"), {**agents, RIVAL: hold}, frozenset(agents)
    )  # fmt: skip
    count = len(agents)
    moves = [np.concatenate([market[i].moves for market in played]) for i in range(count + 1)]
    apart = [gaps(each, moves[-1]) for each in moves[:-1]]
    best = int(np.argmax([each.mean() for each in apart]))
    own = np.stack(moves[:-1], axis=1)
    enough = count > 1 and len(own) >= 20
    return Trials(
        count, len(own), overfitting(own) if enough else None, list(agents)[best],
        *stationary_bootstrap(apart[best]),
    )  # fmt: skip


def agent_of(policy: Policy) -> Agent:
    """A policy as backtests call it."""

    def agent(obs: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(policy(obs.numpy()), np.float32))

    return agent


def _index(task: Task) -> list[Backtest]:
    """The index of the panel, held without costs."""
    name = task.market["index"]
    market = {k: v for k, v in task.market.items() if k not in ("index", "tickers", "universe")}
    rules = Rules(fee_bps=0.0, lot=0, stride=task.rules.stride)
    alone = replace(task, market={**market, "tickers": [name]}, features=("return_1",), rules=rules)
    return [tests[0] for tests in backtest(alone, {f"index {name}": hold})]


def _part_of(rules: Rules, count: int) -> Rules:
    """The rules of one of several accounts: its part of the capital, and of a bar's volume."""
    share = None if rules.participation is None else rules.participation / count
    return replace(rules, capital=rules.capital / count, participation=share)


def _accounts(task: Task, name: str, agents: Mapping[str, Agent]) -> list[Backtest]:
    """An ensemble on each market: every member has its part of the capital."""
    own = replace(task, rules=_part_of(task.rules, len(agents)))
    return [_account_of(name, members) for members in backtest(own, agents, frozenset(agents))]


def _account_of(name: str, members: Sequence[Backtest]) -> Backtest:
    """The accounts of an ensemble as one: their values are added."""
    values, path, bars = (
        np.sum([getattr(m, name) for m in members], axis=0) for name in ("values", "path", "bars")
    )
    turnover = float(np.mean([each.turnover for each in members]))
    exposure = float(np.mean([each.exposure for each in members]))
    days = members[0].sessions
    return Backtest(name, performance(values), values, days, path, bars, turnover, exposure)


def _row(tests: Sequence[Backtest], moves: Floats, ours: Floats | None) -> Row:
    """A strategy over all markets: the money is that of equal capital in each, and for what is of
    days, the Sharpe ratio and the intervals, they follow one another as draws."""
    whole = performance(np.cumprod([1.0, *(1 + moves)]))
    money, sessions = (
        float(np.mean([getattr(each.performance, name) for each in tests]))
        for name in ("cumulative_return", "sessions")
    )
    ahead = low = high = None
    if ours is not None:
        ahead, low, high = stationary_bootstrap(gaps(ours, moves))
    return Row(
        tests[0].name, money, (1 + money) ** (YEAR / sessions) - 1, whole.annual_volatility,
        min(each.performance.max_drawdown for each in tests), whole.sharpe, whole.sharpe_error,
        float(np.mean([each.turnover for each in tests])),
        float(np.mean([each.exposure for each in tests])),
        min(each.deepest for each in tests), ahead, low, high,
        (1 + money) ** (YEAR / (sessions + 1)) - 1,
    )  # fmt: skip


def opening(task: Task, run: str, policy: str, sharpe: float) -> Opening:
    """The line of a ledger that tells a look at the holdout of a task."""
    # As a backtest plays it, and has it in memory.
    seen: tuple[Market, ...] = replace(task, sessions=0).windows(bars=True).markets
    marks = sorted({mark for each in seen for mark in _marks(each)})
    return Opening(
        run, policy, tuple(each.source for each in seen),
        tuple(sorted({name for each in seen for name in each.tickers})),
        min(each.date for each in seen), max(each.end for each in seen), sharpe,
        marks=tuple(marks[:MOST_MARKS]),
    )  # fmt: skip


def _marks(market: Market) -> Iterator[str]:
    """Digests of the stocks' daily growth, each with its stock and date: they are the same in files
    of other names, ends and columns, and where all prices of a stock were adjusted."""
    assert market.bars is not None
    closes = market.bars.close[market.bars.ends].numpy()
    for date, growth in zip(market.bars.dates[1:], closes[1:] / closes[:-1], strict=True):
        for ticker, each in zip(market.tickers, growth, strict=True):
            if each != 1:  # before a stock's first bar and after its last, of any file
                yield hashlib.sha256(f"{ticker} {date} {each:.8g}".encode()).hexdigest()[:12]


def _counted(
    book: Ledger, line: Opening, shown: Sequence[Row], digests: Mapping[str, str]
) -> tuple[str, tuple[Opening, ...]]:
    """Write an opening, and what is shown beside; its name, and all openings of its holdout, which
    have no marks any more."""
    for row in shown:
        book.write(_shown(line, row, digests.get(row.name, "")))
    name = book.write(line)
    before = [each for each in book.openings() if each.overlaps(line) and each != line]
    return name, tuple(replace(each, marks=()) for each in (*before, line))


def _shown(line: Opening, row: Row, digest: str) -> Opening:
    """The line of a policy that was shown beside the one that a holdout was opened for."""
    daily = row.sharpe / YEAR**0.5
    return replace(line, run=row.name, policy=digest, sharpe=daily, beside=line.run or AGENT)


@dataclass(frozen=True)
class Files:
    """The files of a run's policies, which ``load_policy`` reads."""

    config: RunConfig
    """Of the run."""
    policies: Mapping[str, Path]
    """Those that are judged, by name; several share the capital."""
    tried: Mapping[str, Path] = field(default_factory=dict)
    """All that the run has, of which these were chosen."""
    left: int = 0
    """Policies that it has besides, and that are not played."""
    agents: Collection[str] | None = None
    """Those that the policies may be of; None: any."""
    trust: bool = False
    """Load an agent that is not built in, though the policy is another user's."""
    accounts: Mapping[str, Path] = field(default_factory=dict)
    """Members of an ensemble that is shown, too: see ``judge``."""

    def loaded(self, of: Mapping[str, Path]) -> dict[str, Agent]:
        """Policies as backtests call them."""
        return {
            name: agent_of(load_policy_file(path, agents=self.agents, trust=self.trust))
            for name, path in of.items()
        }


def require_holdout(config: RunConfig) -> None:
    """See that a run has a holdout.

    Raises:
        UserError: it does not trade.
    """
    if config.env.backend not in BACKENDS:
        raise UserError(
            f"{config.name} has no holdout: its env.backend is {config.env.backend}, not trading"
        )


def judge_files(run: Files, ledger: Path, beside: Mapping[str, Files] | None = None) -> Verdict:
    """Open the holdout of a trading run's task for its policy, or for several as one ensemble.

    Args:
        run: the run and its policies.
        ledger: folder in which openings are counted.
        beside: other runs by name, whose policies are further rows.

    Raises:
        UserError: a policy can't be loaded, or played beside the run's.
    """
    config = run.config
    task = task_of(config.env.id, config.env.kwargs)
    rows = {}
    for name, other in (beside or {}).items():
        if task_of(other.config.env.id, other.config.env.kwargs).sees != task.sees:
            raise UserError(
                f"{name} can't be played beside {config.name}: its market, features, split, stride,"
                " mode, max_order, dead_band or risk_off are others, so its actions would mean"
                " something else, or it may have trained on this holdout"
            )
        if name in baselines(risk_off=True):
            raise UserError(f"{name} is a baseline's name: give the run beside another name")
        [rows[name]] = other.loaded(other.policies).values()
    return judge(
        task, run.loaded(run.policies), run=config.name, policy=digest_of(run.policies.values()),
        ledger=ledger, beside=rows, tried=run.loaded(run.tried), left=run.left,
        accounts=run.loaded(run.accounts),
        digests={name: digest_of(each.policies.values()) for name, each in (beside or {}).items()},
    )  # fmt: skip
