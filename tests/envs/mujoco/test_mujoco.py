"""The MuJoCo backend plays gymnasium's own episodes."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from hpcpod.envs.checking import check_env
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.make import make_env
from hpcpod.envs.threads import env_threads, given_threads, set_env_threads
from hpcpod.envs.vec_env import Step, episode_seed, random_seeds, tensor_form
from hpcpod.errors import Diverged, UnusableWrapper, UserError

pytest.importorskip("mujoco", reason="pip install 'hpcpod[mujoco]'")

from hpcpod.envs.mujoco.env import MujocoVecEnv
from hpcpod.envs.mujoco.tasks import TASKS

IDS = list(TASKS)
Options = Mapping[str, object]


@contextmanager
def made(
    env_id: str, num_envs: int = 1, threads: int = 1, kwargs: Options | None = None
) -> Iterator[MujocoVecEnv]:
    before = given_threads()
    set_env_threads(threads)
    try:
        env = MujocoVecEnv(env_id, num_envs, kwargs=kwargs)
    finally:
        set_env_threads(before)
    yield env
    env.close()


def some_actions(env: MujocoVecEnv, count: int) -> Iterator[torch.Tensor]:
    """Uniform on [-1.2, 1.2]: what lies outside [-1, 1] is clipped."""
    generator = torch.Generator().manual_seed(7)
    shape, _ = tensor_form(env.spec.action)
    for _ in range(count):
        yield (torch.rand(env.spec.num_envs, *shape, generator=generator) - 0.5) * 2.4


def assert_same_episode(ours: Step, theirs: Step) -> None:
    for name in ("obs", "next_obs", "terminated", "truncated", "valid"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert torch.allclose(ours.reward, theirs.reward, rtol=0.0, atol=1e-6)
    assert ours.reward.dtype == torch.float32


def compare(env_id: str, num_envs: int, threads: int, steps: int, kwargs: Options) -> int:
    """Step both backends; how many episodes ended."""
    theirs = PreprocessVecEnv(env_id, num_envs, kwargs=kwargs)
    seeds = random_seeds(env_id, count=num_envs)
    ends = 0
    with made(env_id, num_envs, threads, kwargs) as ours:
        assert torch.equal(ours.reset(seeds), theirs.reset(seeds))
        for action in some_actions(ours, steps):
            step = ours.step(action)
            assert_same_episode(step, theirs.step(action))
            ends += int((step.terminated | step.truncated).sum())
    theirs.close()
    return ends


@pytest.mark.parametrize("env_id", IDS)
def test_episodes_are_gymnasiums_own(env_id: str) -> None:
    """Each task's own time limit among them."""
    limit = MujocoVecEnv(env_id).spec.max_episode_steps or 0
    assert compare(env_id, 1, 1, limit + 200, {}) > 0


def own_actions(env_id: str) -> bool:
    """Whether gymnasium's bounds are those of a policy, [-1, 1]."""
    space: Any = gym.make(env_id).action_space
    return bool((space.low == -1.0).all() and (space.high == 1.0).all())


@pytest.mark.parametrize("backend", [MujocoVecEnv, PreprocessVecEnv])
@pytest.mark.parametrize("env_id", [env_id for env_id in IDS if own_actions(env_id)])
def test_a_policys_actions_lead_where_they_lead_in_gymnasium(env_id: str, backend: Any) -> None:
    """Here gymnasium is stepped by the policy's own numbers, without anything of hpcpod's."""
    theirs, ours = gym.make(env_id), backend(env_id, 1)
    shape, _ = tensor_form(ours.spec.action)
    # Not torch.rand, whose numbers lie on a grid that every sum of theirs hits, too.
    actions = torch.randn(400, *shape, generator=torch.Generator().manual_seed(3)).tanh()
    ended, episodes = True, 0
    for action in actions:
        if ended:
            seed, episodes = torch.tensor([episodes]), episodes + 1
            obs, _ = theirs.reset(seed=int(seed))
            assert torch.equal(ours.reset(seed)[0], torch.from_numpy(obs).float())
        step = ours.step(action[None])
        obs, reward, terminated, truncated, _ = theirs.step(action.numpy())
        assert torch.equal(step.next_obs[0], torch.from_numpy(obs).float())
        assert float(step.reward[0]) == pytest.approx(float(reward), rel=0, abs=1e-6)
        assert (bool(step.terminated), bool(step.truncated)) == (terminated, truncated)
        ended = terminated or truncated
    ours.close()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("env_id", IDS)
