"""MuJoCo Warp on its CPU device: gymnasium's tasks to stated tolerances, and the contract."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest
import torch

from hpcpod.envs.checking import check_env
from hpcpod.envs.vec_env import (
    Step,
    VecEnv,
    episode_seed,
    random_actions,
    random_seeds,
    tensor_form,
)
from hpcpod.errors import Diverged, UnusableWrapper, UserError
from hpcpod.testing import EnvContract
from tests.envs.gymnasium_steps import Steps, some_steps

if find_spec("mujoco_warp") is None:  # to import it takes a second, in each process of the tests
    pytest.skip("pip install 'hpcpod[warp]' (Python 3.11 or newer)", allow_module_level=True)

from hpcpod.envs.mujoco import warp_env
from hpcpod.envs.mujoco.tasks import TASKS
from hpcpod.envs.mujoco.warp_env import Faults, WarpVecEnv

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


class TestWarp(EnvContract):
    """A task whose first observation needs what the simulator computes of a state."""

    env_id: ClassVar[str] = "Ant-v5"
    num_envs = 3
    steps = 60

    def make_env(self, num_envs: int) -> VecEnv:
        return WarpVecEnv(self.env_id, num_envs, kwargs={"max_episode_steps": 7, "frame_skip": 2})


class TestWarpWithoutAForwardPassAtTheBeginning(TestWarp):
    env_id = "HalfCheetah-v5"


class TestWarpWithRejectedDraws(TestWarp):
    env_id = "Reacher-v5"


# Largest differences of one step from gymnasium's own state, where it was measured on 1000 steps
# with MuJoCo 4.0.0: about three times those. Velocities, observations: |a - b| / (1 + |b|).
TOLERANCES: Mapping[str, Mapping[str, float]] = {
    "Ant-v5": {"qpos": 2e-6, "qvel": 2e-5, "obs": 6e-5, "reward": 2e-5},
    "HalfCheetah-v5": {"qpos": 4e-5, "qvel": 1e-3, "obs": 1e-3, "reward": 5e-5},
    "Hopper-v5": {"qpos": 1e-6, "qvel": 5e-6, "obs": 5e-6, "reward": 5e-6},
    "Humanoid-v5": {"qpos": 3e-6, "qvel": 2e-4, "obs": 3e-2, "reward": 2e-4},
    "InvertedDoublePendulum-v5": {"qpos": 1e-6, "qvel": 3e-6, "obs": 3e-6, "reward": 5e-6},
    "InvertedPendulum-v5": {"qpos": 1e-6, "qvel": 2e-6, "obs": 2e-6, "reward": 1e-6},
    "Pusher-v5": {"qpos": 5e-6, "qvel": 3e-5, "obs": 3e-5, "reward": 1e-6},
    "Reacher-v5": {"qpos": 2e-6, "qvel": 1e-5, "obs": 1e-5, "reward": 1e-6},
    "Swimmer-v5": {"qpos": 1e-6, "qvel": 2e-5, "obs": 2e-5, "reward": 5e-6},
    "Walker2d-v5": {"qpos": 4e-6, "qvel": 2e-4, "obs": 2e-4, "reward": 4e-5},
}


def bounds_of(env_id: str) -> tuple[float, float]:
    """The bounds of all numbers of an action, from gymnasium's table of tasks."""
    space: Any = gym.make(env_id).action_space
    return float(space.low.min()), float(space.high.max())


def placed(env_id: str, steps: Steps) -> WarpVecEnv:
    """Each row where gymnasium was before that step."""
    env = WarpVecEnv(env_id, len(steps.action))
    env.reset()
    state = env.state()
    assert state is not None
    env.restore({**state, **steps.before})
    return env


def moved(env: WarpVecEnv, steps: Steps) -> tuple[Step, dict[str, torch.Tensor]]:
    """A step of gymnasium's actions, and the state after it, no row of which has begun anew."""
    kept: dict[str, torch.Tensor] = {}
    simulations, begin = env._simulations, env._simulations.begin

    def keeping(*arguments: Any) -> Any:
        kept.update(simulations.save())
        return begin(*arguments)

    setattr(simulations, "begin", keeping)  # noqa: B010 (mypy knows that it is a method)
    return env.step(steps.action), kept


