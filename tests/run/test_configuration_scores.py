"""Configurations side by side, over the seeds that trained them: as a table, as JSON, in Python."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from hpcpod.cli.parser import main
from hpcpod.records.records import Checkpoint
from hpcpod.report.one import report_of
from hpcpod.report.story import read
from hpcpod.run.configuration_scores import configurations_table
from hpcpod.run.run import Run, open_run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules
from tests.support.small_runs import AGENTS, create
from tests.tournament.world import report

ROUNDS, STEPS = 4, 512
AGENT = {"ppo": {**AGENTS["ppo"], "learning_rate": {"log_uniform": [1e-4, 1e-2]}}}


def play(folder: RunFolder) -> None:
    """Train all: a configuration of pod k is worth 10 k, and a training's luck deviates by 4."""
    rules, rng, luck = Rules.of_run(folder), Random(3), dict[str, float]()
    while (board := read_board(folder)).phase == "running":
        waiting = [o for o in orders(board) if o.pod not in resting_pods(board)][:2]
        for order in waiting:
            first = board.pods[order.pod].repeats or order.pod
            level = 10 * int(first[1:]) + luck.setdefault(order.pod, rng.gauss(0, 4))
            core = hashlib.sha256(order.id.encode()).hexdigest()
            done = Checkpoint(core, env_steps=STEPS * order.round)
            returns = (level - 1, level + 1)
            folder.reports.publish(report(order, returns, checkpoint=done, trained_steps=STEPS))
        merge(folder, rules)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of eight founders that has ended, with a budget of 7 trainings."""
    changes = {
        "pods": {"min": 1, "max": 8}, "warmup_rounds": 0, "controls": 0,
        "allocator": "replicates", "generator": "random_search",
    }  # fmt: skip
    stop = {"rounds": ROUNDS, "env_steps": 7 * ROUNDS * STEPS}
    folder = create(tmp_path, population=changes, stop=stop, agents=AGENT)
    play(folder)
    return Run(folder)


def test_a_run_that_has_ended_tells_its_configurations_apart(run: Run) -> None:
    first, *others = run.configurations()
    assert first.pod == "p0008"
    board = run.board()
    pods = board.pods
    again = [each for each in pods.values() if first.pod in (each.repeats, each.id)]
    assert first.trainings == sum(each in board.living for each in again) > 1
    levels = [sum(each.history[-1].returns) / 2 for each in again if each in board.living]
    assert first.mean == pytest.approx(sum(levels) / len(levels))
    assert first.sd is not None and first.error is not None
    assert abs(first.estimate - 80) < 2 * first.error < 16
    assert first.hyperparameters == pods["p0008"].hyperparameters
    # one that rested half-way is not done though the run has ended
    halves = [each for each in others if not each.trainings]
    assert halves and all(each.going for each in halves)
    whole = [each.estimate for each in (first, *others) if each.trainings]
    assert whole == sorted(whole, reverse=True)


def test_the_table_says_which_and_by_how_many_trainings(run: Run) -> None:
    scores = run.configurations()
    console = Console(width=140, record=True)
    console.print(configurations_table(scores))
    text = console.export_text()
    assert "p0008" in text and "estimate" in text
    unfinished = sum(not each.trainings for each in scores)
    assert f"{unfinished} more were not trained to the end" in text
    rate = scores[0].hyperparameters["learning_rate"]
    assert f"learning_rate {rate:.4g}" in text
    assert "gamma" not in text  # all have the same
    alone = [replace(scores[0], sd=None, error=None)]
    console.print(configurations_table(alone))
    assert "more were not trained" not in console.export_text()


def test_the_command_and_the_tables_have_them(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(run.folder.path)
    assert main(["leaderboard", folder, "--stats"]) == 0
    assert "configurations" in capsys.readouterr().out
    assert main(["leaderboard", folder, "--stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["configurations"]
    assert [each["pod"] for each in found] == [each.pod for each in run.configurations()]
    assert main(["results", folder, "--table", "configurations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("pod,algorithm,trainings,going,mean,sd,estimate,error")
    assert len(lines) == 1 + len(found)


def test_the_report_has_a_section_of_them(run: Run) -> None:
    page = report_of(read(run))
    body = page[page.index('id="configurations"') : page.index('id="births"')]
    rows = re.findall(r"<tr><t[dh][^>]*>(p\d+)<", body)
    assert rows == [each.pod for each in run.configurations() if each.trainings]
    assert "more were not trained to the end" in body


def test_a_run_that_repeats_no_training_has_none(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Configurations over their seeds" not in report_of(read(open_run(finished_run)))
    assert main(["leaderboard", str(finished_run), "--stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["configurations"] == []
    assert main(["leaderboard", str(finished_run), "--stats"]) == 0
    assert "configurations" not in capsys.readouterr().out
