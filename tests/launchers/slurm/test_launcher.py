"""The launcher on a real Slurm: the real scripts, with a stand-in for the slot's process."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcpod.errors import LaunchError
from hpcpod.launchers.slurm import scripts
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.records.records import Intent
from tests.launchers.runs import COORDINATOR, SLOTS, Lives, run_config, stand_in
from tests.launchers.slurm.test_scripts import CASES, text_of
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = pytest.mark.slurm


class Bench:
    """A cluster, a run folder on it, and a launcher whose slots are stand-ins."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.lives = Lives(folder)
        self.python = stand_in(folder)

    def launcher(self, **config: Any) -> SlurmLauncher:
        return SlurmLauncher(self.folder, run_config(**config), self.python)

    def until(self, what: str, true: Callable[[], bool], seconds: float = 30.0) -> None:
        self.cluster.wait(what, true, seconds)

    def living(self, elements: int, life: int = 0) -> None:
        alive = self.lives.alive
        self.until("slots", lambda: all(alive(e, life) for e in range(elements)))

    def fate(self, job: str) -> tuple[str, int, int]:
        """A job's state, how often it was restarted, and its exit code."""
        text = self.cluster.run("scontrol", "show", "job", job)
        found = re.search(r"JobState=(\S+).*Restarts=(\d+).*ExitCode=(\d+)", text, re.DOTALL)
        assert found, text
        return found[1], int(found[2]), int(found[3])

    def ended(self, job: str) -> tuple[str, int, int]:
        going = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")
        self.until(f"the end of {job}", lambda: self.fate(job)[0] not in going)
        return self.fate(job)


@pytest.fixture
def on(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[SlurmCluster], Bench]]:
    benches: list[Bench] = []

    def make(cluster: SlurmCluster) -> Bench:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, cluster.env()[name])
        folder = cluster.folder / "runs" / re.sub(r"\W+", "-", request.node.name)
        folder.mkdir(parents=True)
        benches.append(Bench(cluster, folder))
        return benches[-1]

    yield make
    for bench in benches:
        bench.cluster.drained()


@pytest.fixture
def bench(on: Callable[[SlurmCluster], Bench], slurm_cluster: SlurmCluster) -> Bench:
    return on(slurm_cluster)


@pytest.mark.parametrize("case", CASES)
def test_slurm_accepts_the_recorded_texts(case: str, bench: Bench) -> None:
    script = bench.folder / "job.sh"
    # The features and node names of a site are its own.
    script.write_text(re.sub(r"#SBATCH --(constraint|exclude)=.*\n", "", text_of(case)))
    bench.cluster.run("sbatch", "--test-only", str(script))


def test_what_is_submitted_is_seen_until_it_is_cancelled(bench: Bench) -> None:
    launcher = bench.launcher(partition="low", cpus=16)
    array = launcher.submit(Intent(0, "5eed", "slots", 5))
    bench.living(4)
    waiting = ("Resources", "Priority")
    bench.until("a reason", lambda: launcher.observe().jobs[0].reason in waiting)
    jobs = {job.slot: job for job in launcher.observe().jobs}
    assert sorted(jobs) == [f"{array}_{n}" for n in range(5)]
    assert {job.token for job in jobs.values()} == {"5eed"}
    assert {job.submission for job in jobs.values()} == {array}
    assert [jobs[f"{array}_{n}"].state for n in range(5)] == ["running"] * 4 + ["pending"]
    launcher.cancel([jobs[f"{array}_{n}"].job for n in (0, 4)])
    # The one that ran has checkpointed and exits 75: Slurm would revive it if it was asked to.
    assert bench.ended(f"{array}_0") == ("CANCELLED", 0, 75)
    assert sorted(job.slot for job in launcher.observe().jobs) == [
        f"{array}_{n}" for n in (1, 2, 3)
    ]
    launcher.cancel([array])
    bench.until("the others' end", lambda: not launcher.observe().jobs)


