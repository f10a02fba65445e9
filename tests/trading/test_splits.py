"""Splits and folds by hand: which sessions each part has, and what its holder can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpcpod.errors import UserError
from hpcpod.trading.splits import Split, split
from hpcpod.trading.task import task_of


def spans(found: Split) -> list[tuple[int, int]]:
    return [(part.start, part.stop) for part in found]


def test_one_fold_is_the_split_with_an_embargo_at_the_beginnings() -> None:
    assert spans(split(100, 60, 80)) == [(0, 60), (60, 80), (80, 100)]
    assert spans(split(100, 60, 80, embargo=5)) == [(0, 60), (65, 80), (85, 100)]


def test_folds_move_ahead_by_their_test_windows_which_follow_one_another() -> None:
    found = [split(100, 20, 40, fold=k, folds=3, purge=2) for k in (1, 2, 3)]
    assert [spans(each) for each in found] == [
        [(0, 18), (20, 38), (40, 60)],
        [(0, 38), (40, 58), (60, 80)],
        [(0, 58), (60, 78), (80, 100)],
    ]
    rolling = [split(100, 20, 40, fold=k, folds=3, anchored=False).fit for k in (1, 2, 3)]
    assert rolling == [range(20), range(20, 40), range(40, 60)]


def test_no_session_is_tested_twice_or_lost_where_folds_do_not_divide_them() -> None:
    found = [split(50, 10, 20, fold=k, folds=7, purge=1).holdout for k in range(1, 8)]
    assert [day for each in found for day in each] == list(range(20, 50))
    assert {len(each) for each in found} == {4, 5}


MARKET = {"stocks": 2, "days": 60, "minutes": 7, "seed": 4}
GIVEN: dict[str, Any] = {
    "market": MARKET, "features": ["signal"], "stride": 3, "sessions": 2, "embargo": 1, "purge": 2,
    "folds": 4, "selection": 0.2, "holdout": 0.4,
}  # fmt: skip


@pytest.mark.parametrize("fold", [1, 2, 3, 4])
def test_who_trains_holds_no_row_that_the_fold_or_a_later_one_tests(fold: int) -> None:
    """60 sessions: windows of 9 from 24 on."""
    parts = {}
    for part in ("fit", "selection", "holdout"):
        task = task_of("trading", {**GIVEN, "fold": fold, "part": part})
        [(panel, begins)] = task.panels()
        parts[part] = begins, len(panel.dates)
        if len(panel.dates) < 60:
            assert panel.ceiling is not None
            assert panel.dates[-1] < panel.ceiling
    moved = 9 * (fold - 1)
    assert parts == {
        "fit": (0, 12 + moved - 2), "selection": (12 + moved + 1, 24 + moved - 2),
        "holdout": (24 + moved + 1, 24 + moved + 9),
    }  # fmt: skip


def test_windows_that_lie_apart_share_no_day() -> None:
    task = task_of("trading", {**GIVEN, "folds": 1, "part": "selection", "apart": True})
    windows = task.windows()
    starts = windows.starts.tolist()
    assert len(starts) == (21 - 12 - 1 + 2) // 2 - 1 == 4  # 9 sessions, a decision short of 4.5
    assert min(np.diff(starts)) >= windows.steps
    [market] = windows.markets
    assert starts[0] == market.begins
    assert starts[-1] == market.past - windows.steps


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"fold": 5}, "fold 5 is none of 4"),
        ({"fold": 0}, "fold is a whole number from 1, got 0"),
        ({"folds": 40}, "part holdout of fold 1 of 40 has 0 sessions after an embargo of 1 and a"),
        ({"purge": 30}, "part fit of fold 1 of 4 has 0 sessions"),
        ({"anchored": 1}, "anchored is true or false, got 1"),
        ({"shuffle": "yes"}, "shuffle is a whole number from 0, got 'yes'"),
    ],
)
def test_folds_that_can_t_be_are_one_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        task_of("trading", {**GIVEN, **wrong}).windows()
