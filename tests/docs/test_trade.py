"""The tutorial on trading: its file and its commands, on a market of seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.run.run import open_run
from hpcpod.trading.ledger import LEDGERS, distinct
from hpcpod.trading.verdict import verdicts
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
        told.append(said_here(capsys, *words, *(small if words[1] == "launch" else [])))
    assert "4 stocks" in told[0]
    assert "nothing is odd" in told[1]
    best: dict[str, str] = {}
    for row in open_run("mine").leaderboard():
        best.setdefault(row.algorithm, row.pod)
    members = [best[name] for name in ("ppo", "sac", "td3")]
    joint = "accounts ppo {}, sac {}, td3 {}".format(*members)
    [verdict] = verdicts(tmp_path / "runs" / LEDGERS, "mine")
    assert [row.name for row in verdict.rows][:4] == ["policy", joint, "cash", "hold"]
    assert [row.name for row in verdict.rows if f"\n{row.name} " not in told[-1]] == []
    assert [each.run for each in verdict.openings] == [joint, "mine"]
    again = said_here(
        capsys, "hpcpod", "evaluate", "mine", "--holdout", "--pods", ",".join(members)
    )
    assert "accounts" not in again and "This holdout was opened 2 times" in again
    own = verdicts(tmp_path / "runs" / LEDGERS, "mine")[-1].rows[0]
    assert replace(verdict.rows[1], name=own.name, ahead=None, low=None, high=None) == own
    beside = said_here(
        capsys, "hpcpod", "evaluate", "mine", "--holdout", "--beside", "mine", "--json"
    )
    rows = {row.pop("name"): row for row in json.loads(beside)["rows"]}
    judged, shown = ({k: v for k, v in rows[name].items() if v} for name in ("policy", "mine"))
    lead = [shown.pop(name, 0.0) for name in ("ahead", "low", "high")]
    assert lead == pytest.approx([0.0] * 3, abs=1e-6)
    assert shown == pytest.approx(judged)
    *_, before, after = verdicts(tmp_path / "runs" / LEDGERS, "mine")
    assert {each.run for each in after.openings if each.beside} == {joint, "mine"}
    assert len(distinct(after.openings)) == len(distinct(before.openings)) == 3
