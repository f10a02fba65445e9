"""The page on trading: its feature, its code and its folds."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from hpcpod.trading.features import truncated
from hpcpod.trading.sources import markets
from tests.docs.pages import block, blocks, files_of, page, said_here, write_files

PAGE = page("trading.md")
SMALL = [
    "population.pods.min=1", "population.pods.max=1", "round.env_steps=256", "round.episodes=4",
    "stop.env_steps=256", "stop.finalists=1", "stop.confirm_episodes=4", "cluster.slots=1",
    "cluster.tick_seconds=0.2", "env.num_envs=8", "agents.ppo.horizon=16", "agents.ppo.hidden=16",
    "sweep.over={env.kwargs.fold: [1, 5]}",
]  # fmt: skip
"""Makes runs of seconds of the page's, of its first and of its last fold."""


def test_its_feature_is_causal(tmp_path: Path) -> None:
    from hpcpod import plugins

    (tmp_path / "ratio.py").write_text(files_of(PAGE)["ratio.py"], encoding="utf-8")
    plugins.look_in([str(tmp_path)])
    truncated(markets({"days": 20, "minutes": 13})[0], "ratio:up_days")


def test_its_code_plays_a_rule_beside_the_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(block(PAGE, "python", "backtest"), encoding="utf-8")
    runpy.run_path(str(script))  # here: a process of its own would load torch again
    told = capsys.readouterr().out
    rows = {line[:17].strip(): line[17:] for line in told.splitlines()}
    assert list(rows) == [
        "mine", "cash", "hold", "equal weight", "minimum variance", "momentum", "random",
    ]  # fmt: skip
    assert rows["cash"].strip() == "+0.0%"


@pytest.mark.long
def test_its_folds_are_judged_together_on_windows_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    made = blocks(page("trade.md"), "bash")[0].splitlines()[0].split()
    said_here(capsys, *made)
    small = [each for change in SMALL for each in ("--set", change)]
    launched = said_here(capsys, "hpcpod", "launch", "folds.yaml", *small)
    assert launched.count("finished (env_steps)") == 2
    said_here(capsys, "hpcpod", "report", "folds", "-o", "before.html")
    assert "None was opened yet" in Path("before.html").read_text(encoding="utf-8")
    found = json.loads(said_here(capsys, "hpcpod", "evaluate", "folds", "--holdout", "--json"))
    # The last 125 of 250 weekdays from 2000-01-03 on are five windows of 25.
    days = {fold: (each["first"], each["last"]) for fold, each in found["folds"].items()}
    assert days == {"1": ("2000-06-26", "2000-07-28"), "5": ("2000-11-13", "2000-12-15")}
    assert found["days"] == 50
    assert {len(each["gaps"]) for each in found["folds"].values()} == {25}
    assert len(list((tmp_path / "runs/holdouts").glob("*.json"))) == 2
    assert "of 2 folds" in found["words"]
    said_here(capsys, "hpcpod", "report", "folds", "-o", "after.html")
    told = Path("after.html").read_text(encoding="utf-8")
    assert "over 50 days, and ahead of buy-and-hold in" in told
    assert all(f"{first} to {last}" in told for first, last in days.values())
