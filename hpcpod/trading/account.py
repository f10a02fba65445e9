"""The arithmetic of accounts: orders, fills, costs, as pure functions of tensors.

Money is float64: in float32 trajectories drift apart by a thousandth.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hpcpod.trading.rules import Rules
from hpcpod.trading.tables import Tables

_BPS = 1e-4
_SAFE = 1 - 1e-12
"""Times the share of buys that can be paid, so that rounding never spends more than there is."""

BLOCK = 1024
"""Portfolios that are computed at once on the CPU."""


class Account(NamedTuple):
    """N accounts."""

    cash: Tensor
    """float64 [N]."""
    shares: Tensor
    """float64 [N, S], whole lots."""
    value: Tensor
    """float64 [N]: cash and shares at the last mark."""


def opened(n: int, stocks: int, capital: float, device: str | torch.device) -> Account:
    """Accounts that hold cash alone."""
    cash = torch.full((n,), capital, dtype=torch.float64, device=device)
    shares = torch.zeros(n, stocks, dtype=torch.float64, device=device)
    return Account(cash, shares, cash.clone())


def wanted(action: Tensor, account: Account, mark: Tensor, off: Tensor, rules: Rules) -> Tensor:
    """Shares to be bought, or, if negative, sold, before any limit: float64 [N, S].

    Args:
        action: float32 [N, S] in [-1, 1].
        account: the accounts.
        mark: the last known closes, [N, S], by which orders are sized; nobody knows the next price.
        off: bool [N]: sell everything.
        rules: of trading.
    """
    value = account.value.unsqueeze(1)
    if rules.mode == "weights":
        share = action.double().clamp(0.0, 1.0)
        share = share / share.sum(1, keepdim=True).clamp_min(1.0)
        change = share * value / mark - account.shares
    elif rules.mode == "shares":
        change = (action.clamp(-1.0, 1.0) * rules.max_shares).trunc().double()
    else:
        change = action.double().clamp(-1.0, 1.0) * rules.max_order * value / mark
    if rules.dead_band:
        change = change * ((change * mark).abs() >= rules.dead_band * value)
    if rules.risk_off is not None:
        change = torch.where(off.unsqueeze(1), -account.shares, change)
    return change


def traded(
    account: Account, change: Tensor, fill: Tensor, buyable: Tensor, sellable: Tensor, rules: Rules
) -> tuple[Account, Tensor]:
    """Fill orders: sells first, then buys, as ``Rules.buys`` says if cash doesn't pay for all.

    Args:
        account: before.
        change: shares that are wanted, as ``wanted`` gives them.
        fill: prices, [N, S].
        buyable: shares that can be bought, [N, S].
        sellable: shares that can be sold, [N, S].
        rules: of trading.

    Returns:
        The accounts, whose value is of before, and the money that was traded, float64 [N].
    """
    cost = (rules.fee_bps + rules.half_spread_bps) * _BPS
    change = torch.minimum(torch.maximum(change, -sellable), buyable)
    if rules.lot:
        change = (change / rules.lot).trunc() * rules.lot if rules.lot > 1 else change.trunc()
    if rules.buys == "largest":
        return _one_by_one(account, change, fill, cost, max(1, rules.lot))
    sold = torch.minimum((-change).clamp_min(0.0), account.shares)
    bought = change.clamp_min(0.0)
    proceeds = (sold * fill).sum(1)
    cash = account.cash + proceeds * (1 - cost)
    price = (bought * fill).sum(1) * (1 + cost)
    paid = (cash / price.clamp_min(1e-12)).clamp_max(1.0)
    bought = bought * torch.where(paid < 1.0, paid * _SAFE, paid).unsqueeze(1)
    if rules.lot:
        bought = (bought / rules.lot).floor() * rules.lot if rules.lot > 1 else bought.floor()
    spent = (bought * fill).sum(1)
    cash = cash - spent * (1 + cost)
    shares = account.shares + bought - sold
    return Account(cash, shares, account.value), proceeds + spent


def _one_by_one(
    account: Account, change: Tensor, fill: Tensor, cost: float, lot: int
) -> tuple[Account, Tensor]:
    """Fill orders in turns: sells, the largest first, then buys, the largest first, each of as many
    shares as the cash then pays for."""
    cash, shares, money = account.cash, account.shares.clone(), torch.zeros_like(account.cash)
    ranked = change.argsort(dim=1, stable=True)
    order = [ranked[:, turn : turn + 1] for turn in range(ranked.shape[1])]
    for at in order:
        price, held = fill.gather(1, at)[:, 0], shares.gather(1, at)[:, 0]
        sold = torch.minimum((-change.gather(1, at)[:, 0]).clamp_min(0.0), held)
        cash = cash + price * sold * (1 - cost)
        shares.scatter_add_(1, at, -sold[:, None])
        money = money + price * sold
    for at in reversed(order):
        price = fill.gather(1, at)[:, 0]
        paid = torch.div(cash, price * (1 + cost), rounding_mode="floor")
        bought = torch.minimum(change.gather(1, at)[:, 0].clamp_min(0.0), (paid // lot) * lot)
        cash = cash - price * bought * (1 + cost)
        shares.scatter_add_(1, at, bought[:, None])
        money = money + price * bought
    return Account(cash, shares, account.value), money


def marked(account: Account, mark: Tensor) -> Account:
    """The accounts at new marks, [N, S]."""
    return account._replace(value=account.cash + (account.shares * mark).sum(1))


def held(account: Account, close: Tensor) -> Tensor:
    """Values of accounts that trade nothing, float64 [N, B], at the closes of bars, [B, S]."""
    return account.cash.unsqueeze(1) + (account.shares.unsqueeze(1) * close).sum(2)


def observed(account: Account, tables: Tables, at: Tensor) -> Tensor:
    """Observations of decisions [N]: the market's row, the weight of each stock and of cash."""
    stocks, width = tables.mark.shape[1], tables.features.shape[1]
    obs = tables.features.new_empty(len(at), width + stocks + 1)
    torch.index_select(tables.features, 0, at, out=obs[:, :width])  # cat copies it once more
    for rows in in_blocks(at):
        held = account.shares[rows] * tables.mark.index_select(0, at[rows])
        obs[rows, width:-1] = held / account.value[rows].unsqueeze(1)
    obs[:, -1] = account.cash / account.value
    return obs


def in_blocks(at: Tensor) -> list[slice]:
    """Portfolios [N] in blocks, of which one after another is computed on the CPU: what that takes
    on the way stays in its cache, and does not grow with N. Elsewhere all are one."""
    count = len(at)
    size = BLOCK if at.device.type == "cpu" else max(1, count)
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]
