"""Shuffled days: the same returns in another order, and a holdout that stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpcpod.trading.shuffle import shuffled
from hpcpod.trading.task import task_of
from tests.trading.small import daily, market


def test_days_by_hand_keep_their_returns_together() -> None:
    panel = daily([[100.0, 50.0], [110.0, 50.0], [99.0, 60.0], [198.0, 30.0]])
    found = shuffled(panel, [], 1)
    moves = found.close / np.vstack([[100.0, 50.0], found.close[:-1]])
    true = [(1.0, 1.0), (1.1, 1.0), (0.9, 1.2), (2.0, 0.5)]
    told = [tuple(row) for row in moves.round(9)]
    assert sorted(told) == sorted(true)
    assert told != true
    assert found.close[-1].round(9).tolist() == [198.0, 30.0]
    assert found.times.tolist() == panel.times.tolist()


def test_a_day_stays_in_its_block_and_is_the_same_within() -> None:
    panel = market(days=40)
    found = shuffled(panel, [25], 3)
    assert (np.diff(found.times).astype(int) > 0).all()

    def within(each: Any, day: int) -> tuple[float, ...]:
        rows = each.sessions == day
        inside = each.close[rows] / each.close[rows][:1]
        return tuple(np.concatenate([inside, each.volume[rows]]).round(6).ravel())

    days = [within(panel, day) for day in range(40)]
    place = [days.index(within(found, day)) for day in range(40)]
    assert sorted(place[:25]) == list(range(25))
    assert sorted(place[25:]) == list(range(25, 40))
    assert place[:25] != list(range(25))
    signal = np.concatenate([panel.extra["signal"][panel.sessions == day] for day in place])
    assert found.extra["signal"].tolist() == signal.tolist()


def test_a_task_shuffles_what_is_learned_from_and_never_its_holdout() -> None:
    given: dict[str, Any] = {
        "market": {"stocks": 2, "days": 60, "minutes": 7}, "features": ["signal"], "stride": 3,
    }  # fmt: skip
    seen = {
        (part, seed): task_of("trading", {**given, "part": part, "shuffle": seed}).panels()[0][0]
        for part in ("fit", "selection", "holdout")
        for seed in (None, 1)
    }
    assert seen["holdout", 1].digest() == seen["holdout", None].digest()
    for part in ("fit", "selection"):
        one, other = seen[part, 1], seen[part, None]
        assert one.digest() != other.digest()
        assert one.close[-1] == pytest.approx(other.close[-1])
        assert one.ceiling == other.ceiling


def test_days_before_fit_stay_out_of_it_where_it_moves_ahead() -> None:
    given: dict[str, Any] = {
        "market": {"stocks": 2, "days": 120, "minutes": 7}, "features": ["signal"], "stride": 3,
        "embargo": 1, "folds": 3, "fold": 3, "anchored": False, "part": "fit",
    }  # fmt: skip
    (one, begins), (other, _) = (
        task_of("trading", {**given, "shuffle": seed}).panels()[0] for seed in (1, None)
    )
    assert begins > 0 and one.digest() != other.digest()
    for own in (one.sessions >= begins, one.sessions < begins):
        mixed, plain = (np.sort(each.extra["signal"][own], axis=None) for each in (one, other))
        assert mixed.tolist() == plain.tolist()
