"""Splits of a panel's sessions into fit, selection and holdout, and walk-forward folds. Pure.

Fold k is the split moved ahead, so that the holdouts of all folds follow one another::

    sessions   0 ........ selection ....... holdout ....................... all
    fold 1     | fit      | selection       | holdout |
    fold 2     | fit                | selection       | holdout |
    fold 3     | fit                          | selection       | holdout |

After Lopez de Prado (2018), chapter 7: the last ``purge`` sessions of fit and of selection, and the
first ``embargo`` ones of selection and of holdout, are in no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FIELDS = ("selection", "holdout", "embargo", "purge", "folds", "fold", "anchored")
"""Arguments of a task that say which sessions are in which part."""
SESSIONS = ("source", "below", "since", "days", "start", "calendar", "timezone")
"""Arguments of a market that say which sessions there are: of these a part may be a share."""


class Split(NamedTuple):
    """The sessions of each part, counted from 0. Whoever works in a part reads none after its end:
    an earlier part may only be looked back on."""

    fit: range
    selection: range
    holdout: range


def split(  # noqa: PLR0913 (the numbers of a split, by name)
    sessions: int, selection: int, holdout: int, *, fold: int = 1, folds: int = 1,
    purge: int = 0, embargo: int = 0, anchored: bool = True,
) -> Split:  # fmt: skip
    """The sessions of each part in one fold.

    Args:
        sessions: of the panel.
        selection: the first session after fit, in the first fold.
        holdout: the first session after selection, in the first fold. The folds divide what
            follows.
        fold: from 1.
        folds: of them all; with 1 the holdout is all that is left.
        purge: sessions left out at the ends of fit and of selection.
        embargo: sessions left out at the beginnings of selection and of holdout.
        anchored: fit begins with the panel in every fold; else it moves ahead, too.
    """
    left = sessions - holdout
    moved, end = ((fold - 1) * left // folds, fold * left // folds)
    return Split(
        range(0 if anchored else moved, selection + moved - purge),
        range(selection + moved + embargo, holdout + moved - purge),
        range(holdout + moved + embargo, holdout + end),
    )


def moved(own: Mapping[str, Any], changed: Mapping[str, Any]) -> str | None:
    """The argument by which a part of a changed task has other sessions; None: none has.

    Args:
        own: the arguments of a task, as ``env.kwargs`` has them.
        changed: those that are laid over them.
    """
    for name in FIELDS:
        if name in changed and (name not in own or changed[name] != own[name]):
            return name
    by_dates = all(isinstance(own.get(name), str) for name in ("selection", "holdout"))
    if "market" not in changed or (by_dates and own.get("folds", 1) == 1):
        return None
    before, after = (market_of(each) for each in (own.get("market"), changed["market"]))
    moving = (name for name in SESSIONS if before.get(name) != after.get(name))
    return next((f"market.{name}" for name in moving), None)


def market_of(given: object) -> Mapping[str, Any]:
    """A market as a mapping, however a task gives it."""
    if isinstance(given, Mapping):
        return {"source": "synthetic", **given}
    return {"source": "synthetic" if given is None else given}
