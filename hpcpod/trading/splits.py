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

from typing import NamedTuple


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