def errors(ours: torch.Tensor, theirs: torch.Tensor, relative: bool) -> torch.Tensor:
    """The largest one of each row, [N]."""
    scale = 1 + theirs.abs() if relative else 1.0
    return ((ours.double() - theirs).abs() / scale).reshape(len(ours), -1).amax(1)


@pytest.mark.parametrize("env_id", [i for i in TASKS if bounds_of(i) == (-1.0, 1.0)])
def test_an_action_reaches_the_simulator_as_the_policy_chose_it(env_id: str) -> None:
    env = WarpVecEnv(env_id, 64)
    env.reset()
    given, step = [], env._simulations.step

    def keeping(ctrl: torch.Tensor) -> Any:
        given.append(ctrl.clone())
        return step(ctrl)

    setattr(env._simulations, "step", keeping)  # noqa: B010 (mypy knows that it is a method)
    shape, _ = tensor_form(env.spec.action)
    action = torch.randn(64, *shape, generator=torch.Generator().manual_seed(4)).tanh()
    env.step(action)
    assert torch.equal(given[0], action)


@pytest.mark.parametrize("env_id", list(TASKS))
def test_a_step_is_gymnasiums_from_each_of_its_states(env_id: str) -> None:
    steps = some_steps(env_id, 400)
    step, after = moved(placed(env_id, steps), steps)
    compared = {
        "qpos": errors(after["qpos"], steps.after["qpos"], False),
        "qvel": errors(after["qvel"], steps.after["qvel"], True),
        "obs": errors(step.next_obs, steps.obs, True),
        "reward": errors(step.reward, steps.reward, False),
    }
    # MuJoCo Warp gives a capsule that meets the floor at more than 60 degrees (cos 30 = 0.87)
    # another tangent, and so another friction: those rows are only near. In a plane it's the same.
    same = steps.steep < 0.74 if env_id == "Ant-v5" else torch.ones_like(steps.terminated)
    assert int(same.sum()) > 80
    for name, limit in TOLERANCES[env_id].items():
        assert float(compared[name][same].max()) < limit, name
    assert float(compared["qpos"].max()) < 0.05 and float(compared["reward"].max()) < 0.5
    assert torch.equal(step.terminated[same], steps.terminated[same])
    assert bool(steps.terminated.any()) == (env_id not in FOREVER)


FOREVER = ("HalfCheetah-v5", "Pusher-v5", "Reacher-v5", "Swimmer-v5")
"""Their episodes end by time alone."""


@pytest.mark.parametrize(
    ("env_id", "tolerance"), [("Humanoid-v5", 1e-3), ("Hopper-v5", 1e-4), ("Walker2d-v5", 1e-4)]
)
def test_on_its_own_it_stays_near_for_a_while(env_id: str, tolerance: float) -> None:
    steps = some_steps(env_id, 12)
    assert not bool(steps.terminated[:-1].any())  # so each begins where the one before ended
    env = WarpVecEnv(env_id)
    env.reset()
    state = env.state()
    assert state is not None
    env.restore({**state, **{name: values[:1] for name, values in steps.before.items()}})
    for i in range(12):
        state, reward = env.state(), env.step(steps.action[i : i + 1]).reward
        assert state is not None
        assert float(errors(state["qpos"], steps.before["qpos"][i : i + 1], True)) < tolerance
        assert float((reward - steps.reward[i]).abs()) < tolerance


def equal(ours: Step, theirs: Step, rows: slice = slice(None)) -> bool:
    return all(torch.equal(a[rows], b[rows]) for a, b in zip(ours, theirs, strict=True))


def plain(env: WarpVecEnv) -> WarpVecEnv:
    """Without what was captured: every kernel is launched when its turn comes."""
    import warp as wp

    simulations = env._simulations

    def steps() -> None:
        with wp.ScopedDevice("cpu"):
            simulations._steps()

    def forward() -> None:
        with wp.ScopedDevice("cpu"):
            simulations._compute()

    simulations._advance, simulations._forward = steps, forward
    return env


