"""The stream of a trading task: windows that nobody has seen, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcpod.errors import UserError
from hpcpod.run.continuous.cycle import config_of, stream_of
from hpcpod.tournament.continuous.stream import Player
from hpcpod.trading.backtest import backtest, cash
from hpcpod.trading.files import write_bars
from hpcpod.trading.ledger import LEDGERS, Ledger
from hpcpod.trading.panel import MarketPanel
from hpcpod.trading.stream import TradingStream
from hpcpod.trading.task import task_of
from tests.run.continuous.worlds import EMBARGO, JUDGE, WINDOW, bars, config, grow


def stream(file: Path, **ct: Any) -> TradingStream:
    own = {"judge": JUDGE, "window": WINDOW, **ct}
    made = stream_of(config(file, ct={"kwargs": own}))
    assert isinstance(made, TradingStream)
    return made


def windows_of(made: TradingStream, before: Any = None, cycle: int = 1) -> Any:
    found = made.look(before, cycle).windows
    assert found is not None
    return found


def sessions(kwargs: Any, part: str) -> np.ndarray:
    """The dates of a part of a task, as its episodes may use them."""
    task = task_of("trading", {**kwargs, "part": part})
    [(panel, first)] = task.panels()
    return panel.dates[first:]


def test_no_cycle_trains_on_what_it_judges_on_or_another_has_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    made, seen = stream(file), np.array([], "datetime64[D]")
    before: Any = None
    for cycle, count in enumerate((45, 53, 64), start=1):
        grow(file, count)
        windows = windows_of(made, before, cycle)
        judged = sessions(windows.judge, "holdout")
        assert len(judged) == JUDGE - EMBARGO and judged[-1] == bars().dates[count - 1]
        for part in ("fit", "selection"):
            assert sessions(windows.train, part).max() < judged.min()
        assert not set(judged) & set(seen)
        if before is not None:  # the deployed one was trained and judged before that
            assert judged.min() >= np.datetime64(before.end)
        seen = np.union1d(seen, np.concatenate([sessions(windows.train, p) for p in
                                                ("fit", "selection")] + [judged]))  # fmt: skip
        before = windows
    first = sessions(before.train, "fit")[0]
    assert first == bars().dates[64 - JUDGE - WINDOW]


def test_what_comes_later_changes_nothing_of_a_cycles_data(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    made = stream(file)
    windows = windows_of(made)
    grow(file, 80)
    assert made.digest(windows) == windows.digest
    panel = task_of("trading", {**windows.train, "part": "holdout"}).panels()[0][0]
    assert panel.dates[-1] == bars().dates[44]


def part_of_a_day(file: Path, sessions: int, more: int) -> None:
    """Have the file hold so many sessions, and bars of the next one."""
    whole = bars()
    write_bars(whole.first(13 * sessions + more), file)


def test_a_session_that_still_goes_on_is_left_to_a_later_look(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    part_of_a_day(file, 44, 3)
    made = stream(file)
    look = made.look(None, 1)
    assert look.windows is not None and look.windows.end == str(bars().dates[43] + 1)
    assert look.remarks == (
        f"the session of {bars().dates[44]} is not whole yet: it is left to a later look",
    )
    grow(file, 53)
    later = made.look(look.windows, 2)
    assert later.remarks == () and later.why == "9 sessions are new"
    part_of_a_day(file, 44, 13)  # as many as there usually are
    assert windows_of(made).end == str(bars().dates[44] + 1)


@pytest.mark.parametrize(
    ("before", "last", "whole"),
    [
        # XNYS closes at 20:00 UTC on the second of July, at 17:00 on the third.
        ("2024-07-02T20:00", "2024-07-03T16:58", False),
        ("2024-07-02T20:00", "2024-07-03T16:59", False),
        ("2024-07-02T20:00", "2024-07-03T17:00", True),
        ("2024-07-02T19:59", "2024-07-03T16:59", True),  # bars are named by their beginnings
        ("2024-07-02", "2024-07-03", True),
        ("2150-07-01", "2150-07-02", False),
    ],
)
def test_a_calendar_says_when_a_session_is_whole(
    tmp_path: Path, before: str, last: str, whole: bool
) -> None:
    ends = np.array([before, last], "datetime64[m]")
    bars_of_each = 100 if "T" in last else 1
    back = np.arange(bars_of_each)[::-1] * np.timedelta64(1, "m")
    times = (ends[:, None] - back).ravel().astype("datetime64[s]")
    dates, sessions = ends.astype("datetime64[D]"), np.repeat([0, 1], bars_of_each)
    flat = np.ones((len(times), 1))
    panel = MarketPanel(
        ("A",), times, sessions, dates, flat, flat, flat, flat, flat, flat > 0, bars().card
    )
    made = stream(tmp_path / "bars.parquet")
    made._task = replace(made._task, market={"source": "bars.parquet", "calendar": "XNYS"})
    assert (made._whole(panel).dates[-1] == dates[-1]) == whole


def test_what_an_action_means_is_the_policys_and_what_it_costs_is_the_days(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    own = {"mode": "orders", "stride": 2, "max_order": 0.1, "fee_bps": 1.0, "features": ["signal"]}
    env = config(file).env
    incumbent = Player(file, replace(env, kwargs={**env.kwargs, **own}))
    made = stream(file)
    windows = windows_of(made)
    ours, theirs = (
        made._task_of(windows, each, "judge") for each in (Player(file, env), incumbent)
    )
    assert (theirs.rules.mode, theirs.rules.stride, theirs.rules.max_order) == ("orders", 2, 0.1)
    assert theirs.features == ("signal",) and ours.features == ("signal", "return_1")
    common = replace(theirs.rules, mode="weights", stride=4, max_order=0.2)
    assert ours.rules == common and ours.rules.fee_bps == 10.0
    assert (ours.part, ours.holdout, ours.market) == (theirs.part, theirs.holdout, theirs.market)


def test_other_stocks_than_the_deployed_policy_knows_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 53)
    windows = windows_of(stream(file))
    kwargs = config(file).env.kwargs
    market = {**kwargs["market"], "tickers": ["SYN01"]}  # type: ignore[dict-item]
    made = stream_of(replace_kwargs(config(file), market=market))
    with pytest.raises(
        UserError, match="names SYN01, and the policies of this registry know SYN00"
    ):
        made.look(windows, 2)


def replace_kwargs(whole: Any, **kwargs: Any) -> Any:
    """A configuration with other arguments of its environment."""
    return replace(whole, env=replace(whole.env, kwargs={**whole.env.kwargs, **kwargs}))


def test_folds_which_cut_windows_of_their_own_are_refused(tmp_path: Path) -> None:
    whole = replace_kwargs(config(tmp_path / "bars.parquet"), folds=2, fold=2)
    with pytest.raises(UserError, match="folds and fold cut windows of their own"):
        stream_of(whole)


def test_a_verdict_on_fewer_days_than_five_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    made, player = stream(file), Player(file, config(file).env)
    windows = windows_of(made)
    short = {**windows.judge, "embargo": JUDGE - 4}
    task = task_of("trading", short)
    played = backtest(task, {"cash": cash})[0]
    monkeypatch.setattr(made, "_played", lambda *_: played)
    with pytest.raises(UserError, match="4 days can be judged on, and 5 are judged at least"):
        made.judge(
            replace(windows, judge=short), player, None, tmp_path / "mine.ct" / "cycles" / "1"
        )


def test_as_few_sessions_as_may_be_judged_are_enough_with_one_decision_each(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    short = replace_kwargs(config(file, ct={"kwargs": {"judge": 5 + EMBARGO}}), stride=13)
    windows = windows_of(TradingStream(short))
    [[played]] = backtest(task_of("trading", windows.judge), {"cash": cash})
    assert len(played.moves) == 5


def test_days_are_paired_by_their_dates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal earnings on each common day; each has played one that the other has not."""
    file, other = tmp_path / "bars.parquet", tmp_path / "other"
    grow(file, 45)
    other.write_bytes(b"another policy")
    made = stream(file)
    windows = windows_of(made)
    [[played]] = backtest(task_of("trading", windows.judge), {"cash": cash})
    earned = np.array([0.01, -0.02, 0.03, 0.01, -0.01, 0.02, 0.04])
    tests = {
        policy: [replace(played, sessions=days, values=np.cumprod([1, *(1 + earned[days])]))]
        for policy, days in ((file, np.arange(1, 7)), (other, np.arange(0, 6)))
    }
    monkeypatch.setattr(made, "_played", lambda _windows, player, _part: tests[player.policy])
    env, folder = config(file).env, tmp_path / "mine.ct" / "cycles" / "1"
    verdict = made.judge(windows, Player(file, env), Player(other, env), folder)
    assert verdict.incumbent is not None and verdict.ahead == pytest.approx(0, abs=1e-9)
    assert verdict.challenger.mean == pytest.approx(verdict.incumbent.mean)
    assert verdict.challenger.count == 5 and verdict.words.startswith("5 of the sessions from ")


