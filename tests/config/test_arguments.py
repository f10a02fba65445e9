"""Python's door takes NumPy's scalars, enums and paths wherever it takes Python's own."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcpod
from hpcpod.errors import ConfigError, UserError


class Word(Enum):
    PPO = "ppo"
    ENV = "CartPole-v1"
    AUTO = "auto"
    CPU = "cpu"
    LOCAL = "local"
    LAST = "last"


class Few(IntEnum):
    THREE = 3


def made(**changes: Any) -> Any:
    """The shape of what an environment gives first."""
    arguments: dict[str, Any] = {"id": "CartPole-v1", "num_envs": 3}
    env = hpcpod.make_env(**(arguments | changes))
    shape = tuple(env.reset().shape)
    env.close()
    return shape


@pytest.mark.parametrize(
    "changes",
    [
        {"id": Word.ENV, "num_envs": Few.THREE, "backend": Word.AUTO, "device": Word.CPU},
        {"id": np.str_("CartPole-v1"), "num_envs": np.float64(3)},
        {"num_envs": np.array(3), "processes": np.int64(2)},
        {"kwargs": {"sutton_barto_reward": np.bool_(True)}, "processes": np.int8(2)},
        {"wrappers": [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": np.int64(9)}}]},
    ],
)
def test_an_environment(changes: dict[str, Any]) -> None:
    assert made(**changes) == (3, 4)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_envs": 2.5}, "num_envs: expected int, got 2.5"),
        ({"num_envs": True}, "num_envs: expected int, got true"),
        ({"num_envs": np.int64(0)}, "num_envs: must be at least 1, got 0"),
        ({"processes": "two"}, "processes: expected int, got 'two'"),
        ({"n_envs": 2}, "n_envs: unknown argument; did you mean 'num_envs'?"),
        ({"id": None}, "expected the id or the path of an environment, or what returns one, got N"),
        ({"wrappers": "gymnasium.wrappers:TimeLimit"}, "wrappers: expected a list of them"),
    ],
)
def test_an_environment_that_can_not_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        made(**changes)


def test_a_training_its_file_and_its_policy(tmp_path: Path) -> None:
    small: Any = {"env_steps": np.float64(64), "num_envs": np.int64(2), "episodes": np.int8(2)}
    enums: Any = {"agent": Word.PPO, "env": Word.ENV, "keep": Word.LAST, "device": Word.CPU}
    file: Any = np.str_(tmp_path / "a.h5")
    no: Any = np.bool_(False)
    done = hpcpod.train(
        **small, **enums, save_to=file, hidden=np.int64(8), learning_rate=np.float32(0.001),
        horizon=Few.THREE, seed=np.uint8(3), overwrite=no,
    )  # fmt: skip
    policy = hpcpod.load_policy(file)
    enum: Any = Enum
    policy.save(enum("Files", {"AGAIN": str(tmp_path / "again.h5")}).AGAIN)
    assert (tmp_path / "again.h5").is_file()
    assert policy([np.float32(0)] * 4) == done.policy(np.zeros(4))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"keep": "bst"}, "keep: expected one of 'best', 'last', got 'bst'; did you mean 'best'?"),
        ({"save_to": 3}, "save_to: expected str, got 3"),
        ({"agent": None}, "agent: expected str, got null"),
        ({"lr": 1}, "did you mean 'learning_rate'?"),
    ],
)
def test_a_training_that_can_not_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        hpcpod.train(**({"env_steps": 64} | changes))


def test_a_training_whose_length_has_another_word() -> None:
    train: Any = hpcpod.train
    with pytest.raises(ConfigError, match=r"total_timesteps: .*; did you mean 'env_steps'?"):
        train(total_timesteps=64)
    with pytest.raises(TypeError, match="env_steps"):  # nothing here is like it
        train()


CONFIG: dict[str, Any] = {
    "name": "words", "stop": {"rounds": 1}, "env": {"id": Word.ENV, "num_envs": np.int64(2)},
    "population": {"algorithms": {Word.PPO: np.int64(1)}, "pods": {"min": 1, "max": np.int8(2)}},
    "agents": {"ppo": {"horizon": 16}}, "round": {"env_steps": np.float64(64)},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hpcpod.Run:
    runs: Any = np.str_(tmp_path_factory.mktemp("runs"))
    given: Any = {"cluster": Word.LOCAL, "runs": runs, "seed": np.int64(3)}
    launched = hpcpod.launch(CONFIG, **given)
    launched.wait(timeout=np.float64(120), poll=np.float32(0.1))
    return hpcpod.open_run(launched.path)


def test_a_run_and_what_is_asked_of_it(run: hpcpod.Run, tmp_path: Path) -> None:
    word: Any = np.str_("p0001")
    assert run.why(word)
    assert len(run.lineage(word)) == 1
    to: Any = np.str_(tmp_path / "out.h5")
    assert run.export(to) == Path(str(to))
    assert run.export(to, overwrite=bool(np.bool_(True))).is_file()
    assert hpcpod.load_policy(run)([0.0] * 4) in (0, 1)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: run.scale(1.5), "slots: expected int, got 1.5"),
        (lambda run: run.scale("1"), "slots: expected int, got '1'; write 1, without quotes"),
        (lambda run: run.lineage("p9"), "has no pod p9"),
        (lambda run: run.export(3), "to: expected str, got 3"),
        (lambda run: run.wait(timeout="long"), "timeout: expected float, got 'long'"),
        (lambda run: hpcpod.open_run(3), "path: expected str, got 3"),  # type: ignore[arg-type]
        (lambda run: hpcpod.launch(3), "expected the path of a YAML file, a mapping or a RunCo"),  # type: ignore[arg-type]
        (lambda run: hpcpod.launch(CONFIG, runs=3), "runs: expected str, got 3"),  # type: ignore[arg-type]
        (lambda run: hpcpod.launch(CONFIG, cluster="slrm"), "did you mean 'slurm'?"),
    ],
)
def test_a_wish_that_can_not_be(run: hpcpod.Run, ask: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ask(run)
