"""Drawing in proportion, by hand and by counting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcpod.agents.sum_tree import SumTree


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [1, 3, 64, 65, 5000])
def test_leaves_are_drawn_as_often_as_their_weights_say(size: int) -> None:
    tree = SumTree(size)
    index = torch.tensor([0, size // 2, size - 1])
    tree.put(index, torch.tensor([1.0, 2.0, 5.0]))
    leaves = index.unique()  # type: ignore[no-untyped-call]
    total = float(tree.total)
    drawn = tree.draw(20_000, generator())
    assert set(drawn.tolist()) == set(leaves.tolist())
    for leaf in leaves.tolist():
        expected = float(tree.weights(torch.tensor([leaf]))) / total
        assert float((drawn == leaf).float().mean()) == pytest.approx(expected, abs=0.02)


def test_of_a_leafs_several_weights_the_last_counts() -> None:
    tree = SumTree(100)
    tree.put(torch.tensor([7, 8]), torch.tensor([9.0, 1.0]))
    tree.put(torch.tensor([7, 3, 7, 7]), torch.tensor([2.0, 5.0, 3.0, 1.5]))
    assert tree.weights(torch.tensor([3, 7, 8])).tolist() == [5.0, 1.5, 1.0]
    assert float(tree.total) == 7.5


def test_among_a_million_leaves_each_is_drawn_as_often_as_its_weight_says() -> None:
    # A hundred neighbours of weight 2e-4 each among leaves of weight 1: a number of 24 bits in
    # all would find few of them, or none.
    tree, size = SumTree(2**20), 2**20
    weights = torch.ones(size)
    weights[500_000:500_100] = 2e-4
    weights[:100_000] = 0.0
    tree.put(torch.arange(size), weights)
    only = SumTree(2**20)  # the same neighbours with all else far lighter
    light = torch.full((size,), 1e-9)
    light[500_000:500_100] = 2e-4
    only.put(torch.arange(size), light)
    drawn = only.draw(200_000, generator())
    counts = torch.bincount(drawn, minlength=size)[500_000:500_100]
    inside = float(2e-2 / (2e-2 + (size - 100) * 1e-9))
    assert float(counts.sum()) / 200_000 == pytest.approx(inside, abs=0.01)
    assert float(counts.min()) > 0.8 * float(counts.float().mean())
    everything = tree.draw(400_000, generator(1))
    assert int(everything.min()) >= 100_000
    half = float((everything < 600_000).float().mean())
    expected = float(weights[:600_000].double().sum() / weights.double().sum())
    assert half == pytest.approx(expected, abs=0.004)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 299), st.floats(0, 1e6, width=32)), min_size=1),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2**31),
)
def test_no_leaf_of_weight_zero_is_ever_drawn(
    changes: list[list[tuple[int, float]]], seed: int
) -> None:
    tree, weights = SumTree(300), torch.zeros(300)
    for change in changes:
        # Without duplicates: which one counts is another test.
        change = list(dict(change).items())
        index = torch.tensor([i for i, _ in change])
        value = torch.tensor([w for _, w in change])
        tree.put(index, value)
        weights[index] = value
    assert torch.equal(tree.weights(torch.arange(300)), weights)
    assert float(tree.total) == pytest.approx(float(weights.double().sum()), rel=1e-5)
    if float(weights.max()) > 0:
        assert float(weights[tree.draw(500, generator(seed))].min()) > 0
