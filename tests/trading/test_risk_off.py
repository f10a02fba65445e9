"""The rule ``risk_off``, and the baseline that is under it as policies are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hpcpod.trading.files import write_bars
from hpcpod.trading.holdout import judge
from hpcpod.trading.task import task_of
from hpcpod.trading.verdict import CASH, RISK_OFF, RIVAL
from tests.trading.small import minutes


def test_what_the_rule_risk_off_earns_is_no_edge_of_a_policy(tmp_path: Path) -> None:
    """In turns two sessions rise by 1 %, a third one by 9 %, and the next falls by 3 %: risk is off
    on it, and what always holds everything is sold at its beginning."""
    after = 10 * np.exp(np.cumsum(np.tile([0.01, 0.01, 0.09, -0.03], 60)))
    before = np.append(10.0, after[:-1])
    closes = np.stack([before, *(before + (after - before) * part for part in (0.3, 0.6, 1))], 1)
    write_bars(minutes(closes[..., None]), tmp_path / "bars.csv")
    given = task_of("trading", {
        "market": {"source": str(tmp_path / "bars.csv"), "calendar": None}, "preset": "strict",
        "risk_off": 2.0, "features": ["return_1"],
    })  # fmt: skip
    told = judge(given, {"a": lambda obs: torch.ones(len(obs), 1)})
    rival, idle, same = (told.row(name) for name in (RIVAL, CASH, RISK_OFF))
    assert rival.low is not None and idle.low is not None
    assert rival.low > 0 and idle.low > 0
    assert (same.ahead, same.low, same.high) == (0.0, 0.0, 0.0)
    assert not told.edge
    assert set(told.over_risk_off) == {0.0}
    assert told.words.startswith("no edge: ahead of buy-and-hold by +")
    assert ", and not of buy-and-hold with risk-off: +0.00 [+0.00, +0.00];" in told.words
    assert 0 < same.turnover - rival.turnover < 1


def test_under_a_risk_off_that_never_is_buy_and_hold_is_there_twice() -> None:
    market = {"stocks": 4, "days": 250, "minutes": 13, "seed": 50}
    given = {"market": market, "stride": 4, "features": ["signal"], "risk_off": 1e9}
    told = judge(task_of("trading", given), {"a": lambda obs: (obs[:, :4] > 0).float()})
    assert [row.name for row in told.rows][:4] == ["policy", CASH, RIVAL, RISK_OFF]
    assert replace(told.row(RISK_OFF), name=RIVAL) == told.row(RIVAL)
    assert told.over_risk_off == told.gaps
