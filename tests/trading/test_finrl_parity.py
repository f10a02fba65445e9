"""The preset ``finrl_parity`` beside a sequential account of the trades of FinRL's environment: all
sells, the largest order first, then all buys, the largest first, each as far as the cash goes,
at the close that was just seen; written from its description, in NumPy.
``benchmarks/trading_finrl.py --parity`` plays FinRL's own file beside the preset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hpcpod.trading.account import Account, traded, wanted
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.rules import PRESETS

GIVEN: dict[str, Any] = {
    "market": {"stocks": 6, "days": 60, "minutes": 3, "seed": 2}, "preset": "finrl_parity",
    "features": ["signal"], "sessions": 12,
}  # fmt: skip
COST = 0.001
MOST = 100


def turn(
    cash: float, held: list[int], action: np.ndarray, close: np.ndarray
) -> tuple[float, list[int]]:
    """A day of trading."""
    held, orders = list(held), (action * MOST).astype(int)
    ranked = np.argsort(orders, kind="stable")
    for i in ranked[: (orders < 0).sum()]:
        sold = min(-orders[i], held[i])
        held[i] -= sold
        cash += close[i] * sold * (1 - COST)
    for i in ranked[::-1][: (orders > 0).sum()]:
        affordable = cash // (close[i] * (1 + COST))
        bought = min(affordable, orders[i])
        held[i] += int(bought)
        cash -= close[i] * bought * (1 + COST)
    return cash, held


@pytest.mark.parametrize("capital", [1_000_000.0, 20_000.0])
def test_each_trade_of_each_day_is_the_sequential_one(capital: float) -> None:
    """With little money most days end with buys that are cut off."""
    env = TradingVecEnv("trading", 3, kwargs={**GIVEN, "capital": capital})
    env.reset(torch.arange(3))
    assert env._batch is not None
    draw = np.random.default_rng(7)
    accounts = [(capital, [0] * 6) for _ in range(3)]
    cut = 0
    for _ in range(30):
        closes = env._tables.mark[env._batch.at].numpy()
        actions = draw.uniform(-0.6, 1, (3, 6)).astype(np.float32)
        wished = [np.maximum((a * MOST).astype(int), 0).sum() for a in actions]
        before = [sum(held) for _, held in accounts]
        accounts = [
            turn(*account, action, close)
            for account, action, close in zip(accounts, actions, closes, strict=True)
        ]
        env.step(torch.from_numpy(actions))
        cut += sum(sum(h) - b < w for (_, h), b, w in zip(accounts, before, wished, strict=True))
        assert env.account.shares.tolist() == [held for _, held in accounts]
        assert env.account.cash.tolist() == [cash for cash, _ in accounts]
        worth = env._tables.mark[env._batch.at].numpy()
        assert env.account.value.tolist() == pytest.approx(
            [cash + (np.array(h) * w).sum() for (cash, h), w in zip(accounts, worth, strict=True)],
            rel=1e-14,
        )
    assert cut > 20


def test_the_largest_buy_comes_first_and_takes_what_there_is() -> None:
    rules = PRESETS["finrl_parity"]
    close = torch.tensor([[10.0, 20.0, 5.0]], dtype=torch.float64)
    money = torch.tensor([100.0], dtype=torch.float64)
    held = torch.tensor([[0.0, 0.0, 4.0]], dtype=torch.float64)
    account, free = Account(money, held, money + 20), torch.full_like(close, torch.inf)
    action = torch.tensor([[0.05, 0.06, -0.9]])
    change = wanted(action, account, close, torch.tensor([False]), rules)
    assert change.tolist() == [[5.0, 6.0, -90.0]]
    account, traded_money = traded(account, change, close, free, free, rules)
    # 4 sold for 19.98; 119.98 buy five of the second, and of the first what 19.88 buy.
    assert account.shares.tolist() == [[1.0, 5.0, 0.0]]
    assert account.cash.item() == pytest.approx(119.98 - 100.1 - 10.01)
    assert traded_money.item() == 130.0


def test_of_equal_buys_the_last_stock_comes_first() -> None:
    """FinRL leaves their order to NumPy's sort, which is not stable: it differs by processor."""
    rules = PRESETS["finrl_parity"]
    close = torch.tensor([[10.0, 10.0]], dtype=torch.float64)
    money = torch.tensor([120.12], dtype=torch.float64)
    account = Account(money, torch.zeros_like(close), money)
    free = torch.full_like(close, torch.inf)
    change = torch.tensor([[8.0, 8.0]], dtype=torch.float64)
    account, _ = traded(account, change, close, free, free, rules)
    # Eight of the second for 80.08; of the first what 40.04 buy at 10.01.
    assert account.shares.tolist() == [[4.0, 8.0]]
