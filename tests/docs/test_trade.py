"""The tutorial on trading: its file and its commands, on a market of seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcpod.run.run import open_run
from tests.docs.pages import blocks, page, said_here, write_files

PAGE = page("trade.md")
SMALL = [
    "round.env_steps=512", "round.episodes=4", "stop.rounds=1", "stop.minutes=null",
    "stop.confirm_episodes=4", "env.num_envs=8", "population.pods.max=3", "cluster.slots=1",
]  # fmt: skip


def test_it_walks_from_a_file_to_a_judged_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    commands = [
        line.partition("#")[0].split() for line in "".join(blocks(PAGE, "bash")).splitlines()
    ]
    told = []
    for words in commands:
        small = [each for change in SMALL for each in ("--set", change)]
        more = small if words[1] == "launch" else ["--json"] if words[1] == "evaluate" else []
        told.append(said_here(capsys, *words, *more))
    assert "4 stocks" in told[0]
    assert "nothing is odd" in told[1]
    verdict = json.loads(told[-1])
    best: dict[str, str] = {}
    for row in open_run("mine").leaderboard():
        best.setdefault(row.algorithm, row.pod)
    joint = "accounts " + ", ".join(f"{name} {best[name]}" for name in ("ppo", "sac", "td3"))
    assert [row["name"] for row in verdict["rows"]][:4] == ["policy", joint, "cash", "hold"]
    assert [each["run"] for each in verdict["openings"]] == [joint, "mine"]
    assert len(list((tmp_path / "runs/holdouts").rglob("*.json"))) == 2
    pods = ",".join(best[name] for name in ("ppo", "sac", "td3"))
    again = json.loads(said_here(
        capsys, "hpcpod", "evaluate", "mine", "--holdout", "--pods", pods, "--json"
    ))  # fmt: skip
    own, joined = again["rows"][0], verdict["rows"][1]
    compared = {"name", "ahead", "low", "high"}
    assert {k: v for k, v in own.items() if k not in compared} == {
        k: v for k, v in joined.items() if k not in compared
    }
    assert again["rows"][1]["name"] == "cash"
    told_by_eye = said_here(capsys, "hpcpod", "evaluate", "mine", "--holdout")
    assert f"\n{joint} " in told_by_eye and "This holdout was opened 3 times" in told_by_eye
