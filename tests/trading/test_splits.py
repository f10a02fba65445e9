"""Splits and folds by hand: which sessions each part has, and what its holder can read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpcpod.errors import UserError
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check, read_config
from hpcpod.run.run import Run
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.files import write_bars
from hpcpod.trading.holdout import judge
from hpcpod.trading.ledger import LEDGERS
from hpcpod.trading.splits import Split, moved, split
from hpcpod.trading.task import task_of
from tests.run.continuous.worlds import drive
from tests.support.command_line import refusal
from tests.trading.small import daily


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


DATES = {"selection": "2020-02-03", "holdout": "2020-02-17"}
"""Of the daily bars below: session 20 and session 30."""


def daily_bars(file: Path, sessions: int) -> Path:
    """So many days from 2020-01-06 on, that rise and fall."""
    days = np.arange(sessions)[:, None]
    write_bars(daily(100 + days + 3 * np.sin(2 * days)), file)
    return file


def days_of(file: Path, **changed: Any) -> dict[str, Any]:
    """A task of daily bars."""
    market = {"source": str(file), "calendar": None}
    return {"market": market, "features": ["return_1"], "embargo": 0, **DATES, **changed}


@pytest.mark.parametrize(
    ("days", "changed", "said"),
    [
        (32, {}, "holdout has 2"),
        (33, {}, "holdout has 3"),
        (40, {"purge": 7}, "selection has 3"),
        (40, {"selection": "2020-01-09"}, "fit has 3"),
    ],
)
def test_a_part_of_daily_bars_with_fewer_than_two_returns_is_refused_and_named(
    tmp_path: Path, days: int, changed: dict[str, Any], said: str
) -> None:
    """The first day's order is filled in the second, and the last day is only marked."""
    file = daily_bars(tmp_path / "bars.csv", days)
    with pytest.raises(UserError, match=rf"^part {said} sessions after .*, and 4 are needed for 2"):
        task_of("trading", days_of(file, **changed)).windows()


def test_four_daily_bars_are_a_holdout_of_two_returns(tmp_path: Path) -> None:
    task = task_of("trading", days_of(daily_bars(tmp_path / "bars.csv", 34), sessions=3))
    told = judge(task, {"all in": lambda obs: torch.ones(len(obs), 1)}, tried={"a": cash_of})
    assert (told.first, told.last, len(told.gaps)) == ("2020-02-17", "2020-02-20", 2)
    assert told.trials is not None and told.trials.days == 8


def cash_of(obs: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(obs), 1)


RUN = """
name: short
env:
  id: trading
  backend: trading
  num_envs: 2
  kwargs: {kwargs}
pod: {{evaluator: trading}}
population: {{pods: {{min: 1, max: 1}}, algorithms: {{ppo: 1}}}}
round: {{env_steps: 64, episodes: 2}}
agents: {{ppo: {{horizon: 8, minibatch_size: 16, epochs: 1, hidden: 8}}}}
stop: {{rounds: 1, finalists: 1, confirm_episodes: 2}}
"""


def test_a_holdout_that_is_too_short_is_refused_by_launch_and_by_evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "part holdout has 2 sessions after an embargo of 0 and a purge of 0, and 4 are needed"
    file, config = daily_bars(tmp_path / "bars.csv", 32), tmp_path / "short.yaml"
    kwargs = {**days_of(file, sessions=3), "features": ["return_1"]}
    config.write_text(RUN.format(kwargs=json.dumps(kwargs)), encoding="utf-8")
    assert said in refusal(capsys, "launch", "short.yaml")
    assert not (tmp_path / "runs").exists()
    daily_bars(file, 40)
    checked = check(read_config("short.yaml"), probe=False)
    run = Run(create_run(checked.resolved, tmp_path / "runs"))
    for option in ([], ["--pods", "p0001"]):
        told = refusal(capsys, "evaluate", "short", "--holdout", *option)
        assert "short has not finished, and a holdout is opened once: let it finish" in told
    drive(run)
    for option in (["--keep", "last"], ["--top", "3"], ["--csv", "a.csv"], ["--seeds", "5"]):
        told = refusal(capsys, "evaluate", "short", "--holdout", *option)
        assert f"{option[0]} is not of --holdout: leave it out; nothing was opened" in told
    daily_bars(file, 32)
    assert said in refusal(capsys, "evaluate", "short", "--holdout")
    assert not (tmp_path / "runs" / LEDGERS).exists()


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


def test_a_file_that_changes_below_the_end_of_the_part_is_another_engine(tmp_path: Path) -> None:
    """Else slots of one run would train on other bars, and compare their scores."""
    file = daily_bars(tmp_path / "bars.csv", 40)

    def engine(part: str = "fit") -> str:
        kwargs = days_of(file, part=part, sessions=3)
        return TradingVecEnv("trading", 1, kwargs=kwargs).spec.engine

    before, selection = engine(), engine("selection")
    assert re.search(r", bars [0-9a-f]{8}$", before)
    daily_bars(file, 45)
    assert (engine(), engine("selection")) == (before, selection), "what came later changed it"
    file.write_text(file.read_text().replace("2020-01-10", "2020-01-11", 1))
    assert engine() != before
    seeded = TradingVecEnv("trading", 1, kwargs={"market": {"days": 60, "minutes": 13}})
    assert "bars" not in seeded.spec.engine


def test_shares_of_a_file_that_grows_are_other_bars(tmp_path: Path) -> None:
    file = daily_bars(tmp_path / "bars.csv", 60)
    kwargs = days_of(file, selection=0.5, holdout=0.75, sessions=3)
    before = TradingVecEnv("trading", 1, kwargs=kwargs).spec.engine
    daily_bars(file, 64)
    assert TradingVecEnv("trading", 1, kwargs=kwargs).spec.engine != before


@pytest.mark.parametrize("name", ["calendar", "timezone"])
def test_another_calendar_moves_parts_that_are_shares(name: str) -> None:
    own = {"selection": 0.5, "holdout": 0.7, "market": {"source": "a.csv"}}
    assert moved(own, {"market": {"source": "a.csv", name: "other"}}) == f"market.{name}"