def test_a_policy_that_was_only_shown_beside_another_is_counted_when_a_cycle_judges_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    made, player = stream(file), Player(file, config(file).env)
    windows, book = windows_of(made), Ledger(tmp_path / LEDGERS)
    [played] = backtest(task_of("trading", windows.judge), {"cash": cash})
    monkeypatch.setattr(made, "_played", lambda *_: played)
    made.judge(windows, player, None, tmp_path / "mine.ct" / "cycles" / "1")
    [line] = book.openings()
    for path in book.path.iterdir():
        path.unlink()
    book.write(replace(line, beside="other"))
    for _ in range(2):
        made.judge(windows, player, None, tmp_path / "mine.ct" / "cycles" / "1")
        assert [each.beside for each in book.openings()] == ["other", ""]


def test_a_holdout_that_a_cycle_trains_on_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    judged = bars().dates[45 - JUDGE]
    for given, told in ((str(judged), 0), (str(judged - 1), 1), (0.8, 1)):
        made = stream_of(replace_kwargs(config(file), holdout=given, selection=0.5))
        remarks = made.look(None, 1).remarks
        assert len(remarks) == told
        assert all(f"env.kwargs.holdout is {given}, which ct does not keep" in r for r in remarks)


def test_daily_bars_need_two_days_more_to_be_judged_on(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    whole = bars()
    rows = np.flatnonzero(whole.is_last)
    write_bars(whole._rows(rows, "the last bars"), file)
    with pytest.raises(UserError, match="judge is at least 9 for daily bars"):
        stream(file).look(None, 1)
    windows = windows_of(stream(file, judge=9, window=30, selection=0.01))
    days = {}
    for part in ("fit", "selection"):
        given = {**windows.train, "part": part, "sessions": 1}
        [market] = task_of("trading", given).windows().markets
        days[part] = (np.datetime64(market.date), np.datetime64(market.end))
    dates = whole.dates
    assert days == {"fit": (dates[51], dates[74]), "selection": (dates[77], dates[80])}


def test_a_past_that_was_rewritten_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    made = stream(file)
    windows = windows_of(made)
    whole = bars()
    write_bars(replace(whole, close=whole.close * 1.5, high=whole.high * 1.5), file)
    [remark] = made.look(windows, 2).remarks
    assert "are not what an earlier cycle saw" in remark


def test_a_stock_that_comes_later_is_left_out_and_one_that_goes_is_refused(tmp_path: Path) -> None:
    file, whole = tmp_path / "bars.parquet", bars()
    grow(file, 45)
    made = stream(file)
    windows = windows_of(made)
    write_bars(_third(whole), file)
    look = made.look(windows, 2)
    assert look.windows is not None and look.remarks == (
        "stocks that were not there at first are left out: SYN02",
    )
    assert look.windows.train["market"]["tickers"] == ["SYN00", "SYN01"]  # type: ignore[index]
    write_bars(whole.of(["SYN01"]), file)
    with pytest.raises(UserError, match="has no SYN00"):
        made.look(windows, 2)


def _third(panel: MarketPanel) -> MarketPanel:
    """A panel with a third stock that is the second's double."""
    double = panel.of(["SYN00", "SYN01"])
    taken: dict[str, Any] = {n: np.hstack([getattr(double, n), getattr(double, n)[:, 1:]]) for n in
             ("open", "high", "low", "close", "volume", "member")}  # fmt: skip
    extra = {name: np.hstack([each, each[:, 1:]]) for name, each in double.extra.items()}
    return replace(double, tickers=("SYN00", "SYN01", "SYN02"), extra=extra, **taken)


def test_too_little_that_is_new_is_not_due_though_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    made = stream(file)
    windows = windows_of(made)
    grow(file, 50)
    assert made.look(windows, 2).windows is None
    grow(file, 52)
    look = made.look(windows, 2)  # 7 of 8: by --now they will do
    assert look.windows is not None and not look.due
    assert look.why.startswith("7 of 8 new sessions are there")


def test_a_run_that_is_taken_over_may_have_seen_all_there_is(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    made = stream(file)
    adopted = made.adopted()
    assert np.datetime64(adopted.end) == bars().dates[44] + 1
    grow(file, 53)
    assert str(windows_of(made, adopted, 2).train["holdout"]) >= adopted.end


def test_the_run_of_a_cycle_has_its_own_seed_name_and_data(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    base = config(file)
    windows = windows_of(stream(file))
    one, two = (config_of(base, windows, cycle, None) for cycle in (1, 2))
    assert (one.name, two.name) == ("mine-c0001", "mine-c0002")
    assert one.seed != two.seed and one.ct is None
    assert config_of(base, windows, 1, None) == one
    assert one.env.kwargs["part"] == "fit"
    assert one.env.kwargs["market"]["below"] == windows.end  # type: ignore[index]


@pytest.mark.parametrize(
    ("ct", "said"),
    [
        ({"judge": 3}, "judge is a number of sessions, at least 7"),
        ({"window": "all"}, "window is a number of sessions"),
        ({"selection": 1}, "selection is a share"),
        ({"judged": 20}, "trading has no 'judged'"),
        ({"judge": True}, "judge is a number of sessions"),
    ],
)
def test_an_argument_that_can_not_be_is_a_sentence(
    tmp_path: Path, ct: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        stream(tmp_path / "bars.parquet", **ct)


def test_a_panel_that_is_too_short_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 12)
    with pytest.raises(UserError, match="has 12 sessions, too few to train on"):
        stream(file).look(None, 1)


def test_a_window_that_is_too_short_is_a_sentence_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 60)
    with pytest.raises(UserError, match="a window of 7 sessions is too short to score pods on"):
        stream(file, window=7, selection=0.9).look(None, 1)
