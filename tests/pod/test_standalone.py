"""One agent without a tournament: which policy is kept, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcpod
from hpcpod.errors import UserError

FADING = "tests.pod.fading_agent:Fading"


def train(**words: Any) -> Any:
    """20 updates of 64 steps each, scored after every second one."""
    given = {"env_steps": 1280, "num_envs": 8, "episodes": 8, "good_for": 10, **words}
    return hpcpod.train(FADING, "CartPole-v1", **given)


def test_the_best_policy_is_kept_and_scored_on_episodes_that_did_not_choose_it(
    tmp_path: Path,
) -> None:
    training = train(save_to=tmp_path / "best.h5")
    assert [point.env_steps for point in training.curve] == list(range(128, 1281, 128))
    assert training.kept.mean_return == max(point.mean_return for point in training.curve)
    assert training.kept.env_steps <= 640
    assert training.curve[-1].mean_return < 15
    assert len(training.returns) == 128
    assert training.mean_return == pytest.approx(np.mean(training.returns))
    assert training.mean_return > 100
    falls_right = [0.0, 0.0, 0.1, 0.0]
    loaded = hpcpod.load_policy(tmp_path / "best.h5")
    assert training.policy(falls_right) == loaded(falls_right) == 1
    assert loaded.about["env_steps"] == training.kept.env_steps


def test_the_last_policy_is_kept_for_whoever_wants_it() -> None:
    training = train(keep="last")
    assert training.kept == training.curve[-1]
    assert len(training.returns) == 8
    assert training.mean_return == training.curve[-1].mean_return < 15
    assert training.policy([0.0, 0.0, 0.1, 0.0]) == 0


def test_of_equal_points_the_last_one_is_kept() -> None:
    training = train(good_for=-1, episodes=2)
    seen = [point.mean_return for point in training.curve]
    assert len(set(seen)) < len(seen)
    assert training.kept == training.curve[max(i for i, r in enumerate(seen) if r == max(seen))]


def test_what_is_said_of_an_agent_that_never_changes_is_true_on_average() -> None:
    # Ten points of two episodes each: the best of them stands far above what the policy is worth.
    trainings = [train(good_for=-1, episodes=2, seed=seed) for seed in range(20)]
    truth = np.mean([p.mean_return for each in trainings for p in each.curve])
    seen = np.array([each.kept.mean_return for each in trainings]) - truth
    said = np.array([each.mean_return for each in trainings]) - truth
    error = said.std(ddof=1) / 20**0.5
    assert seen.mean() > 0.5
    assert abs(said.mean()) < 4 * error + 0.05


def test_a_policy_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "policy.h5"
    training = train(save_to=file)
    written = file.read_bytes()
    with pytest.raises(UserError, match="is there already; take another name, or say --overwrite"):
        train(save_to=file)
    with pytest.raises(UserError, match="is there already"):
        training.policy.save(file)
    assert file.read_bytes() == written
    train(save_to=file, overwrite=True, keep="last")
    assert hpcpod.load_policy(file).about["env_steps"] == 1280
    training.policy.save(file, overwrite=True)
    assert hpcpod.load_policy(file).about["env_steps"] == training.kept.env_steps


def test_a_policy_that_comes_to_be_during_a_training_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "policy.h5"
    for name in ("policy-2.h5", "policy-3.h5"):
        training = train(save_to=file, on_progress=lambda progress: file.write_text("another's"))
        assert file.read_text() == "another's"
        assert training.saved_to == tmp_path / name
        assert hpcpod.load_policy(tmp_path / name).about["env_steps"] == training.kept.env_steps
        file.unlink()
    assert train(save_to=file).saved_to == file


def test_a_training_can_be_followed() -> None:
    told: list[int] = []
    train(on_progress=lambda progress: told.append(progress.env_steps))
    assert told == list(range(64, 1281, 64))
