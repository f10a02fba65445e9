"""The choices behind ``auto``: a backend by the configuration alone, processes by measuring."""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import EnvConfig
from hpcpod.envs import autotune
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.make import backend_of, make_env, processes_of
from hpcpod.envs.mujoco.env import MujocoVecEnv
from hpcpod.envs.processes.env import ProcessVecEnv
from hpcpod.envs.processes.states import joined, parted
from hpcpod.envs.threads import env_cpus, env_threads, given_threads, set_env_threads
from hpcpod.envs.vec_env import VecEnv, random_actions, random_seeds
from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.errors import UserError
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.round import Watch
from hpcpod.records.records import Report
from hpcpod.run.preflight import resolve_task
from hpcpod.storage.run_folder import RunFolder
from tests.envs.processes.test_processes import COUNTING, assert_equal, family
from tests.envs.small_envs import Counting, Floats
from tests.pod.rounds import countdown, execute, first_birth, train
from tests.support.small_runs import create, mapping

HOME = "tests.envs.test_autotune:Homebound"


class Homebound(Counting):
    """Takes 4 ms a step in the process ``home``; elsewhere it does as ``elsewhere`` says."""

    def __init__(self, home: int, elsewhere: str = "as fast") -> None:
        super().__init__()
        self._away = elsewhere if os.getpid() != home else "at home"
        if self._away == "raises":
            raise RuntimeError("the licence is taken")
        if self._away == "hangs":
            time.sleep(600)

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        time.sleep(0.04 if self._away == "slow" else 0.004)
        return super().step(action)


class Restless(Counting):
    """Raises in its third step."""

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        if self._steps == 2:
            raise RuntimeError("enough")
        return super().step(action)


@pytest.fixture(autouse=True)
def two_cpus(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Two for the environments, as a pod's configuration may say; nobody is left afterwards."""
    before = given_threads()
    set_env_threads(2)
    caplog.set_level(logging.INFO, "hpcpod.envs.autotune")
    yield
    set_env_threads(before)
    assert not family()


BACKENDS: list[tuple[dict[str, Any], str]] = [
    ({"id": "Ant-v5"}, "mujoco"),
    ({"id": "Humanoid-v5", "kwargs": {"max_episode_steps": 9, "frame_skip": 2}}, "mujoco"),
    ({"id": "Ant-v5", "backend": "gymnasium"}, "gymnasium"),
    ({"id": "Ant-v5", "wrappers": ("gymnasium.wrappers:FlattenObservation",)}, "gymnasium"),
    ({"id": "Ant-v5", "kwargs": {"xml_file": "ant.xml"}}, "gymnasium"),
    ({"id": "Ant-v5", "kwargs": {"render_mode": "rgb_array"}}, "gymnasium"),
    ({"id": "Ant-v5", "kwargs": {"max_episode_steps": -1}}, "gymnasium"),
    ({"id": "Ant-v5", "kwargs": {"max_episode_steps": None}}, "gymnasium"),
    ({"id": "Ant-v5", "kwargs": {"healthy_reward": "1"}}, "mujoco"),
    ({"id": "Ant-v4"}, "gymnasium"),
    ({"id": "CartPole-v1"}, "gymnasium"),
    ({"id": "CartPole-v1", "backend": "torch"}, "torch"),
    ({"id": "pkg.mod:MyEnv"}, "gymnasium"),
    ({"id": "Ant-v5", "python": "/usr/bin/python3"}, "gymnasium"),
    ({"id": "Ant", "backend": "isaacgym", "python": "/usr/bin/python3"}, "isaacgym"),
]


@pytest.mark.parametrize(("env", "backend"), BACKENDS, ids=str)
def test_the_backend_follows_from_the_configuration(env: dict[str, Any], backend: str) -> None:
    assert backend_of(EnvConfig(**env)) == backend


def test_the_backend_is_the_same_where_mujoco_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert backend_of(EnvConfig("Ant-v5")) == "mujoco"
    with pytest.raises(UserError, match=r"Ant-v5 needs MuJoCo, .*; pip install 'hpcpod\[mujoco\]'"):
        make_env("Ant-v5", 2)


def test_a_mujoco_task_is_stepped_by_threads_and_not_measured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("mujoco")
    env = make_env("Hopper-v5", 2, processes=None)
    assert isinstance(env, MujocoVecEnv)
    env.close()
    own = make_env("Hopper-v5", 2, kwargs={"xml_file": "hopper.xml"})
    assert isinstance(own, PreprocessVecEnv)
    own.close()
    assert not caplog.messages


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"healthy_reward": "1"}, "Ant-v5: env.kwargs.healthy_reward must be a number, got '1'"),
        ({"terminate_when_unhealthy": "no"}, "must be true or false, got 'no'"),
        ({"frame_skip": 2.5}, "must be a whole number of at least 1, got 2.5"),
    ],
)
def test_a_value_that_will_not_do_is_refused_and_not_handed_on_to_gymnasium(
    kwargs: dict[str, Any], sentence: str
) -> None:
    """Which would raise in the middle of an episode, or take the text for true."""
    with pytest.raises(UserError, match=sentence):
        make_env("Ant-v5", 2, kwargs=kwargs)


