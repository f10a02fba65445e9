"""The page on trading: its feature and its code."""

from __future__ import annotations

from pathlib import Path

from hpcpod.trading.features import truncated
from hpcpod.trading.sources import markets
from tests.docs.pages import blocks, files_of, page, run_script

PAGE = page("trading.md")


def test_its_feature_is_causal(tmp_path: Path) -> None:
    from hpcpod import plugins

    (tmp_path / "ratio.py").write_text(files_of(PAGE)["ratio.py"], encoding="utf-8")
    plugins.look_in([str(tmp_path)])
    truncated(markets({"days": 20, "minutes": 13})[0], "ratio:up_days")


def test_its_code_plays_a_rule_beside_the_baselines(tmp_path: Path) -> None:
    [code] = [each for each in blocks(PAGE, "python") if "backtest" in each]
    rows = {line[:17].strip(): line[17:] for line in run_script(code, tmp_path).splitlines()}
    assert list(rows) == [
        "mine", "cash", "hold", "equal weight", "minimum variance", "momentum", "random",
    ]  # fmt: skip
    assert rows["cash"].strip() == "+0.0%"
