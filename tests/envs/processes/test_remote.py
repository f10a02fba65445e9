"""Environments in another Python: a virtual environment with numpy and gymnasium, and no hpcpod."""

from __future__ import annotations

import ast
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import remote_env
import torch
from remote_env import check_same

from hpcpod.config.schema import EnvConfig
from hpcpod.envs import seeding
from hpcpod.envs.checking import check_env
from hpcpod.envs.make import make_env
from hpcpod.envs.processes import foreign
from hpcpod.envs.processes.remote import RemoteVecEnv
from hpcpod.envs.vec_env import Step, episode_seed, random_seeds
from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.errors import Diverged, EnvFailed, UnsupportedSpace, UserError
from tests.pod.rounds import first_birth, train
from tests.support.small_runs import create, wait_for

SERVER = Path(foreign.__file__)
OLD = "tests.envs.foreign:Old"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a new environment, by Python 3.8 if there is one here."""
    known = [*map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python")), "python3.8"]
    runs = [word for word in (*known, sys.executable) if shutil.which(word)]
    base = next(word for word in runs if _works(word))
    folder = tmp_path_factory.mktemp("another python")
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    made = str(folder / "bin" / "python")
    pip = [made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "numpy", "gymnasium"], check=True)
    return made


def _works(python: str) -> bool:
    """A name may be only a version manager's promise."""
    tried = subprocess.run([python, "-m", "venv", "-h"], capture_output=True, check=False)
    return tried.returncode == 0


def remote(
    python: str, env: str, num_envs: int = 1, processes: int = 1, **rest: Any
) -> RemoteVecEnv:
    most = max(num_envs, processes)
    return RemoteVecEnv(EnvConfig(env, most, processes=processes, python=python, **rest), num_envs)


def rollout(env: Any, count: int) -> list[Step]:
    """Its first steps, on seeds and actions that are always the same."""
    n, generator = env.spec.num_envs, torch.Generator().manual_seed(0)
    discrete = not hasattr(env.spec.action, "shape")
    env.reset(random_seeds("remote", count=n))
    steps = []
    for _ in range(count):
        drawn = torch.rand((n, *(() if discrete else env.spec.action.shape)), generator=generator)
        steps.append(env.step((drawn * 2).long() if discrete else drawn * 4 - 2))
    return steps


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("env_id", "steps", "apart"),
    # Older versions of numpy compute Pendulum's float32 in double precision.
    [("CartPole-v1", 300, 0.0), ("Pendulum-v1", 20, 1e-4)],
)
def test_it_plays_the_episodes_of_this_python(
    python: str, env_id: str, steps: int, apart: float, processes: int
) -> None:
    here, there = make_env(env_id, 5), remote(python, env_id, 5, processes)
    for own, other in zip(rollout(here, steps), rollout(there, steps), strict=True):
        for mine, theirs in zip(own, other, strict=True):
            assert torch.allclose(mine.double(), theirs.double(), rtol=0.0, atol=apart)
    assert here.spec.observation == there.spec.observation
    assert here.spec.action_bounds == there.spec.action_bounds
    assert here.spec.max_episode_steps == there.spec.max_episode_steps
    there.close()


def test_it_keeps_the_contract(python: str) -> None:
    for env in (remote(python, "CartPole-v1", 3), remote(python, OLD, 3, 2)):
        check_env(env)
        env.close()


