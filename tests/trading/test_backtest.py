"""Backtests: baselines by hand, and an agent's path equal to the environment's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.trading.backtest import backtest, baselines, cash, hold, rebalanced
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.task import task_of

GIVEN: dict[str, Any] = {
    "market": {"stocks": 3, "days": 60, "minutes": 13, "seed": 4}, "stride": 4,
    "features": ["signal", "return_1"], "part": "selection",
}  # fmt: skip


def follow(obs: Tensor) -> Tensor:
    return obs[:, 0:6:2]


def test_an_agent_is_worth_what_it_is_in_the_environment() -> None:
    task = task_of("trading", GIVEN)
    [[found]] = backtest(task, {"agent": follow}, frozenset(["agent"]))
    env = TradingVecEnv("trading", 1, kwargs={**GIVEN, "sessions": 0})
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
