"""Recorded output of seven versions of Slurm, read: see ``recorded/README.md``.

The same queue was recorded with each: an array of twelve with a throttle of four, of which three
were requeued and one of those held; an array of pods over two nodes; a coordinator and the one
that waits for it; others' jobs with odd comments; one job for each of a dozen reasons.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hpcpod.launchers.base import ClusterView, IdleNode, JobView
from hpcpod.launchers.slurm.reasons import explain
from hpcpod.launchers.slurm.sacct import read_history
from hpcpod.launchers.slurm.scontrol import max_array_size, read_settings, requeue_seconds
from hpcpod.launchers.slurm.sinfo import read_idle
from hpcpod.launchers.slurm.squeue import read_queue, throttle

RECORDED = Path(__file__).parent / "recorded"
RUN = "a781850a60"
ARRAY, WIDE, COORDINATOR, SINGLE = "5eed" * 4, "feed" * 4, "c0de" * 4, "aaaa" * 4
VERSIONS = ["20.11", "21.08", "22.05", "23.11", "24.11", "25.11", "26.05"]


def text(version: str, command: str) -> str:
    return (RECORDED / version / f"{command}.txt").read_text(encoding="utf-8")


def test_every_recording_is_tested() -> None:
    assert sorted(path.name for path in RECORDED.iterdir() if path.is_dir()) == VERSIONS


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def view(version: str) -> ClusterView:
    return read_queue(text(version, "squeue"), RUN)


def of(view: ClusterView, token: str) -> dict[int, JobView]:
    """The elements of a submission by their index."""
    return {int(job.slot.partition("_")[2] or 0): job for job in view.jobs if job.token == token}


def test_each_element_has_its_own_state_reason_and_restarts(view: ClusterView) -> None:
    jobs = of(view, ARRAY)
    assert sorted(jobs) == list(range(12))
    assert len({job.submission for job in jobs.values()}) == 1
    assert {n for n, job in jobs.items() if job.restarts} == {0, 2, 3}
    assert {n for n, job in jobs.items() if job.requeued} == {0, 2, 3}
    reasons = Counter(job.reason for job in jobs.values())
    # Without -r the held one, and the requeued ones, are hidden among those that never ran.
    assert reasons == {"JobArrayTaskLimit": 7, "job requeued in held state": 1, "": 4}
    assert jobs[3].reason == "job requeued in held state"
    for job in jobs.values():
        assert (job.kind, job.partition) == ("slots", "low")
        assert job.state == ("pending" if job.reason else "running")
        assert job.node.startswith("dgx") == (job.state == "running")
        assert job.left is not None
        assert job.left + job.seconds == 30 * 60


def test_an_element_on_several_nodes_says_which(view: ClusterView) -> None:
    jobs = of(view, WIDE)
    assert sorted(jobs) == [0, 1, 2, 3]
    assert "dgx[1-2]" in {job.node for job in jobs.values()}
    assert {job.node for job in jobs.values()} <= {"dgx[1-2]", "dgx[5-6]"}
    assert {job.partition for job in jobs.values()} == {"high"}
    assert all(job.left and 235 * 60 < job.left <= 240 * 60 for job in jobs.values())


def test_a_coordinator_and_the_one_that_waits_for_it(view: ClusterView) -> None:
    jobs = [job for job in view.jobs if job.kind == "coordinator"]
    assert [job.token for job in jobs] == [COORDINATOR] * 2
    assert {(job.state, job.reason, job.left) for job in jobs} == {
        ("running", "", None),  # --time=UNLIMITED
        ("pending", "Dependency", None),
    }


def test_jobs_of_other_runs_are_not_seen_and_comments_of_others_do_no_harm(
    view: ClusterView,
) -> None:
    assert {job.token for job in view.jobs} == {ARRAY, WIDE, COORDINATOR, SINGLE, "x"}
    # Only the user's own jobs are asked for. Who writes a line of squeue's, with a run's id, into
    # a comment of their own, has written it: there is nothing that it could be known by.
    imitation = next(job for job in view.jobs if job.token == "x")
    assert imitation.slot == "5_2"


def test_the_expected_start_is_a_unix_time(view: ClusterView) -> None:
    begins = next(job for job in view.jobs if job.reason == "BeginTime")
    began = max(job.starts or 0 for job in of(view, ARRAY).values())  # of the requeued one
    assert begins.starts is not None
    assert 3000 < begins.starts - began < 3700  # --begin=now+1hour
    assert {job.starts for job in view.jobs if job.state == "running"} == {None}


HOPELESS = {
    "DependencyNeverSatisfied",
    "JobHeldAdmin",
    "JobHeldUser",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "job requeued in held state",
}


def test_every_reason_of_the_queue_has_words(view: ClusterView) -> None:
    reasons = {job.reason for job in view.jobs if job.reason}
    assert {"Licenses", "PartitionDown", "BeginTime"} | HOPELESS < reasons
    assert {reason for reason in reasons if explain(reason).hopeless} == HOPELESS
    assert not [r for r in reasons if explain(r).meaning.startswith("Slurm says")]


def test_an_elements_record_has_the_throttle(version: str) -> None:
    assert throttle(text(version, "scontrol-job")) == 4


# By hand from the recordings. Left out are dgx4 (maintenance), dgx5 (no core is free) and dgx7
# (drained), and dgx2 where it is planned for another job. On dgx6 somebody has a share of a GPU.
IDLE = {
    "20.11": {"dgx1": (0, 9), "dgx2": (2, 13), "dgx3": (8, 16), "dgx6": (0, 13), "dgx8": (6, 8)},
    "21.08": {"dgx1": (0, 9), "dgx2": (2, 13), "dgx3": (7, 14), "dgx6": (0, 13), "dgx8": (7, 10)},
    "22.05": {"dgx1": (0, 9), "dgx2": (1, 11), "dgx3": (8, 16), "dgx6": (0, 13), "dgx8": (7, 10)},
    "23.11": {"dgx1": (0, 9), "dgx2": (2, 13), "dgx3": (8, 16), "dgx6": (0, 13), "dgx8": (6, 8)},
    "24.11": {"dgx1": (0, 12), "dgx3": (7, 14), "dgx6": (0, 9), "dgx8": (6, 12)},
    "25.11": {"dgx1": (0, 12), "dgx3": (6, 12), "dgx6": (0, 9), "dgx8": (7, 14)},
    "26.05": {"dgx1": (0, 12), "dgx3": (6, 12), "dgx6": (0, 9), "dgx8": (7, 14)},
}


def test_what_is_idle_in_the_default_partition(version: str) -> None:
    listing = text(version, "sinfo")
    idle = read_idle(listing)
    assert {node.name: (node.gpus, node.cpus) for node in idle.nodes} == IDLE[version]
    assert read_idle(listing, ["low"]) == idle
    assert read_idle(listing, ["low", "high"]) == idle  # each node once
    assert read_idle(listing, ["off"]).nodes == ()  # the partition is down


def test_a_sleeping_node_counts_and_an_unknown_one_does_not(version: str) -> None:
    nodes = set(read_idle(text(version, "sinfo"), ["cloud", "late"]).nodes)
    in_the_cloud = IdleNode("dgx9", 0, 15)  # squeue says CONFIGURING of its job
    if version in ("21.08", "22.05"):  # nodes in the cloud are not shown while they sleep
        assert nodes == {IdleNode("dgx10", 0, 16)}
    else:
        assert nodes == {IdleNode("dgx10", 0, 16), in_the_cloud}


def test_limits(version: str) -> None:
    settings = read_settings(text(version, "scontrol-config"))
    assert settings["SLURM_VERSION"].startswith(version)
    assert (max_array_size(settings), requeue_seconds(settings)) == (1001, 6.0)
    words = ("MaxJobCount", "PreemptType", "PreemptMode", "KillWait")
    expected = ["10000", "preempt/partition_prio", "REQUEUE", "5 sec"]
    assert [settings[word] for word in words] == expected


def test_the_lives_that_have_ended(version: str) -> None:
    lives = read_history(text(version, "sacct"))
    ends = Counter(life.state for life in lives)
    assert set(ends) == {"CANCELLED", "FAILED", "PREEMPTED", "REQUEUED"}
    (failed,) = (life for life in lives if life.state == "FAILED")
    assert (failed.exit_code, failed.signal) == (1, 0)
    for life in lives:
        assert life.node.startswith("dgx")
        assert life.ended > 1.7e9
        assert life.seconds < 60
