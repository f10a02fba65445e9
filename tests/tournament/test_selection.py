"""The choice of who plays the next batch of a final evaluation, by hand, and its worth."""

from __future__ import annotations

from random import Random

import pytest

from hpcpod.tournament.selection import clear, next_batches, shares
from hpcpod.tournament.statistics import mean


def test_shares_are_those_of_the_formula() -> None:
    # d = 1 and 2 behind, differences of sd 1 and 2: N_1 = 1, N_2 = (2/2)^2 = 1 to begin with
    # variances 1 and 4 of their own: N_b = 2 sqrt(1/1 + 1/4) = sqrt(5)
    found = shares([5.0, 4.0, 3.0], [4.0, 1.0, 4.0], [1.0, 1.0, 4.0])
    whole = 2 + 5**0.5
    assert found == pytest.approx([5**0.5 / whole, 1 / whole, 1 / whole])


def test_an_equal_one_counts_as_a_tenth_of_a_deviation_behind() -> None:
    # N_1 = 1 / 0.1^2 = 100, N_2 = 1 / 2^2 = 0.25, N_b = sqrt(100^2 + 0.25^2)
    found = shares([5.0, 5.0, 3.0], [1.0] * 3, [1.0] * 3)
    best = (100**2 + 0.25**2) ** 0.5
    assert found == pytest.approx([n / (best + 100.25) for n in (best, 100, 0.25)])


def test_episodes_go_to_those_who_are_near_the_best_and_not_to_who_is_far_behind() -> None:
    random = Random(0)
    returns = {
        name: tuple(random.gauss(level, 1.0) for _ in range(16))
        for name, level in (("first", 10.0), ("near", 9.9), ("far", 0.0))
    }
    assert set(next_batches(returns, 16, 10)) == {"first", "near"}
    assert len(next_batches(returns, 16, 1)) == 1
    assert next_batches(returns, 16, 0) == []


def test_nobody_plays_on_when_the_best_is_clear_or_all_are_alike() -> None:
    steady = {"a": (9.0, 11.0) * 8, "b": (1.0, 2.0) * 8}
    assert clear(steady) and next_batches(steady, 16, 10) == []
    alike = {"a": (500.0,) * 8, "b": (500.0,) * 8}
    assert clear(alike), "500 of 500 twice: no episode more tells them apart"
    assert next_batches({"a": (1.0, 2.0)}, 2, 10) == [], "alone"
    assert not clear({"a": (9.0, 1.0) * 8, "b": (1.0, 8.0) * 8})


def test_the_best_is_found_more_often_than_by_equal_shares() -> None:
    """Five policies, one of them worse by 0.5 sd and three far behind; 160 episodes in all."""
    levels = [1.0, 0.5, -3.0, -4.0, -5.0]

    def found(random: Random, by_need: bool) -> bool:
        returns: dict[str, tuple[float, ...]] = {str(n): () for n in range(5)}
        for _ in range(2):
            for n, level in enumerate(levels):
                returns[str(n)] += tuple(random.gauss(level, 1.5) for _ in range(4))
        left = (160 - 40) // 4
        while left > 0:
            names = next_batches(returns, 4, left) if by_need else list(returns)
            if not names:
                break
            for name in names[:left]:
                level = levels[int(name)]
                returns[name] += tuple(random.gauss(level, 1.5) for _ in range(4))
            left -= len(names)
        return max(returns, key=lambda name: mean(returns[name])) == "0"

    runs = 300
    needed = sum(found(Random(seed), True) for seed in range(runs)) / runs
    equal = sum(found(Random(seed), False) for seed in range(runs)) / runs
    assert needed > equal, (needed, equal)