def test_of_an_array_only_the_elements_that_ask_come_back(bench: Bench) -> None:
    launcher, lives = bench.launcher(partition="low"), bench.lives
    lives.deafen(4)
    array = launcher.submit(Intent(0, "5eed", "slots", 6))
    bench.living(6)
    lives.end(0, 0)
    lives.end(1, 1)
    lives.end(2, 75)
    bench.cluster.run("scancel", "--signal=USR2", f"{array}_3")  # as before a time limit
    bench.cluster.run("scancel", "--signal=TERM", f"{array}_4")  # Python is not up yet
    assert bench.ended(f"{array}_0") == ("COMPLETED", 0, 0)
    assert bench.ended(f"{array}_1") == ("FAILED", 0, 1)
    bench.until("all three", lambda: all(lives.alive(e, life=1) for e in (2, 3, 4)))
    assert [bench.fate(f"{array}_{e}")[:2] for e in (2, 3, 4)] == [("RUNNING", 1)] * 3
    assert bench.fate(f"{array}_5")[:2] == ("RUNNING", 0)
    assert lives.seen(2, life=1)["env"]["SLURM_RESTART_COUNT"] == "1"
    jobs = launcher.observe().jobs
    assert sorted(job.slot for job in jobs) == [f"{array}_{e}" for e in (2, 3, 4, 5)]
    assert {job.token for job in jobs} == {"5eed"}


@pytest.mark.parametrize("grace", [0, 5])
def test_a_preempted_slot_comes_back_once(
    grace: int,
    start_slurm: Callable[[Options], SlurmCluster],
    on: Callable[[SlurmCluster], Bench],
) -> None:
    bench = on(start_slurm(Options(grace_seconds=grace)))
    launcher = bench.launcher(partition="low", cpus=16)
    array = launcher.submit(Intent(0, "5eed", "slots", 1))
    bench.living(1)
    bench.cluster.run(
        "sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"
    )
    bench.until("preemption", lambda: bench.fate(f"{array}_0")[0] != "RUNNING")
    assert [job.slot for job in launcher.observe().jobs] == [f"{array}_0"]  # never taken for gone
    bench.living(1, life=1)
    assert bench.fate(f"{array}_0")[:2] == ("RUNNING", 1)


def test_a_restart_loop_has_an_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "MAX_REQUEUES", 0)
    bench.lives.end(0, 75)
    array = bench.launcher(partition="low").submit(Intent(0, "5eed", "slots", 1))
    assert bench.ended(f"{array}_0") == ("FAILED", 0, 1)
    log = (bench.folder / "logs" / f"slot-{array}_0.log").read_text()
    assert f"hpcpod: {array}_0 was requeued 0 times already: given up" in log


def test_a_cancelled_slot_stays_so_whatever_squeue_complains_of(
    bench: Bench, tmp_path: Path
) -> None:
    """It has checkpointed and asks to come back, which its script must not do for it."""
    squeue = tmp_path / "squeue"
    complaint = "squeue: warning: can't stat gres.conf file"
    squeue.write_text(f'#!/bin/sh\necho "{complaint}" >&2\nexec {shutil.which("squeue")} "$@"\n')
    squeue.chmod(0o755)
    launcher = bench.launcher(partition="low", setup=(f"export PATH={tmp_path}:$PATH",))
    array = launcher.submit(Intent(0, "5eed", "slots", 1))
    bench.living(1)
    launcher.cancel([array])
    assert bench.ended(f"{array}_0") == ("CANCELLED", 0, 75)
    bench.until("its end", lambda: not launcher.observe().jobs)
    assert not bench.lives.alive(0, life=1)