def test_a_batch_is_gymnasiums_whatever_the_threads(env_id: str, threads: int) -> None:
    assert compare(env_id, 5, threads, 250, {"max_episode_steps": 45}) >= 25


def own_options(env_id: str) -> dict[str, object]:
    options = {field.name: field.default for field in dataclasses.fields(TASKS[env_id])}
    return {name: value for name, value in options.items() if name not in ("model", "xp")}


OTHER_OPTIONS: dict[str, object] = {
    "frame_skip": 3,
    "forward_reward_weight": 2,
    "ctrl_cost_weight": 0.3,
    "contact_cost_weight": 0.01,
    "contact_cost_range": [0.0, 0.02],
    "contact_force_range": [-0.5, 0.7],
    "healthy_reward": 0.25,
    "healthy_z_range": [0.5, 1.35],
    "healthy_angle_range": [-0.1, 0.3],
    "healthy_state_range": [-5.0, 6.0],
    "reset_noise_scale": 0.02,
    "main_body": "aux_1",
    "reward_near_weight": 0.7,
    "reward_dist_weight": 1.5,
    "reward_control_weight": 0.2,
    "exclude_current_positions_from_observation": False,
    "include_cinert_in_observation": False,
    "include_cvel_in_observation": False,
    "include_qfrc_actuator_in_observation": False,
    "include_cfrc_ext_in_observation": False,
}
"""A value unlike its default for every option of any task but the one below."""


@pytest.mark.parametrize(
    ("env_id", "terminate"),
    [(env_id, True) for env_id in IDS]
    + [(env_id, False) for env_id in IDS if hasattr(TASKS[env_id], "terminate_when_unhealthy")],
)
def test_every_option_means_what_it_means_in_gymnasium(env_id: str, terminate: bool) -> None:
    chosen = {**OTHER_OPTIONS, "terminate_when_unhealthy": terminate}
    compare(env_id, 2, 1, 60, {name: chosen[name] for name in own_options(env_id)})


@pytest.mark.parametrize("env_id", IDS)
def test_options_have_gymnasiums_names_and_defaults(env_id: str) -> None:
    entry_point: Any = gym.spec(env_id).entry_point
    parameters = inspect.signature(gym.envs.registration.load_env_creator(entry_point)).parameters
    theirs = {name: p.default for name, p in parameters.items() if name != "kwargs"}
    assert theirs.keys() - own_options(env_id).keys() == {"xml_file", "default_camera_config"}
    assert {name: theirs[name] for name in own_options(env_id)} == own_options(env_id)


@pytest.mark.parametrize("env_id", IDS)
def test_the_contract_is_kept(env_id: str) -> None:
    with made(env_id, 3, 2, {"max_episode_steps": 40}) as env:
        check_env(env, 300)


@pytest.mark.parametrize("env_id", IDS)
def test_the_spec_is_gymnasiums_but_for_the_engine(env_id: str) -> None:
    theirs = PreprocessVecEnv(env_id, 2).spec
    with made(env_id, 2) as env:
        engine = f"mujoco {version('mujoco')}, gymnasium {version('gymnasium')}"
        assert env.spec == dataclasses.replace(theirs, engine=engine)


