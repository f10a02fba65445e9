"""Pods of another family than the policy that their run starts from: they learn as it acts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError, UserError
from hpcpod.records.records import Board
from hpcpod.run.explain import why
from hpcpod.run.preflight import check
from hpcpod.run.run import Run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import needed_checkpoints
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.pod.rounds import births, replay, train
from tests.pod.test_shrunk_copies import state_of
from tests.pod.test_start_from import config_of, made, start
from tests.support.hand_played import answer

TEACHER_STEPS = 256
ALONE: dict[str, Any] = {"name": "child", "stop": {"rounds": 9}}


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """A run whose only pod, a PPO, has trained a round."""
    folder = made(tmp_path_factory.mktemp("parent"), "ppo", name="parent", seed=5)
    folder.reports.publish(train(folder, births(folder)["p0001"]))
    merge(folder, Rules.of_run(folder))
    yield folder


def taught(parent: RunFolder, **fields: Any) -> dict[str, Any]:
    return start(parent, distill=TEACHER_STEPS, **fields)


def test_half_of_each_other_family_is_taught_and_begins_with_its_defaults(
    parent: RunFolder, tmp_path: Path
) -> None:
    folder = made(tmp_path, **ALONE, population=taught(parent))
    pods = read_board(folder).pods
    assert [(p.algorithm, p.cause, p.control) for p in pods.values()] == [
        ("dqn", "taught", False), ("ppo", "inherited", False),
        ("dqn", "fresh", True), ("ppo", "fresh", True),
    ]  # fmt: skip
    student, control = pods["p0001"], pods["p0003"]
    assert student.hyperparameters == control.hyperparameters
    birth, best = student.birth, read_board(parent).pods["p0001"].best
    assert birth is not None and birth.teacher is not None and best is not None
    assert (birth.checkpoint, birth.inherited, birth.origin) == (None, False, None)
    assert birth.teacher.checkpoint.blobs() == (best.checkpoint.core,)
    assert birth.teacher.env_steps == TEACHER_STEPS
    assert {best.checkpoint.core} <= needed_checkpoints(read_board(folder))
    assert folder.blobs.has(best.checkpoint.core)
    assert Board.from_document(read_board(folder).document()) == read_board(folder)


def test_a_round_begins_with_the_teachers_steps_and_they_count(
    parent: RunFolder, tmp_path: Path
) -> None:
    folder = made(tmp_path, "dqn", **ALONE, population=taught(parent))
    report = train(folder, births(folder)["p0001"])
    assert report.trained_steps == 512 and report.checkpoint is not None
    assert report.inherited_returns == ()
    # Its replay: 64 rows by the PPO, then 64 by a DQN that explores as at its beginning.
    assert len(replay(folder, report.checkpoint)["reward"]) == 128
    assert int(state_of(folder, report.checkpoint)["env_steps"]) == 512
    folder.reports.publish(report)
    pod = merge(folder, Rules.of_run(folder)).pods["p0001"]
    assert pod.birth is not None and (pod.birth.round, pod.birth.teacher) == (2, None)
    assert pod.origin is not None and pod.transfer_exact is None


def test_a_lesson_of_several_rounds_goes_on_in_the_next_one(
    parent: RunFolder, tmp_path: Path
) -> None:
    folder = made(tmp_path, "dqn", **ALONE, population=start(parent, distill=600))
    answer(folder, births(folder)["p0001"], (9.0, 9.0) * 4)
    merge(folder, Rules.of_run(folder))
    following = births(folder)["p0001"]
    assert following.round == 2 and following.teacher is not None


@pytest.mark.parametrize("stop", [1, 3])
def test_a_lesson_that_was_stopped_and_resumed_ends_in_the_same_bits(
    parent: RunFolder, tmp_path: Path, stop: int
) -> None:
    ends = []
    for name, stops in (("straight", ()), ("stopped", (stop,))):
        folder = made(tmp_path, "dqn", name=name, population=taught(parent))
        report = train(folder, births(folder)["p0001"], *stops)
        assert report.checkpoint is not None
        ends.append((state_of(folder, report.checkpoint), report.returns))
    (one, returns), (other, again) = ends
    assert returns == again and one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_who_is_taught_by_whom_is_told(
    parent: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = from_mapping(config_of(**ALONE, population=taught(parent)))
    first, *_ = check(config, probe=False).remarks
    assert "1 of 2 pods of ppo go on from p0001 of parent at round 1 (checkpoint " in first
    assert first.endswith("); 1 of 2 pods of dqn learn from it for 256 environment steps")
    folder = made(tmp_path, "dqn", **ALONE, population=taught(parent))
    said = "imitated p0001 of parent at round 1"
    assert said in why(folder, "p0001")[0]
    answer(folder, births(folder)["p0001"], (9.0, 9.0) * 4)
    merge(folder, Rules.of_run(folder))
    assert main(["leaderboard", str(folder.path)]) == 0
    printed = capsys.readouterr().out
    assert "taught by p0001 of parent" in printed and said in printed
    assert list(Run(folder).table("pods")["cause"]) == ["taught", "fresh"]
    with pytest.raises(UserError, match=r"imitated p0001 of parent .*; replay a pod of parent"):
        Run(folder).schedule("p0001")


@pytest.mark.parametrize(
    ("fields", "sections", "said"),
    [
        ({"distill": 0}, {}, "set population.start_from.distill, so that others learn"),
        ({"distill": 32}, {}, "32 steps teach dqn nothing: it begins to learn at agents.dqn."),
        ({}, {"pod": {"pipeline": True}}, "a teacher can't act in a pipeline"),
        ({"distill": -1}, {}, "population.start_from.distill: must be at least 0, got -1"),
    ],
)
def test_what_can_not_be_taught_is_a_sentence(
    parent: RunFolder, tmp_path: Path, fields: dict[str, Any], sections: dict[str, Any], said: str
) -> None:
    wanted = {"distill": TEACHER_STEPS, **fields}
    with pytest.raises(ConfigError) as refused:
        made(tmp_path, "dqn", name="child", **sections, population=start(parent, **wanted))
    assert any(said in problem for problem in refused.value.problems), refused.value.problems
