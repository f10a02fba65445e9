"""The holdout: an edge where one was planted, none where there is none, and a count of looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod.errors import StorageError, UserError
from hpcpod.trading.backtest import hold
from hpcpod.trading.holdout import RIVAL, judge
from hpcpod.trading.task import Task, task_of

MARKET = {"stocks": 4, "days": 250, "minutes": 13, "seed": 50}


def task(**changed: Any) -> Task:
    market = {**MARKET, **{k: changed.pop(k) for k in [*changed] if k in ("alpha", "seed")}}
    given = {
        "market": changed.pop("market", market),
        "stride": 4,
        "features": ["signal", "return_1"],
        **changed,
    }
    return task_of("trading", given)


def follow(obs: Tensor) -> Tensor:
    """Hold what the signal favours."""
    return (obs[:, 0:8:2] > 0).float()


def test_a_planted_edge_is_found_and_a_null_market_has_none() -> None:
    planted = judge(task(alpha=3.0), {"a": follow})
    assert planted.edge
    assert "ahead of buy-and-hold by +" in planted.words
    found = [judge(task(alpha=0.0, seed=seed), {"a": follow}).edge for seed in range(60, 72)]
    assert sum(found) == 0  # it pays fees for nothing
    assert "no edge: against buy-and-hold -" in judge(task(alpha=0.0), {"a": follow}).words


def test_rows_have_errors_and_the_policy_is_compared_with_each() -> None:
    told = judge(task(), {"a": follow}, more={"again": hold})
    names = [row.name for row in told.rows]
    assert names == [
        "policy", "cash", "hold", "equal weight", "minimum variance", "momentum", "random", "again",
    ]  # fmt: skip
    assert told.rows[0].ahead is None
    assert all(row.sharpe_error > 0 for row in told.rows)
    assert all(row.low < row.ahead < row.high for row in told.rows[1:])  # type: ignore[operator]
    by_name = {row.name: row for row in told.rows}
    assert by_name["again"].sharpe == by_name[RIVAL].sharpe
    assert told.overfitting is not None


def test_an_ensemble_has_an_account_for_each_member() -> None:
    def half(obs: Tensor) -> Tensor:
        return torch.full((len(obs), 4), 0.125)

    apart = [judge(task(lot=0), {"a": each}).rows[0] for each in (follow, half)]
    both = judge(task(lot=0), {"a": follow, "b": half}).rows[0]
    assert both.cumulative_return == pytest.approx(
        np.mean([row.cumulative_return for row in apart]), rel=1e-6
    )
    assert both.turnover == pytest.approx(np.mean([row.turnover for row in apart]))


def test_each_look_at_a_holdout_counts_and_a_second_one_is_said(tmp_path: Path) -> None:
    first = judge(task(), {"a": follow}, run="one", policy="p", ledger=tmp_path)
    assert len(first.openings) == 1
    assert "opened" not in first.words
    second = judge(task(), {"a": follow}, run="two", policy="q", ledger=tmp_path)
    assert [each.run for each in second.openings] == ["one", "two"]
    assert "This holdout was opened 2 times" in second.words
    other = judge(task(seed=51), {"a": follow}, run="three", policy="r", ledger=tmp_path)
    assert len(other.openings) == 1
    for changed in ({"embargo": 6}, {"holdout": 0.81}, {"features": ["signal", "return_5"]}):
        again = judge(task(**changed), {"a": follow}, ledger=tmp_path)
        assert len(again.openings) > 2, "the same days under another name are no fresh ones"
    [broken, *_] = tmp_path.glob("*.json")
    broken.write_text('{"sharpe": null}')
    with pytest.raises(StorageError, match="is no line of a ledger"):
        judge(task(), {"a": follow}, ledger=tmp_path)


def test_a_panel_with_a_ceiling_has_a_holdout_below_it(tmp_path: Path) -> None:
    below = task(market={**MARKET, "below": "2000-11-01"})
    told = judge(below, {"a": follow}, ledger=tmp_path)
    assert told.openings[0].last < "2000-11-01"


def test_members_share_a_bar_s_volume() -> None:
    def all_in(obs: Tensor) -> Tensor:
        return torch.full((len(obs), 4), 0.25)

    tight = task(participation=0.0002)
    alone, both = (
        judge(tight, dict.fromkeys(names, all_in)).rows[0] for names in (["a"], ["a", "b"])
    )
    assert both.exposure == pytest.approx(alone.exposure, rel=0.05)


def test_a_ledger_that_can_t_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't write the ledger"):
        judge(task(), {"a": follow}, ledger=tmp_path / "file")
    with pytest.raises(UserError, match="none was given"):
        judge(task(), {})
