"""Ranks are real processes here: they meet, exchange, disagree and die."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.errors import LaunchError
from hpcpod.pod.device import gpu_number
from hpcpod.pod.ranks.rank import Rank, rank_of, tasks_of_node
from tests.pod.ranks.gang import Gang


def test_ranks_that_meet_exchange_sums_vectors_and_words(tmp_path: Path) -> None:
    first, second = Gang(tmp_path, "exchange").results()
    assert first == second
    assert first == [
        [0.0, 3.0, 6.0, 9.0, 12.0], ["", "", ""][:2], ["rank 0 ä", "rank 1 ärank 1 ä"], "gloo",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [2, 3])
def test_fused_replicas_have_the_same_bits(tmp_path: Path, size: int) -> None:
    first, *others = Gang(tmp_path, "train", size, whole=size == 2).results()
    assert first[2] and all(other == first for other in others)


def test_ranks_of_other_configurations_refuse(tmp_path: Path) -> None:
    said = Gang(tmp_path, "exchange", agreed={"1": "another"}).failures()
    for line in said:
        assert "the ranks disagree on the configuration: rank 0 has same, rank 1 has anoth" in line


def test_two_ranks_on_one_gpu_refuse_and_ranks_without_one_do_not(tmp_path: Path) -> None:
    tries = [["GPU-1", "GPU-2", "GPU-1"], ["GPU-1", "GPU-2", "GPU-3"], ["", "", ""]]
    for refused, *others in Gang(tmp_path, "gpus", 3, words={"tries": tries}).results():
        assert refused.startswith("ranks 0 and 2 have the same GPU, GPU-1: give each its own")
        assert others == ["", ""]


def test_a_rank_that_never_comes_is_named_after_the_time(tmp_path: Path) -> None:
    for line in Gang(tmp_path, "exchange", 3, seconds=3.0, absent=(0,)).failures():
        assert "waited 3 s for" in line and "rank 0 did not start" in line


def test_ranks_that_nobody_told_of_each_other_say_how_to_start_them(tmp_path: Path) -> None:
    (said,) = set(Gang(tmp_path, "exchange", told=3).failures())
    assert said.endswith("2 ranks were asked for, but torchrun has started 3")


def test_a_killed_rank_is_noticed_by_the_others(tmp_path: Path) -> None:
    gang = Gang(tmp_path, "die", 3)
    gang.processes[1].communicate(timeout=600)
    gang.processes = [gang.processes[0], gang.processes[2]]
    for seconds, said in gang.results():
        assert seconds < 20.0
        assert "while adding vectors up" in said


def test_an_engine_that_differs_on_one_rank_is_told_as_such_by_all(tmp_path: Path) -> None:
    first, second = Gang(tmp_path, "differ").results()
    assert first == ["engine", "rank 1: another engine", True]
    assert second == ["engine", "another engine", True]


def test_places_are_read_as_launchers_tell_them() -> None:
    assert rank_of({}) == Rank()
    told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert rank_of(told) == Rank(3, 4, 1, 2, "torchrun")
    slurm = {
        "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    }  # fmt: skip
    assert rank_of(slurm) == Rank(3, 4, 1, 2, "srun")
    assert rank_of({**slurm, **told}).started_by == "torchrun"
    assert [tasks_of_node("2(x3),1", n) for n in range(4)] == [2, 2, 2, 1]
    with pytest.raises(LaunchError, match="SLURM_PROCID is 'x'"):
        rank_of({**slurm, "SLURM_PROCID": "x"})
    with pytest.raises(LaunchError, match="rank 5 of 4"):
        rank_of({**told, "RANK": "5"})


def test_a_rank_s_gpu_is_that_of_its_local_number_unless_each_sees_its_own_alone() -> None:
    rank = Rank(5, 8, 1, 4, "srun")
    assert gpu_number(rank, 4) == gpu_number(rank, 8) == 1
    assert gpu_number(rank, 1) == 0
    for visible in (0, 2, 3):
        with pytest.raises(LaunchError, match=f"rank 5 sees {visible} GPUs on its node, where 4"):
            gpu_number(rank, visible)