def test_what_was_captured_does_what_the_calls_do() -> None:
    limit = {"max_episode_steps": 9}
    env, other = WarpVecEnv("Ant-v5", 3, kwargs=limit), plain(WarpVecEnv("Ant-v5", 3, kwargs=limit))
    seeds = random_seeds("captured", count=3)
    assert torch.equal(env.reset(seeds), other.reset(seeds))
    for action in random_actions(env.spec, 24, torch.Generator().manual_seed(1)):
        assert equal(env.step(action), other.step(action))


def test_an_episode_that_nothing_ends_lasts_as_long_as_it_may() -> None:
    env = WarpVecEnv("HalfCheetah-v5", 2, kwargs={"max_episode_steps": 5})
    env.reset()
    cut = [env.step(torch.zeros(2, 6)).truncated.tolist() for _ in range(15)]
    assert cut == [[step % 5 == 0] * 2 for step in range(1, 16)]


def test_a_row_that_is_not_finite_ends_and_leaves_the_others_alone() -> None:
    """As on a GPU, where no step can wait for the sight of it."""
    env, other = WarpVecEnv("Ant-v5", 3), WarpVecEnv("Ant-v5", 3)
    for each in (env, other):
        each._looks = False
        each.reset(torch.tensor([3, 4, 5]))
    actions = random_actions(env.spec, 8, torch.Generator().manual_seed(2))
    for action in actions[:4]:
        assert equal(env.step(action), other.step(action))
    state = env.state()
    assert state is not None
    state["qvel"][1, 0] = torch.nan
    env.restore(state)
    step, sound = env.step(actions[4]), other.step(actions[4])
    assert step.terminated.tolist() == [False, True, False]
    assert step.reward[1] == 0.0 and not step.next_obs[1].any()
    assert all(bool(tensor.isfinite().all()) for tensor in step)
    assert env.faults == Faults(not_finite=1, overflowed=0) and other.faults == Faults(0, 0)
    begun = other.reset(torch.tensor([9, episode_seed(4, 1), 9]))
    assert torch.equal(step.obs[1], begun[1])
    for row in (slice(0, 1), slice(2, 3)):
        assert equal(step, sound, row)
    for action in actions[5:]:
        step, alone = env.step(action), other.step(action)
        assert equal(step, alone, slice(1, 2)), "something of the broken episode is left"


def test_on_the_cpu_a_row_that_is_not_finite_raises() -> None:
    env = WarpVecEnv("Hopper-v5", 2)
    env.reset()
    state = env.state()
    assert state is not None
    state["qpos"][1, 2] = torch.inf
    env.restore(state)
    with pytest.raises(Diverged, match="Hopper-v5: the observation of environment 1 is not finite"):
        env.step(torch.zeros(2, 3))


