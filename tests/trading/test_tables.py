"""Tables: what can be bought and sold, and when, on panels by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod.config.loader import from_mapping
from hpcpod.errors import UserError
from hpcpod.trading.account import opened, traded, wanted
from hpcpod.trading.backtest import Moment, backtest, hold
from hpcpod.trading.files import write_bars
from hpcpod.trading.panel import Floats, MarketPanel
from hpcpod.trading.rules import Rules
from hpcpod.trading.tables import Tables, tables
from hpcpod.trading.task import task_of
from tests.trading.small import daily, minutes

UP = np.linspace(10.0, 20.0, 12)


def made(panel: MarketPanel, **rules: Any) -> Tables:
    return tables(panel, ["return_1"], Rules(**rules), "cpu")


def can(limit: Tensor) -> list[bool]:
    """The decisions at which the second stock can be traded."""
    return [bool(each > 0) for each in limit[:, 1]]


def test_who_leaves_the_universe_can_be_sold_but_not_bought() -> None:
    panel = daily(np.stack([UP, UP], axis=1))
    member = panel.member.copy()
    member[6:, 1] = False
    found = made(replace(panel, member=member))
    assert can(found.buyable) == [False] + [True] * 4 + [False] * 6
    assert all(can(found.sellable))


def test_a_universe_that_a_configuration_names_says_what_can_be_bought_when(tmp_path: Path) -> None:
    """B leaves it on the 11th of 20 sessions of fit, and C is never in it."""
    write_bars(daily(np.linspace(10.0, 20.0, 40)[:, None].repeat(3, 1)), tmp_path / "bars.csv")
    (tmp_path / "members.csv").write_text(
        "ticker,start,end\nA,2020-01-06,\nB,2020-01-06,2020-01-20\n"
    )
    kwargs = {
        "market": {"source": str(tmp_path / "bars.csv"), "calendar": None,
                   "universe": str(tmp_path / "members.csv")},
        "features": ["return_1"], "selection": 0.5, "holdout": 0.75, "embargo": 0, "sessions": 3,
    }  # fmt: skip
    config = from_mapping(
        {"name": "x", "env": {"id": "trading", "backend": "trading", "kwargs": kwargs}}
    )
    found = task_of(config.env.id, config.env.kwargs).windows().tables
    first, leaving, never = ((found.buyable > 0)[:, stock].tolist() for stock in range(3))
    assert first == [False] + [True] * 18
    assert leaving == [False] + [True] * 8 + [False] * 10
    assert not any(never)
    assert can(found.sellable) == [True] * 19


def test_a_stock_can_be_sold_at_its_last_close_after_its_last_bar() -> None:
    close = np.stack([UP, UP], axis=1)
    close[6:, 1] = np.nan
    found = made(daily(close))
    assert can(found.sellable) == [True] * 11
    assert can(found.buyable) == [False] + [True] * 4 + [False] * 6
    assert set(found.fill[5:, 1].tolist()) == {UP[5]}
    assert set(found.mark[5:, 1].tolist()) == {UP[5]}


def test_a_stock_whose_last_bar_is_of_the_last_session_may_only_pause() -> None:
    close = np.full((2, 6, 2), 10.0)
    close[1, 3:, 1] = np.nan
    found = made(minutes(close, volume=1000.0), participation=0.1)
    assert found.sellable[:, 1].tolist()[-4:] == [100.0, 0.0, 0.0, 0.0]
    close = np.concatenate([close, close[:1]])
    close[2, :, 1] = np.nan  # and on the next day it is gone
    gone = made(minutes(close, volume=1000.0), participation=0.1)
    assert gone.sellable[8:, 1].tolist() == [np.inf] * len(gone.sellable[8:])


def test_a_stock_that_is_listed_later_moves_nobody_s_start() -> None:
    close = np.stack([UP, UP], axis=1)
    close[:7, 1] = np.nan
    found = made(daily(close))
    assert found.first == 1
    # Its first bar opens at no known price; the next has one, and its feature is known.
    assert can(found.buyable) == [False] * 8 + [True] * 3
    assert set(found.mark[:7, 1].tolist()) == {UP[7]}  # no return before its first price


def test_a_bar_s_volume_limits_both_sides() -> None:
    found = made(daily(UP[:, None], volume=1000.0), participation=0.1)
    assert found.sellable.tolist() == [[100.0]] * 11
    assert found.buyable[1:].tolist() == [[100.0]] * 10


def test_orders_are_sized_by_the_price_that_is_known_and_paid_at_the_next() -> None:
    """The close is 10, the next open 20: half of 1,000 is 50 shares, for 1,000."""
    panel = daily(np.array([[10.0], [10.0], [30.0], [30.0], [30.0]]))
    opens = panel.open.copy()
    opens[2] = 20.0
    found = tables(replace(panel, open=opens), ["return_1"], Rules(fee_bps=0.0), "cpu")
    assert found.fill[1].item() == 20.0
    account = opened(1, 1, 1000.0, "cpu")
    change = wanted(
        torch.tensor([[0.5]]), account, found.mark[1:2], found.off[1:2], Rules(fee_bps=0.0)
    )
    assert change.item() == 50.0
    account, money = traded(
        account, change, found.fill[1:2], found.buyable[1:2], found.sellable[1:2],
        Rules(fee_bps=0.0),
    )  # fmt: skip
    assert (account.shares.item(), money.item()) == (50.0, 1000.0)


def test_a_session_s_value_is_that_of_its_close() -> None:
    """One stock held from the first close on: the account follows the closes of each session."""
    given = {"market": {"stocks": 1, "days": 60, "minutes": 13, "seed": 4}, "stride": 4,
             "features": ["signal"], "part": "selection", "fee_bps": 0.0, "lot": 0}  # fmt: skip
    task = task_of("trading", given)
    [[held]] = backtest(task, {"hold": hold})
    [(panel, session)] = task.panels()
    closes = panel.close[panel.is_last][session:, 0]
    assert held.values[1:] / held.values[1] == pytest.approx(closes / closes[0])


def test_what_a_bar_s_volume_cut_off_a_baseline_asks_for_again() -> None:
    given = {"market": {"stocks": 2, "days": 60, "minutes": 13, "seed": 4}, "stride": 4,
             "features": ["signal"], "participation": 0.02, "part": "selection"}  # fmt: skip
    [[held]] = backtest(task_of("trading", given), {"hold": hold})
    assert 0.3 < held.exposure < 1.0
    [[free]] = backtest(task_of("trading", {**given, "participation": None}), {"hold": hold})
    invested = free.path[-1] / free.path[0]
    assert held.path[-1] / held.path[0] == pytest.approx(invested, abs=0.03)


def test_a_warm_up_that_never_ends_is_named_by_its_feature() -> None:
    panel = daily(UP[:, None], volume=np.inf)
    with pytest.raises(UserError, match=r"12 bars, too few for the warm-up of volume_z .*without"):
        tables(panel, ["return_1", "volume_z"], Rules(), "cpu")


def by_zero(panel: MarketPanel) -> Floats:
    """A feature that is infinite at one bar of the second stock."""
    found = np.ones(panel.shape)
    found[6:7, 1] = np.inf
    return found


def test_an_infinite_feature_is_one_that_is_not_known() -> None:
    panel = daily(np.stack([UP, UP], axis=1))
    found = tables(panel, ["tests.trading.test_tables:by_zero"], Rules(), "cpu")
    assert found.features[:, 1].tolist() == [1.0] * 6 + [0.0] + [1.0] * 4
    assert can(found.buyable) == [True] * 6 + [False] + [True] * 4


def test_a_part_without_sessions_is_refused_before_anything_is_trained() -> None:
    given = {"market": {"stocks": 2, "days": 30, "minutes": 13}, "features": ["signal"]}
    for changed, part in (({"holdout": 0.95}, "holdout"), ({"holdout": 0.7}, "selection")):
        with pytest.raises(UserError, match=f"part {part} has [0-9] sessions after an embargo"):
            task_of("trading", {**given, **changed}).windows()


def test_a_user_s_feature_that_looks_ahead_never_reaches_training() -> None:
    given = {"market": {"stocks": 3, "days": 90, "minutes": 13},
             "features": ["tests.trading.test_features:tomorrow"]}  # fmt: skip
    with pytest.raises(UserError, match="looks ahead"):
        task_of("trading", given).windows()


def test_a_file_that_was_rewritten_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    panel = daily(np.linspace(10.0, 20.0, 60)[:, None])
    write_bars(panel, file)
    market = {"source": str(file), "calendar": None}
    task = task_of("trading", {"market": market, "features": ["return_1"], "embargo": 0})
    before = task.windows()
    assert task.windows() is before
    double = {name: 2 * getattr(panel, name) for name in ("open", "high", "low", "close")}
    write_bars(replace(panel, **double), file)
    assert torch.equal(task.windows().tables.mark, 2 * before.tables.mark)


def test_a_moment_knows_the_past_alone() -> None:
    seen: list[Moment] = []

    def look(moment: Moment) -> None:
        seen.append(moment)

    given = {"market": {"stocks": 2, "days": 60, "minutes": 13}, "features": ["signal"],
             "stride": 4, "part": "selection"}  # fmt: skip
    backtest(task_of("trading", given), {"look": look})
    lengths = [len(moment.past) for moment in seen]
    assert lengths == list(range(lengths[0], lengths[0] + len(seen)))


def test_turbulence_that_is_never_known_is_no_promise() -> None:
    panel = daily(np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.01, (70, 30)), axis=0)))
    with pytest.raises(UserError, match=r"has 70 sessions .* of 30 stocks, .* 94 are enough; take"):
        made(panel, risk_off=5.0)
    few = panel.of(panel.tickers[:4])
    assert made(few, risk_off=0.0).off.any()
    with pytest.raises(UserError, match=r"has 63 sessions .* 64 are enough"):
        made(few.first(63), risk_off=0.0)
    made(few.first(64), risk_off=0.0)
