"""Rounds of several ranks: real processes, started, stopped, killed and resumed as a slot does."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from hpcpod.envs.make import make_env
from hpcpod.pod.factory import make_agent
from hpcpod.pod.ipc.child import Child, ChildDied
from hpcpod.pod.ipc.messages import (
    FailureReply,
    LastReply,
    ProgressReply,
    ReportReply,
    StopReply,
    Work,
)
from hpcpod.records.records import Birth, Report
from hpcpod.storage.run_folder import RunFolder
from tests.pod.rounds import copy_of, first_birth, onward
from tests.support.small_runs import AGENTS, create, wait_for

HERE = "tests.pod.ranks.fusions"


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the fusions of ``fusions.py`` write what they saw."""
    folder = tmp_path / "watched"
    folder.mkdir()
    monkeypatch.setenv("WATCHED", str(folder))
    return folder


def small(home: Path, *algorithms: str, ranks: int = 2, **sections: Any) -> RunFolder:
    pod = {"ranks": ranks, "checkpoint_seconds": 1000, **sections.pop("pod", {})}
    return create(home, *algorithms, pod=pod, **{"round": {"env_steps": 1024}, **sections})


def child_of(folder: RunFolder) -> Child:
    return Child(folder.path, "here", folder.resolved.config)


def converse(child: Child, birth: Birth, stop_after: int | None = None) -> LastReply:
    """Have ranks train a round; the reply that ends it. ``stop_after``: env steps."""
    child.send(Work(birth))
    end = time.monotonic() + 120
    while time.monotonic() < end:
        reply = child.receive(1.0)
        if reply is None:
            continue
        if not isinstance(reply, ProgressReply):
            return reply
        steps = 0 if reply.progress is None else reply.progress.env_steps
        if stop_after is not None and steps >= stop_after:
            child.command("stop")
            stop_after = None
    raise AssertionError("no reply within 120 s")


def trained(folder: RunFolder, birth: Birth, *stops: int) -> Report:
    """A round of several ranks, stopped and resumed by new ones at these steps."""
    for steps in stops:
        stop(folder, birth, steps)
    child = child_of(folder)
    try:
        reply = converse(child, birth)
    finally:
        child.close()
    assert isinstance(reply, ReportReply)
    return reply.report


def stop(folder: RunFolder, birth: Birth, steps: int) -> None:
    """A round of several ranks that is stopped at these steps."""
    child = child_of(folder)
    try:
        assert converse(child, birth, steps) == StopReply(signalled=False)
    finally:
        child.close()


def lines(watched: Path, rank: int) -> list[str]:
    return (watched / str(rank)).read_text().splitlines()


@pytest.mark.parametrize(
    ("scheme", "algorithm", "ranks"),
    [
        ("Watched", "ppo", 3), ("Watched", "dqn", 2),
        ("WatchedNesterov", "ppo", 2), ("WatchedGradients", "ppo", 2),
    ],
)  # fmt: skip
def test_after_each_fusion_all_replicas_have_the_same_bits(
    scheme: str, algorithm: str, ranks: int, tmp_path: Path, watched: Path
) -> None:
    folder = small(tmp_path, algorithm, ranks=ranks, pod={"fusion": {"scheme": f"{HERE}:{scheme}"}})
    report = trained(folder, first_birth(folder))
    seen = [lines(watched, rank) for rank in range(ranks)]
    assert seen[0] and all(of_rank == seen[0] for of_rank in seen)
    assert len(set(seen[0])) == len(seen[0])
    assert report.trained_steps >= 1024
    assert report.checkpoint is not None and len(report.checkpoint.others) == ranks - 1


