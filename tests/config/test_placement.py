"""The share of each part of a pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.config.placement import Shape, shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.run.preflight import problems_of, scripts
from tests.program.programs import ADDS, mapping


def program(folder: Path, nodes: int, gpus: int, launcher: str = "local") -> RunConfig:
    resources = {"nodes_per_pod": nodes, "gpus_per_pod": gpus, "cpus_per_pod": 8}
    return from_mapping(mapping(ADDS, folder, resources=resources, cluster={"launcher": launcher}))


@pytest.mark.parametrize(("gpus", "said"), [(1, "1 GPU"), (3, "3 GPUs")])
def test_gpus_of_a_program_that_its_nodes_can_t_have_evenly_are_refused(
    tmp_path: Path, gpus: int, said: str
) -> None:
    config = program(tmp_path, 2, gpus)
    [problem] = [each for each in problems_of(config, {}, None) if "evenly" in each]
    assert problem == (
        f"resources.nodes_per_pod: {said} can't be shared out evenly to 2 nodes; change"
        " resources.gpus_per_pod or resources.nodes_per_pod"
    )


def test_a_run_of_before_goes_on_with_gpus_that_its_nodes_can_t_have_evenly(tmp_path: Path) -> None:
    config = program(tmp_path, 2, 3, "slurm")
    assert shape_of(config, 2).gpus_per_node == 1
    assert "#SBATCH --gpus-per-node=1\n" in scripts(config, tmp_path)[1]
    assert not list(problems_of(config, {}, None, anew=False))


def test_a_program_has_a_task_on_each_node(tmp_path: Path) -> None:
    assert shape_of(program(tmp_path, 2, 4), 2) == Shape(2, 2, 4, 4)
    assert shape_of(program(tmp_path, 2, 0), 2) == Shape(2, 2, 4, 0)


def test_ranks_that_nodes_can_t_have_evenly_are_refused() -> None:
    four = from_mapping({"name": "a", "env": {"id": "E-v0"}, "pod": {"ranks": 4}})
    assert shape_of(four, 2) == Shape(4, 2, 1, 0)
    with pytest.raises(UserError, match=r"4 ranks .* to 3 nodes; change pod.ranks, resources.gpu"):
        shape_of(four, 3)