def test_a_vector_env_is_taken_as_it_is() -> None:
    venv = gym.make_vec("CartPole-v1", 3, vectorization_mode="sync")
    env = make_env(venv, processes=None)
    assert isinstance(env, GymnasiumVectorEnv)
    assert env.spec.num_envs == 3
    with pytest.raises(UserError, match="gave 3 environments, but 5 are needed"):
        make_env(venv, 5)
    env.close()


def test_what_is_fast_is_stepped_here_and_untouched(caplog: pytest.LogCaptureFixture) -> None:
    env, fresh = make_env("CartPole-v1", 4, processes=None), make_env("CartPole-v1", 4)
    assert isinstance(env, PreprocessVecEnv)
    assert env.state() is None
    (said,) = caplog.messages
    here = "CartPole-v1: 4 environments in this process: a step of all takes "
    assert re.fullmatch(here + r"[\d.]+ ms here", said)
    assert_same_steps(env, fresh)


def test_what_is_slow_is_stepped_by_processes_with_the_same_results(
    caplog: pytest.LogCaptureFixture,
) -> None:
    how = {"home": os.getpid()}
    env, alone = make_env(HOME, 5, kwargs=how, processes=None), make_env(HOME, 5, kwargs=how)
    assert isinstance(env, ProcessVecEnv)
    assert processes_of(env) == 2
    assert processes_of(alone) == 1
    (said,) = caplog.messages
    how_long = r"a step of all takes [\d.]+ ms here, [\d.]+ ms in 2 processes"
    assert re.fullmatch(f"{HOME}: 5 environments in 2 processes: {how_long}", said)
    assert_same_steps(env, alone)


def assert_same_steps(env: VecEnv, other: VecEnv) -> None:
    assert env.spec == other.spec
    seeds = random_seeds("same", count=env.spec.num_envs)
    assert torch.equal(env.reset(seeds), other.reset(seeds))
    actions = random_actions(env.spec, 20, torch.Generator().manual_seed(1))
    assert_equal([env.step(a) for a in actions], [other.step(a) for a in actions])
    env.close()
    other.close()


STAYING: dict[str, tuple[str, dict[str, Any], str]] = {
    "slower elsewhere": (HOME, {"elsewhere": "slow"}, r"[\d.]+ ms here, [\d.]+ ms in 2 processes"),
    "not made twice": (HOME, {"elsewhere": "raises"}, r"failed at it: .*the licence is taken"),
    "never made twice": (HOME, {"elsewhere": "hangs"}, "failed at it: .*longer than they may"),
    "arguments": (HOME, {"elsewhere": ("as", "fast")}, "failed at it: .* go to other processes as"),
    "known here alone": ("Slowly-v0", {}, "failed at it: .*Slowly.* doesn't exist"),
    "raises": (
        "tests.envs.test_autotune:Restless",
        {},
        "not measured, for it raised RuntimeError: en",
    ),
}