def test_wrappers_and_arguments_are_those_of_there(python: str) -> None:
    limited = {"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 3}}
    wrappers = ("gymnasium.wrappers:FlattenObservation", limited)
    env = remote(python, "Pendulum-v1", 2, kwargs={"g": 1.0}, wrappers=wrappers)
    assert env.spec.max_episode_steps == 3
    assert [bool(step.truncated.all()) for step in rollout(env, 6)] == [False, False, True] * 2
    env.close()


def test_gym_s_old_interface_is_understood_by_hand(python: str) -> None:
    env = remote(python, OLD, 2, kwargs={"end": 4, "cut": 3})
    seeds = torch.tensor([41, 52])
    assert torch.equal(env.reset(seeds), torch.tensor([[1.0, 0.0], [2.0, 0.0]]))
    action = torch.tensor([[0.5], [-3.0]])
    for t in (1.0, 2.0):
        step = env.step(action)
        assert torch.equal(step.obs, torch.tensor([[1.0, t], [2.0, t]]))
        assert torch.equal(step.next_obs, step.obs)
        # [-1, 1] stands for [-2, 6]: 0.5 is 4, and what is beyond -1 is -2.
        assert step.reward.tolist() == [4.0, -2.0]
        assert not (step.terminated | step.truncated).any()
    step = env.step(action)
    assert step.truncated.all() and not step.terminated.any() and step.valid.all()
    assert torch.equal(step.next_obs, torch.tensor([[1.0, 3.0], [2.0, 3.0]]))
    following = [float(episode_seed(seed, 1) % 10) for seed in (41, 52)]
    assert step.obs.tolist() == [[following[0], 0.0], [following[1], 0.0]]
    env.close()
    ending = remote(python, OLD, 1, kwargs={"end": 2})
    assert [bool(s.terminated) for s in rollout(ending, 4)] == [False, True, False, True]
    ending.close()


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("nan", Diverged, "the observation of environment 0 is not finite"),
        ("raise", EnvFailed, "raised RuntimeError: the simulator lost its mind; its traceback"),
        ("kill", EnvFailed, r"was killed \(SIGKILL"),
        ("shape", UserError, r"its step\(\) must return .* observation of shape \(2,\)"),
        ("space", UnsupportedSpace, r"has a space that agents can't use: Text\(1, 8\)"),
    ],
)
def test_what_goes_wrong_there_is_one_sentence_here(
    python: str, fault: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        rollout(remote(python, OLD, 2, kwargs={"fault": fault}), 5)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("CartPole-v9", "CartPole-v9 can't be made by .*python: .*CartPole"),
        ("tests.envs.foreign:Nobody", "tests.envs.foreign:Nobody can't be had by .*Nobody"),
        ("no_such_module:Env", "no_such_module:Env can't be had by .*No module named"),
        ("tests.envs.foreign:Importing", "can't be made by .*No module named"),
    ],
)
def test_what_is_not_there_is_said(python: str, env: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        remote(python, env)


def test_a_python_that_is_none_or_lacks_numpy_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"env\.python: there is no program /no/such/python; give"):
        remote("/no/such/python", "CartPole-v1")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    with pytest.raises(UserError, match="has no numpy: install it there"):
        remote(str(tmp_path / "bin" / "python"), "CartPole-v1")


def test_what_json_can_t_say_is_refused(python: str) -> None:
    with pytest.raises(UserError, match="go to other processes as JSON"):
        remote(python, OLD, kwargs={"end": object()})


ORPHAN = """
import sys, time
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.processes.remote import RemoteVecEnv
if __name__ == "__main__":
    env = RemoteVecEnv(EnvConfig("CartPole-v1", 2, processes=2, python=sys.argv[1]), 2)
    print(*(worker.process.pid for worker in env._pool._workers), flush=True)
    time.sleep(300)
"""


def test_it_ends_with_its_owner(python: str) -> None:
    command = [sys.executable, "-c", ORPHAN, python]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        processes = [psutil.Process(int(word)) for word in owner.stdout.readline().split()]
        assert len(processes) == 2
        owner.kill()
    wait_for("their end", lambda: not any(process.is_running() for process in processes))


def test_a_round_is_trained_in_it(python: str, tmp_path: Path) -> None:
    there, here = (
        create(tmp_path / name, env={"python": path})
        for name, path in (("there", python), ("here", None))
    )
    found = train(there, first_birth(there))
    assert found.returns == train(here, first_birth(here)).returns
    assert found.engine.startswith("gymnasium ")


