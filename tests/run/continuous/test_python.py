"""Continuous training from Python, on policies by hand: what judges them is the real gate."""

from __future__ import annotations

from pathlib import Path

import pytest

import hpcpod
from hpcpod.config.loader import dump_yaml
from hpcpod.errors import ConfigError, UserError
from hpcpod.run.continuous import training
from hpcpod.trading.files import write_bars
from hpcpod.trading.synthetic import SyntheticMarket
from tests.run.continuous.worlds import ByHand, config, drive

AGENT = f"{ByHand.__module__}:{ByHand.__qualname__}"
JUDGE = 12


def sessions_there(file: Path, sessions: int) -> None:
    """Have the file hold so many sessions of a market whose signal is worth following."""
    whole = SyntheticMarket(stocks=2, days=90, minutes=13, seed=3, alpha=3.0).panel()
    write_bars(whole.below(whole.dates[sessions]), file)


def test_the_bootstrap_gate_lets_pass_what_is_ahead_and_keeps_out_what_is_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "drive", drive)  # in this process
    file = home / "bars.parquet"
    by_hand = {"learning_rate": 1e-12, "hidden": 8, "horizon": 32, "minibatch_size": 64}
    whole = config(
        file, population={"pods": {"min": 1, "max": 1}, "algorithms": {AGENT: 1}},
        agents={AGENT: {**by_hand, "gain": -1.0}}, ct={"kwargs": {"judge": JUDGE, "window": 30}},
    )  # fmt: skip
    (home / "mine.yaml").write_text(dump_yaml(whole))
    sessions_there(file, 45)
    assert hpcpod.ct("mine.yaml").current is None  # nothing is trained before it is asked for
    mine = hpcpod.ct("mine.yaml")
    assert mine.advance(probe=False).kind == "promoted"  # the first one, without a gate
    first = mine.policy.read_bytes()
    kinds = []
    for cycle, gain in ((2, 1.0), (3, -1.0)):
        sessions_there(file, 45 + JUDGE * (cycle - 1))
        mine = hpcpod.ct("mine", overrides=[f'agents."{AGENT}".gain={gain}'])
        kinds.append(mine.advance(fresh=True, probe=False).kind)
    assert kinds == ["promoted", "kept"]
    _, better, worse = (each.verdict for each in mine.versions())
    assert better.ahead is not None and better.low is not None and better.ahead > better.low > 0
    assert worse.ahead is not None and worse.ahead < 0 and not worse.promotes
    assert (mine.current, mine.policy.read_bytes() != first) == (2, True)
    assert mine.advance(probe=False).kind == "not due"
    drift = mine.drift()
    assert drift is not None and drift.version == 2
    assert mine.rollback().current == 1 and mine.policy.read_bytes() == first
    assert [line.kind for line in mine.history()] == ["promoted", "promoted", "kept", "rolled back"]
    assert mine.repeat(2).same_bits
    with pytest.raises(UserError, match="no cycle is open"):
        mine.abandon()


def test_what_can_not_be_retrained_is_a_sentence(home: Path) -> None:
    with pytest.raises(UserError, match="small has no section ct"):
        hpcpod.ct("good.yaml")
    with pytest.raises(UserError, match="a registry of that name is not there either"):
        hpcpod.ct("nothing")
    with pytest.raises(ConfigError, match="run"):
        hpcpod.ct(3)  # type: ignore[arg-type]
