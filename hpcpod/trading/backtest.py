"""Backtests: strategies side by side over one part of a market, with equal fills and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpcpod.errors import UserError
from hpcpod.trading.account import Account, held, marked, observed, opened, traded, wanted
from hpcpod.trading.metrics import Performance, drawdown, performance
from hpcpod.trading.panel import Flags, Floats
from hpcpod.trading.rules import Rules
from hpcpod.trading.tables import Tables
from hpcpod.trading.task import Market, Task
from hpcpod.trading.verdict import RISK_OFF

MONTH = 21
"""Sessions."""
HISTORY = 60
"""Decisions that a baseline looks back."""


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
    """1.0 where a stock was traded in the last bar and its features are known, [S]."""
    off: Flags
    """True where risk is off, of the same decisions as ``past``, [d + 1]."""


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
    """The account's value at the start and at the close of each session."""
    sessions: npt.NDArray[np.int64]
    """The session of each close, counted on from market to market: policies of other strides and
    warm-ups have the same numbers for the same dates."""
    path: Floats
    """Its value at each decision."""
    bars: Floats
    """Its value at the close of each bar from the first decision on."""
    turnover: float
    """Money traded in a session, over the account's value; the mean."""
    exposure: float
    """Share of the account that is in stocks; the mean over decisions."""

    @property
    def deepest(self) -> float:
        """The deepest fall between closes of bars, not between sessions or decisions alone."""
        return drawdown(self.bars)

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

    Raises:
        UserError: an action of an agent is not finite.
    """
    whole = replace(task, sessions=0)
    windows = whole.windows(bars=True)
    return [_played(windows.tables, market, task, strategies, agents) for market in windows.markets]


def _played(
    tables: Tables, market: Market, task: Task,
    strategies: Mapping[str, Strategy | Agent], agents: frozenset[str],
) -> list[Backtest]:  # fmt: skip
    count, rules = len(strategies), task.rules
    account = opened(count, tables.mark.shape[1], rules.capital, "cpu")
    goals: list[Tensor | None] = [None] * count
    bars = market.bars
    assert bars is not None
    values, money, invested = [account.value.unsqueeze(1)], list[Tensor](), list[Tensor]()
    for d, after, until in zip(
        range(market.begins, market.past), bars.at + 1, bars.at[1:] + 1, strict=False
    ):
        changes = [
            _wanted(strategy, name in agents, row, account, tables, market, d, rules, goals)
            for row, (name, strategy) in enumerate(strategies.items())
        ]
        account, spent = traded(
            account, torch.cat(changes), tables.fill[d].expand(count, -1),
            tables.buyable[d].expand(count, -1), tables.sellable[d].expand(count, -1), rules,
        )  # fmt: skip
        money.append(spent / account.value)
        values.append(held(account, bars.close[after:until]))
        account = marked(account, tables.mark[d + 1])
        invested.append(1 - account.cash / account.value)
    values.append(held(account, bars.close[until:]))
    days, sessions = bars.sessions + tables.sessions[market.begins], np.append(0, bars.ends)
    sums, shares = torch.stack(money).sum(0).tolist(), torch.stack(invested).mean(0).tolist()
    return [
        Backtest(
            name, performance(own[sessions]), own[sessions], days, own[bars.at], own,
            spent / len(days), share,
        )
        for name, own, spent, share in zip(
            strategies, torch.cat(values, 1).numpy(), sums, shares, strict=True
        )
    ]  # fmt: skip


def _wanted(  # noqa: PLR0913 (one row of a decision)
    strategy: Strategy | Agent, is_agent: bool, row: int, account: Account, tables: Tables,
    market: Market, d: int, rules: Rules, goals: list[Tensor | None],
) -> Tensor:  # fmt: skip
    """The shares that a strategy buys or sells at a decision, float64 [1, S].

    The goal of a baseline stays until it is reached: what a bar's volume cuts off is asked for
    again, as a policy would.
    """
    own = Account(*(each[row : row + 1] for each in account))
    obs = observed(own, tables, torch.tensor([d]))
    if is_agent:
        action = strategy(obs)  # type: ignore[arg-type]
        assert action is not None
        if not action.isfinite().all():
            raise UserError(f"at decision {d - market.begins} an action is not finite")
        return wanted(action, own, tables.mark[d : d + 1], tables.off[d : d + 1], rules)
    stocks = tables.mark.shape[1]
    days, first = tables.sessions, d == market.begins
    moment = Moment(
        d - market.begins, int(days[d] - days[market.begins]), first or days[d] != days[d - 1],
        obs[0], tables.mark.numpy()[market.first : d + 1],
        tables.features[d, -stocks - 1 : -1].double().numpy(),
        tables.off.numpy()[market.first : d + 1],
    )  # fmt: skip
    weights = strategy(moment)  # type: ignore[arg-type]
    if weights is not None:
        goals[row] = (weights * own.value / tables.mark[d]).reshape(1, stocks)
    goal = goals[row]
    return torch.zeros_like(own.shares) if goal is None else goal - own.shares


def cash(_moment: Moment) -> None:
    """Hold cash."""


def hold(moment: Moment) -> Tensor | None:
    """Buy equal weights of all stocks at the start, and hold them."""
    return _equal(moment) if moment.number == 0 else None


def hold_risk_off(moment: Moment) -> Tensor | None:
    """Hold equal weights of all stocks under the rule ``risk_off`` of policies: sell all while risk
    is off, and buy equal weights anew after it."""
    if moment.off[-1]:
        return torch.zeros(len(moment.tradable), dtype=torch.float64)
    return _equal(moment) if moment.number == 0 or moment.off[-2] else None


def rebalanced(moment: Moment) -> Tensor | None:
    """Equal weights, restored at the first decision of each session."""
    return _equal(moment) if moment.opens else None


def minimum_variance(moment: Moment) -> Tensor | None:
    """Weights of least variance by the last ``HISTORY`` decisions' returns, none negative, once a
    month; the covariance is shrunk by half to its diagonal. A stock that was listed in the second
    half of these decisions has none: the price that stood still before is no variance."""
    if not _monthly(moment):
        return None
    moves = _returns(moment)
    known = (moment.tradable > 0) & (moves[: len(moves) // 2 + 1] != 0).any(0)
    if len(moves) < 2 or not known.any():
        return _equal(moment)
    covariance = np.cov(moves[:, known].T).reshape(known.sum(), -1)
    shrunk = 0.5 * covariance + 0.5 * np.diag(np.diag(covariance))
    shrunk += 1e-12 * np.eye(len(shrunk))
    weights = np.zeros(len(known))
    weights[known] = np.maximum(np.linalg.solve(shrunk, np.ones(len(shrunk))), 0)
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


def baselines(seed: int = 0, *, risk_off: bool = False) -> dict[str, Strategy]:
    """All of them, by name.

    Args:
        seed: of the random one.
        risk_off: the rules have a ``risk_off``, which policies are under and baselines are not: one
            more is.
    """
    return {
        "cash": cash,
        "hold": hold,
        **({RISK_OFF: hold_risk_off} if risk_off else {}),
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