@pytest.mark.parametrize("case", STAYING)
def test_what_processes_can_not_or_not_faster_is_stepped_here_and_the_log_says_why(
    case: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_id, kwargs, why = STAYING[case]
    monkeypatch.setattr(autotune, "TRIAL_SECONDS", 60.0 if case != "never made twice" else 4.0)
    registry = gym.registry.copy()
    if case == "known here alone":
        gym.register("Slowly-v0", lambda **_: Homebound(os.getpid()))
    elif env_id == HOME:
        kwargs = {"home": os.getpid(), **kwargs}
    env = make_env(env_id, 2, kwargs=kwargs, processes=None)
    gym.registry.clear()
    gym.registry.update(registry)
    assert isinstance(env, PreprocessVecEnv)
    assert not family()
    (said,) = caplog.messages
    assert said.startswith(f"{env_id}: 2 environments in this process: ")
    assert re.search(why, said), said
    env.reset()
    env.close()


def test_what_takes_too_long_is_not_compared(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "SLOW", 0.001)
    how = {"home": os.getpid(), "elsewhere": "slow"}
    env = make_env(HOME, 2, kwargs=how, processes=None)
    assert isinstance(env, ProcessVecEnv)
    assert caplog.messages[0].endswith("here, too long to compare")
    env.close()


def test_where_there_is_no_choice_nothing_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    how = {"home": os.getpid()}
    make_env(HOME, 1, kwargs=how, processes=None).close()
    make_env(lambda: Homebound(os.getpid()), 2, processes=None).close()
    set_env_threads(1)
    make_env(HOME, 2, kwargs=how, processes=None).close()
    reasons = [said.split("in this process: ")[1] for said in caplog.messages]
    assert reasons == [
        "a function or a class can't be given to others; its path could",
        "its share of resources.cpus_per_pod is one",
    ]


def test_what_can_not_be_made_at_all_is_refused_as_ever() -> None:
    with pytest.raises(UserError, match="CartPol-v1 can't be made"):
        make_env("CartPol-v1", 2, processes=None)


def test_cpus_are_what_was_said_or_what_there_are() -> None:
    assert (env_cpus(), env_threads()) == (2, 2)
    set_env_threads(0)
    assert (env_cpus(), env_threads()) == (len(os.sched_getaffinity(0)), 1)


def test_nothing_is_measured_before_a_run_is_launched(caplog: pytest.LogCaptureFixture) -> None:
    env = {"id": HOME, "kwargs": {"home": os.getpid()}, "wrappers": []}
    config = from_mapping(mapping(env=env, resources={"cpus_per_pod": 2}))
    resolve_task(config)
    assert not caplog.messages


@pytest.mark.parametrize("how", [{"env": COUNTING}, {"env": "Pendulum-v1"}])
def test_a_state_goes_on_in_as_many_processes_as_there_are_then(how: dict[str, Any]) -> None:
    envs = {count: make_env(num_envs=5, processes=count, **how) for count in (1, 2, 3)}
    seeds = random_seeds("state", count=5)
    actions = random_actions(envs[1].spec, 90, torch.Generator().manual_seed(2))
    for before, after in ((1, 2), (2, 3), (3, 1)):
        envs[before].reset(seeds)
        for action in actions[:60]:
            envs[before].step(action)
        saved = envs[before].state()
        assert saved is not None
        once = [envs[before].step(action) for action in actions[60:]]
        envs[after].restore(saved)
        again = envs[after].state()
        assert again is not None
        assert again.keys() == saved.keys()
        assert all(torch.equal(again[name], saved[name]) for name in saved)
        assert_equal(once, [envs[after].step(action) for action in actions[60:]])
    for env in envs.values():
        env.close()


def test_a_state_without_rows_goes_back_to_its_process() -> None:
    parts = [
        {"seeds": torch.tensor([1, 2]), "count": torch.tensor(7), "0/x": torch.zeros(3)},
        {"seeds": torch.tensor([3]), "count": torch.tensor(8), "0/x": torch.ones(4)},
    ]
    rows = [range(2), range(2, 3)]
    whole = joined(parts, rows)
    assert whole["seeds"].tolist() == [1, 2, 3]
    assert sorted(whole) == ["0/x", "2/x", "process0/count", "process1/count", "seeds"]
    for part, again in zip(parts, parted(whole, rows), strict=True):
        assert part.keys() == again.keys()
        assert all(torch.equal(part[name], again[name]) for name in part)


SLOW = {"id": "tests.support.faulty_envs:Slow", "num_envs": 3}
CUT = [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 60}}]


def run_with(home: Path, processes: int | None) -> RunFolder:
    how = {"resources": {"cpus_per_pod": 2}, "round": {"env_steps": 384, "episodes": 3}}
    return create(home, wrappers=CUT, env={**SLOW, "processes": processes}, **how)


def arrays(folder: RunFolder, report: Report) -> dict[str, bytes]:
    assert report.checkpoint is not None
    core, _ = folder.blobs.get(report.checkpoint.core)
    return {name: array.tobytes() for name, array in core.items()}


def test_a_pods_round_is_the_same_bits_whoever_steps_it_and_whatever_steps_it_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = []
    for processes in (None, 1, 2):
        folder = run_with(tmp_path / str(processes), processes)
        report = train(folder, first_birth(folder))
        ends.append((arrays(folder, report), report.returns))
    assert ends[0] == ends[1] == ends[2]
    assert all(" environments in " in said for said in caplog.messages)
    assert len(caplog.messages) == 2  # the training environment and the panel's, of one pod
    folder = run_with(tmp_path / "torn", None)
    birth = first_birth(folder)
    monkeypatch.setattr(autotune, "FAST", math.inf)
    pod = prepare(folder)
    with pytest.raises(Stopped):
        pod.execute(birth, "here", Watch(countdown(2)))
    assert isinstance(pod.env, PreprocessVecEnv)
    pod.close()
    monkeypatch.setattr(autotune, "FAST", 0.0)
    monkeypatch.setattr(autotune, "SLOW", 0.0)
    pod = prepare(folder)
    report = execute(pod, birth)
    assert isinstance(pod.env, ProcessVecEnv)
    pod.close()
    assert report.checkpoint is not None
    assert (arrays(folder, report), report.returns) == ends[0]
