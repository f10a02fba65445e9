"""Tables of a panel that the environment steps through: one row for each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpcpod.errors import UserError
from hpcpod.trading.features import compute, turbulence_of
from hpcpod.trading.panel import MarketPanel
from hpcpod.trading.rules import Rules


class Tables(NamedTuple):
    """D decisions of S stocks with K features, as tensors on one device.

    The order of decision d is filled at ``fill[d]``, and the account is worth ``mark[d + 1]`` when
    the next one is made.
    """

    features: Tensor
    """float32 [D, S * K + S + 1]: features, which stocks can be traded, and if risk is off."""
    mark: Tensor
    """float64 [D, S]: the last close that is known."""
    fill: Tensor
    """float64 [D, S]: the price at which orders are filled."""
    most: Tensor
    """float64 [D, S]: shares that can be traded; 0: the stock can't be."""
    off: Tensor
    """bool [D]: all is to be sold."""
    first: int
    """The first decision whose features are all known."""
    sessions: npt.NDArray[np.int64]
    """The session of each decision, [D]; it goes on counting from market to market."""


def tables(panel: MarketPanel, names: Sequence[str], rules: Rules, device: str) -> Tables:
    """The tables of a panel.

    Raises:
        UserError: too few bars are left after the features' warm-up.
    """
    rows = decisions(panel, rules.stride)
    known = compute(panel, names)[rows]
    used = panel.tradable.any(0)
    warm = np.asarray(np.isfinite(known[:, used]).all((1, 2)))
    if len(rows) < 3 or not warm[:-2].any():
        raise UserError(
            f"{panel.card.source} has {len(panel.times)} bars, too few for the warm-up of"
            f" {', '.join(names)} and two decisions"
        )
    off = np.zeros(len(panel.times), bool)
    if rules.risk_off is not None:
        off = np.nan_to_num(turbulence_of(panel)) > rules.risk_off
    after = rows + 1
    can = panel.tradable[after]
    price = panel.open if rules.fill == "open" else panel.close
    fill = np.where(can, price[after], panel.marks[rows])
    most = np.where(can, np.inf, 0.0)
    if rules.participation is not None:
        most = np.where(can, np.floor(panel.volume[after] * rules.participation), 0.0)
    seen = (
        np.nan_to_num(known).reshape(len(rows), -1), panel.tradable[rows], off[rows, None],
    )  # fmt: skip
    return Tables(
        torch.from_numpy(np.concatenate(seen, axis=1).astype(np.float32)).to(device),
        # A stock without a price yet can't be held: any number will do, but NaN times 0 is NaN.
        torch.from_numpy(np.nan_to_num(panel.marks[rows], nan=1.0)).to(device),
        torch.from_numpy(np.nan_to_num(fill, nan=1.0)).to(device),
        torch.from_numpy(most).to(device),
        torch.from_numpy(off[rows]).to(device),
        int(warm.argmax()),
        panel.sessions[rows],
    )  # fmt: skip


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
        torch.cat([part.most for part in parts]),
        torch.cat([part.off for part in parts]),
        parts[0].first,
        np.concatenate(sessions),
    )
