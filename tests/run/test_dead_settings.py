"""Settings by which no pod could train, or that would do nothing, are refused at launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.run.preflight import problems_of
from tests.program import programs
from tests.support.small_runs import mapping


def of_fusion(backend: str, **given: Any) -> list[str]:
    pod = {"fusion": {"backend": backend}, "ranks": 2, **given.pop("pod", {})}
    found = problems_of(from_mapping(mapping(pod=pod, **given)), {}, None)
    return [each for each in found if each.startswith("pod.fusion.backend")]


def test_nccl_without_gpus_is_refused() -> None:
    said = [
        "pod.fusion.backend: nccl joins GPUs, and the 2 ranks train on cores; set it to auto, or"
        " give each rank a GPU"
    ]
    assert of_fusion("nccl") == said
    two = {"gpus_per_pod": 2}
    assert of_fusion("nccl", resources=two, pod={"ranks": None, "device": "cpu"}) == said
    assert of_fusion("nccl", resources=two) == of_fusion("nccl", pod={"ranks": 1}) == []


def test_mpi_without_mpirun_is_refused_where_slots_run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpirun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert of_fusion("mpi") == []
    (tmp_path / "mpirun").unlink()
    assert of_fusion("mpi") == [
        "pod.fusion.backend: mpi starts ranks by mpirun, which is not on this machine; install an"
        " MPI (Debian: openmpi-bin), or set it to gloo"
    ]
    assert of_fusion("mpi", cluster={"launcher": "slurm"}) == []
    assert of_fusion("mpi", pod={"ranks": 1}) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agents": {"program": {"gamma": 0.9}}}, "agents: the program's hyperparameters go into"),
        ({"env": {"max_episode_steps": 9}}, "env: the program makes its own environment; take"),
        ({"env": {"num_envs": 8}}, "env: the program makes its own environment; take"),
        ({"program": {"defaults": {"rate": 2.0}}}, "program.defaults.rate: 2.0 is not in"),
        ({"program": {"defaults": {"rate": 1.5, "other": 9}}}, ""),
        ({"program": {"search": {"rate": 1.0}, "defaults": {"rate": 2.0}}}, ""),
    ],
)
def test_what_does_nothing_beside_a_program_is_refused(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    config = from_mapping(programs.mapping(programs.ADDS, tmp_path, **given))
    found = list(problems_of(config, {}, None))
    assert len(found) == (1 if said else 0)
    assert not said or found[0].startswith(said)
