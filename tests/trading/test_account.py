"""The arithmetic of accounts, by hand and beside a sequential reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hpcpod.errors import UserError
from hpcpod.trading.account import Account, marked, opened, traded, wanted
from hpcpod.trading.rules import PRESETS, Rules, rules_of


def rows(*numbers: float) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


FREE = rows(math.inf, math.inf)
"""No limit."""
NEVER = torch.tensor([False])


def test_a_buy_pays_price_and_fee_in_whole_lots() -> None:
    rules = Rules(fee_bps=100.0)  # 1 %
    account = opened(1, 2, 1000.0, "cpu")
    change = wanted(torch.tensor([[0.5, 0.0]]), account, rows(30.0, 10.0), NEVER, rules)
    assert change.tolist() == [pytest.approx([500 / 30, 0.0])]
    account, money = traded(account, change, rows(30.0, 10.0), FREE, FREE, rules)
    assert account.shares.tolist() == [[16.0, 0.0]]
    assert account.cash.item() == pytest.approx(1000 - 16 * 30 * 1.01)
    assert money.item() == 480.0
    assert marked(account, rows(33.0, 10.0)).value.item() == pytest.approx(
        1000 - 484.8 + 16 * 33
    )  # fmt: skip


def test_sells_come_first_and_pay_for_buys() -> None:
    rules = Rules(fee_bps=0.0)
    account = Account(rows(0.0)[0], rows(10.0, 0.0), rows(100.0)[0])
    account, _ = traded(account, rows(-10.0, 5.0), rows(10.0, 20.0), FREE, FREE, rules)
    assert account.shares.tolist() == [[0.0, 5.0]]
    assert account.cash.item() == 0.0


def test_what_cash_does_not_pay_for_is_cut_by_the_same_share() -> None:
    rules = Rules(fee_bps=0.0)
    account = Account(rows(100.0)[0], rows(0.0, 0.0), rows(100.0)[0])
    account, _ = traded(account, rows(10.0, 10.0), rows(10.0, 10.0), FREE, FREE, rules)
    assert account.shares.tolist() == [[4.0, 4.0]]  # 5 each less a rounding in favour of cash
    fractions, _ = traded(
        Account(rows(100.0)[0], rows(0.0, 0.0), rows(100.0)[0]), rows(10.0, 10.0),
        rows(10.0, 10.0), FREE, FREE, Rules(fee_bps=0.0, lot=0),
    )  # fmt: skip
    assert fractions.shares.tolist() == [pytest.approx([5.0, 5.0])]


def test_nobody_sells_more_than_is_held_nor_trades_more_than_there_is() -> None:
    rules = Rules(fee_bps=0.0)
    account = Account(rows(0.0)[0], rows(3.0, 50.0), rows(53.0)[0])
    account, _ = traded(account, rows(-9.0, -40.0), rows(1.0, 1.0), FREE, rows(9.0, 7.0), rules)
    assert account.shares.tolist() == [[0.0, 43.0]]


def test_orders_a_dead_band_and_risk_off() -> None:
    account = Account(rows(500.0)[0], rows(0.0, 50.0), rows(1000.0)[0])
    price, half = rows(10.0, 10.0), torch.tensor([[0.5, -1.0]])
    orders = wanted(half, account, price, NEVER, Rules(mode="orders", max_order=0.2))
    assert orders.tolist() == [[10.0, -20.0]]
    banded = wanted(half, account, price, NEVER, Rules(mode="orders", dead_band=0.15))
    assert banded.tolist() == [[0.0, -20.0]]
    off = wanted(half, account, price, torch.tensor([True]), Rules(mode="orders", risk_off=5.0))
    assert off.tolist() == [[0.0, -50.0]]


def test_weights_above_1_are_shared_and_negative_ones_are_none() -> None:
    account = opened(1, 2, 100.0, "cpu")
    change = wanted(torch.tensor([[1.0, 1.0]]), account, rows(1.0, 1.0), NEVER, Rules())
    assert change.tolist() == [[50.0, 50.0]]
    change = wanted(torch.tensor([[-1.0, 0.5]]), account, rows(1.0, 1.0), NEVER, Rules())
    assert change.tolist() == [[0.0, 50.0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0, 1, 10]), st.sampled_from([0.0, 20.0]))
def test_money_is_conserved_as_by_a_sequential_reference(seed: int, lot: int, fee: float) -> None:
    draw = np.random.default_rng(seed)
    rules = Rules(fee_bps=fee, half_spread_bps=3.0, lot=lot)
    stocks = 4
    account = opened(1, stocks, 10_000.0, "cpu")
    cash, held = 10_000.0, np.zeros(stocks)
    for _ in range(20):
        price = draw.uniform(1, 300, stocks)
        change = draw.normal(0, 60, stocks)
        most = np.where(draw.random(stocks) < 0.2, 0.0, 200.0)
        account, _ = traded(
            account, torch.from_numpy(change)[None], torch.from_numpy(price)[None],
            torch.from_numpy(most)[None], torch.from_numpy(most)[None], rules,
        )  # fmt: skip
        cash, held = reference(cash, held, change, price, most, rules)
        assert account.shares[0].numpy() == pytest.approx(held, abs=1e-6)
        assert account.cash.item() == pytest.approx(cash, abs=1e-6)
        assert account.cash.item() >= 0
        if lot:
            assert (account.shares % lot == 0).all()


def reference(
    cash: float, held: np.ndarray, change: np.ndarray, price: np.ndarray, most: np.ndarray,
    rules: Rules,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """One stock after another, in Python's numbers."""
    cost = (rules.fee_bps + rules.half_spread_bps) / 1e4

    def lots(count: float) -> float:
        return math.floor(count / rules.lot) * rules.lot if rules.lot else count

    held = held.copy()
    for i, each in enumerate(change):
        if each < 0:
            sold = min(lots(min(-each, most[i])), held[i])
            held[i] -= sold
            cash += sold * price[i] * (1 - cost)
    buys = [lots(min(max(each, 0.0), most[i])) for i, each in enumerate(change)]
    total = sum(b * p for b, p in zip(buys, price, strict=True)) * (1 + cost)
    share = 1.0 if total <= cash else cash / total * (1 - 1e-12)
    for i, each in enumerate(buys):
        bought = lots(each * share)
        held[i] += bought
        cash -= bought * price[i] * (1 + cost)
    return cash, held


def test_rules_out_of_range_are_refused() -> None:
    assert rules_of("paper", {"stride": 5}).fee_bps == 20.0
    assert PRESETS["strict"].participation == 0.01
    for preset, changed, said in [
        ("papr", {}, "there is no preset papr, did you mean|no preset papr"),
        ("plain", {"fees": 1}, "trading has no rule 'fees'"),
        ("plain", {"fee_bps": -1}, "fee_bps is a number from 0 to 1000, got -1"),
        ("plain", {"participation": 2.0}, "participation is a number from 1e-09 to 1"),
        ("plain", {"mode": "short"}, "mode is one of weights, orders"),
        ("plain", {"stride": 2.5}, "stride is a whole number, got 2.5"),
        ("plain", {"risk_off": "30"}, "risk_off is a number from 0, got '30'"),
        ("plain", {"capital": math.inf}, "capital is a number from 1e-06 to 1e.15, got inf"),
        ("plain", {"fee_bps": 20_000}, "fee_bps is a number from 0 to 1000"),
    ]:
        with pytest.raises(UserError, match=said):
            rules_of(preset, changed)  # type: ignore[arg-type]
