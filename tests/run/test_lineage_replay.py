"""Schedules trained again: to the bit with the run's seed, from scratch with another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace as changed
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.deploy import replay as deploying
from hpcpod.errors import HpcpodError, UserError
from hpcpod.pod.finals import fresh_seeds
from hpcpod.pod.ipc.messages import Progress
from hpcpod.records.records import Candidate, Member, Order, Report, decode, seed_of
from hpcpod.run.lineage import schedule_data
from hpcpod.run.lineage_replay import asked, hindrances, replay
from hpcpod.run.lineage_schedule import Schedule, schedule_of
from hpcpod.storage.blobs import read_blob_file
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.seed_sets import seeds
from tests.support.hand_played import birth_of
from tests.support.lineages import LINE, SPANS, trained
from tests.support.small_runs import create

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run in which DQN was copied once, and once more by a restart."""
    return trained(tmp_path_factory.mktemp("runs"))


def test_a_schedule_has_each_stretch_with_the_shares_that_its_slots_told(
    family: RunFolder,
) -> None:
    schedule = schedule_of(family, read_board(family), "p0004")
    assert tuple(stretch.pod for stretch in schedule.stretches) == LINE
    assert [stretch.shrink for stretch in schedule.stretches] == [False, False, True]
    assert [(s.first_step, s.last_step) for s in schedule.stretches] == [
        (0, 512), (512, 1024), (1024, 1536)
    ]  # fmt: skip
    rounds = [each for stretch in schedule.stretches for each in stretch.rounds]
    assert {each.round: (each.begins, each.ends) for each in rounds} == SPANS
    rates = [float(s.hyperparameters["learning_rate"]) for s in schedule.stretches]
    assert rates == [rates[0], 2 * rates[0], 4 * rates[0]]
    assert schedule.lost == () and schedule.env_steps == 1536
    assert decode(Schedule, json.loads(json.dumps(schedule_data(schedule)))) == schedule


def test_with_the_run_s_seed_the_lineage_s_bits_come_again_though_its_blobs_are_pruned(
    family: RunFolder, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, _ = family.blobs.get(core_of(family, "p0004", 3))
    theirs = {name: array for name, array in whole.items() if name.startswith("agent/")}
    pruned = [family.blobs.path(core_of(family, pod, at)) for pod, at in (("p0001", 1),)]
    for path in pruned:
        path.unlink()
    code = main(["replay", str(family.path), "p0004", "--out", "again"])
    said = capsys.readouterr().out
    assert code == 0
    assert "its 3 checkpoints that can be compared have the run's bits" in said
    assert sorted(path.name for path in Path("again").iterdir()) == [
        "curve.csv", "policy.h5", "replay.json"
    ]  # fmt: skip
    policy = hpcpod.load_policy("again/policy.h5")
    ours, _ = read_blob_file(Path("again/policy.h5"))
    assert ours.keys() == theirs.keys() and len(ours) > 4
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    facts = json.loads(Path("again/replay.json").read_text())
    assert facts["same_bits"] is True and facts["score"]["episodes"] == 4
    assert policy.about["score"]["mean"] == facts["score"]["mean"]
    assert policy.about["replay"]["pod"] == "p0004"
    rows = Path("again/curve.csv").read_text().splitlines()
    assert len(rows) == 4 and all(row.endswith(",True") for row in rows[1:])
    assert main(["play", "again", "--episodes", "2"]) == 0
    replayed = capsys.readouterr().out
    assert main(["play", str(family.path), "--pod", "p0004", "--episodes", "2"]) == 0
    assert capsys.readouterr().out == replayed and replayed.count("seed") == 2
    assert main(["replay", str(family.path), "p0004", "--out", "again"]) == 0
    assert capsys.readouterr().out == "again has this replay of p0004 already\n"
    assert main(["replay", str(family.path), "p0004", "--out", "again", "--seed", "8"]) == 2
    assert "give another folder by --out" in capsys.readouterr().err


def core_of(folder: RunFolder, pod: str, at: int) -> str:
    report = folder.reports.read(f"{pod}-{at:05d}-1")
    assert report is not None and report.checkpoint is not None
    return report.checkpoint.core


def test_another_seed_is_another_training_by_the_same_schedule(
    family: RunFolder, tmp_path: Path
) -> None:
    schedule = schedule_of(family, read_board(family), "p0003")
    ask = asked(schedule, tmp_path / "other", seed=8, env_steps=600)
    assert ask.rounds == 2 and ask.env_steps == 1024  # whole rounds
    births = list(schedule.births(8, ask.rounds))
    own = list(schedule.births(schedule.seed, ask.rounds))
    assert [b.seed for b in births] != [b.seed for b in own]
    assert [(b.pod, b.inherited, b.begins) for b in births] == [
        ("p0001", False, 0.0), ("p0003", True, 0.3)
    ]  # fmt: skip
    done = replay(family, read_board(family), ask)
    assert done.same_bits is None and len(done.returns) == 4
    assert [point.same_bits for point in done.curve] == [None, None]
    assert done.curve[0].run_mean != done.curve[0].mean


def test_every_member_of_a_delivered_ensemble_is_trained_again_and_they_are_joined(
    family: RunFolder, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(family.path), "--members"]) == 2
    assert "family delivers no ensemble" in capsys.readouterr().err
    folder = RunFolder.open(shutil.copytree(family.path, home / "family"))
    board = read_board(folder)
    rows = {pod: board.pods[pod].best or board.pods[pod].history[-1] for pod in ("p0003", "p0004")}
    members = tuple(
        Member(pod, row.round, "dqn", board.pods[pod].hyperparameters, row.checkpoint)
        for pod, row in rows.items()
    )
    after = changed(board, finals=changed(
        board.finals, candidates=(Candidate(members, "vote"),), delivered=0
    ))  # fmt: skip
    found = folder.board.read()
    assert found is not None and folder.board.publish(*found, after.document(), "a test")
    assert main(["replay", str(folder.path), "p0003", "--members"]) == 2
    assert main(["replay", str(folder.path), "--members", "--env-steps", "512"]) == 0
    said = capsys.readouterr().out
    out = home / "family-ensemble-seed3"
    assert f"their ensemble (vote): {out.name}/ensemble.h5" in said
    joined = hpcpod.load_policy(out / "ensemble.h5")
    assert [each["pod"] for each in joined.about["members"]] == ["p0001", "p0001"]
    for pod in rows:
        assert (out / pod / "curve.csv").read_text().count("\n") == 2
    assert main(["replay", str(folder.path), "--members"]) == 2
    assert "has an ensemble.h5 already" in capsys.readouterr().err
    # as if it had been killed while the second one trained
    (out / "ensemble.h5").unlink()
    shutil.rmtree(out / "p0004")
    assert main(["replay", str(folder.path), "--members", "--env-steps", "512"]) == 0
    said = capsys.readouterr().out
    assert f"{out.name}/p0003 has this replay of p0003 already" in said
    assert (out / "ensemble.h5").exists()