@pytest.mark.parametrize("env_id", IDS)
def test_a_restored_environment_goes_on_bit_by_bit(env_id: str) -> None:
    limit = {"max_episode_steps": 30}
    with made(env_id, 3, 1, limit) as env, made(env_id, 3, 2, limit) as other:
        assert env.state() is None
        env.reset(random_seeds(env_id, count=3))
        actions = list(some_actions(env, 120))
        for action in actions[:47]:
            env.step(action)
        saved = env.state()
        assert saved is not None
        once = [env.step(action) for action in actions[47:]]
        other.restore(saved)
        for step, action in zip(once, actions[47:], strict=True):
            for name, x, y in zip(Step._fields, step, other.step(action), strict=True):
                assert torch.equal(x, y), name
        with pytest.raises(ValueError, match="of 2 environments, not 3"):
            env.restore({name: tensor[:2] for name, tensor in saved.items()})


def test_an_episode_depends_on_its_seed_alone() -> None:
    limit = {"max_episode_steps": 7}
    with made("Hopper-v5", 20, 2, limit) as many, made("Hopper-v5", 1, 1, limit) as one:
        seeds = random_seeds("hopper", count=20)
        first = many.reset(seeds)
        assert torch.equal(one.reset(seeds[13:14]), first[13:14])
        for action in some_actions(many, 30):
            together, alone = many.step(action), one.step(action[13:14])
            assert_same_episode(Step(*(t[13:14] for t in together)), alone)
        begun = one.state()
        assert begun is not None
        assert int(begun["episodes"]) >= 4
        k = int(begun["episodes"])
        again = one.reset(torch.tensor([episode_seed(int(seeds[13]), k)]))
        assert torch.equal(again, PreprocessVecEnv("Hopper-v5").reset(one_seed(seeds[13], k)))


def one_seed(seed: torch.Tensor, k: int) -> torch.Tensor:
    return torch.tensor([episode_seed(int(seed), k)])


@pytest.mark.parametrize("env_id", IDS)
def test_tasks_are_the_same_on_torchs_arrays(env_id: str) -> None:
    """What an engine on a GPU gives them."""
    with made(env_id, 4) as env:
        env.reset(torch.arange(4))
        for action in some_actions(env, 5):
            env.step(action)
        ours = env._task
        theirs = dataclasses.replace(ours, xp=torch)
        fields = env._simulations.fields(range(4))
        tensors = {name: torch.from_numpy(values) for name, values in fields.items()}
        velocity, action = torch.linspace(-1, 1, 4).double(), action.clip(-1, 1)
        np.testing.assert_allclose(theirs.place(tensors), ours.place(fields), rtol=1e-12)
        seen = ours.observation(fields)
        np.testing.assert_allclose(theirs.observation(tensors), seen, rtol=1e-12)
        reward, ended = theirs.outcome(tensors, action, velocity)
        expected = ours.outcome(fields, action.numpy(), velocity.numpy())
        np.testing.assert_allclose(reward, expected[0], rtol=1e-6)
        np.testing.assert_array_equal(ended, expected[1])


def mujoco_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("mujoco")]


def test_threads_are_the_process_s_and_end_with_the_environment() -> None:
    before = env_threads()
    set_env_threads(3)
    try:
        env = MujocoVecEnv("HalfCheetah-v5", 24)
        env.reset()
        for action in some_actions(env, 20):
            env.step(action)
    finally:
        set_env_threads(before)
    started = mujoco_threads()
    assert len(started) == 2  # beside this one
    env.close()
    assert not mujoco_threads()


def test_no_thread_outlives_an_environment_that_is_dropped() -> None:
    before = given_threads()
    set_env_threads(2)
    try:
        env = MujocoVecEnv("HalfCheetah-v5", 24)
    finally:
        set_env_threads(before)
    env.reset()
    for action in some_actions(env, 20):
        env.step(action)
    started = mujoco_threads()
    assert started
    gone = weakref.ref(env)
    del env
    gc.collect()
    assert gone() is None
    for thread in started:
        thread.join(timeout=30)
    assert not mujoco_threads()


