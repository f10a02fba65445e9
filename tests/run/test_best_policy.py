"""The policy of a run that is loaded, and the rest of a run whose board is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.errors import Corrupt, StorageError, UserError
from hpcpod.run.best_policy import best_of_algorithms
from hpcpod.storage.board import writer_id
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.settle import as_dead
from tests.pod.test_standalone import FADING

FALLS_RIGHT = [0.0, 0.0, 0.1, 0.0]
"""An observation to which the agent that fades does the right thing first, and the wrong later."""


def test_a_run_and_a_pod_give_their_best_policy_and_the_last_one_to_whoever_wants_it(
    tmp_path: Path,
) -> None:
    config = {
        "name": "fading",
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "population": {"pods": {"min": 1, "max": 1}, "algorithms": {FADING: 1}},
        "round": {"env_steps": 256, "episodes": 8},
        "agents": {FADING: {"good_for": 10}},
        "stop": {"rounds": 5, "finalists": 1, "confirm_episodes": 32},
    }
    run = hpcpod.launch(config, runs=tmp_path, detach=False)
    assert run.wait(timeout=600).stop_reason == "rounds"
    best = run.best()
    assert best is not None and best.fresh
    pod = run.board().pods["p0001"]
    assert pod.best is not None and pod.best.round == best.round < 4
    last = float(np.mean(pod.history[-1].returns))
    assert last < 15 < 100 < best.mean
    for policy in (hpcpod.load_policy(run), hpcpod.load_policy(run, pod="p0001")):
        assert policy(FALLS_RIGHT) == 1
        assert (policy.about["pod"], policy.about["round"]) == ("p0001", best.round)
        score = policy.about["score"]
        assert (score["mean"], score["fresh_seeds"]) == (best.mean, True)
    for policy in (
        hpcpod.load_policy(run, keep="last"), hpcpod.load_policy(run, pod="p0001", keep="last"),
    ):  # fmt: skip
        assert policy(FALLS_RIGHT) == 0
        assert (policy.about["round"], policy.about["score"]["mean"]) == (5, last)


def test_what_cannot_be_asked_for_is_a_sentence(finished_run: Path) -> None:
    with pytest.raises(UserError, match="looked-at has no pod p0099; it has p0001 to p"):
        hpcpod.load_policy(finished_run, pod="p0099")
    with pytest.raises(UserError, match=r"best\.h5 is one policy: pod and keep are of a run"):
        hpcpod.load_policy(finished_run / "best.h5", keep="last")
    with pytest.raises(UserError, match=r"keep: .*'first'"):
        hpcpod.load_policy(finished_run, keep="first")  # type: ignore[arg-type]


def test_a_pod_that_was_replaced_still_has_its_best_policy(
    finished_run: Path, tmp_path: Path
) -> None:
    folder = RunFolder.open(shutil.copytree(finished_run, tmp_path / "run"))
    before, found = read_board(folder), folder.board.read()
    assert found is not None
    row = before.entries[-1]
    dead = as_dead(before.pods[row.pod], "p0009 took its place", "replaced")
    board = replace(before, pods={**before.pods, row.pod: dead})
    assert folder.board.publish(*found, board.document(), writer_id())
    policy = hpcpod.load_policy(folder.path, pod=row.pod)
    assert (policy.about["pod"], policy.about["round"]) == (row.pod, row.round)
    with pytest.raises(UserError, match=rf"{row.pod} of looked-at is dead \(replaced\): its best"):
        hpcpod.load_policy(folder.path, pod=row.pod, keep="last")


def test_the_first_row_of_each_algorithm_is_its_best_pod(
    finished_run: Path, tmp_path: Path
) -> None:
    folder = RunFolder.open(shutil.copytree(finished_run, tmp_path / "run"))
    before = read_board(folder)
    *others, last = (replace(row, algorithm="ppo") for row in before.entries)
    for own, members in (("ppo", []), ("mine.own:Agent", [("Agent", last), ("ppo", others[0])])):
        found = folder.board.read()
        assert found is not None
        board = replace(before, entries=(*others, replace(last, algorithm=own)))
        assert folder.board.publish(*found, board.document(), writer_id())
        assert best_of_algorithms(folder) == {
            f"{name} {row.pod}": blob_path(folder.path / "blobs", row.checkpoint.core)
            for name, row in members
        }, "one algorithm is no ensemble"


@pytest.fixture
def lost(finished_run: Path, tmp_path: Path) -> Path:
    """A run whose board is gone."""
    run = tmp_path / "lost"
    shutil.copytree(finished_run, run)
    shutil.rmtree(run / "board")
    return run


SAID = (
    "its leaderboard, its pods and their lineage are lost, and it can't go on; its best policy is"
)


def test_a_run_whose_board_is_lost_gives_its_best_policy_with_what_is_known(
    lost: Path, finished_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, policy = hpcpod.load_policy(finished_run), hpcpod.load_policy(lost)
    assert policy.about == whole.about and policy.about["score"]["fresh_seeds"]
    observations = np.random.default_rng(0).normal(size=(64, 4))
    np.testing.assert_array_equal(policy(observations), whole(observations))
    assert f"{lost} has no board: {SAID} left, {lost / 'best.h5'}" in caplog.text
    (lost / "best.json").write_text("[")
    assert hpcpod.load_policy(lost).about["score"] == {}
    with pytest.raises(StorageError, match="has no board"):
        hpcpod.load_policy(lost, pod="p0001")
    (lost / "best.h5").unlink()
    with pytest.raises(StorageError, match="has no board; was its launch interrupted"):
        hpcpod.load_policy(lost)


@pytest.mark.parametrize(
    "verb", ["status", "why", "leaderboard", "watch", "resume", "stop", "tick", "scale", "pause"]
)
def test_every_verb_says_what_is_lost_and_what_is_left(
    verb: str, lost: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, str(lost)]) == 1
    said = capsys.readouterr()
    assert said.err == (
        f"hpcpod: {lost} has no board: {SAID} left, {lost / 'best.h5'}, and hpcpod.load_policy"
        " reads it\n"
    )


def test_a_board_that_is_damaged_throughout_costs_no_policy(
    lost: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished_run / "board", lost / "board")
    for path in (lost / "board").rglob("*.json"):
        path.write_text("torn")
    assert hpcpod.load_policy(lost)([0.0] * 4) in (0, 1)
    assert main(["status", str(lost)]) == 1
    assert f"every snapshot of it is damaged: {SAID}" in capsys.readouterr().err
    (lost / "best.h5").unlink()
    with pytest.raises(Corrupt, match=r"every snapshot of it is damaged$"):
        hpcpod.load_policy(lost)