def test_a_second_coordinator_waits_and_the_first_may_come_back(bench: Bench) -> None:
    launcher = bench.launcher(partition="low", name="ant v5", cpus=8, gpus=1)
    first = launcher.submit(Intent(0, "aaaa", "coordinator"))
    bench.until("the first", lambda: bench.lives.alive("job"))
    second = launcher.submit(Intent(1, "bbbb", "coordinator"))
    bench.until("squeue", lambda: {j.reason for j in launcher.observe().jobs} == {"", "Dependency"})
    states = {job.slot: (job.kind, job.state, job.token) for job in launcher.observe().jobs}
    assert states == {
        first: ("coordinator", "running", "aaaa"),
        second: ("coordinator", "pending", "bbbb"),
    }
    launcher.cancel([second])
    bench.lives.end("job", 75)
    bench.until("its second life", lambda: bench.lives.alive("job", life=1))
    assert bench.fate(first)[:2] == ("RUNNING", 1)
    environment = bench.lives.seen("job", life=1)["env"]
    assert environment["OMP_NUM_THREADS"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in environment


def test_a_slot_gets_its_arguments_its_cores_and_its_gpus(bench: Bench) -> None:
    launcher = bench.launcher(
        partition="low", cpus=3, gpus=1, setup=("export FROM_SETUP='it works'",)
    )
    launcher.submit(Intent(0, "5eed", "slots", 1))
    bench.living(1)
    seen = bench.lives.seen(0)
    assert seen["arguments"] == ["-m", "hpcpod.slot", str(bench.folder), "--token", "5eed"]
    environment = seen["env"]
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["SLURM_CPUS_PER_TASK"] == "3"
    assert len(environment["CUDA_VISIBLE_DEVICES"].split(",")) == 1
    assert environment["FROM_SETUP"] == "it works"


def test_a_submitters_own_job_does_not_leak_into_its_slots(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SLURM_JOB_ID": "999",
        "SLURM_MEM_PER_NODE": "512",
        "SLURM_NTASKS": "7",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_ARRAY_INX": "0-99",
        "SQUEUE_STATES": "SUSPENDED",
        "OF_THE_USER": "kept",
    }.items():
        monkeypatch.setenv(name, value)
    launcher = bench.launcher(partition="low", minutes=33)
    launcher.submit(Intent(0, "5eed", "slots", 1))
    bench.living(1)
    environment = bench.lives.seen(0)["env"]
    assert "SLURM_MEM_PER_NODE" not in environment
    assert environment["SLURM_NTASKS"] == "1"
    assert environment["SLURM_CONF"] == str(bench.cluster.conf)
    assert environment["OF_THE_USER"] == "kept"
    assert len(launcher.observe().jobs) == 1
    text = bench.cluster.run("scontrol", "show", "job", environment["SLURM_JOB_ID"])
    assert "TimeLimit=00:33:00" in text


def test_no_run_folder_is_too_odd_for_the_shell(bench: Bench) -> None:
    names = ["a b", "it's", 'say "hi"', "semi;colon", "hash#tag", "$HOME `id`", "é[x]{y}*?!~", "-n"]
    jobs = {}
    for name in names:
        folder = bench.folder / name
        folder.mkdir()
        Lives(folder).end("job", 0)
        launcher = SlurmLauncher(folder, run_config(partition="low"), bench.python)
        jobs[name] = launcher.submit(COORDINATOR)
    for name, job in jobs.items():
        assert bench.ended(job) == ("COMPLETED", 0, 0)
        seen = Lives(bench.folder / name).seen("job")
        assert seen["arguments"][2] == str(bench.folder / name)
        assert (bench.folder / name / "logs" / f"coordinator-{job}.log").exists()


def test_a_refusal_is_one_sentence_in_slurms_own_words(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LaunchError) as caught:
        bench.launcher(partition="nope").submit(SLOTS)
    assert str(caught.value) == (
        "sbatch refused: invalid partition specified: nope;"
        " Batch job submission failed: Invalid partition name specified"
    )
    with pytest.raises(LaunchError, match=r"^sbatch refused: .*unrecognized option"):
        bench.launcher(sbatch={"no-such-option": "1"}).submit(SLOTS)
    assert not (bench.folder / "scripts").exists()
    assert capfd.readouterr() == ("", "")


def test_more_slots_than_an_array_may_have_are_refused_with_the_limit(bench: Bench) -> None:
    with pytest.raises(LaunchError, match=r"set cluster\.slots to at most 1001"):
        bench.launcher().submit(Intent(0, "5eed", "slots", 1002))


def test_a_site_s_sbatch_may_say_more_than_the_job(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("sbatch")
    script = f"#!/bin/sh\necho 'You have 3 jobs; job 987654 ended lately'\nexec {real} \"$@\"\n"
    (tmp_path / "sbatch").write_text(script)
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    launcher = bench.launcher(partition="low")
    job = launcher.submit(SLOTS)
    assert {view.submission for view in launcher.observe().jobs} == {job} != {"987654"}
    launcher.cancel([job])


def test_what_this_machine_refuses_is_one_sentence_too(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = bench.launcher(partition="low")
    with monkeypatch.context() as here:
        here.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        with pytest.raises(LaunchError, match=r"^sbatch can't be called: .*No such file"):
            launcher.submit(SLOTS)
    (tmp_path / "squeue").write_text("no program")
    (tmp_path / "squeue").chmod(0o755)
    with monkeypatch.context() as here:
        here.setenv("PATH", str(tmp_path))
        with pytest.raises(LaunchError, match=r"^squeue can't be called: .*Exec format error"):
            launcher.observe()


@pytest.mark.parametrize("command", ["sbatch", "squeue"])
def test_a_command_that_hangs_is_given_up(
    command: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / command).write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    launcher = bench.launcher(partition="low")
    launcher.longest = 0.5
    with pytest.raises(LaunchError, match=r"squeue did not answer|sbatch .* not done in time"):
        launcher.submit(SLOTS) if command == "sbatch" else launcher.observe()
    monkeypatch.undo()