def test_a_replay_s_score_is_on_seeds_that_no_run_of_its_seed_has_opened(
    family: RunFolder,
) -> None:
    birth = birth_of(family, "p0004")
    assert birth.checkpoint is not None
    order = deploying.score_order(birth, birth.checkpoint)
    config = family.resolved.config
    panel, episodes = fresh_seeds(order, config)
    assert panel == (3, "report", -1) and episodes == config.stop.confirm_episodes
    drawn = {seed_of(*panel, place) for place in range(episodes)}
    purposes = ("confirm", "final", "candidate", "report", "panel")
    taken = (seeds(config.seed, name, number, 32) for name in purposes for number in range(99))
    assert len(drawn) == episodes and not drawn & set(chain.from_iterable(taken))


def test_one_that_was_interrupted_goes_on_and_gives_its_folder_to_no_other(
    family: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = read_board(family)
    ask = asked(schedule_of(family, board, "p0003"), tmp_path / "cut")
    calls: list[str] = []
    answer = deploying.Retraining._answer

    def counted(
        self: deploying.Retraining, order: Order, tell: Callable[[Progress], None]
    ) -> Report:
        calls.append(order.id)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return answer(self, order, tell)

    monkeypatch.setattr(deploying.Retraining, "_answer", counted)
    with pytest.raises(KeyboardInterrupt):
        replay(family, board, ask)
    assert (tmp_path / "cut" / "training" / "config.json").exists()
    other = asked(ask.schedule, tmp_path / "cut", seed=99)
    with pytest.raises(UserError, match="is of another replay"):
        replay(family, board, other)

    done = replay(family, board, ask)
    orders = ["p0001-00001-1", "p0003-00002-1"]
    assert calls == [*orders, *orders, "p0003-report0-1"]
    assert done.same_bits is True


def test_a_round_that_followed_other_shares_is_seen_not_to_be_the_run_s(
    family: RunFolder, tmp_path: Path
) -> None:
    schedule = schedule_of(family, read_board(family), "p0001")
    [stretch] = schedule.stretches
    wrong = changed(stretch, rounds=(changed(stretch.rounds[0], begins=0.9, ends=1.0),))
    ask = asked(changed(schedule, stretches=(wrong,)), tmp_path / "wrong")
    assert replay(family, read_board(family), ask).same_bits is False


def test_what_can_keep_a_replay_from_the_run_s_bits_is_said(family: RunFolder) -> None:
    schedule = schedule_of(family, read_board(family), "p0003")
    assert list(hindrances(family, asked(schedule))) == []
    family = RunFolder.open(family.path)
    family.config["versions"]["torch"] = "1.0"
    family.config["config"]["pod"] |= {"ranks": 4, "fusion": {"backend": "mpi"}}
    ranks, versions = hindrances(family, asked(schedule))
    assert "4 ranks" in ranks and "by MPI" in ranks
    assert versions.startswith("the run was made with torch 1.0 (here ")
    assert list(hindrances(family, asked(schedule, seed=5))) == []  # other bits are asked for
    family = RunFolder.open(family.path)
    family.config["config"]["pod"] = {}
    family.config |= {"versions": {}}
    family.config["config"]["resources"] = {"gpus_per_pod": 1}
    [gpus] = hindrances(family, asked(schedule))
    assert "GPUs" in gpus


def test_ranks_that_can_t_be_started_or_have_failed_are_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for backend, said in (("gloo", "the ranks have failed: the training process"),
                          ("mpi", "there is no mpirun on this machine")):  # fmt: skip
        fusion = {"ranks": 2, "fusion": {"backend": backend}}
        folder = create(tmp_path / backend, "dqn", pod=fusion)
        with closing(deploying.Retraining(folder)) as work:
            (folder.path / "config.json").write_text("{}")
            if backend == "mpi":
                monkeypatch.setenv("PATH", "")
            with pytest.raises(HpcpodError, match=said):
                work.train([birth_of(folder, "p0001")])
