"""A run on a real Slurm grows, shrinks and gives back, by its throttles, markers and successors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpcpod.run.run import Run
from hpcpod.storage.requests import Scale
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

FOUR = "population.pods={min: 1, max: 4}"


@pytest.fixture
def shell(slurm_cluster: SlurmCluster, tmp_path: Path) -> Iterator[Shell]:
    yield Shell(slurm_cluster, tmp_path, probe=False)
    slurm_cluster.drained(60)


def ask(run: Run, slots: int) -> None:
    run.folder.requests.replace(Scale(slots))


def slots_of(shell: Shell, state: str, name: str) -> list[str]:
    return shell.jobs("-t", state, "--name", name)


def state_of(shell: Shell, job: str) -> str:
    """JobState and ExitCode of a job that may have ended."""
    said = shell.cluster.run("scontrol", "show", "job", job)
    found = re.findall(r"JobState=(\w+)|ExitCode=(\d+:\d+)", said)
    return " ".join(state or code for state, code in found)


def test_a_generational_run_shrinks_by_its_worst_prospects_and_grows_again(shell: Shell) -> None:
    config = shell.program("elastic", pods=4, steps=1_000, rounds=50)
    scheme = ("--set", "population.scheme=generational")
    shell.hpcpod("launch", str(config), *scheme)
    run = shell.run("elastic")
    shell.cluster.wait("a round of each", lambda: run.board().reports >= 4, 240)
    before = set(slots_of(shell, "R", "elastic"))
    assert len(before) == 4
    ask(run, 2)
    shell.cluster.wait("two slots", lambda: len(slots_of(shell, "R", "elastic")) == 2, 120)
    board = run.board()
    assert board.size == 2
    gone = sorted(before - set(slots_of(shell, "R", "elastic")))
    # They left with everything saved, as jobs that have done what they were for.
    assert [state_of(shell, slot) for slot in gone] == ["COMPLETED 0:0"] * 2
    reports, barrier = board.reports, board.barrier.round
    shell.cluster.wait("a report of those that stay", lambda: run.board().reports > reports, 120)
    shell.cluster.wait(
        "a barrier without those that left", lambda: run.board().barrier.round > barrier, 120
    )
    assert len(slots_of(shell, "R,PD", "elastic")) == 2
    ask(run, 4)
    shell.cluster.wait("four slots", lambda: len(slots_of(shell, "R", "elastic")) == 4, 120)
    shell.cluster.wait("all pods awake", lambda: run.board().size is None, 60)
    shell.hpcpod("stop", "elastic", "--now")


def test_what_waits_is_held_back_by_the_throttle_and_let_go_again(shell: Shell) -> None:
    blocking = shell.cluster.run(
        "sbatch", "--parsable", "-p", "high", "-N2", "--exclusive", "-o", "/dev/null",
        "--wrap", "sleep 600",
    ).strip()  # fmt: skip
    config = shell.endless("throttled")
    # A slot takes a node, but for the coordinator's core: two of four wait.
    shell.hpcpod("launch", str(config), "--set", FOUR, "--set", "resources.cpus_per_pod=15",
                 "--set", "pod.score_beside=false")  # fmt: skip
    run = shell.run("throttled")
    shell.cluster.wait("two slots", lambda: len(slots_of(shell, "R", "throttled")) == 2, 60)
    ask(run, 3)
    array = slots_of(shell, "R", "throttled")[0].split("_")[0]

    def throttle() -> str:
        said = shell.cluster.run("scontrol", "show", "job", array)
        return "".join(re.findall(r"ArrayTaskThrottle=(\d+)", said)[:1])

    shell.cluster.wait("a throttle of 3", lambda: throttle() == "3", 60)
    shell.cluster.run("scancel", blocking)
    shell.cluster.wait("three slots", lambda: len(slots_of(shell, "R", "throttled")) == 3, 60)
    reasons = ("squeue", "-h", "-r", "-t", "PD", "-o", "%r")
    shell.cluster.wait(
        "one that waits for the throttle",
        lambda: "JobArrayTaskLimit" in shell.cluster.run(*reasons), 60,
    )  # fmt: skip
    ask(run, 4)
    shell.cluster.wait("four slots", lambda: len(slots_of(shell, "R", "throttled")) == 4, 60)
    shell.hpcpod("stop", "throttled", "--now")


def test_a_coordinator_that_dies_is_followed_by_the_one_that_waits(shell: Shell) -> None:
    shell.hpcpod("launch", str(shell.endless("succeeded")))
    coordinators = shell.coordinators

    def one_and_the_next() -> bool:
        return len(coordinators("R")) == len(coordinators("PD")) == 1

    for _ in range(2):
        shell.cluster.wait("one at work, and its successor", one_and_the_next, 60)
        (first,), (second,) = coordinators("R"), coordinators("PD")
        shell.cluster.run("scancel", "--signal=KILL", "--full", first)
        shell.cluster.wait("its successor at work", lambda s=second: coordinators("R") == [s], 60)  # type: ignore[misc]
    left = slots_of(shell, "R", "succeeded")
    shell.cluster.run("scancel", left[0])
    shell.cluster.wait(
        "another slot in its place",
        lambda: len(set(slots_of(shell, "R", "succeeded")) - {left[0]}) == 2, 120,
    )  # fmt: skip
    shell.hpcpod("stop", "succeeded", "--now")


def test_large_requests_are_split_and_requeued_slots_do_not_wait(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    cluster = start_slurm(Options(extra=("MaxArraySize=3",), requeue_seconds=600))
    shell = Shell(cluster, tmp_path, probe=False)
    config = str(shell.endless("split"))
    shown = shell.hpcpod("launch", config, "--dry-run", "--set", FOUR)
    assert re.findall(r"--array=(\S+)", shown) == ["0-2", "0-0"]
    written = shell.hpcpod("render", config, "--set", FOUR, "--set", "name=written")
    for script in re.findall(r"sbatch (\S+)", written):
        cluster.run("sbatch", "--test-only", script)
    assert len(re.findall(r"sbatch \S+slots-\d", written)) == 2

    said = shell.hpcpod("launch", config, "--set", FOUR)
    assert re.search(r"\d+ slots? as job (\d+) and \d+ slots? as job (\d+)", said)
    cluster.wait("four slots", lambda: len(slots_of(shell, "R", "split")) == 4, 60)
    run = shell.run("split")
    cluster.wait("slots at work", lambda: len(run.status().slots) == 4, 60)
    chosen = slots_of(shell, "R", "split")[0]
    cluster.run("scontrol", "requeue", chosen)
    # Ten minutes, if nobody asked for less.
    cluster.wait("it to be back", lambda: "Restarts=1" in
                 cluster.run("scontrol", "show", "job", chosen)
                 and chosen in slots_of(shell, "R", "split"), 120)  # fmt: skip
    shell.hpcpod("stop", "split", "--now")
    cluster.drained(60)
