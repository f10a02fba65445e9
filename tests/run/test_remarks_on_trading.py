"""Remarks on trading tasks, and their absence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.run.remarks_on_trading import on_trading
from hpcpod.trading.files import write_bars
from hpcpod.trading.sources import SOURCES
from tests.support.small_runs import mapping
from tests.trading.small import daily

PANEL = "pod.evaluator: panel scores pods on the sessions that they train on"
SEEN = "env.kwargs: orders are filled at the price that was seen when they were decided"


@pytest.mark.parametrize(
    ("evaluator", "kwargs", "said"),
    [
        ("trading", {}, []),
        ("trading", {"preset": "paper"}, []),
        ("panel", {}, [PANEL]),
        ("trading", {"fill": "seen"}, [SEEN]),
        ("trading", {"preset": "finrl_parity"}, [SEEN]),
        ("trading", {"preset": "finrl_parity", "fill": "open"}, []),
        ("trading", {"preset": "strict", "fill": "seen"}, [SEEN]),
    ],
)
def test_scores_that_say_little_are_remarked_on(
    evaluator: str, kwargs: Mapping[str, Any], said: list[str]
) -> None:
    env = {"id": "trading", "backend": "trading", "kwargs": dict(kwargs)}
    found = on_trading(from_mapping(mapping("x", env=env, pod={"evaluator": evaluator})), None)
    assert [each.split(", which")[0] for each in found] == said
    gym = from_mapping(mapping("x", env={"id": "x", "kwargs": dict(kwargs)}))
    assert not [*on_trading(gym, None)]


HEAD = "time,ticker,open,high,low,close"


@pytest.mark.parametrize(
    ("columns", "changed", "limited"),
    [
        (HEAD, {"preset": "strict"}, False),
        (HEAD, {"participation": 0.1}, False),
        ("date,A,B", {"preset": "strict"}, False),
        (f"{HEAD},Volume", {"preset": "strict"}, True),
        (HEAD, {"preset": "strict", "participation": None}, True),
        (HEAD, {"preset": "paper"}, True),
    ],
)
def test_a_limit_of_a_volume_that_is_not_there_is_remarked_on(
    columns: str, changed: Mapping[str, Any], limited: bool, tmp_path: Path
) -> None:
    file = tmp_path / "bars.csv"
    file.write_text(f"{columns}\n")
    said = told(market={"source": str(file)}, **changed)
    assert said == [] if limited else said[0].startswith(f"env.kwargs.participation: {file} has no")
    assert told(market=str(file), **changed) == said


def test_of_sources_the_synthetic_one_alone_has_volume(tmp_path: Path) -> None:
    for source in SOURCES:
        said = told(market={"source": source}, preset="strict")
        assert len(said) == (source != "synthetic")
    assert told("skfolio:sp500", preset="strict")
    write_bars(daily([[1.0], [2.0]]), tmp_path / "bars.parquet")
    assert not told(market=str(tmp_path / "bars.parquet"), preset="strict")
    assert not told(market=str(tmp_path / "nowhere.csv"), preset="strict")


def told(name: str = "trading", **kwargs: Any) -> list[str]:
    env = {"id": name, "backend": "trading", "kwargs": kwargs}
    config = mapping("x", env=env, pod={"evaluator": "trading"})
    return [*on_trading(from_mapping(config), None)]
