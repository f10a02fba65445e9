"""A round's training and its score, by two processes as by one; and once trained, never again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.ipc.messages import Progress, whole
from hpcpod.pod.round import Watch
from tests.pod.rounds import assert_same_end, countdown, damage, first_birth, onward, train
from tests.support.small_runs import create


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_round_that_two_processes_train_and_score_ends_as_one_that_one_does(
    algorithm: str, tmp_path: Path
) -> None:
    alone, shared = create(tmp_path / "alone", algorithm), create(tmp_path / "shared", algorithm)
    trainer, scorer, birth = prepare(shared), prepare(shared, scorer=True), first_birth(alone)
    for _ in range(2):
        one = train(alone, birth)
        trained = trainer.train(birth, "here", Watch())
        assert trained.returns == () and trained.checkpoint is not None
        scored = scorer.score(birth, trained.checkpoint, "here", Watch())
        assert scored.checkpoint is None
        both = whole(trained, scored)
        assert_same_end(one, both, alone, shared)
        assert both.train_seconds == trained.train_seconds > 0
        assert both.evaluate_seconds == scored.evaluate_seconds > 0
        assert both.wall_seconds > both.train_seconds + both.evaluate_seconds
        birth = onward(birth, one)


def test_training_that_is_done_is_not_done_again_unless_its_checkpoint_is_damaged(
    tmp_path: Path,
) -> None:
    folder, told = create(tmp_path), list[Progress]()
    birth, watch = first_birth(folder), Watch(on_progress=told.append)
    trained = prepare(folder).train(birth, "here", Watch())
    folder.checkpoints.save_trained(trained)
    again = replace(birth, attempt=2)
    report = prepare(folder).execute(again, "there", watch)
    assert told == [] and report.checkpoint == trained.checkpoint
    assert (report.order, report.attempt, report.slot) == (again.id, 2, "there")
    assert trained.checkpoint is not None
    damage(folder, trained.checkpoint.core)
    assert prepare(folder).execute(again, "there", watch).returns == report.returns
    assert told != []


def test_a_round_that_may_not_be_saved_leaves_nothing_to_go_on_from(tmp_path: Path) -> None:
    folder = create(tmp_path, pod={"checkpoint_seconds": 1e-6})
    birth = first_birth(folder)
    for iterations in (2, 512 // (32 * 4) + 3):  # while it is trained, and while it is scored
        watch = Watch(countdown(iterations), may_save=lambda: False)
        with pytest.raises(Stopped):
            prepare(folder).execute(birth, "here", watch)
        assert folder.checkpoints.all() == {}
    prepare(folder).train(birth, "here", Watch())
    assert folder.checkpoints.all() != {}
