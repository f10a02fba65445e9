"""The section ``ct``: continuous training, by ``hpcpod ct``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from hpcpod.config.limits import Limit, Limited

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])")


@dataclass(frozen=True)
class CtConfig(Limited):
    """Continuous training: ``hpcpod ct CONFIG`` retrains the deployed policy when that is due, and
    deploys the new one if it is shown to be better. ``hpcpod launch`` does not look here."""

    every: str | None = None
    """Time between two cycles, at least: ``30m``, ``6h``, ``1d``. Null: new data alone say when."""
    data: tuple[str, ...] = ()
    """Files whose content makes a cycle due when it has changed, of a task whose stream knows none
    of its own (``trading`` reads its market's file)."""
    stream: str = "auto"
    """The part that says which data are new, what is trained on and how policies are judged: a name
    or a path. ``auto``: that of the name of ``env.backend``, such as ``trading``, else
    ``fresh_seeds``, which judges by episodes on seeds that no run draws."""
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the stream. ``trading``: ``judge`` (sessions that are judged on, and that must
    be new: 20), ``window`` (sessions before them that are trained on; null: all) and ``selection``
    (share of these that scores pods: 0.2). ``fresh_seeds``: ``episodes`` (64)."""
    inherit: Annotated[float, Limit(least=0, most=1)] = 0.5
    """Share of the first pods that start from the deployed policy, with its replay; the others
    begin afresh. 0: all do."""
    level: Annotated[float, Limit(above=0, below=0.5)] = 0.05
    """Level of the one-sided test that a new policy must pass against the deployed one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every is not None:
            seconds_of(self.every)


def seconds_of(span: str) -> float:
    """A time span such as ``1d`` in seconds.

    Raises:
        ValueError: it is none.
    """
    found = _SPAN.fullmatch(span)
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"every is a time such as 30m, 6h or 1d, got {span!r}")
    return float(found[1]) * _UNITS[found[2]]
