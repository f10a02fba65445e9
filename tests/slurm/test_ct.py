"""Continuous training on a real Slurm: jobs that submit their successor, through a change."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import dump_yaml
from hpcpod.run.continuous.registry import CURRENT, open_registry
from hpcpod.run.run import open_run
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_what_is_retrained_by_jobs_is_ahead_of_what_is_not_after_a_change(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from ct import Year, live

    shell = Shell(start_slurm(Options(grace_seconds=5)), tmp_path)
    year = Year(
        history=44,
        sessions=72,
        change=12,
        judge=12,
        window=24,
        episode=1,
        rounds=1,
        round_steps=16_384,
    )
    file = tmp_path / "bars.parquet"
    cluster = {"launcher": "slurm", "partition": "low", "minutes": 30, "slots": 1,
               "tick_seconds": 0.5}  # fmt: skip
    config = year.config(file, cluster=cluster)
    assert config.ct is not None
    config = replace(config, ct=replace(config.ct, every="1s"))
    (tmp_path / "year.yaml").write_text(dump_yaml(config))

    registry: Any = None
    ended = 0

    def advance() -> None:
        nonlocal registry, ended
        if registry is None:
            assert "submitted job" in shell.hpcpod("ct", "year.yaml", "--submit")
            registry = open_registry(tmp_path / "runs" / "year.ct")
        ended += 1
        shell.cluster.wait(
            f"the end of cycle {ended}",
            lambda: len(registry.decisions()) >= ended and (registry.path / CURRENT).exists(), 300,
        )  # fmt: skip

    class Late:
        """The registry, which the first job makes."""

        @property
        def path(self) -> Path:
            return Path(registry.path)

    lived = live(year, tmp_path, advance, Late(), file)  # type: ignore[arg-type]
    name = shell.cluster.run("squeue", "-h", "-o", "%j").split()
    shell.cluster.run("scancel", "--me")
    assert any(each.startswith("year-ct-") for each in name)  # the next one is in the queue
    assert len(list((registry.path / "logs").glob("ct-*.log"))) >= len(registry.decisions())
    assert [line.kind for line in registry.decisions()].count("promoted") >= 2
    mean, low, _ = lived.ahead(after=True)
    assert low > 0, (mean, low)
    shell.cluster.drained(120.0)


def test_a_job_that_is_preempted_while_it_trains_ends_its_cycle_once_and_has_one_successor(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    shell = Shell(start_slurm(Options(grace_seconds=5)), tmp_path)
    file = shell.paced("daily", pods=1, steps=6_000, rounds=1)
    text = file.read_text().replace("launcher: slurm", "launcher: local, slots: 1")
    text = text.replace("pause: 0.004", "pause: 0.001")  # the job tries it by whole episodes
    file.write_text(text + "ct: {every: 1d, kwargs: {episodes: 4}}\n")
    said = shell.hpcpod("ct", "daily.yaml", "--submit")
    [first], name = shell.jobs(), said.split("--name=")[1].strip()
    assert f"submitted job {first}" in said
    registry = open_registry(tmp_path / "runs" / "daily.ct")
    path = registry.runs / "daily-c0001"

    def at_work() -> bool:
        run = open_run(path) if (path / "config.json").exists() else None
        return run is not None and run.folder.checkpoints.latest("p0001", 1) is not None

    shell.cluster.wait("a checkpoint inside the round", at_work, 120)
    shell.cluster.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null",
                      "--wrap", "sleep 1")  # fmt: skip
    shell.cluster.wait("the end of its cycle", lambda: first not in shell.jobs(), 240)
    job = shell.cluster.run("scontrol", "show", "job", first)
    assert "Restarts=1" in job and "JobState=COMPLETED" in job
    logs = "".join(each.read_text() for each in (path / "logs").glob("*.log"))
    assert re.search(r"p0001-00001-2 goes on at [1-9]", logs), logs
    assert [(line.kind, line.cycle) for line in registry.decisions()] == [("promoted", 1)]
    assert len(registry.plans()) == 1 and registry.verify(1) == registry.versions()[0]
    assert (registry.path / CURRENT).readlink() == Path("versions/v0001")

    def one_waits() -> bool:
        [successor] = shell.cluster.run("squeue", "-h", "-n", name, "-o", "%T %r").splitlines()
        return successor == "PENDING BeginTime"

    shell.cluster.wait("its successor to wait for the next day", one_waits)
    shell.cluster.drained(60.0)
