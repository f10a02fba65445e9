"""Continuous training on a real Slurm: jobs that submit their successor, through a change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import dump_yaml
from hpcpod.run.continuous.registry import CURRENT, open_registry
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
