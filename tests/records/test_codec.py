"""Records as JSON and back: exact for what hpcpod wrote, refused with every problem otherwise."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hpcpod.records.codec import decode, encode
from hpcpod.records.records import Birth, Checkpoint, Evaluation, PodState, Report

CHECKPOINT = Checkpoint("a" * 64, 1000)
POD = PodState(
    "p0001", "ppo", "ppo()", {"lr": 0.5, "n": 3, "act": "tanh", "on": True}, 7, "fresh",
    birth=Birth("p0001", 2, 1, "ppo", {"lr": 0.5}, 7, CHECKPOINT),
    history=(Evaluation(1, (1.0, 2.0), CHECKPOINT, {"loss": math.inf}),),
)  # fmt: skip


def broken(**changes: Any) -> Any:
    """The pod's JSON with these keys."""
    return {**json.loads(json.dumps(encode(POD))), **changes}


def test_a_record_comes_back_from_its_json() -> None:
    assert decode(PodState, broken()) == POD


def test_numbers_stay_as_they_are_written() -> None:
    report = decode(Report, encode(Report("p0001-00001-1", "p0001", 1, 1, "s", (1, 2.0))))
    assert [type(value) for value in report.returns] == [int, float]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": "7"}, "seed: expected int, got '7'"),
        ({"seed": 7.0}, "seed: expected int, got 7.0"),
        ({"seed": True}, "seed: expected int, got true"),
        ({"cost": 2**64}, "cost: expected float, got 18446744073709551616"),
        (
            {"cause": "born"},
            "cause: expected one of 'fresh', 'copy', 'inherited', 'taught', got 'born'",
        ),
        ({"history": {}}, "history: expected a list, got a mapping"),
        ({"hyperparameters": {"lr": None}}, "hyperparameters.lr: expected bool or int or float"),
        ({"birth": []}, "birth: expected a mapping, got a list"),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_a_value_of_another_type_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        decode(PodState, broken(**changes))
    assert str(caught.value).startswith(said)


def test_every_problem_is_said_with_its_path() -> None:
    data = broken(seed="7")
    data["history"][0]["checkpoint"]["env_steps"] = None
    data["history"][0]["returns"][1] = "many"
    del data["birth"]["pod"]
    with pytest.raises(TypeError) as caught:
        decode(PodState, data)
    assert str(caught.value).split("; ") == [
        "seed: expected int, got '7'",
        "birth: missing key 'pod'",
        "history[0].returns[1]: expected float, got 'many'",
        "history[0].checkpoint.env_steps: expected int, got null",
    ]
