"""Remarks on GPUs that are likely to be idle."""

from __future__ import annotations

from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.run.preflight import check
from hpcpod.run.remarks_on_gpus import on_gpus
from tests.support.small_runs import mapping

GPU = {"launcher": "slurm"}
WIDE = {"ppo": {"horizon": 32, "minibatch_size": 64, "epochs": 1, "hidden": 1024}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"resources": {"gpus_per_pod": 1}}, "have pods share one (resources.pods_per_gpu: 4),"),
        ({"resources": {"gpus_per_pod": 2}}, "(resources.pods_per_gpu: 4 with gpus_per_pod: 1)"),
        ({"resources": {"gpus_per_pod": 1, "pods_per_gpu": 2}}, ""),
        ({"resources": {"gpus_per_pod": 0}}, ""),
        ({"resources": {"gpus_per_pod": 1}, "pod": {"device": "cpu"}}, ""),
        ({"resources": {"gpus_per_pod": 1}, "env": {"backend": "torch"}}, ""),
        ({"resources": {"gpus_per_pod": 1}, "agents": WIDE}, ""),
    ],
)
def test_a_whole_gpu_for_a_small_network_is_said(given: dict[str, Any], said: str) -> None:
    config = from_mapping(mapping(cluster=GPU, **given))
    found = [each for each in check(config).remarks if "idle" in each]
    assert len(found) == (1 if said else 0)
    assert not said or (said in found[0] and "kB with their moments" in found[0])


def test_of_a_gpu_nothing_is_said_where_the_task_was_not_tried() -> None:
    config = from_mapping(mapping(cluster=GPU, resources={"gpus_per_pod": 1}))
    assert not [each for each in check(config, probe=False).remarks if "idle" in each]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"resources": {"gpu_type": "a100"}}, "resources.gpu_type: pods get no GPU"),
        ({"resources": {"gpu_type": "a100", "gpus_per_pod": 1}}, ""),
        ({"resources": {"gpus_per_pod": 1}, "pod": {"device": "cpu"}}, "trains on cores, since"),
        ({"resources": {"gpus_per_pod": 1}, "pod": {"device": "cuda"}}, ""),
        ({"pod": {"device": "cpu"}}, ""),
    ],
)
def test_gpus_that_nothing_trains_on_are_said(given: dict[str, Any], said: str) -> None:
    found = list(on_gpus(from_mapping(mapping(cluster=GPU, **given)), None))
    assert len(found) == (1 if said else 0)
    assert not said or said in found[0]
