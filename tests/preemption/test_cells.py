"""The selection of cells that the tests play: small, and every two properties meet in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from tests.preemption.cells import DEAF, EVERY, Cell, pairwise
from tests.preemption.test_matrix import CHOSEN

LEVELS: dict[str, tuple[Any, ...]] = {
    "mode": ("REQUEUE", "CANCEL"),
    "user_signal": (True, False),
    "grace": (0, 5),
    "array": (True, False),
    "ranks": (1, 4),
}
"""The values that each property of a site or a slot must be tried with."""


def unmet(cells: Sequence[Cell]) -> list[str]:
    """The pairs of values of two properties that no cell has."""
    return [
        f"{a}={x} with {b}={y}"
        for a, b in combinations(LEVELS, 2)
        for x, y in product(LEVELS[a], LEVELS[b])
        if not any((getattr(cell, a), getattr(cell, b)) == (x, y) for cell in cells)
    ]


def test_every_two_properties_meet_in_the_selection() -> None:
    many = [replace(cell, ranks=4 if cell.ranks > 1 else 1) for cell in CHOSEN]
    assert unmet(many) == []
    assert unmet(pairwise(EVERY)) == []  # also without the cell that hears no signal


def test_a_pair_that_does_not_meet_is_found() -> None:
    assert len(unmet([])) == 10 * 4
    one_mode = [cell for cell in EVERY if cell.mode == "REQUEUE"]
    assert len(unmet(one_mode)) == 4 * 2
    assert "mode=CANCEL with ranks=4" in unmet(one_mode)
    # The selection has no cell to spare: the last one was chosen for a pair of its own.
    assert unmet(pairwise(EVERY)[:-1]) != []


def test_the_selection_is_small_and_has_a_slot_that_hears_no_signal() -> None:
    assert len(CHOSEN) <= 8
    assert len(set(CHOSEN)) == len(CHOSEN)
    assert [cell.hears for cell in CHOSEN].count(False) == 1


def test_every_way_is_each_combination_once_and_has_a_name_of_its_own() -> None:
    found = [tuple(getattr(cell, name) for name in LEVELS) for cell in EVERY]
    assert sorted(found, key=repr) == sorted(product(*LEVELS.values()), key=repr)
    names = {str(cell) for cell in (*EVERY, *DEAF)}
    assert len(names) == len(EVERY) + len(DEAF) == 32 + 4