def test_an_interpreter_ends_although_an_environment_is_open(tmp_path: Path) -> None:
    """And MuJoCo's words about the model, which HalfCheetah's has it say, leave no file."""
    script = (
        "import torch\n"
        "from hpcpod.envs.mujoco.env import MujocoVecEnv\n"
        "from hpcpod.envs.threads import set_env_threads\n"
        "set_env_threads(2)\n"
        "env = MujocoVecEnv('HalfCheetah-v5', 20)\n"
        "env.reset()\n"
        "for _ in range(20): env.step(torch.zeros(20, 6))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert not list(tmp_path.iterdir())
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_backend_has_a_name() -> None:
    env = make_env("Ant-v5", 2, backend="mujoco", kwargs={"max_episode_steps": 5})
    assert isinstance(env, MujocoVecEnv)
    assert env.spec.max_episode_steps == 5


@pytest.mark.parametrize(
    ("env_id", "kwargs", "sentence"),
    [
        ("Ant-v4", {}, r"has no Ant-v4; did you mean 'Ant-v5'\?; it has Ant-v5, .*Hopper-v5"),
        ("CartPole-v1", {}, "has no CartPole-v1; it has .*; for any other use the backend gymn"),
        ("Ant-v5", {"xml_file": "x.xml"}, r"no argument 'xml_file' \(env.kwargs\) on the backend"),
        ("Ant-v5", {"render_mode": "human"}, "no argument 'render_mode'"),
        ("Ant-v5", {"healthy_rewards": 1}, "'healthy_rewards'.*; did you mean 'healthy_reward'"),
        ("Ant-v5", {"healthy_z_range": [1]}, r"healthy_z_range must be two numbers, got \[1\]"),
        ("Ant-v5", {"main_body": "wing"}, "env.kwargs.main_body: the model has no body 'wing'"),
        ("Ant-v5", {"main_body": 99}, "env.kwargs.main_body: the model has no body 99"),
        ("Ant-v5", {"reset_noise_scale": -0.1}, "must be a finite number of at least 0, got -0.1"),
        ("Ant-v5", {"reset_noise_scale": float("inf")}, "finite number of at least 0, got inf"),
        ("Hopper-v5", {"healthy_reward": "1"}, "healthy_reward must be a number, got '1'"),
        ("Hopper-v5", {"frame_skip": 0}, "frame_skip must be a whole number of at least 1, got 0"),
        ("Hopper-v5", {"terminate_when_unhealthy": 1}, "must be true or false, got 1"),
        ("Hopper-v5", {"max_episode_steps": -1}, "max_episode_steps must be a whole number"),
    ],
)
def test_what_the_backend_lacks_is_one_clear_sentence(
    env_id: str, kwargs: Options, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        MujocoVecEnv(env_id, kwargs=kwargs)
    assert "\n" not in str(caught.value)


def test_wrappers_are_refused() -> None:
    with pytest.raises(UnusableWrapper, match=r"can't have wrappers .*; use the backend gymnasium"):
        make_env("Ant-v5", backend="mujoco", wrappers=["gymnasium.wrappers:FlattenObservation"])


def test_without_mujoco_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"Ant-v5 needs MuJoCo, .*; pip install 'hpcpod\[mujoco\]'"):
        MujocoVecEnv("Ant-v5")


def test_an_action_that_is_not_finite_is_refused() -> None:
    with made("Hopper-v5", 2) as env:
        env.reset()
        with pytest.raises(Diverged, match="action is not finite"):
            env.step(torch.full((2, 3), float("nan")))


def test_seeds_must_be_one_for_each_environment_and_given_first() -> None:
    with made("Hopper-v5", 2) as env:
        with pytest.raises(RuntimeError, match=r"call reset\(\)"):
            env.step(torch.zeros(2, 3))
        with pytest.raises(ValueError, match="expected 2 seeds"):
            env.reset(torch.arange(3))
