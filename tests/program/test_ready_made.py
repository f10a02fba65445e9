"""Ready-made programs: each is played as hpcpod plays it, trained, copied, scored."""

from __future__ import annotations

import os
import runpy
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.program.given import give, lines, play, variables

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


def test_the_single_file_saves_before_it_evaluates_where_it_is_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, taken = tmp_path / "session", []
    task = give(folder, hyperparameters={"num_envs": 2, "num_steps": 32})
    (folder / "stop").touch()
    for name, value in variables(folder, task).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["cleanrl_ppo.py"])

    def take() -> None:
        while not (folder / "report-0.json").exists():
            for mark in folder.glob("saved-*.json"):
                taken.append((mark.name, (folder / "save" / "state.pt").is_file()))
                mark.unlink()
            time.sleep(0.002)

    hpcpod = threading.Thread(target=take, daemon=True)
    hpcpod.start()
    runpy.run_path(str(PROGRAMS / "cleanrl_ppo.py"), run_name="__main__")
    hpcpod.join()
    assert taken == [("saved-0.json", True)]


@pytest.mark.long
def test_supervised_learning_goes_on_from_a_save(tmp_path: Path) -> None:
    mine = {"learning_rate": 0.01, "weight_decay": 0.01, "width": 16}
    score = {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine}
    first, more, scored, fresh = play(
        command("supervised.py"), tmp_path / "session",
        {"steps": 11, "hyperparameters": mine},
        {"steps": 20, "steps_done": 15, "hyperparameters": mine, "checkpoint": 0},
        {**score, "checkpoint": 1},
        {**score, "checkpoint": 1, "seed": 8, "panel_seeds": [21, 22, 23, 24]},
    )  # fmt: skip
    assert [first["steps"], more["steps"]] == [11, 5]
    assert (scored["score"], scored["error"]) == (more["score"], more["error"])
    assert fresh["score"] != scored["score"], "fresh seeds are fresh points"
    assert first["score"] > 0.55 and first["episodes"] == 1000  # of two arms one is half


FAKES = {
    "rsl_rl/runners.py": """
        import torch

        class OnPolicyRunner:
            def __init__(self, env, train_cfg, log_dir, device):
                self.weight = torch.nn.Parameter(torch.zeros(()))
                rate = train_cfg["algorithm"]["learning_rate"]
                self.alg = type("PPO", (), {})()
                self.alg.optimizer = torch.optim.SGD([self.weight], lr=rate)

            def learn(self, num_learning_iterations):
                for _ in range(num_learning_iterations):
                    self.alg.optimizer.zero_grad()
                    (-self.weight).backward()
                    self.alg.optimizer.step()

            def save(self, path):
                torch.save([self.weight.data, self.alg.optimizer.state_dict()], path)

            def load(self, path):
                self.weight.data, state = torch.load(path)
                self.alg.optimizer.load_state_dict(state)

            def get_inference_policy(self, device):
                return lambda obs: obs * 0 + self.weight
    """,
    "isaaclab/app.py": "def AppLauncher(headless): assert headless",
    "isaaclab_rl/rsl_rl.py": """
        import torch

        class RslRlVecEnvWrapper:
            device = "cpu"

            def __init__(self, env):
                self.num_envs = env

            def reset(self):
                self.left = torch.arange(1, self.num_envs + 1)

            def get_observations(self):
                return torch.zeros(self.num_envs), {}

            def step(self, action):  # episode n has n steps, each worth the action
                self.left -= 1
                return self.get_observations()[0], action.clone(), (self.left == 0).long(), {}
    """,
    "isaaclab_tasks/utils.py": """
        def parse_env_cfg(task, device, num_envs):
            return num_envs

        class Config:
            def to_dict(self):
                return {"algorithm": {"gamma": 0.99, "learning_rate": 9.0, "entropy_coef": 9.0}}

        def load_cfg_from_registry(task, entry_point):
            assert entry_point == "rsl_rl_cfg_entry_point"
            return Config()
    """,
    "gymnasium.py": "def make(task, cfg): return cfg",
}
"""As much of rsl_rl and Isaac Lab as the program uses; a policy is one number, which grows by its
learning rate each iteration."""


@pytest.mark.long
def test_rsl_rl_trains_is_copied_and_scores_over_fakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FAKES.items():
        path = tmp_path / "fakes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        if path.parent.name != "fakes":
            (path.parent / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'fakes'}{os.pathsep}{ROOT}")
    mine = {"learning_rate": 0.5, "entropy_coef": 0.01}
    first, copy, scored = play(
        [*command("isaac_lab.py"), "Isaac-Cartpole-v0", "3", "cpu"], tmp_path / "session",
        {"steps": 2, "hyperparameters": mine},
        {"steps": 1, "hyperparameters": {**mine, "learning_rate": 0.25}, "checkpoint": 0},
        {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine, "checkpoint": 1},
    )  # fmt: skip
    # Episodes of 1, 2 and 3 steps: their mean return is twice the number.
    assert [each["score"] for each in (first, copy, scored)] == [2.0, 2.5, 2.5]
    assert first["error"] == pytest.approx(1 / 3**0.5) and first["episodes"] == 3
    assert [each["steps"] for each in (first, copy, scored)] == [2, 1, 0]