def test_a_configuration_that_can_t_work_is_refused(python: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(json.dumps({"name": "x", "env": {"id": "CartPole-v1"}}))

    def validated(*settings: str) -> tuple[int, str]:
        words = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "hpcpod", "validate", str(tmp_path / "x.yaml"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, said = validated("env.python=/no/python")
    assert code == 2 and "there is no program /no/python" in said and "Traceback" not in said
    code, said = validated(f"env.python={python}", "env.backend=mujoco")
    assert code == 2 and "steps in this Python: take auto or isaacgym, or leave python out" in said


TASK = "tests.envs.fake_isaac:FakeVecTask"


def vec_task(num_envs: int, **kwargs: Any) -> RemoteVecEnv:
    """By this Python, which has torch."""
    return remote(sys.executable, TASK, num_envs, backend="isaacgym", kwargs=kwargs)


def test_a_vec_task_by_hand() -> None:
    # Environment 0 falls after 2 steps, environment 1 after 100; the time limit is 6 - 1 steps.
    env = vec_task(2, falls=[2, 100], length=6)
    assert not env.spec.seeded and env.spec.final_obs and env.spec.max_episode_steps == 6
    assert env.reset().tolist() == [[0.0, 1.0], [0.0, 1.0]]
    action = torch.tensor([[0.5, 3.0, 0.0], [0.0, 0.0, -0.25]])
    told = [env.step(action) for _ in range(7)]
    # What is simulated: steps of the episode, which episode. Its reward: 1 and the action's sum,
    # clipped to [-1, 1]. Row 0 is a dummy at the third step: its old episode has ended.
    assert [step.obs[0].tolist() for step in told] == [
        [1, 1], [2, 1], [0, 2], [1, 2], [2, 2], [0, 3], [1, 3],
    ]  # fmt: skip
    assert [bool(step.valid[0]) for step in told] == [True, True, False, True, True, False, True]
    fallen = [bool(step.terminated[0]) for step in told]
    assert fallen == [False, True, False, False, True, False, False]
    for row, reward in enumerate((2.5, 0.75)):  # none for a dummy
        assert all(float(s.reward[row]) == (reward if s.valid[row] else 0.0) for s in told)
    assert [step.obs[1].tolist() for step in told][4:] == [[5, 1], [0, 2], [1, 2]]
    assert [bool(step.truncated[1]) for step in told] == [False] * 4 + [True] + [False] * 2
    assert not any(bool(step.terminated[1]) for step in told)
    assert all(torch.equal(step.next_obs, step.obs) for step in told)
    env.close()


def test_a_task_of_numpys_arrays_needs_no_torch_there(python: str) -> None:
    there = remote(python, "countdowns:Countdowns", 6, backend="isaacgym")
    here = GymnasiumVectorEnv(remote_env.Vector, 6)
    check_same(here, there, [torch.rand(6, 8) * 4 - 2 for _ in range(5)])
    step = there.step(torch.zeros(6, 8))
    before = [part.clone() for part in step]
    there.step(torch.ones(6, 8))
    assert all(torch.equal(now, then) for now, then in zip(step, before, strict=True))
    there.close()


def test_isaac_gym_is_imported_before_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "isaacgym").mkdir()
    refuses = "import sys\nif 'torch' in sys.modules: raise ImportError('torch came first')\n"
    (tmp_path / "isaacgym" / "__init__.py").write_text(refuses)
    made = """
from tests.envs.fake_isaac import FakeVecTask
def make(task, num_envs, sim_device, rl_device, graphics_device_id, headless, seed):
    assert (task, headless, graphics_device_id) == ("Ant", True, -1)
    return FakeVecTask(num_envs)
"""
    (tmp_path / "isaacgymenvs.py").write_text(made)
    monkeypatch.syspath_prepend(str(tmp_path))
    env = remote(sys.executable, "Ant", 3, backend="isaacgym")
    assert env.reset().shape == (3, 2)
    env.close()
    (tmp_path / "isaacgym" / "__init__.py").write_text("import torch\n" + refuses)
    with pytest.raises(UserError, match=r"isaacgym can't be had by .*torch came first"):
        remote(sys.executable, "Ant", 3, backend="isaacgym")


def test_isaac_gym_that_is_not_there_is_said(python: str) -> None:
    with pytest.raises(UserError, match=r"isaacgym can't be had by .*No module named"):
        remote(python, "Ant", 3, backend="isaacgym")
    with pytest.raises(ValueError, match="backend isaacgym needs python, an interpreter that has"):
        EnvConfig("Ant", backend="isaacgym")


def test_the_server_is_python_3_8_and_needs_nothing_to_start() -> None:
    source = SERVER.read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [n.module or "" if isinstance(n, ast.ImportFrom) else n.names[0].name for n in top]
    assert set(names) <= {*sys.stdlib_module_names} and "numpy" in source


def test_seeds_of_later_episodes_are_those_of_this_python() -> None:
    draws = random.Random(0)
    for _ in range(1000):
        seed, k = draws.randrange(2**31), draws.randrange(1, 2**31)
        assert foreign.successor(seed, k) == seeding.successor(seed, k)
    assert foreign.successor(5, 0) == 5 == episode_seed(5, 0)
