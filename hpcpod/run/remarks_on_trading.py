"""Remarks on trading tasks: what their scores would not mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpcpod.config.schema import RunConfig
from hpcpod.trading.rules import PRESETS
from hpcpod.trading.splits import market_of
from hpcpod.trading.verdict import BACKENDS

_ENOUGH = 32
"""Windows with which a panel is as large as by default."""

if TYPE_CHECKING:
    from hpcpod.pod.trial.fit import Look


def on_trading(config: RunConfig, look: Look | None) -> Iterator[str]:
    """All remarks on a task of trading; see ``remarks.remarks``."""
    if config.env.backend not in BACKENDS:
        return
    if config.pod.evaluator == "panel":
        yield (
            "pod.evaluator: panel scores pods on the sessions that they train on, which says little"
            " of others; write pod: {evaluator: trading}, which scores on the selection part"
        )
    most, asked = look.most_episodes if look else None, config.round.episodes
    if most is not None and most < min(asked, _ENOUGH):
        yield (
            f"round.episodes: the selection part has {most} windows that do not overlap, so a panel"
            f" is of these, not of {asked} episodes; have shorter episodes (env.kwargs.sessions),"
            " more sessions or more markets for more of them"
        )
    kwargs = config.env.kwargs
    preset = PRESETS.get(str(kwargs.get("preset")))
    if kwargs.get("fill", preset.fill if preset else None) == "seen":
        yield (
            "env.kwargs: orders are filled at the price that was seen when they were decided, which"
            " nobody gets, so returns say little of trading; leave fill: seen and preset:"
            " finrl_parity out"
        )
    if kwargs.get("participation", preset.participation if preset else None) is not None:
        yield from _unlimited(config)


def _unlimited(config: RunConfig) -> Iterator[str]:
    """A limit of volume where there is none."""
    from hpcpod.trading.sources import without_volume  # loads numpy

    market = market_of(config.env.kwargs.get("market"))
    if config.env.id != "trading":
        market = {**market, "source": config.env.id}
    if without_volume(market):
        yield (
            f"env.kwargs.participation: {market['source']} has no volume of which an order could be"
            " a share, so none is limited; take bars with a column volume, or write"
            " participation: null"
        )
