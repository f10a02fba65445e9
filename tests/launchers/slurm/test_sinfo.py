"""Output of sinfo, read; and the number of elements that fit on idle nodes."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcpod.config.placement import Shape
from hpcpod.launchers.base import Idle, IdleNode
from hpcpod.launchers.slurm.sinfo import gpus, largest_node, read_idle, slots_that_fit


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ("gpu:8", 8),
        ("gpu", 1),
        ("gpu:a100:8(S:0-1)", 8),
        ("gpu:a100:4,gpu:h100:4", 8),
        ("gpu:a100:4(S:0),gpu:h100:2(S:1),shard:32", 6),
        ("gres/gpu:2", 2),
        ("gres/gpu:a100=4", 4),
        ("gpu:a100:3(IDX:0-1,4)", 3),
        ("gpu:(null):2(IDX:0-1),shard:(null):0(0/4,0/4)", 2),
        ("gpu:a100:0(IDX:N/A)", 0),
        ("gpu:nvidia_a100-sxm4-80gb:8,mps:800", 8),
        ("mps:200", 0),
        ("shard:8", 0),
        ("gpumem:80G,nic:2", 0),
        ("(null)", 0),
        ("N/A", 0),
        ("", 0),
    ],
)
def test_gpus_in_every_spelling(resources: str, count: int) -> None:
    assert gpus(resources) == count


def test_gpus_of_one_type() -> None:
    text = "gpu:a100:4(S:0),gpu:h100:2(S:1),gpu:1,shard:a100:32"
    assert gpus(text) == 7
    assert (gpus(text, "a100"), gpus(text, "h100"), gpus(text, "v100")) == (4, 2, 0)
    listing = row(has="gpu:a100:4,gpu:h100:4", used="gpu:a100:3(IDX:0-2),gpu:h100:1(IDX:4)")
    assert read_idle(listing, (), "h100").nodes == (IdleNode("n1", 3, 64),)
    assert largest_node("64|gpu:a100:8\n96|gpu:h100:4\n", "h100") == (4, 96)


def row(
    name: str = "n1", *, state: str = "idle", partition: str = "gpu*", up: str = "up",
    cpus: str = "0/64/0/64", has: str = "gpu:8", used: str = "gpu:0",
) -> str:  # fmt: skip
    return "|".join([name, partition, up, state, cpus, has, used]) + "|\n"


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("idle", True),
        ("mix", True),
        ("idle~", True),  # sleeps
        ("mix~", True),
        ("idle#", True),  # wakes up
        ("idle*", False),  # does not answer
        ("idle%", False),  # goes to sleep
        ("idle!", False),
        ("idle@", False),  # is to be rebooted
        ("idle^", False),
        ("idle$", False),  # is in maintenance
        ("mix-", False),  # planned for a larger job
        ("plnd", False),
        ("alloc", False),
        ("comp", False),
        ("drain", False),
        ("drng", False),
        ("down", False),
        ("fail", False),
        ("maint", False),
        ("resv", False),
        ("unk", False),
        ("a word of next year", False),
    ],
)
def test_on_which_nodes_a_job_may_start(state: str, usable: bool) -> None:
    assert bool(read_idle(row(state=state)).nodes) is usable


@pytest.mark.parametrize(
    ("used", "left"),
    [
        ("gpu:3", 5),
        ("gpu:a100:3(IDX:0,2,5)", 5),
        ("gpu:2,shard:(null):1(IDX:2)", 5),  # until 23.02
        ("gpu:(null):2(IDX:0-1),shard:(null):5(0/4,0/4,4/4,1/4,0/4,0/4,0/4,0/4)", 4),
        ("gpu:2(IDX:0-1),shard:3(-/4,-/4,3/4,-/4,-/4,-/4,-/4,-/4)", 5),  # 26.05
        ("gpu:0,mps:(null):50(IDX:0-1,3)", 5),
        ("gpu:9", 0),
        ("(null)", 8),
    ],
)
def test_a_gpu_that_somebody_has_a_share_of_is_not_idle(used: str, left: int) -> None:
    (node,) = read_idle(row(used=used)).nodes
    assert node == IdleNode("n1", left, 64)


def test_partitions_are_told_apart_and_nodes_counted_once() -> None:
    listing = (
        row("n1")
        + row("n1", partition="debug")
        + row("n2", partition="debug")
        + row("n3", partition="old", up="down")
        + row("n4", partition="gpu*", up="drain")
    )
    assert [node.name for node in read_idle(listing).nodes] == ["n1"]
    assert [node.name for node in read_idle(listing, ["gpu"]).nodes] == ["n1"]
    assert [node.name for node in read_idle(listing, ["debug", "gpu"]).nodes] == ["n1", "n2"]
    assert read_idle(listing, ["old"]).nodes == ()
    nowhere = read_idle(row(partition="a") + row("n2", partition="b"))  # there is no default
    assert [node.name for node in nowhere.nodes] == ["n1", "n2"]
    assert (nowhere.gpus, nowhere.cpus) == (16, 128)


def test_a_line_that_was_cut_is_not_counted() -> None:
    used = "gpu:a100:1(IDX:0)," + "x" * 240
    assert read_idle(row("n1", used=used) + row("n2") + "n3|gpu*|up|idle|0/64").nodes == (
        IdleNode("n2", 8, 64),
    )


@given(st.text(), st.lists(st.text()))
def test_any_text_is_read_without_an_error(text: str, partitions: list[str]) -> None:
    for listing in (text, row(name=text), row(cpus=text), row(has=text, used=text)):
        assert all(node.gpus >= 0 for node in read_idle(listing, partitions).nodes)
        largest_node(listing)


def test_the_largest_node_has_most_gpus() -> None:
    listing = "16+|(null)\n64|gpu:a100:8(S:0-1),shard:32\n128|gpu:4\n"
    assert largest_node(listing) == (8, 64)
    assert largest_node("16|(null)\n32|(null)\n") == (0, 32)
    assert largest_node("") == (0, 1)


def idle(*nodes: tuple[int, int]) -> Idle:
    return Idle(tuple(IdleNode(f"n{n}", g, c) for n, (g, c) in enumerate(nodes)))


def test_elements_take_gpus_and_cores_of_one_node() -> None:
    one = Shape(ranks=1, nodes=1, cpus_per_rank=4, gpus=1)
    assert slots_that_fit(idle((8, 64), (3, 8), (0, 64), (5, 3)), one) == 10
    assert slots_that_fit(idle((8, 64)), one, lanes=4) == 4  # each pod of a GPU has its cores
    assert slots_that_fit(idle((0, 9), (8, 4)), Shape(1, 1, 4, 0)) == 3
    assert slots_that_fit(idle((8, 64), (3, 64)), Shape(4, 1, 8, 4)) == 2


def test_an_element_over_several_nodes_has_a_share_on_each() -> None:
    two = Shape(ranks=4, nodes=2, cpus_per_rank=2, gpus=4)
    assert slots_that_fit(idle((8, 64)), two) == 0
    assert slots_that_fit(idle((8, 64), (2, 64)), two) == 1
    assert slots_that_fit(idle((8, 64), (2, 64), (2, 64)), two) == 2
    assert slots_that_fit(idle((8, 64), (8, 64)), two) == 4
    assert slots_that_fit(idle((8, 64), (8, 7)), two) == 1
    assert slots_that_fit(Idle(), two) == 0


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), max_size=4), st.integers(1, 3))
def test_as_many_elements_as_can_be_laid_out(rooms: list[int], nodes: int) -> None:
    shape = Shape(ranks=nodes, nodes=nodes, cpus_per_rank=1, gpus=nodes)
    fitting = slots_that_fit(idle(*((room, room) for room in rooms)), shape)
    assert fitting == laid(tuple(sorted(rooms)), nodes)


@cache
def laid(rooms: tuple[int, ...], nodes: int) -> int:
    """By trying every choice of nodes for the next element."""
    best = 0
    for choice in product((0, 1), repeat=len(rooms)):
        left = [room - taken for room, taken in zip(rooms, choice, strict=True)]
        if sum(choice) == nodes and min(left) >= 0:
            best = max(best, 1 + laid(tuple(sorted(left)), nodes))
    return best
