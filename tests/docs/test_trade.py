"""The tutorial on trading: its file and its commands, on a market of seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert [row["name"] for row in verdict["rows"]][:3] == ["policy", "cash", "hold"]
    assert len(verdict["openings"]) == len(list((tmp_path / "runs/holdouts").rglob("*.json"))) == 1
