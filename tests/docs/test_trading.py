"""The page on trading: its files, commands and code, on a market of seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcpod.trading.features import truncated
from hpcpod.trading.sources import markets
from tests.docs.pages import blocks, files_of, page, run_script, said_here

PAGE = page("trading.md")
SMALL = [
    "round.env_steps=512", "round.episodes=4", "stop.rounds=1", "stop.minutes=null",
    "stop.confirm_episodes=4", "env.num_envs=8", "population.pods.max=3", "cluster.slots=1",
]  # fmt: skip


def test_it_walks_from_a_file_to_a_judged_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files_of(PAGE).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = [
        line.partition("#")[0].split() for line in "".join(blocks(PAGE, "bash")[:2]).splitlines()
    ]
    told = []
    for words in commands:
        small = [each for change in SMALL for each in ("--set", change)]
        more = small if words[1] == "launch" else ["--json"] if words[1] == "evaluate" else []
        told.append(said_here(capsys, *words, *more))
    assert "4 stocks" in told[0]
    assert "nothing is odd" in told[1]
    verdict = json.loads(told[-1])
    assert [row["name"] for row in verdict["rows"]][:3] == ["policy", "cash", "hold"]
    assert len(verdict["openings"]) == len(list((tmp_path / "runs/holdouts").rglob("*.json"))) == 1


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
