"""Tables of a panel that the environment steps through: one row for each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpcpod.errors import UserError
from hpcpod.trading.features import compute, first_turbulence, turbulence_of
from hpcpod.trading.panel import Floats, MarketPanel
from hpcpod.trading.rules import Rules


class Tables(NamedTuple):
    """D decisions of S stocks with K features, as tensors on one device.

    The order of decision d is sized at ``mark[d]``, filled at ``fill[d]``, and the account is worth
    ``mark[d + 1]`` when the next one is made.
    """

    features: Tensor
    """float32 [D, S * K + S + 1]: features, which stocks can be traded, and if risk is off."""
    mark: Tensor
    """float64 [D, S]: the last close that is known."""
    fill: Tensor
    """float64 [D, S]: the price at which orders are filled."""
    buyable: Tensor
    """float64 [D, S]: shares that can be bought; 0: the stock is no member, has no bar or volume,
    or a feature of it is not known yet."""
    sellable: Tensor
    """float64 [D, S]: shares that can be sold, also of who is no member any more. After its last
    bar a stock can still be sold at its last close, and is valued at it."""
    off: Tensor
    """bool [D]: all is to be sold."""
    first: int
    """The first decision at which the features of each stock are known that began with a price."""
    sessions: npt.NDArray[np.int64]
    """The session of each decision, [D]; it goes on counting from market to market."""


class Bars(NamedTuple):
    """B bars of a market, from a part's first decision until its last session's end."""

    close: Tensor
    """float64 [B, S]: the last close that is known."""
    at: npt.NDArray[np.int64]
    """The bar of each decision."""
    ends: npt.NDArray[np.int64]
    """The last bar of each session, but for bar 0."""
    sessions: npt.NDArray[np.int64]
    """The session of each of these, counted from that of bar 0."""
    dates: npt.NDArray[np.datetime64]
    """Its date."""


def tables(panel: MarketPanel, names: Sequence[str], rules: Rules, device: str) -> Tables:
    """The tables of a panel.

    Raises:
        UserError: too few bars are left after the features' warm-up.
    """
    rows = decisions(panel, rules.stride)
    values = compute(panel, names, rows)
    known = np.asarray(np.isfinite(values).all(2))
    early = np.isfinite(panel.marks[rows[:1]]).any(0) & panel.tradable.any(0)
    # A stock that is listed later waits for its own warm-up, and nobody else does.
    warm = np.asarray(known[:, early if early.any() else panel.tradable.any(0)].all(1))
    if len(rows) < 3 or not warm[:-2].any():
        never = [
            name for k, name in enumerate(names) if not np.isfinite(values[..., k]).any()
        ] or names
        raise UserError(
            f"{panel.card.source} has {len(panel.times)} bars, too few for the warm-up of"
            f" {', '.join(never)} and two decisions"
            + " (of a file without volume it never ends)"
            * ("volume_z" in never and bool(np.isinf(panel.volume).any()))
        )
    off = np.zeros(len(panel.times), bool)
    if rules.risk_off is not None:
        wild = turbulence_of(panel)
        if not np.isfinite(wild[rows]).any():
            raise UserError(
                f"{panel.card.source} has {len(panel.dates)} sessions below its part's end, too few"
                f" for the turbulence of {panel.shape[1]} stocks, which risk_off goes by:"
                f" {first_turbulence(panel)} are enough; take fewer stocks, a longer panel, or"
                " risk_off: null"
            )
        off = np.nan_to_num(wild) > rules.risk_off
    buyable, sellable, fill = _limits(panel, rows, rules)
    tradable = panel.tradable[rows] & known
    # of 1/0, policies' actions were NaN
    values = np.where(np.abs(values) <= np.finfo(np.float32).max, values, 0.0)
    seen = np.concatenate([values.reshape(len(rows), -1), tradable, off[rows, None]], axis=1)
    marks = _priced(panel)
    return Tables(
        torch.from_numpy(seen.astype(np.float32)).to(device),
        torch.from_numpy(marks[rows]).to(device),
        torch.from_numpy(np.where(np.isfinite(fill), fill, marks[rows])).to(device),
        torch.from_numpy(np.where(known, buyable, 0.0)).to(device),
        torch.from_numpy(sellable).to(device),
        torch.from_numpy(off[rows]).to(device),
        int(warm.argmax()),
        panel.sessions[rows],
    )


def bars_of(panel: MarketPanel, stride: int, begins: int) -> Bars:
    """The bars from a decision on; a last session without a decision has none."""
    at = decisions(panel, stride)[begins:]
    past = int(np.searchsorted(panel.sessions, panel.sessions[at[-1]], side="right"))
    own = slice(at[0], past)
    ends = np.flatnonzero(panel.is_last[own])
    ends, days = ends[ends > 0], panel.sessions[own]
    close = torch.from_numpy(_priced(panel)[own].copy())  # else all of the panel stays
    return Bars(close, at - at[0], ends, days[ends] - days[0], panel.dates[days[ends]])


def _limits(
    panel: MarketPanel, rows: npt.NDArray[np.int64], rules: Rules
) -> tuple[Floats, Floats, Floats]:
    """Shares that can be bought and sold in the bars after ``rows``, and at which prices."""
    after = rows if rules.fill == "seen" else rows + 1
    price = panel.open if rules.fill == "open" else panel.close
    open_for_trade = panel.traded[after]
    most = np.where(open_for_trade, np.inf, 0.0)
    if rules.participation is not None:
        most = np.where(open_for_trade, np.floor(panel.volume[after] * rules.participation), 0.0)
    has_close = np.isfinite(panel.close)
    last = len(panel.times) - 1 - has_close[::-1].argmax(0)
    # A stock whose last bar is of the last session may trade again: the panel ends there.
    gone = (after[:, None] > last) & (panel.sessions[last] < panel.sessions[-1])
    fill = np.where(open_for_trade, price[after], panel.marks[rows])
    buyable = np.where(panel.member[after] & panel.member[rows], most, 0.0)
    return buyable, np.where(gone, np.inf, most), fill


def _priced(panel: MarketPanel) -> Floats:
    """The panel's marks; before its first price a stock, which nobody can hold, has that price."""
    first = np.isfinite(panel.marks).argmax(0)
    begun = panel.marks[first, np.arange(panel.shape[1])]
    return np.where(np.isfinite(panel.marks), panel.marks, np.nan_to_num(begun, nan=1.0))


def decisions(panel: MarketPanel, stride: int) -> npt.NDArray[np.int64]:
    """The bars at whose end is decided: each ``stride``-th of a session, and a bar follows."""
    bars = np.arange(len(panel.times))
    begins = np.append(True, panel.is_last[:-1])
    within = bars - np.maximum.accumulate(np.where(begins, bars, 0))
    return np.asarray(bars[:-1][within[:-1] % stride == 0])


def joined(parts: Sequence[Tables]) -> Tables:
    """Several markets one after another; ``first`` is that of the first one."""
    if len(parts) == 1:
        return parts[0]
    past = np.cumsum([0, *(part.sessions[-1] + 1 for part in parts[:-1])])
    sessions = [part.sessions + begun for part, begun in zip(parts, past, strict=True)]
    return Tables(
        torch.cat([part.features for part in parts]),
        torch.cat([part.mark for part in parts]),
        torch.cat([part.fill for part in parts]),
        torch.cat([part.buyable for part in parts]),
        torch.cat([part.sellable for part in parts]),
        torch.cat([part.off for part in parts]),
        parts[0].first,
        np.concatenate(sessions),
    )
