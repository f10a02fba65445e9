"""The last word on a trading policy: the holdout, opened once, beside baselines, with errors."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.pod.policy import Policy, load_policy_file
from hpcpod.trading.backtest import Agent, Backtest, Strategy, backtest, baselines
from hpcpod.trading.ledger import Ledger, Opening
from hpcpod.trading.metrics import (
    YEAR,
    deflated_sharpe,
    overfitting,
    paired_bootstrap,
    performance,
)
from hpcpod.trading.rules import Rules
from hpcpod.trading.task import Task, task_of

RIVAL = "hold"
"""The baseline by which is judged whether a policy has an edge."""
AGENT = "policy"
BACKENDS = ("trading", "hpcpod.trading.env:TradingVecEnv")


@dataclass(frozen=True)
class Row:
    """A strategy on the holdout, over all of its markets."""

    name: str
    cumulative_return: float
    annual_return: float
    annual_volatility: float
    max_drawdown: float
    sharpe: float
    sharpe_error: float
    turnover: float
    exposure: float
    deepest: float
    """The deepest fall between two decisions."""
    ahead: float | None = None
    """Mean daily log return of the policy less this one's, in basis points; None: it is itself."""
    low: float | None = None
    """The 95 % interval of it, by a stationary bootstrap of the same days."""
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The outcome of a holdout."""

    rows: tuple[Row, ...]
    """The policy first, then the baselines."""
    edge: bool
    """The policy is ahead of ``RIVAL`` by the whole of its 95 % interval."""
    deflated: float
    """Probability that its true Sharpe ratio is above that of the best of all that were tried on
    this holdout, had none of them skill."""
    overfitting: float | None
    """Probability of backtest overfitting among all strategies here; None: too few days."""
    openings: tuple[Opening, ...]
    """Of this holdout, this one last; without a ledger none."""

    @property
    def words(self) -> str:
        """The verdict in a sentence or two."""
        rival = next(row for row in self.rows if row.name == RIVAL)
        interval = f"{rival.ahead:+.2f} [{rival.low:+.2f}, {rival.high:+.2f}] bp a day"
        said = (
            f"ahead of buy-and-hold by {interval}"
            if self.edge
            else f"no edge: against buy-and-hold {interval}"
        )
        times = len(self.openings)
        if times > 1:
            said += (
                f". This holdout was opened {times} times: its numbers are no longer those of"
                f" unseen data (deflated Sharpe {self.deflated:.2f})"
            )
        return said


def judge(
    task: Task, agents: Mapping[str, Agent], *, run: str = "", policy: str = "",
    ledger: Path | None = None, more: Mapping[str, Strategy] | None = None,
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

    Raises:
        UserError: no agent is given, or the task has no holdout.
    """
    if not agents:
        raise UserError("a holdout is opened for a policy: none was given")
    last = replace(task, part="holdout")
    rivals = {**baselines(), **(more or {})}
    own = replace(last, rules=_part_of(last.rules, len(agents)))
    mine = backtest(own, agents, frozenset(agents))
    theirs = backtest(last, rivals)
    ours = [_account_of(members) for members in mine]
    strategies = [ours, *([market[i] for market in theirs] for i in range(len(rivals)))]
    moves = [np.concatenate([each.moves for each in tests]) for tests in strategies]
    daily, openings = _daily_sharpe(moves[0]), tuple[Opening, ...]()
    if ledger is not None:
        line, book = _opening(last, run, policy, daily), Ledger(ledger)
        book.write(line)
        openings = tuple(each for each in book.openings() if each.overlaps(line))
    rows = [_row(tests, each, None if i == 0 else moves[0]) for i, (tests, each) in enumerate(
        zip(strategies, moves, strict=True)
    )]  # fmt: skip
    rival = next(row for row in rows if row.name == RIVAL)
    assert rival.low is not None
    risky = np.stack([each for each in moves if each.any()], axis=1)
    return Verdict(
        tuple(rows),
        rival.low > 0,
        deflated_sharpe(moves[0], [each.sharpe for each in openings] or [daily]),
        overfitting(risky) if len(risky) >= 20 and risky.shape[1] > 1 else None,
        openings,
    )


def agent_of(policy: Policy) -> Agent:
    """A policy as backtests call it."""

    def agent(obs: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(policy(obs.numpy()), np.float32))

    return agent


def _part_of(rules: Rules, count: int) -> Rules:
    """The rules of one of several accounts: its part of the capital, and of a bar's volume."""
    share = None if rules.participation is None else rules.participation / count
    return replace(rules, capital=rules.capital / count, participation=share)


def _account_of(members: Sequence[Backtest]) -> Backtest:
    """The accounts of an ensemble as one: their values are added."""
    values, path = (
        np.sum([getattr(m, name) for m in members], axis=0) for name in ("values", "path")
    )
    turnover = float(np.mean([each.turnover for each in members]))
    exposure = float(np.mean([each.exposure for each in members]))
    return Backtest(AGENT, performance(values), values, path, turnover, exposure)


def _row(tests: Sequence[Backtest], moves: np.ndarray, ours: np.ndarray | None) -> Row:
    """A strategy over all markets, whose days follow one another."""
    whole = performance(np.cumprod([1.0, *(1 + moves)]))
    ahead = low = high = None
    if ours is not None:
        ahead, low, high = paired_bootstrap(ours, moves)
    return Row(
        tests[0].name, whole.cumulative_return, whole.annual_return, whole.annual_volatility,
        min(each.performance.max_drawdown for each in tests), whole.sharpe, whole.sharpe_error,
        float(np.mean([each.turnover for each in tests])),
        float(np.mean([each.exposure for each in tests])),
        min(each.deepest for each in tests), ahead, low, high,
    )  # fmt: skip


def _daily_sharpe(moves: np.ndarray) -> float:
    return float(performance(np.cumprod([1.0, *(1 + moves)])).sharpe / YEAR**0.5)


def _opening(task: Task, run: str, policy: str, sharpe: float) -> Opening:
    """The line of a ledger that tells a look at the holdout of a task."""
    seen = task.panels()
    return Opening(
        run, policy, tuple(panel.card.source for panel, _ in seen),
        tuple(sorted({name for panel, _ in seen for name in panel.tickers})),
        str(min(panel.dates[start] for panel, start in seen)),
        str(max(panel.dates[-1] for panel, _ in seen)), sharpe,
    )  # fmt: skip


def judge_files(
    config: RunConfig, policies: Mapping[str, Path], ledger: Path, *,
    agents: Collection[str] | None = None, trust: bool = False,
) -> Verdict:  # fmt: skip
    """Open the holdout of a run's task for its policy, or for several as one ensemble.

    Args:
        config: of the run.
        policies: files that ``load_policy`` reads, by name; several share the capital.
        ledger: folder in which openings are counted.
        agents: those that the policies may be of; None: any.
        trust: load an agent that is not built in, though the policy is another user's.

    Raises:
        UserError: the run does not trade, or a policy can't be loaded.
    """
    if config.env.backend not in BACKENDS:
        raise UserError(
            f"{config.name} has no holdout: its env.backend is {config.env.backend}, not trading"
        )
    task = task_of(config.env.id, config.env.kwargs)
    players = {
        name: agent_of(load_policy_file(path, agents=agents, trust=trust))
        for name, path in policies.items()
    }
    digests = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in policies.values()]
    return judge(task, players, run=config.name, policy="+".join(digests), ledger=ledger)
