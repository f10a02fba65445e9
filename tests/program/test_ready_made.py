"""Ready-made programs: each is played as hpcpod plays it, trained, copied, scored."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from tests.docs.pages import ROOT
from tests.program.given import lines, play_here

PROGRAMS = ROOT / "configs" / "programs"
TASK = {"algorithm": "PPO", "env": "CartPole-v1", "num_envs": 2, "n_steps": 64, "width": 16}


@pytest.mark.long
def test_stable_baselines3_trains_is_copied_and_scores(
    tmp_path: Path, here: Callable[..., Any]
) -> None:
    rate = {"learning_rate": 0.001}
    dqn = {
        "algorithm": "DQN",
        "env": "CartPole-v1",
        "num_envs": 2,
        "width": 16,
        "learning_starts": 8,
    }
    lstm = {**TASK, "algorithm": "RecurrentPPO"}
    first, copy, scored, replayed, more, recurrent = here(
        "sb3.py",
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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Play a ready-made file in this process, which is afterwards as it was."""
    before, torch_as_it_was = sys.modules.copy(), torch.random.get_rng_state()
    yield lambda name, *tasks, **more: play_here(
        monkeypatch, PROGRAMS / name, tmp_path / "session", *tasks, **more
    )
    torch.random.set_rng_state(torch_as_it_was)
    for name in sys.modules.keys() - before.keys():
        if name.partition(".")[0] in {path.partition("/")[0] for path in FAKES}:
            del sys.modules[name]


def test_the_single_file_trains_and_goes_on_where_it_was(here: Callable[..., Any]) -> None:
    mine = {"learning_rate": 0.001, "num_envs": 2, "num_steps": 32}
    first, scored = here(
        "cleanrl_ppo.py", {"steps": 128, "hyperparameters": mine},
        {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine, "checkpoint": 0},
    )  # fmt: skip
    assert scored["returns"] == first["returns"] and min(first["returns"]) >= 8
    assert [first["steps"], scored["steps"]] == [128, 0]


def test_the_single_file_saves_before_it_evaluates_where_it_is_to_stop(
    tmp_path: Path, here: Callable[..., Any]
) -> None:
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / "stop").touch()
    (stopped,) = here("cleanrl_ppo.py", {"hyperparameters": {"num_envs": 2, "num_steps": 32}})
    assert stopped["marks"] == ["saved-0.json"] and stopped["steps"] == 0
    assert (tmp_path / "session" / "save-0" / "state.pt").is_file()


def test_supervised_learning_goes_on_from_a_save(here: Callable[..., Any]) -> None:
    mine = {"learning_rate": 0.01, "weight_decay": 0.01, "width": 16}
    score = {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine}
    first, more, scored, fresh = here(
        "supervised.py",
        {"steps": 11, "hyperparameters": mine},
        {"steps": 20, "steps_done": 15, "hyperparameters": mine, "checkpoint": 0},
        {**score, "checkpoint": 1},
        {**score, "checkpoint": 1, "seed": 8, "panel_seeds": [21, 22, 23, 24]},
    )  # fmt: skip
    assert [first["steps"], more["steps"]] == [11, 5]
    assert fresh["marks"] == ["saved-10.json"]
    assert (scored["score"], scored["error"]) == (more["score"], more["error"])
    assert fresh["score"] != scored["score"], "fresh seeds are fresh points"
    assert first["score"] > 0.55 and first["episodes"] == 1000  # of two arms one is half


