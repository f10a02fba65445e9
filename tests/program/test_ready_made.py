"""Ready-made programs: each is played as hpcpod plays it, trained, copied, scored."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.program.given import lines, play

PROGRAMS = ROOT / "configs" / "programs"
TASK = {"algorithm": "PPO", "env": "CartPole-v1", "num_envs": 2, "n_steps": 64, "width": 16}


def command(name: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / name)]


@pytest.mark.long
def test_stable_baselines3_trains_is_copied_and_scores(tmp_path: Path) -> None:
    rate = {"learning_rate": 0.001}
    dqn = {
        "algorithm": "DQN",
        "env": "CartPole-v1",
        "num_envs": 2,
        "width": 16,
        "learning_starts": 8,
    }
    lstm = {**TASK, "algorithm": "RecurrentPPO"}
    first, copy, scored, replayed, more, recurrent = play(
        command("sb3.py"), tmp_path / "session",
        {"steps": 256, "hyperparameters": TASK | rate},
        {"steps": 128, "hyperparameters": TASK | {"learning_rate": 0.01}, "checkpoint": 0},
        {"mode": "score", "steps": None, "hyperparameters": TASK | rate, "checkpoint": 0,
         "save_to": None},
        {"steps": 64, "hyperparameters": dqn},
        {"steps": 64, "hyperparameters": dqn, "checkpoint": 3},
        {"steps": 128, "hyperparameters": lstm},
    )  # fmt: skip
    assert scored["returns"] == first["returns"] and len(set(first["returns"])) > 1
    assert [each["steps"] for each in (first, copy, scored)] == [256, 128, 0]
    assert replayed["steps"] == more["steps"] == 64 and recurrent["steps"] == 128
    told = lines(tmp_path / "session" / "progress.jsonl")
    assert any("train/loss" in line for line in told)
    saved = {path.name for path in (tmp_path / "session" / "save-3").iterdir()}
    assert saved == {"model.zip", "normalizer.pkl", "replay.pkl"}


@pytest.mark.long
def test_the_single_file_trains_and_goes_on_where_it_was(tmp_path: Path) -> None:
    mine = {"learning_rate": 0.001, "num_envs": 2, "num_steps": 32}
    first, scored = play(
        command("cleanrl_ppo.py"), tmp_path / "session",
        {"steps": 128, "hyperparameters": mine},
        {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine, "checkpoint": 0},
    )  # fmt: skip
    assert scored["returns"] == first["returns"] and min(first["returns"]) >= 8
    assert [first["steps"], scored["steps"]] == [128, 0]


@pytest.mark.long
def test_supervised_learning_goes_on_from_a_save(tmp_path: Path) -> None:
    mine = {"learning_rate": 0.01, "weight_decay": 0.01, "width": 16}
    first, more, scored = play(
        command("supervised.py"), tmp_path / "session",
        {"steps": 11, "hyperparameters": mine},
        {"steps": 20, "steps_done": 15, "hyperparameters": mine, "checkpoint": 0},
        {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine, "checkpoint": 1},
    )  # fmt: skip
    assert [first["steps"], more["steps"]] == [11, 5]
    assert (scored["score"], scored["error"]) == (more["score"], more["error"])
    assert first["score"] > 0.55 and first["episodes"] == 1000  # of two arms one is half
