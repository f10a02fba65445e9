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


def test_of_a_leafs_several_weights_the_largest_counts_and_may_be_less_than_before() -> None:
    tree = SumTree(100)
    tree.put(torch.tensor([7, 8]), torch.tensor([9.0, 1.0]))
    tree.put(torch.tensor([7, 7, 7]), torch.tensor([2.0, 3.0, 1.0]))
    assert tree.weights(torch.tensor([7, 8])).tolist() == [3.0, 1.0]
    assert float(tree.total) == 4.0


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
