"""Rules of trading: what an order costs, when it is filled, what an account may do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from hpcpod.errors import UserError
from hpcpod.plugins import suggest

Mode = Literal["weights", "orders", "shares"]
Fill = Literal["open", "close", "seen"]
Buys = Literal["together", "largest"]


def _number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        wanted = f"from {least:g}" + ("" if most == math.inf else f" to {most:g}")
        raise UserError(f"trading: {name} is a number {wanted}, got {value!r}")


MEANING: Mapping[str, Mode | None] = {
    "mode": None, "stride": None, "max_order": "orders", "max_shares": "shares", "dead_band": None,
    "risk_off": None,
}  # fmt: skip
"""Rules that say what the actions of a policy mean; those of one mode alone with it."""


@dataclass(frozen=True)
class Rules:
    """The way from orders to shares: decided at the end of a bar, filled in the next one."""

    mode: Mode = "weights"
    """``weights``: an action is the share of the account in each stock, negative ones are 0, and
    if they sum to more than 1 they are divided by their sum. ``orders``: an action buys or sells up
    to ``max_order`` of the account. ``shares``: up to ``max_shares``, in whole ones."""
    fee_bps: float = 10.0
    """Commission on each side, in basis points of what is traded."""
    half_spread_bps: float = 0.0
    """Half of the bid-ask spread: buys pay it, sells lose it."""
    participation: float | None = None
    """The share of a bar's volume that an order may be; None: any."""
    fill: Fill = "open"
    """The price of the next bar at which an order is filled; ``seen``: the close that was seen when
    it was decided, which nobody gets."""
    stride: int = 1
    """Bars between two decisions, counted anew in each session."""
    lot: int = 1
    """Shares are traded in multiples of this; 0: in fractions, too."""
    max_order: float = 0.2
    """Of mode ``orders``: the largest order, as a share of the account."""
    max_shares: int = 100
    """Of mode ``shares``: the largest order."""
    buys: Buys = "together"
    """Rule for scarce cash: ``together``: each buy is cut by the same share; ``largest``:
    one after another, the largest first, as far as it goes."""
    dead_band: float = 0.0
    """Changes of weight below this are not traded."""
    risk_off: float | None = None
    """Turbulence of the last ended session, of which 1 is usual, above which all is sold and
    nothing bought; None: never."""
    capital: float = 1_000_000.0
    """Money at the start of an episode."""

    @property
    def acts(self) -> tuple[object, ...]:
        """The meaning of an action: rules under which a policy was trained, and without which its
        actions are other orders."""
        return tuple(
            getattr(self, name) for name, mode in MEANING.items() if mode in (None, self.mode)
        )

    def __post_init__(self) -> None:
        for name, least, most in (
            ("fee_bps", 0, 1000), ("half_spread_bps", 0, 1000), ("stride", 1, math.inf),
            ("lot", 0, math.inf), ("max_shares", 1, math.inf), ("dead_band", 0, 1),
        ):  # fmt: skip
            _number(name, getattr(self, name), least, most)
        for name in ("stride", "lot", "max_shares"):
            if not isinstance(getattr(self, name), int):
                raise UserError(f"trading: {name} is a whole number, got {getattr(self, name)!r}")
        if self.risk_off is not None:
            _number("risk_off", self.risk_off, 0, math.inf)
        _number("capital", self.capital, 1e-6, 1e15)
        _number("max_order", self.max_order, 1e-6, 1.0)
        if self.participation is not None:
            _number("participation", self.participation, 1e-9, 1.0)
        for name, known in (("mode", get_args(Mode)), ("fill", get_args(Fill)),
                            ("buys", get_args(Buys))):  # fmt: skip
            if getattr(self, name) not in known:
                raise UserError(f"{name} is one of {', '.join(known)}, got {getattr(self, name)!r}")


PRESETS: Mapping[str, Rules] = {
    "plain": Rules(),
    "paper": Rules(mode="orders", fee_bps=20.0, fill="close", risk_off=5.0),
    "strict": Rules(fee_bps=20.0, half_spread_bps=2.0, participation=0.01, risk_off=5.0),
    "finrl_parity": Rules(mode="shares", fee_bps=10.0, fill="seen", buys="largest"),
}
"""``paper``: the costs and the timing that the Podracer paper states, without its code's errors;
``strict``: spread and a limit of volume besides. ``finrl_parity`` is for tests alone: the order of
trades of FinRL's ``StockTradingEnv``, which fills at the price that was just seen."""


def rules_of(preset: str, changed: Mapping[str, Any]) -> Rules:
    """A preset with some of its fields changed.

    Raises:
        UserError: there is no such preset or field, or a value is out of its range.
    """
    if preset not in PRESETS:
        raise UserError(
            f"there is no preset {preset}{suggest(preset, list(PRESETS))} (there are"
            f" {', '.join(PRESETS)})"
        )
    known = [each.name for each in fields(Rules)]
    for name in changed:
        if name not in known:
            raise UserError(f"trading has no rule '{name}'{suggest(name, known)}")
    return replace(PRESETS[preset], **changed)
