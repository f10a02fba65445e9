"""Specs of environments, compared by what an agent notices of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hpcpod.storage.spaces import difference, differing

BOX = {"kind": "Box", "shape": [3], "low": -1.0, "high": 1.0, "dtype": "float32"}
SPEC: Mapping[str, Any] = {
    "id": "Arm-v0", "observation": BOX, "action": {**BOX, "shape": [1]},
    "action_bounds": [-2.0, 2.0], "action_dtype": "float32", "structure": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Other-v9"},
        {"observation": {**BOX, "low": -9.0, "high": [1.0, 2.0, 3.0]}},
        {"observation": {**BOX, "dtype": "float64"}},
        {"action_bounds": (-2.0, 2.0)},
        {"action_dtype": "float64"},
    ],
)
def test_what_no_agent_notices_is_no_difference(change: dict[str, Any]) -> None:
    assert difference(SPEC, {**SPEC, **change}) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"observation": {**BOX, "shape": [4]}}, "observations are {kind: Box, shape: [3], dtype"),
        ({"observation": {**BOX, "dtype": "uint8"}}, "observations are"),
        ({"structure": {"kind": "Dict", "parts": []}}, "parts of observations are null there and"),
        ({"action": {"kind": "Discrete", "n": 2}}, "actions are"),
        ({"action_bounds": [-3.0, 3.0]}, "bounds of actions are [-2.0, 2.0] there and [-3.0, 3.0]"),
    ],
)
def test_what_an_agent_notices_is_told_in_words(change: dict[str, Any], said: str) -> None:
    assert difference(SPEC, {**SPEC, **change}).startswith(said)


def test_choices_that_do_not_say_where_they_start_start_at_0() -> None:
    old, new = {"kind": "Discrete", "n": 2}, {"kind": "Discrete", "n": 2, "start": 0}
    assert not difference({**SPEC, "action": old}, {**SPEC, "action": new})
    assert difference({**SPEC, "action": old}, {**SPEC, "action": {**new, "start": 1}})


def test_dtypes_of_actions_differ_only_for_those_who_ask() -> None:
    other = {**SPEC, "action_dtype": "float64"}
    assert list(differing(SPEC, other, dtypes=True)) == [
        ("dtypes of actions", "float32", "float64")
    ]
    old = {name: value for name, value in SPEC.items() if name != "action_dtype"}
    assert not list(differing(SPEC, old, dtypes=True))
