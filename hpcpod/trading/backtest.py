"""Backtests: strategies side by side over one part of a market, with equal fills and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpcpod.trading.account import Account, marked, observed, opened, traded, wanted
from hpcpod.trading.metrics import Performance, drawdown, performance
from hpcpod.trading.panel import Floats
from hpcpod.trading.tables import Tables
from hpcpod.trading.task import Market, Task

MONTH = 21
"""Sessions."""
HISTORY = 60
"""Sessions that a baseline looks back."""


class Moment(NamedTuple):
    """A decision, as a strategy sees it; nothing of later ones."""

    number: int
    """Of the decision in the backtest, from 0."""
    session: int
    """Sessions since the backtest began."""
    opens: bool
    """The first decision of its session."""
    obs: Tensor
    """The observation, float32 [O]."""
    past: Floats
    """Marks of the decisions so far and of those before the backtest, [d + 1, S]."""
    tradable: Floats
    """1.0 where a stock can be traded, [S]."""


Strategy = Callable[[Moment], Tensor | None]
"""Gives the weights of the account that are wanted, float64 [S]; None: trade nothing."""
Agent = Callable[[Tensor], Tensor]
"""Gives actions [N, S] for observations [N, O]."""


@dataclass(frozen=True)
class Backtest:
    """One strategy over one part of one market."""

    name: str
    performance: Performance
    values: Floats
    """The account's value at the start and at the end of each session."""
    turnover: float
    """Money traded in a session, over the account's value; the mean."""
    exposure: float
    """Share of the account that is in stocks; the mean over decisions."""
    deepest: float
    """The deepest fall between decisions, not between sessions alone."""

    @property
    def moves(self) -> Floats:
        """Daily returns."""
        return np.asarray(self.values[1:] / self.values[:-1] - 1)


def backtest(
    task: Task, strategies: Mapping[str, Strategy | Agent], agents: frozenset[str] = frozenset()
) -> list[list[Backtest]]:
    """Play strategies through the whole part of each market of a task.

    Args:
        task: its ``sessions`` don't matter: each backtest is one long episode.
        strategies: by name.
        agents: names of those that are agents.

    Returns:
        Of each market, the backtests in the order of the strategies.
    """
    whole = replace(task, sessions=0)
    windows = whole.windows()
    return [_played(windows.tables, market, task, strategies, agents) for market in windows.markets]


def _played(
    tables: Tables, market: Market, task: Task,
    strategies: Mapping[str, Strategy | Agent], agents: frozenset[str],
) -> list[Backtest]:  # fmt: skip
    count, stocks = len(strategies), tables.mark.shape[1]
    account = opened(count, stocks, task.rules.capital, "cpu")
    marks, start, steps = tables.mark.numpy(), market.begins, market.past - market.begins
    days = tables.sessions
    values, money, invested, ends = [account.value], [], [], []
    for number in range(steps):
        d = start + number
        at = torch.full((count,), d)
        obs, fill = observed(account, tables, at), tables.fill[d]
        changes = []
        for row, (name, strategy) in enumerate(strategies.items()):
            own = Account(*(each[row : row + 1] for each in account))
            if name in agents:
                action = strategy(obs[row : row + 1])  # type: ignore[arg-type]
                assert action is not None
                changes.append(wanted(action, own, fill[None], tables.off[d : d + 1], task.rules))
                continue
            moment = Moment(
                number, int(days[d] - days[start]), number == 0 or days[d] != days[d - 1],
                obs[row], marks[market.first : d + 1], (tables.most[d] > 0).double().numpy(),
            )  # fmt: skip
            weights = strategy(moment)  # type: ignore[arg-type]
            zero = torch.zeros(1, stocks, dtype=torch.float64)
            target = zero if weights is None else weights * own.value / fill - own.shares
            changes.append(target.reshape(1, stocks))
        account, spent = traded(
            account, torch.cat(changes), fill, tables.most[d].expand(count, -1), task.rules
        )
        account = marked(account, tables.mark[d + 1])
        values.append(account.value)
        money.append(spent / values[-2])
        invested.append(1 - account.cash / account.value)
        if number + 1 == steps or days[d + 1] != days[d]:
            ends.append(number + 1)
    path = torch.stack(values).numpy()
    sums, shares = torch.stack(money).sum(0).numpy(), torch.stack(invested).mean(0).numpy()
    return [
        Backtest(
            name, performance(path[[0, *ends], row]), path[[0, *ends], row],
            float(sums[row]) / len(ends), float(shares[row]), drawdown(path[:, row]),
        )
        for row, name in enumerate(strategies)
    ]  # fmt: skip


def cash(_moment: Moment) -> None:
    """Hold cash."""


def hold(moment: Moment) -> Tensor | None:
    """Buy equal weights of all stocks at the start, and hold them."""
    return _equal(moment) if moment.number == 0 else None


def rebalanced(moment: Moment) -> Tensor | None:
    """Equal weights, restored at the first decision of each session."""
    return _equal(moment) if moment.opens else None


def minimum_variance(moment: Moment) -> Tensor | None:
    """Weights of least variance by the last ``HISTORY`` decisions' returns, none negative, once a
    month; the covariance is shrunk by half to its diagonal."""
    if not _monthly(moment):
        return None
    moves = _returns(moment)
    if len(moves) < 2:
        return _equal(moment)
    covariance = np.cov(moves.T).reshape(moves.shape[1], -1)
    shrunk = 0.5 * covariance + 0.5 * np.diag(np.diag(covariance))
    shrunk += 1e-12 * np.eye(len(shrunk))
    weights = np.maximum(np.linalg.solve(shrunk, np.ones(len(shrunk))), 0) * moment.tradable
    return torch.from_numpy(weights / max(weights.sum(), 1e-12))


def momentum(moment: Moment) -> Tensor | None:
    """Equal weights of the third of stocks that rose most in ``HISTORY`` decisions, monthly."""
    if not _monthly(moment):
        return None
    grown = _returns(moment).sum(0)
    best = np.zeros(len(grown))
    best[np.argsort(-grown, kind="stable")[: max(1, len(grown) // 3)]] = 1.0
    best *= moment.tradable
    return torch.from_numpy(best / max(best.sum(), 1.0))


def at_random(seed: int) -> Strategy:
    """Weights drawn anew at the first decision of each session."""

    def strategy(moment: Moment) -> Tensor | None:
        if not moment.opens:
            return None
        draw = np.random.default_rng([seed, moment.session])
        weights = draw.random(len(moment.tradable)) * moment.tradable
        return torch.from_numpy(weights / max(weights.sum(), 1e-12))

    return strategy


def baselines(seed: int = 0) -> dict[str, Strategy]:
    """All of them, by name."""
    return {
        "cash": cash,
        "hold": hold,
        "equal weight": rebalanced,
        "minimum variance": minimum_variance,
        "momentum": momentum,
        "random": at_random(seed),
    }


def _equal(moment: Moment) -> Tensor:
    return torch.from_numpy(moment.tradable / max(moment.tradable.sum(), 1.0))


def _monthly(moment: Moment) -> bool:
    return moment.opens and moment.session % MONTH == 0


def _returns(moment: Moment) -> Floats:
    return np.diff(np.log(moment.past[-HISTORY - 1 :]), axis=0)
