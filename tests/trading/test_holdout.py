"""The holdout: an edge where one was planted, none where there is none, and a count of looks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod.config.loader import from_mapping
from hpcpod.errors import StorageError, UserError
from hpcpod.run.sweeps.folder import home_of
from hpcpod.trading.backtest import Agent, backtest, cash, hold
from hpcpod.trading.holdout import Files, judge, judge_files
from hpcpod.trading.ledger import Ledger, Opening, distinct
from hpcpod.trading.metrics import overfitting, paired_bootstrap
from hpcpod.trading.sources import markets
from hpcpod.trading.task import Task, task_of
from hpcpod.trading.verdict import CASH, RIVAL, Row, cells
from hpcpod.trading.verdict import verdicts as verdicts_of
from hpcpod.trading.walk import walk
from tests.run.continuous.worlds import empty

MARKET = {"stocks": 4, "days": 250, "minutes": 13, "seed": 50}


def task(**changed: Any) -> Task:
    market = {
        **MARKET,
        **{k: changed.pop(k) for k in [*changed] if k in ("alpha", "seed", "drift")},
    }
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
    assert planted.words.startswith("ahead of buy-and-hold by +")
    assert " bp a day, and of cash by +" in planted.words
    found = [judge(task(alpha=0.0, seed=seed), {"a": follow}).edge for seed in range(60, 72)]
    assert sum(found) == 0  # it pays fees for nothing
    assert "no edge: against buy-and-hold -" in judge(task(alpha=0.0), {"a": follow}).words


def test_cash_has_no_edge_where_the_market_falls() -> None:
    told = judge(task(alpha=0.0, seed=80, drift=-6.0), {"a": lambda obs: torch.zeros(len(obs), 4)})
    assert not told.edge
    hold = told.row(RIVAL)
    assert hold.low is not None
    assert hold.low > 0, "the market shall fall by more than chance"
    assert told.words.startswith("no edge: ahead of buy-and-hold by +")
    assert ", and not of cash: +0.00 [+0.00, +0.00]" in told.words
    assert told.words.endswith(
        f"; buy-and-hold made {hold.cumulative_return:+.1%}, the policy +0.0% with 0% in stocks"
    )
    assert [cells(row)[5] for row in told.rows[:2]] == ["-", "-"]  # no 0.00 ± 6.48


def test_the_money_of_markets_side_by_side_is_not_compounded() -> None:
    def hold_of(**market: Any) -> Row:
        given = task(market={**MARKET, "drift": 5.0, **market})
        return judge(given, {"a": follow}).row(RIVAL)

    each = [hold_of(seed=seed).cumulative_return for seed in (50, 51)]
    both = hold_of(markets=2)
    assert both.cumulative_return == pytest.approx(np.mean(each))
    assert both.annual_return == pytest.approx((1 + np.mean(each)) ** (252 / 45) - 1)


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
    assert told.trials is None


def test_an_ensemble_has_an_account_for_each_member() -> None:
    def half(obs: Tensor) -> Tensor:
        return torch.full((len(obs), 4), 0.125)

    apart = [judge(task(lot=0), {"a": each}).rows[0] for each in (follow, half)]
    both = judge(task(lot=0), {"a": follow, "b": half}).rows[0]
    assert both.cumulative_return == pytest.approx(
        np.mean([row.cumulative_return for row in apart]), rel=1e-6
    )
    assert both.turnover == pytest.approx(np.mean([row.turnover for row in apart]))


def test_an_ensemble_beside_the_policy_is_played_as_if_it_were_judged_and_counts(
    tmp_path: Path,
) -> None:
    members = {"ppo p0001": follow, "sac p0002": linear(1)}
    told = judge(task(), {"a": linear(2)}, run="one", ledger=tmp_path, accounts=members)
    alone, row = judge(task(), members).rows[0], told.rows[1]
    assert row.name == told.accounts == "accounts ppo p0001, sac p0002"
    assert row.ahead is not None
    assert replace(row, name=alone.name, ahead=None, low=None, high=None) == alone
    said = f", and the ensemble of the best pod of each algorithm {row.cumulative_return:+.1%}"
    assert said in told.words
    shown = next(each for each in told.openings if each.beside)
    assert (shown.run, shown.beside) == (row.name, "one")
    assert shown.sharpe == pytest.approx(row.sharpe / 252**0.5)
    assert f"It has shown 2 policies: deflated Sharpe {told.deflated:.2f}" in told.words
    assert (told.times, judge(task(), {"a": follow}).accounts) == (1, "")


def test_each_look_at_a_holdout_counts_and_a_second_one_is_said(tmp_path: Path) -> None:
    first = judge(task(), {"a": follow}, run="one", policy="p", ledger=tmp_path)
    assert len(first.openings) == 1
    assert "opened" not in first.words and "The market is a synthetic one" in first.words
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


def test_each_policy_that_is_shown_beside_counts(tmp_path: Path) -> None:
    rivals = {"shuffled": linear(1), "other": linear(2)}
    first = judge(task(), {"a": follow}, run="one", ledger=tmp_path, beside=rivals)
    lines = {each.run: each for each in first.openings}
    assert sorted(lines) == ["one", "other", "shuffled"]
    assert first.openings[-1].run == "one"
    assert (lines["one"].beside, lines["other"].beside) == ("", "one")
    for name in rivals:
        assert lines[name].sharpe == pytest.approx(first.row(name).sharpe / 252**0.5)
    assert "opened" not in first.words, "it was opened once"
    assert f"It has shown 3 policies: deflated Sharpe {first.deflated:.2f}" in first.words
    second = judge(task(), {"a": follow}, run="two", ledger=tmp_path)
    assert "This holdout was opened 2 times" in second.words
    assert "It has shown 4 policies" in second.words
    same = judge(task(), {"a": follow}, run="two", ledger=tmp_path)
    assert "This holdout was opened 3 times" in same.words
    assert "It has shown 4 policies" in same.words, "the same one again is no further trial"
    assert same.deflated == second.deflated


def test_a_policy_that_was_shown_beside_is_no_further_trial_when_it_is_judged(
    tmp_path: Path,
) -> None:
    judge(
        task(), {"a": follow}, run="one", policy="p", ledger=tmp_path,
        beside={"other": linear(1)}, digests={"other": "q"},
    )  # fmt: skip
    own = judge(task(), {"a": linear(1)}, run="other", policy="q", ledger=tmp_path)
    assert "It has shown 2 policies" in own.words


def test_a_run_of_continuous_training_has_the_ledger_of_its_registry_s_neighbours(
    tmp_path: Path,
) -> None:
    assert home_of(tmp_path / "mine") == tmp_path
    assert home_of(empty(tmp_path).runs / "mine-c0002") == tmp_path


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


def test_a_ledger_on_a_filesystem_without_hard_links_is_written_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcpod.trading.ledger.probe", lambda disk, folder: "directory")
    told = judge(task(), {"a": follow}, run="one", policy="p", ledger=tmp_path)
    assert all(path.is_dir() for path in tmp_path.glob("*.*"))
    assert [each.policy for each in Ledger(tmp_path).openings()] == ["p"]
    assert [each.words for each in verdicts_of(tmp_path, "one")] == [told.words]


def test_a_ratio_that_was_computed_in_another_way_is_no_other_trial() -> None:
    line = Opening("one", "p", ("a",), ("A",), "2020-01-01", "2020-02-01", 0.1 + 0.2)
    assert len(distinct([line, replace(line, sharpe=0.3)])) == 1
    assert len(distinct([line, replace(line, sharpe=0.31)])) == 2


def test_a_ledger_that_can_t_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't write the ledger"):
        judge(task(), {"a": follow}, ledger=tmp_path / "file")
    with pytest.raises(UserError, match="none was given"):
        judge(task(), {})


def linear(seed: int) -> Agent:
    """A policy that knows nothing."""
    weights = 3 * torch.randn(18, 4, generator=torch.Generator().manual_seed(seed))
    return lambda obs: (obs @ weights).tanh()


def test_a_null_market_is_said_to_have_an_edge_no_more_often_than_the_level() -> None:
    """480 verdicts on 60 markets without an alpha or costs, that rise, stay or fall: nobody loses
    for certain, and an interval of 95 % may lie above 0 in 2.5 % of them."""
    edges, ahead, worse, chances = 0, 0, 0, []
    for seed in range(60):
        null = task_of("trading", {
            "market": {**MARKET, "days": 160, "minutes": 7, "seed": 1000 + seed, "alpha": 0.0,
                       "drift": float(seed % 3 - 1)},
            "stride": 3, "features": ["signal", "return_1"], "fee_bps": 0.0, "lot": 0,
            "part": "holdout",
        })  # fmt: skip
        agents = {f"p{i}": linear(8 * seed + i) for i in range(8)}
        [tests] = backtest(null, {**agents, RIVAL: hold, CASH: cash}, frozenset(agents))
        *ours, rival, idle = (each.moves for each in tests)
        found = [paired_bootstrap(each, rival) for each in ours]
        ahead += sum(low > 0 for _, low, _ in found)
        edges += sum(
            low > 0 and paired_bootstrap(each, idle)[1] > 0
            for each, (_, low, _) in zip(ours, found, strict=True)
        )
        worse += sum(high < 0 for _, _, high in found)
        chances.append(overfitting(np.stack(ours, axis=1)))
    assert edges < ahead <= 0.025 * 480
    assert 0 < worse <= 0.025 * 480 + 3 * (0.025 * 480) ** 0.5
    assert abs(np.mean(chances) - 0.5) < 3 * np.std(chances) / len(chances) ** 0.5


def test_the_policies_of_a_run_are_judged_together_on_the_selection_part() -> None:
    blind = {f"p{i}": linear(i) for i in range(9)}
    told = judge(task(alpha=3.0), {"a": follow}, tried={**blind, "good": follow}).trials
    assert told is not None
    assert (told.policies, told.days, told.best) == (10, 45, "good")
    assert told.overfitting is not None
    assert told.overfitting < 0.05
    assert 0 < told.low < told.ahead < told.high
    assert "the best of 10 policies played, good, has +" in told.words
    assert "Probability of backtest overfitting among them: 0.0" in told.words
    alone = judge(task(), {"a": follow}, tried={"a": follow}, left=7).trials
    assert alone is not None
    assert alone.overfitting is None
    assert "overfitting" not in alone.words and "chose" not in alone.words
    assert "the one policy played (7 more were not played), a, has" in alone.words


def test_a_failure_in_the_selection_part_costs_no_opening(tmp_path: Path) -> None:
    def broken(obs: Tensor) -> Tensor:
        raise MemoryError(f"{len(obs)} policies do not fit")

    with pytest.raises(MemoryError, match="do not fit"):
        judge(task(), {"a": follow}, run="one", ledger=tmp_path, tried={"a": follow, "b": broken})
    assert not list(tmp_path.iterdir())


def test_another_run_s_policy_and_the_index_are_rows_beside() -> None:
    market = {**MARKET, "index": "SYN03"}
    changed = task(market=market)
    told = judge(changed, {"a": follow3}, beside={"cash run": lambda obs: 0 * follow3(obs)})
    by_name = {row.name: row for row in told.rows}
    assert by_name["cash run"].cumulative_return == 0.0
    index = by_name["index SYN03"]
    assert index.exposure == pytest.approx(1.0, abs=1e-3)
    [panel] = [each for each in markets({**MARKET})]
    days = panel.dates[panel.sessions] >= panel.dates[205]  # 0.8 of 250, and 5 of embargo
    bars = panel.close[days, 3]
    assert index.cumulative_return == pytest.approx(bars[-1] / panel.open[days, 3][1] - 1, abs=1e-3)
    with pytest.raises(UserError, match="has no QQQ, which is named as its index"):
        task(market={**MARKET, "index": "QQQ"}).panels()


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": "orders"},
        {"stride": 2},
        {"risk_off": 5.0},
        {"holdout": 0.9},
        {"features": ["a"]},
    ],
)
def test_a_policy_whose_actions_mean_something_else_is_not_played_beside(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    def files(**changed: Any) -> Files:
        env = {"id": "trading", "backend": "trading", "kwargs": {"market": MARKET, **changed}}
        return Files(from_mapping({"name": "rival" if changed else "mine", "env": env}), {})

    with pytest.raises(UserError, match="rival can't be played beside mine"):
        judge_files(files(), tmp_path, {"rival": files(**changed)})
    with pytest.raises(UserError, match="cash is a baseline's name"):
        judge_files(files(), tmp_path, {CASH: files()})
    assert task(max_order=0.1).sees == task().sees, "which has no meaning in mode weights"
    orders = [task(mode="orders", max_order=most).sees for most in (0.1, 0.2)]
    assert orders[0] != orders[1]


def follow3(obs: Tensor) -> Tensor:
    """Of the three stocks that an index leaves."""
    return (obs[:, 0:6:2] > 0).float()


def test_folds_are_one_result_with_an_interval() -> None:
    folds = {"folds": 3, "selection": 0.2, "holdout": 0.4, "purge": 5, "embargo": 0}
    verdicts = {k: judge(task(alpha=3.0, **folds, fold=k), {"a": follow}) for k in (2, 1, 3)}
    found = walk(verdicts)
    assert list(found.folds) == [1, 2, 3]
    assert found.days == 150
    assert [each.first for each in found.folds.values()][1:] > [
        each.last for each in found.folds.values()
    ][:-1]
    for lead, series in ((found.hold, "gaps"), (found.cash, "over_cash")):
        every = np.concatenate([getattr(verdicts[k], series) for k in (1, 2, 3)])
        assert lead is not None
        assert lead.ahead == pytest.approx(every.mean())
        assert lead.low > 0
    assert found.edge
    assert found.words.startswith("ahead of buy-and-hold by +")
    assert "over 150 days, and ahead of buy-and-hold in 3 of 3 folds" in found.words
    flat = {k: replace(each, over_cash=(0.0,) * 50) for k, each in verdicts.items()}
    assert not walk(flat).edge
    assert walk(flat).words.startswith("no edge: ahead of buy-and-hold by +")
    same = {k: replace(each, over_risk_off=(0.0,) * 50) for k, each in verdicts.items()}
    assert not walk(same).edge
    assert ", and not of buy-and-hold with risk-off: +0.00 [+0.00, +0.00]," in walk(same).words
    ahead = walk({k: replace(each, over_risk_off=each.gaps) for k, each in verdicts.items()})
    assert ahead.edge
    assert f", and of buy-and-hold with risk-off by {found.hold.words}, over 150" in ahead.words
    with pytest.raises(UserError, match="at least two"):
        walk({1: verdicts[1]})


def test_a_verdict_is_kept_for_reports(tmp_path: Path) -> None:
    told = judge(
        task(), {"a": follow}, run="one", ledger=tmp_path, tried={"a": follow, "b": linear(1)}
    )
    (tmp_path / "broken.verdict").write_text("{")
    assert verdicts_of(tmp_path, "one") == [told]
    assert verdicts_of(tmp_path, "two") == []
