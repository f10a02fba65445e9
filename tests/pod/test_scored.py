"""Returns of an evaluator of a user's own, as a report can hold them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hpcpod.errors import UnusablePlugin
from hpcpod.pod.evaluator import scored


def given(found: object) -> tuple[float, ...]:
    by: Any = SimpleNamespace(evaluate=lambda *_panel, **_more: found)
    agent: Any = None
    return scored(by, agent, 1, "panel", episodes=3)


@pytest.mark.parametrize("kind", [list, tuple, np.float32, np.array, torch.tensor])
def test_numbers_of_any_kind_are_returns(kind: Any) -> None:
    found = [kind(each) for each in (1, 2, 3)] if kind is np.float32 else kind([1.0, 2.0, 3.0])
    assert json.dumps(given(found)) == "[1.0, 2.0, 3.0]"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((1.0,), "gives 1 of 3 returns"), ([1.0] * 4, "gives 4 of 3 returns"),
        ("great", "gives a str instead of 3 returns"), (None, "gives a NoneType instead of 3"),
        (7.0, "gives a float instead of 3"), ([1.0, "x", None], "gives a list instead of 3"),
    ],
)  # fmt: skip
def test_what_is_no_number_for_each_episode_is_refused(found: object, said: str) -> None:
    with pytest.raises(UnusablePlugin, match=f"^the evaluator {said}"):
        given(found)
