"""Snapshots as users see them: rows by hand, and those of a real run, to its end."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.schema import EnvConfig, RunConfig, SnapshotsConfig, StopConfig
from hpcpod.orchestrator.tick import needed_blobs
from hpcpod.records.checkpoints import Checkpoint
from hpcpod.records.policy_snapshots import PolicySnapshot
from hpcpod.records.records import Board, Rescore
from hpcpod.run.run import Run, open_run
from hpcpod.run.snapshot_scores import odd_times, scoring
from hpcpod.storage.layout import blob_path
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.small_runs import SLOW, create, mapping, wait_for

FIRST = PolicySnapshot(2, 2, 512, "p0001", 1, Checkpoint("a" * 64, 512))
THIRD = PolicySnapshot(5, 1, 4096, "p0001", 8, Checkpoint("b" * 64, 4096))


def with_snapshots(board: Board, *rows: PolicySnapshot, **changes: object) -> Board:
    kept = {str(row.number): row for row in rows}
    return replace(board, snapshots=kept, **changes)  # type: ignore[arg-type]


def test_a_row_for_each_time_with_mean_deviation_steps_and_seconds(tmp_path: Path) -> None:
    run = Run(create(tmp_path, snapshots={"seconds": 2.5}))
    first = replace(FIRST, returns=(1.0, 2.0, 3.0, 6.0))
    rows = run.snapshots(with_snapshots(run.board(), THIRD, first))
    assert [(r.seconds, r.env_steps, r.round) for r in rows] == [
        (5.0, 512, 1), (7.5, 512, 1), (12.5, 4096, 8),
    ]  # fmt: skip
    # the mean is 3, the squares 4 + 1 + 0 + 9 = 14, over n - 1 = 3
    sd = math.sqrt(14 / 3)
    assert (rows[0].mean, rows[0].episodes, rows[0].returns) == (3.0, 4, first.returns)
    assert rows[0].sd == pytest.approx(sd) and rows[0].error == pytest.approx(sd / 2)
    assert rows[1] == replace(rows[0], seconds=7.5)
    assert (rows[2].mean, rows[2].sd, rows[2].error, rows[2].episodes) == (None, None, None, 0)
    assert rows[2].checkpoint == blob_path(run.path / "blobs", "b" * 64)
    assert (rows[2].pod, rows[2].algorithm) == ("p0001", "ppo")


def test_the_words_on_what_is_scored() -> None:
    board = with_snapshots(Board(started=0.0), FIRST, replace(THIRD, returns=(1.0, 2.0)))
    order = Rescore("final", 0, "p0001", 1, "ppo", {}, Checkpoint("c", 1), 1)
    assert scoring(board) == ""
    finals = replace(board, phase="finals", rescores={"p0001": order})
    assert scoring(finals) == "scoring 1 finalist, then 1 snapshot"
    assert scoring(replace(finals, snapshots={})) == "scoring 1 finalist"
    done = replace(FIRST, returns=(1.0, 2.0))
    ended = with_snapshots(finals, done, replace(THIRD, returns=(1.0, 2.0)))
    assert scoring(ended) == "scoring 1 finalist"
    last = replace(finals, rescores={"x": replace(order, purpose="snapshot", number=2)})
    assert scoring(last) == "scoring snapshots: 1 of 2 done"


@pytest.mark.parametrize(
    ("seconds", "minutes", "said"),
    [
        (None, 1.0, ""), (60.0, 1.0, ""), (61.0, None, ""),
        (61.0, 1.0, "the run ends after 60 s (stop.minutes), and the first snapshot"),
        (1.0, 5.0, "up to 300 policies would be scored on 8 episodes each"),
    ],
)  # fmt: skip
def test_odd_times_are_said(seconds: float | None, minutes: float | None, said: str) -> None:
    config = RunConfig(
        "run", EnvConfig("Task-v0"), stop=StopConfig(minutes=minutes),
        snapshots=SnapshotsConfig(seconds, 8),
    )  # fmt: skip
    remarks = list(odd_times(config))
    assert len(remarks) == bool(said) and said in "".join(remarks)


def test_no_snapshots_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = create(tmp_path)
    assert main(["snapshots", str(folder.path)]) == 2
    assert "keeps no snapshots: launch it with snapshots.seconds" in capsys.readouterr().err
    assert main(["snapshots", str(folder.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_clock_that_is_hours_ahead_takes_none_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path, snapshots={"seconds": 600})
    rules = Rules.of_run(folder)
    merge(folder, rules, at_work=True)
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + 3 * 3600)  # this node's
    assert merge(folder, rules).snapshot_times == 0


@pytest.mark.long
def test_a_real_run_keeps_and_scores_its_leaders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = mapping(
        "ppo", "ppo", population={"algorithms": {"ppo": 1}, "pods": {"min": 1, "max": 2}},
        env=SLOW["env"], round={"env_steps": 2048, "episodes": 2}, stop={"rounds": 4},
        snapshots={"seconds": 1, "episodes": 4},
    )  # fmt: skip
    run = hpcpod.launch(whole, runs=tmp_path)
    assert run.wait(timeout=240).state == "finished"
    board, rows = run.board(), run.snapshots()
    assert board.winner is not None and board.stop_reason == "rounds"
    # on any machine a round takes more than 1.2 s, and three of them come after the first report
    seconds = [row.seconds for row in rows]
    assert len(rows) >= 3 and seconds == sorted(set(seconds))
    steps = [row.env_steps for row in rows]
    assert steps == sorted(steps) and steps[-1] <= board.env_steps
    assert all(row.episodes == 4 and row.failure == "" for row in rows)
    # a policy that led at several times was scored once, and each by a report of its own
    scored = {row.checkpoint: row.returns for row in rows}
    assert all(row.returns == scored[row.checkpoint] for row in rows)
    reports = [path.name for path in (run.path / "reports").glob("*/*-snapshot*")]
    assert len(reports) == len(scored)
    run.folder.prune(needed_blobs(run.folder), 0.0)
    for row in rows:
        assert hpcpod.load_policy(row.checkpoint)([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    assert main(["snapshots", str(run.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(each["seconds"], each["mean"]) for each in shown] == [
        (row.seconds, row.mean) for row in rows
    ]
    assert main(["snapshots", str(run.path)]) == 0
    assert "fresh seeds that all have in common" in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_equal_policies_of_two_snapshots_have_equal_returns(tmp_path: Path) -> None:
    """The seeds are those of the run, whatever the snapshot's number is."""
    from hpcpod.pod.__main__ import prepare
    from hpcpod.pod.round import Watch
    from tests.pod.rounds import first_birth

    folder = create(tmp_path, snapshots={"seconds": 1, "episodes": 6})
    pod = prepare(folder)
    checkpoint = pod.execute(first_birth(folder), "here", Watch()).checkpoint
    assert checkpoint is not None
    order = Rescore("snapshot", 1, "p0001", 1, "ppo", first_birth(folder).hyperparameters,
                    checkpoint, 1)  # fmt: skip
    orders = [order, replace(order, number=7), replace(order, purpose="final", number=0)]
    one, other, final = (pod.execute(each, "here", Watch()).returns for each in orders)
    pod.close()
    assert len(one) == 6 and one == other
    assert len(final) == 2 and final != one[:2]


@pytest.mark.long
def test_while_they_are_scored_the_run_says_so(tmp_path: Path) -> None:
    whole = mapping(
        env={"id": "tests.support.faulty_envs:Slow", "kwargs": {"pause": 0.005}},
        round={"env_steps": 256, "episodes": 2}, stop={"rounds": 2},
        snapshots={"seconds": 1, "episodes": 32},
    )  # fmt: skip
    run = hpcpod.launch(whole, runs=tmp_path)
    wait_for("the snapshots' turn", lambda: "snapshots: 0 of" in run.status().scoring)
    status = open_run(run.path).status()
    assert status.state in ("finals", "finished")
    if status.state == "finals":
        assert read_board(run.folder).winner == "p0001"
    run.stop()  # a second end: it waits for no more scores
    assert run.wait(timeout=600).state == "finished"
    assert not all(row.episodes for row in run.snapshots())