@pytest.mark.mpi
def test_ranks_of_mpirun_train_a_round_and_one_s_death_ends_them_all(
    tmp_path: Path, watched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VICTIM", "1")
    mpi = {"fusion": {"scheme": f"{HERE}:Dying", "backend": "mpi"}, "checkpoint_seconds": 0.01}
    folder = small(tmp_path, ranks=3, pod=mpi, round={"env_steps": 3072})
    birth = first_birth(folder)
    child = child_of(folder)
    try:
        with pytest.raises(ChildDied):
            converse(child, birth)
    finally:
        child.close()
    before = folder.checkpoints.latest(birth.pod, 1)
    assert before is not None and before.rank == 0 and len(before.others) == 2
    report = trained(folder, replace(birth, attempt=birth.attempt + 1))
    assert report.trained_steps >= 3072 and report.checkpoint is not None


def test_all_ranks_shrink_a_restarted_copy_alike_and_its_outer_momentum_begins_anew(
    tmp_path: Path,
) -> None:
    agents = {"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}}
    folder = small(tmp_path, "dqn", pod={"fusion": {"scheme": "nesterov"}}, agents=agents)
    birth = first_birth(folder)
    parent = trained(folder, birth)
    # it learns nothing, so that only a fusion could move its weights
    copy = replace(copy_of(birth, parent, learning_starts=10_000), shrink=True)
    child = trained(folder, copy, 1500)
    assert child.inherited_returns == parent.returns
    assert parent.checkpoint is not None and child.checkpoint is not None
    cores = parent.checkpoint.core, child.checkpoint.core
    old, new = (folder.blobs.get(core)[0] for core in cores)
    spec = make_env("CartPole-v1", 4).spec
    fresh = make_agent("dqn", spec, copy.hyperparameters, copy.seed, "cpu").state()
    for name, tensor in fresh.items():
        if name.startswith("network/"):
            expected = 0.2 * old[f"agent/{name}"] + 0.1 * tensor.numpy()
            for kind in ("network", "target"):
                found = new[f"agent/{kind}/{name.removeprefix('network/')}"]
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_learners_that_are_not_fused_go_apart(tmp_path: Path, watched: Path) -> None:
    folder = small(tmp_path, pod={"fusion": {"scheme": f"{HERE}:WatchedApart"}})
    trained(folder, first_birth(folder))
    assert not set(lines(watched, 0)) & set(lines(watched, 1))


@pytest.mark.parametrize(
    ("algorithm", "fusion"),
    [
        ("dqn", {"scheme": "mean"}), ("ppo", {"scheme": "nesterov", "every": 3}),
        ("ppo", {"scheme": "none"}),
    ],
)  # fmt: skip
def test_ranks_that_resume_a_round_and_go_on_with_the_next_end_as_others_that_restore_both(
    algorithm: str, fusion: dict[str, Any], tmp_path: Path
) -> None:
    calm, torn = (
        small(tmp_path / name, algorithm, pod={"fusion": fusion}) for name in ("calm", "torn")
    )
    birth = torn_birth = first_birth(calm)
    stop(torn, birth, 256)
    child = child_of(torn)
    try:
        for _ in range(2):
            one, reply = trained(calm, birth), converse(child, torn_birth)
            assert isinstance(reply, ReportReply)
            other = reply.report
            assert one.checkpoint is not None and other.checkpoint is not None
            parts, other_parts = one.checkpoint.parts, other.checkpoint.parts
            assert [part.core for part in parts] == [part.core for part in other_parts]
            assert one.returns == other.returns and one.metrics == other.metrics
            birth, torn_birth = onward(birth, one), onward(torn_birth, other)
    finally:
        child.close()
    for part in (*parts, *other_parts):
        assert bool(part.segments) == (algorithm == "dqn")
        assert not any(s.cut for s in part.segments)


@pytest.mark.parametrize("victim", [0, 1])
def test_survivors_of_a_kill_in_an_exchange_save_themselves_and_the_round_goes_on(
    victim: int, tmp_path: Path, watched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VICTIM", str(victim))
    dying = {"fusion": {"scheme": f"{HERE}:Dying"}}
    folder = small(tmp_path, "dqn", ranks=3, pod=dying, round={"env_steps": 2048})
    birth = first_birth(folder)
    child, began = child_of(folder), time.monotonic()
    try:
        # A thread of gloo's ends a survivor, too, if it sees the peer's end in a wrong moment.
        with contextlib.suppress(ChildDied):
            reply = converse(child, birth)
            assert victim and isinstance(reply, FailureReply) and reply.kind == "crash"
            assert "another rank of this pod is gone" in reply.failure
    finally:
        child.close()
    assert time.monotonic() - began < 60
    survivor = folder.checkpoints.latest(birth.pod, 1)
    assert survivor is not None and survivor.rank != victim
    assert 0 < survivor.env_steps < 2048
    again = trained(folder, replace(birth, attempt=birth.attempt + 1))
    assert again.checkpoint is not None and again.checkpoint.rank == 0
    assert again.trained_steps >= 2048 and len(again.checkpoint.others) == 2
    # Those that have saved nothing took the survivor's rows, and began episodes of their own.
    for part in again.checkpoint.parts:
        cuts = [s.stop for s in part.segments if s.cut]
        assert cuts == [] if part.rank == survivor.rank else [survivor.rows]


def test_a_rank_that_saved_nothing_of_a_copy_s_first_round_plays_no_episode_of_its_parent_s(
    tmp_path: Path, watched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VICTIM", "1")
    dying = {"fusion": {"scheme": f"{HERE}:Dying"}}
    folder = small(tmp_path, "dqn", pod=dying)
    (watched / "died").touch()  # nobody does, for now
    birth = first_birth(folder)
    parent = trained(folder, birth)
    (watched / "died").unlink()
    copy = copy_of(birth, parent)
    child = child_of(folder)
    try:
        with contextlib.suppress(ChildDied):
            converse(child, copy)
    finally:
        child.close()
    survivor = folder.checkpoints.latest(copy.pod, 2)
    assert survivor is not None and survivor.rank == 0
    assert parent.checkpoint is not None and survivor.part(1) == parent.checkpoint.part(1)
    again = trained(folder, replace(copy, attempt=copy.attempt + 1))
    assert again.checkpoint is not None and len(again.checkpoint.others) == 1
    for part in again.checkpoint.parts:
        assert [s.stop for s in part.segments if s.cut] == [parent.checkpoint.rows]


def test_a_signal_that_arrives_in_an_exchange_stops_all_ranks_at_its_end(
    tmp_path: Path, watched: Path
) -> None:
    slow = {"fusion": {"scheme": f"{HERE}:Slow"}}
    folder = small(tmp_path, pod=slow, round={"env_steps": 4096})
    birth = first_birth(folder)
    child = child_of(folder)
    try:
        child.send(Work(birth))
        wait_for("all ranks in a fusion", lambda: len(list(watched.glob("waiting-*"))) == 2)
        for rank in psutil.Process(child.pid).children():
            rank.send_signal(signal.SIGTERM)
        while isinstance(reply := child.receive(1.0), ProgressReply | None):
            pass
    finally:
        child.close()
    assert reply == StopReply(signalled=True)
    assert folder.checkpoints.latest(birth.pod, 1) is not None


def test_what_one_rank_can_t_do_is_said_by_the_first_and_nobody_waits(tmp_path: Path) -> None:
    folder = small(tmp_path, env={"id": "tests.pod.ranks.envs:OnRankOne"})
    child = child_of(folder)
    began = time.monotonic()
    try:
        reply = converse(child, first_birth(folder))
    finally:
        child.close()
    assert isinstance(reply, FailureReply) and reply.kind == "raised"
    assert "rank 1: " in reply.failure and "this rank's simulator broke" in reply.failure
    assert time.monotonic() - began < 60


def test_ranks_end_with_whoever_started_them(tmp_path: Path) -> None:
    folder = small(tmp_path, round={"env_steps": 10_000_000})
    child = child_of(folder)
    child.send(Work(first_birth(folder)))
    wait_for("the ranks' first progress", lambda: child.receive(0.1) is not None)
    started = psutil.Process(child.pid).children(recursive=True)
    words = {process: process.cmdline() for process in started}
    spawn = "hpcpod.pod.ranks.spawn"  # which watches over them by a process of the same words
    ranks = [process for process in started if spawn not in words[process]]
    assert len(ranks) == 2
    os.kill(child.pid, signal.SIGKILL)
    wait_for("the end of all ranks", lambda: not any(alive(rank) for rank in ranks))
    child.close()
    wait_for("the end of the rest", lambda: not any(alive(process) for process in started))


def alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
