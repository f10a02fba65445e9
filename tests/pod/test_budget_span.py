"""Agents are told how far the run has come, whoever acts and however often a round is stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.budget_span import Span
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.round import Watch
from hpcpod.pod.standalone import train as train_alone
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.storage.run_folder import RunFolder
from tests.pod.rounds import copy_of, countdown, execute, first_birth, train
from tests.support.small_runs import AGENTS, mapping

TOLD = "tests.pod.told_agent:Told"


def test_a_span_by_hand() -> None:
    span = Span(0.25, 0.75, 100)
    assert [span.at(left) for left in (100, 50, 0, 130)] == [0.25, 0.5, 0.75, 0.25]


def told(**sections: Any) -> RunConfig:
    """A run of one pod of ``Told``, of rounds of four iterations."""
    pods = {"algorithms": {TOLD: 1}, "pods": {"min": 1, "max": 1}}
    small = mapping(**sections) | {"agents": {TOLD: AGENTS["ppo"]}, "population": pods}
    return from_mapping(small)


def folder(home: Path, **sections: Any) -> RunFolder:
    return create_run(check(told(**sections), probe=False).resolved, home)


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_round_tells_its_part_of_the_runs_rounds(pipeline: bool, tmp_path: Path) -> None:
    run = folder(tmp_path, pod={"pipeline": pipeline}, stop={"rounds": 4})
    birth = first_birth(run)
    assert (birth.begins, birth.ends) == (0.0, 0.25)
    report = train(run, birth)
    # The last of four iterations begins with three quarters of the first quarter spent.
    assert report.metrics["learning"] == report.metrics["acting"] == 0.1875
    # A copy that is made later is where the run is.
    copy = replace(copy_of(birth, report), begins=0.5, ends=0.75)
    report = train(run, copy)
    assert report.metrics["learning"] == report.metrics["acting"] == 0.6875


def test_a_round_that_is_gone_on_with_keeps_to_what_it_was_begun_with(tmp_path: Path) -> None:
    """Begun ahead of its order it had a guess; whoever goes on has the order's own."""
    run = folder(tmp_path, pod={"checkpoint_seconds": 1e-3}, stop={"rounds": 4})
    guessed = replace(first_birth(run), begins=0.5, ends=0.9)
    with pytest.raises(Stopped):
        prepare(run).execute(guessed, "here", Watch(countdown(2)))
    report = execute(prepare(run), first_birth(run))
    assert report.metrics["learning"] == pytest.approx(0.8)


def test_a_run_without_limits_tells_nothing(tmp_path: Path) -> None:
    run = folder(tmp_path, stop={"rounds": None, "target": 400.0})
    birth = first_birth(run)
    assert (birth.begins, birth.ends) == (None, None)
    assert train(run, birth).metrics["learning"] == -1.0


def test_a_training_without_rounds_tells_its_steps() -> None:
    config = told()
    space = resolve_algorithms(config)[TOLD]
    drawn = {**space.defaults, **AGENTS["ppo"]}
    trained = train_alone(config, space, drawn, env_steps=512)
    assert trained.metrics["learning"] == 0.75