@pytest.mark.parametrize("room", [{"njmax": 3}, {"nconmax": 1}])
def test_contacts_that_have_no_room_are_counted_and_said(
    room: dict[str, int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warp_env, "_SAY_EVERY", 15)
    env = WarpVecEnv("Ant-v5", 2, kwargs=room)
    env.reset(torch.tensor([0, 1]))
    with caplog.at_level(logging.WARNING):
        for action in random_actions(env.spec, 30, torch.Generator().manual_seed(0)):
            env.step(action)
    lost = env.faults.overflowed
    assert 0 < lost <= 60 and env.faults.not_finite == 0
    said = [record.getMessage() for record in caplog.records]
    assert said and all("Ant-v5: " in line and "raise env.kwargs.nconmax" in line for line in said)
    assert sum(int(line.split()[1]) for line in said) == lost


def test_the_spec_says_what_simulates(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        spec = WarpVecEnv("Humanoid-v5", 2, kwargs={"max_episode_steps": 5}).spec
    for name in ("mujoco 4", "mujoco-warp 4", "warp-lang 1", "gymnasium 1", "float32"):
        assert name in spec.engine
    assert spec.engine.endswith("Newton for PGS") and spec.max_episode_steps == 5
    assert "Humanoid-v5: MuJoCo Warp has no PGS solver, so Newton solves it" in caplog.text
    assert "Newton" not in WarpVecEnv("Hopper-v5").spec.engine


@pytest.mark.parametrize(
    ("env_id", "kwargs", "sentence"),
    [
        ("Ant-v4", {}, r"the backend warp has no Ant-v4; did you mean 'Ant-v5'\?"),
        ("CartPole-v1", {}, "the backend warp has no CartPole-v1; it has Ant-v5, .*gymnasium"),
        ("Ant-v5", {"njmx": 9}, "no argument 'njmx' .* the backend warp; did you mean 'njmax'"),
        ("Ant-v5", {"njmax": 0}, "env.kwargs.njmax must be a whole number of at least 1, got 0"),
        ("Ant-v5", {"healthy_reward": "1"}, "healthy_reward must be a number"),
    ],
)
def test_what_cannot_be_is_one_clear_sentence(
    env_id: str, kwargs: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as refused:
        WarpVecEnv(env_id, 2, kwargs=kwargs)
    assert "\n" not in str(refused.value)


def test_wrappers_and_batches_of_none_are_refused() -> None:
    with pytest.raises(UnusableWrapper, match=r"can't have wrappers .* on the backend warp"):
        WarpVecEnv("Ant-v5", wrappers=["gymnasium.wrappers:FlattenObservation"])
    with pytest.raises(UserError, match="num_envs must be at least 1, got 0"):
        WarpVecEnv("Ant-v5", 0)
    with pytest.raises(UserError, match="device 'cuda:77' can't be used here"):
        WarpVecEnv("Ant-v5", 1, "cuda:77")


def test_without_mujoco_warp_the_extra_to_install_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)
    monkeypatch.delitem(sys.modules, "hpcpod.envs.mujoco.warp_simulations", raising=False)
    with pytest.raises(UserError, match=r'needs MuJoCo Warp, .*; pip install "hpcpod\[warp\]"'):
        WarpVecEnv("Ant-v5")


PREPARE = """\
import warp
from hpcpod.envs.mujoco.warp_simulations import _prepare
_prepare()
print(warp.config.kernel_cache_dir)
"""


@pytest.mark.parametrize("named", [True, False])
def test_on_slurm_kernels_are_cached_on_the_node(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless another place is named; and Warp has nothing to say at its beginning."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("WARP_CACHE_PATH", raising=False)
    if named:
        monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "named"))
    done = subprocess.run(
        [sys.executable, "-c", PREPARE], capture_output=True, text=True, check=True
    )
    [said] = done.stdout.splitlines()
    where = Path(said).relative_to(tmp_path).parts[0]
    assert where == "named" if named else where.startswith("hpcpod-warp-")


def test_a_cache_that_others_could_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpcpod.envs.mujoco.warp_simulations import _own_folder

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = _own_folder()
    assert own == _own_folder() and own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    other = _own_folder()
    assert other != own and other.stat().st_mode & 0o777 == 0o700
    own.rmdir()
    own.symlink_to(tmp_path / "nowhere")
    other = _own_folder()
    assert other != own and other.stat().st_mode & 0o777 == 0o700


@pytest.mark.gpu
@NO_GPU
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_on_a_gpu_it_is_the_same_task() -> None:
    """Captured, on torch's default stream and on another; a contact's place may vary there."""
    env = WarpVecEnv("Ant-v5", 64, "cuda", kwargs={"max_episode_steps": 20})
    check_env(env, 60, restored=1e-3)  # 8.3e-6 on an H200, which adds contacts in any order
    steps = some_steps("Humanoid-v5", 200)
    streams: list[Any] = [torch.cuda.current_stream(), torch.cuda.Stream()]  # type: ignore[no-untyped-call]
    for stream in streams:
        with torch.cuda.stream(stream):
            other = WarpVecEnv("Humanoid-v5", 200, "cuda")
            other.reset()
            state = other.state()
            assert state is not None
            other.restore({**state, **steps.before})
            actions = steps.action.cuda()
            step = other.step(actions)
            torch.cuda.set_sync_debug_mode("error")  # from now on nothing may wait for the GPU
            try:
                other.step(actions)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            found = errors(step.next_obs.cpu(), steps.obs, True)
        assert float(found.max()) < TOLERANCES["Humanoid-v5"]["obs"]
        assert torch.equal(step.terminated.cpu(), steps.terminated)