FAKES = {
    "rsl_rl/runners.py": """
        import torch

        class OnPolicyRunner:
            def __init__(self, env, train_cfg, log_dir, device):
                self.weight = torch.nn.Parameter(torch.zeros(()))
                assert train_cfg["policy"].pop("class_name") == "ActorCritic"  # as rsl_rl 3 does
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
                algorithm = {"gamma": 0.99, "learning_rate": 9.0, "entropy_coef": 9.0}
                return {"algorithm": algorithm, "policy": {"class_name": "ActorCritic"}}

        def load_cfg_from_registry(task, entry_point):
            assert entry_point == "rsl_rl_cfg_entry_point"
            return Config()
    """,
    "rl_games/common/ivecenv.py": "class IVecEnv: pass",
    "rl_games/common/algo_observer.py": "class AlgoObserver: pass",
    "rl_games/torch_runner.py": """
        import types
        import torch

        class Agent:
            def __init__(self, params):
                self.config, self.frame, self.weight = params["config"], 0, 0.0
                self.last_lr = self.lr = self.config["learning_rate"]
                self.observer = self.config["observer"]
                self.game_rewards = types.SimpleNamespace(current_size=0)
                self.writer = types.SimpleNamespace(close=lambda: None)
                self.observer.after_init(self)

            def train(self):
                self.config["vec_env"].reset()
                while True:
                    self.weight, self.frame = self.weight + self.lr, self.frame + 10
                    for _ in range(2):
                        self.observer.after_print_stats(self.frame, self.frame // 10, 0.0)

            def save(self, path):
                torch.save([self.weight, self.frame, self.lr], path + ".pth")

            def restore(self, path):
                self.weight, self.frame, self.lr = torch.load(path)

            def update_lr(self, lr):
                self.lr = lr

            def set_eval(self):
                pass

            def obs_to_tensors(self, obs):
                return {"obs": torch.as_tensor(obs)}

            def model(self, given):  # to where the pole falls, once it has learnt anything
                falls = given["obs"][:, 2] * self.weight
                return {"logits": torch.stack((-falls, falls), 1)}

            def preprocess_actions(self, actions):
                return actions.numpy()

        class Runner:
            def __init__(self, observer):
                self.observer = observer
                self.algo_factory = types.SimpleNamespace(
                    create=lambda kind, base_name, params: Agent(params)
                )

            def load_config(self, params):
                params["config"]["observer"] = self.observer
                self.params = params
    """,
}
"""As much of rsl_rl, Isaac Lab and rl_games as the programs use; a policy is one number, which
grows by its learning rate each iteration."""


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulators and frameworks that are not here."""
    for name, text in FAKES.items():
        path = tmp_path / "fakes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        if path.parent.name != "fakes":
            (path.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "fakes"))


def test_rsl_rl_trains_is_copied_and_scores_over_fakes(
    here: Callable[..., Any], fakes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gymnasium, "make", lambda task, cfg: cfg)
    mine = {"learning_rate": 0.5, "entropy_coef": 0.01}
    first, copy, scored = here(
        "isaac_lab.py",
        {"steps": 2, "hyperparameters": mine},
        {"steps": 1, "hyperparameters": {**mine, "learning_rate": 0.25}, "checkpoint": 0},
        {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine, "checkpoint": 1},
        words=("Isaac-Cartpole-v0", "3", "cpu"),
    )  # fmt: skip
    # Episodes of 1, 2 and 3 steps: their mean return is twice the number.
    assert [each["score"] for each in (first, copy, scored)] == [2.0, 2.5, 2.5]
    assert first["error"] == pytest.approx(1 / 3**0.5) and first["episodes"] == 3
    assert [each["steps"] for each in (first, copy, scored)] == [2, 1, 0]


def test_rl_games_trains_is_copied_and_scores_over_a_fake(
    tmp_path: Path, here: Callable[..., Any], fakes: None
) -> None:
    mine = {"env": "CartPole-v1", "learning_rate": 0.5, "num_actors": 2}
    first, copy, scored = here(
        "rl_games_ppo.py",
        {"steps": 20, "hyperparameters": mine},
        {"steps": 10, "hyperparameters": {**mine, "learning_rate": 0.25}, "checkpoint": 0},
        {"mode": "score", "steps": None, "save_to": None, "hyperparameters": mine, "checkpoint": 1},
    )  # fmt: skip
    # An epoch of the fake has ten steps, and moves its one weight by the learning rate.
    assert [each["steps"] for each in (first, copy, scored)] == [20, 10, 0]
    assert torch.load(tmp_path / "session" / "save-0" / "agent.pth") == [1.0, 20, 0.5]
    assert torch.load(tmp_path / "session" / "save-1" / "agent.pth") == [1.25, 30, 0.25]
    assert scored["returns"] == copy["returns"] and min(copy["returns"]) >= 8
