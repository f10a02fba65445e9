"""Tournaments of trading: the markets on which they are trained, and judged."""

from __future__ import annotations

import pytest
from trading_tournaments import fresh, lead_of, planted

from hpcpod.trading.task import task_of


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_markets_have_the_alpha_that_is_asked_for_where_arms_train_and_where_they_are_judged(
    alpha: float,
) -> None:
    trained, judged = (
        [panel.card.source for panel, _ in task.panels()]
        for task in (task_of("trading", planted(alpha)), fresh(1, 2, alpha))
    )
    assert (len(trained), len(judged)) == (8, 2)
    assert all(f", alpha {alpha:g}" in source for source in trained + judged)
    assert not {*trained} & {*judged}


def test_runs_on_null_markets_lie_beside_those_of_before() -> None:
    assert [lead_of(0.0), lead_of(1.0)] == ["alpha0", ""]
