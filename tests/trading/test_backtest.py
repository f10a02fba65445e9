"""Backtests: baselines by hand, and an agent's path equal to the environment's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod.errors import UserError
from hpcpod.trading.backtest import (
    Moment,
    backtest,
    baselines,
    cash,
    hold,
    minimum_variance,
    rebalanced,
)
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.files import write_bars
from hpcpod.trading.holdout import judge
from hpcpod.trading.task import Task, task_of
from tests.trading.small import minutes

GIVEN: dict[str, Any] = {
    "market": {"stocks": 3, "days": 60, "minutes": 13, "seed": 4}, "stride": 4,
    "features": ["signal", "return_1"], "part": "selection",
}  # fmt: skip


def follow(obs: Tensor) -> Tensor:
    return obs[:, 0:6:2]


@pytest.mark.parametrize("buys", ["together", "largest"])
def test_an_agent_is_worth_what_it_is_in_the_environment(buys: str) -> None:
    given = {**GIVEN, "buys": buys}
    task = task_of("trading", given)
    [[found]] = backtest(task, {"agent": follow}, frozenset(["agent"]))
    env = TradingVecEnv("trading", 1, kwargs={**given, "sessions": 0})
    obs, gained = env.reset(torch.tensor([1])), 0.0
    for _ in range(env.spec.max_episode_steps or 0):
        step = env.step(follow(obs))
        obs, gained = step.obs, gained + step.reward.item() / 100
    assert bool(step.truncated.all())
    assert gained == pytest.approx(math.log(found.path[-1] / found.path[0]), abs=1e-5)
    assert found.performance.sessions == 60 * 0.8 - 60 * 0.6 - 5


def test_the_days_of_a_part_are_the_same_whatever_the_stride() -> None:
    """Of 13 bars a session; with a stride of 13 the last session has one decision, the last."""
    plays = {
        stride: backtest(task_of("trading", {**GIVEN, "stride": stride}), {"hold": hold})[0][0]
        for stride in (1, 4, 12, 13)
    }
    for each in plays.values():
        assert each.sessions.tolist() == list(range(41, 48))
        assert each.values == pytest.approx(plays[4].values, rel=1e-4)


def test_cash_stays_and_hold_trades_once() -> None:
    task = task_of("trading", {**GIVEN, "fee_bps": 0.0})
    [[idle, held, weekly]] = backtest(task, {"cash": cash, "hold": hold, "equal": rebalanced})
    assert set(idle.values) == {1e6}
    assert (idle.turnover, idle.exposure, idle.deepest) == (0.0, 0.0, 0.0)
    assert held.turnover * held.performance.sessions == pytest.approx(1.0, abs=0.01)
    assert held.exposure == pytest.approx(1.0, abs=0.01)
    assert weekly.turnover > held.turnover
    assert held.deepest <= held.performance.max_drawdown <= 0


def test_costs_are_paid_by_whoever_trades() -> None:
    free, dear = (
        backtest(task_of("trading", {**GIVEN, "fee_bps": fee}), baselines())[0]
        for fee in (0.0, 100.0)
    )
    for without, with_fee in zip(free, dear, strict=True):
        lost = without.values[-1] / with_fee.values[-1] - 1
        if without.name == "cash":
            assert lost == 0.0
        else:
            paid = 0.01 * without.turnover * without.performance.sessions
            assert lost == pytest.approx(paid, rel=0.15)


def test_each_market_is_played_by_itself() -> None:
    several = {**GIVEN, "market": {**GIVEN["market"], "markets": 2}}
    both = backtest(task_of("trading", several), baselines())
    alone = backtest(
        task_of("trading", {**GIVEN, "market": {**GIVEN["market"], "seed": 5}}), baselines()
    )
    for one, same in zip(both[1], alone[0], strict=True):
        assert one.values.tolist() == same.values.tolist(), one.name


@pytest.fixture
def fallen(tmp_path: Path) -> Task:
    """Nine sessions of four bars, and a decision at each first one. On the holdout's second day A
    halves and recovers, and B rises and falls; on its third A has no third bar."""
    close = np.full((9, 4, 2), 10.0)
    close[7] = [[10, 10], [8, 12], [5, 13], [10, 10]]
    close[8, :, 0] = [10, 12, np.nan, 10]
    panel = minutes(close)
    opens = np.where(np.isfinite(panel.close), panel.open, np.nan)
    opens[-1, 0] = 12.0
    opens[29], opens[32] = 9.0, 11.0
    high, low = np.full_like(opens, 20), np.full_like(opens, 1)
    write_bars(replace(panel, open=opens, high=high, low=low), tmp_path / "bars.csv")
    return task_of("trading", {
        "market": {"source": str(tmp_path / "bars.csv"), "calendar": None}, "stride": 4,
        "features": ["return_1"], "selection": "2020-01-09", "holdout": "2020-01-14", "embargo": 0,
        "part": "holdout", "sessions": 1, "fee_bps": 0.0, "lot": 0, "capital": 1000.0,
    })  # fmt: skip


def test_an_action_that_is_not_finite_is_named() -> None:
    task = task_of("trading", GIVEN)
    with pytest.raises(UserError, match="at decision 0 an action is not finite"):
        backtest(task, {"bad": lambda obs: obs[:, :3] / 0}, frozenset(["bad"]))


def test_a_stock_that_has_just_been_listed_is_not_the_one_of_least_variance() -> None:
    """A and B move by 1 % and by 2 % a decision, C by 3 % since two: 4 to 1 by variance."""
    turns = np.where(np.arange(60) % 2, 1.0, -1.0), np.where(np.arange(60) % 4 < 2, 1.0, -1.0)
    moves = np.stack([0.01 * turns[0], 0.02 * turns[1], 0.03 * (np.arange(60) > 57)], axis=1)
    past = np.exp(np.vstack([np.zeros(3), moves.cumsum(0)]))
    never = np.zeros(len(past), bool)
    weights = minimum_variance(Moment(0, 0, True, torch.zeros(1), past, np.ones(3), never))
    assert weights is not None
    assert weights.tolist() == pytest.approx([0.8, 0.2, 0.0], abs=1e-6)


def at(number: int) -> Any:
    """Buy A alone at first, and sell it at a later decision."""
    weights = {0: torch.tensor([1.0, 0.0]).double(), number: torch.zeros(2).double()}
    return lambda moment: weights.get(moment.number)


def test_a_fall_between_two_decisions_counts(fallen: Task) -> None:
    """100 shares of A; an order is filled in the bar after its decision, here at 9."""
    [[held, sold]] = backtest(fallen, {"held": at(9), "sold": at(1)})
    assert (held.path.tolist(), sold.path.tolist()) == ([1000] * 3, [1000, 1000, 900])
    assert (held.values.tolist(), sold.values.tolist()) == ([1000] * 4, [1000, 1000, 900, 900])
    assert held.bars.tolist() == [1000] * 5 + [800, 500, 1000, 1000, 1200, 1200, 1000]
    assert sold.bars.tolist() == [1000] * 5 + [900] * 7
    assert held.performance.max_drawdown == 0
    assert (held.deepest, sold.deepest) == pytest.approx((-0.5, -0.1))


def test_an_order_of_a_session_s_last_bar_is_filled_in_the_next_one(fallen: Task) -> None:
    """Decided at 10 at the second day's end, filled at the third's opening, 11."""
    [[sold]] = backtest(replace(fallen, rules=replace(fallen.rules, stride=3)), {"sold": at(3)})
    assert sold.bars == pytest.approx([1000] * 5 + [800, 500, 1000] + [1100] * 4)


def test_what_one_account_of_an_ensemble_loses_another_gains(fallen: Task) -> None:
    """500 in A and 500 in B: 250 and 650 where A is at its lowest."""
    agents = {
        name: lambda obs, own=own: torch.tensor([own]).expand(len(obs), 2)
        for name, own in (("a", [1.0, 0.0]), ("b", [0.0, 1.0]))
    }
    row = judge(fallen, agents).rows[0]
    assert (row.deepest, row.max_drawdown) == pytest.approx((-0.1, 0.0))
