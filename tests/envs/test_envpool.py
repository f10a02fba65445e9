"""EnvPool behind the protocol: resets that take a step, seeds, ends, limits, refusals."""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from hpcpod.envs.checking import check_env
from hpcpod.envs.envpool import EnvPoolVecEnv
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import VecEnv, random_actions, random_seeds
from hpcpod.errors import UnusableWrapper, UserError
from hpcpod.testing import EnvContract

needs_envpool = pytest.mark.skipif(
    find_spec("envpool") is None, reason="pip install 'hpcpod[envpool]' (Python 3.11 or newer)"
)
PATH = "hpcpod.envs.envpool:EnvPoolVecEnv"
SHORT: dict[str, Any] = {"max_episode_steps": 20}
TASKS = ["CartPole-v1", "Pendulum-v1", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5"]


@needs_envpool
class TestCartPole(EnvContract):
    saveable = False
    later_seeds = False
    how: ClassVar[dict[str, Any]] = {"env": "CartPole-v1", "kwargs": SHORT}
    """Arguments of ``make_env``."""

    def make_env(self, num_envs: int) -> VecEnv:
        return make_env(num_envs=num_envs, backend=PATH, **self.how)


class TestPendulum(TestCartPole):
    how: ClassVar[dict[str, Any]] = {"env": "Pendulum-v1", "kwargs": SHORT}


class TestAnt(TestCartPole):
    how: ClassVar[dict[str, Any]] = {"env": "Ant-v5", "kwargs": SHORT}
    num_envs = 3
    steps = 150


class TestADictionary(TestAnt):
    how: ClassVar[dict[str, Any]] = {"env": "FetchReach-v4", "kwargs": SHORT}


class TestImages(TestCartPole):
    how: ClassVar[dict[str, Any]] = {"env": "Pong-v5", "kwargs": {"max_episode_steps": 10}}
    num_envs = 2
    steps = 35
    deterministic = True  # in ten steps nothing has happened yet


@needs_envpool
def test_processes_step_the_same_episodes() -> None:
    seeds = torch.tensor([4, 5, 6])
    env, pool = (make_env("Pendulum-v1", 3, PATH, processes=count) for count in (1, 2))
    try:
        assert torch.equal(env.reset(seeds), pool.reset(seeds))
        for action in random_actions(env.spec, 250, torch.Generator().manual_seed(2)):
            assert all(map(torch.equal, env.step(action), pool.step(action)))
    finally:
        pool.close()


@needs_envpool
def test_a_step_that_only_resets_is_not_valid_and_ignores_its_action() -> None:
    env, other = (EnvPoolVecEnv("Pendulum-v1", 2, kwargs={"max_episode_steps": 3}) for _ in "ab")
    seeds = torch.tensor([4, 5])
    assert torch.equal(env.reset(seeds), other.reset(seeds))
    push = [torch.full((2, 1), force) for force in (0.1, -0.2, 0.3, 0.9, 0.5)]
    steps = [env.step(force) for force in push]
    assert [s.valid.tolist() for s in steps] == [[True] * 2] * 3 + [[False] * 2, [True] * 2]
    assert [s.truncated.tolist() for s in steps] == [[i == 2] * 2 for i in range(5)]
    assert not any(s.terminated.any() for s in steps)
    assert steps[2].reward.all() and not steps[3].reward.any()
    assert torch.equal(steps[2].obs, steps[2].next_obs)  # nobody acts on it: it is reset now
    for force in (*push[:3], -push[3]):
        last = other.step(force)
    assert torch.equal(last.obs, steps[3].obs)
    assert torch.equal(other.step(push[4]).next_obs, steps[4].next_obs)


@needs_envpool
def test_the_successor_at_an_end_is_the_state_in_which_it_ended() -> None:
    env = EnvPoolVecEnv("CartPole-v1", 8)
    env.reset(random_seeds("ends", count=8))
    ends = 0
    for action in random_actions(env.spec, 200, torch.Generator().manual_seed(1)):
        step = env.step(action)
        place, angle = step.next_obs[:, 0].abs(), step.next_obs[:, 2].abs()
        fallen = (place > 2.4) | (angle > 12 * np.pi / 180)
        assert torch.equal(fallen & step.valid, step.terminated)
        ends += int(step.terminated.sum())
    assert ends > 20


@needs_envpool
@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_gymnasiums_but_for_its_random_numbers(task: str) -> None:
    ours, peer = EnvPoolVecEnv(task, 256), PreprocessVecEnv(task, 256)
    one, other = ours.spec, peer.spec
    assert one.max_episode_steps == other.max_episode_steps
    assert type(one.observation) is type(other.observation)
    assert one.action == other.action
    if one.action_bounds is not None and other.action_bounds is not None:
        assert np.allclose(one.action_bounds[0], other.action_bounds[0])
        assert np.allclose(one.action_bounds[1], other.action_bounds[1])
    seeds = random_seeds("first", count=256)
    first, firsts = ours.reset(seeds).double(), peer.reset(seeds).double()
    assert first.shape == firsts.shape and not torch.equal(first, firsts)
    error = firsts.std(0) / 256**0.5 + 1e-6
    assert bool(((first.mean(0) - firsts.mean(0)).abs() < 8 * error).all())
    assert torch.allclose(first.std(0), firsts.std(0), rtol=0.3, atol=1e-6)


@needs_envpool
def test_what_simulates_is_said_with_its_version() -> None:
    said = f"envpool {version('envpool')}"
    beside = f", gymnasium {version('gymnasium')}"
    assert EnvPoolVecEnv("CartPole-v1").spec.engine == said + beside
    engine = EnvPoolVecEnv("Ant-v5").spec.engine
    assert engine.startswith(f"{said} (MuJoCo ") and engine.endswith(f"){beside}")


@needs_envpool
def test_threads_end_with_it_and_with_each_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    EnvPoolVecEnv("Ant-v5").close()  # what is loaded may start threads of its own
    before = threads()
    env = EnvPoolVecEnv("Ant-v5", 4)
    env.reset()
    working = threads()
    monkeypatch.setattr("hpcpod.envs.threads._given", 3)  # for those that are made from now on
    env.reset()
    assert threads() == working > before
    env.close()
    assert threads() == before


@needs_envpool
def test_a_batch_may_be_large_and_seeds_may_be_long() -> None:
    env = EnvPoolVecEnv("CartPole-v1", 4096)
    seeds = torch.arange(4096) + 2**40
    first = env.reset(seeds)
    assert len(np.unique(first.numpy(), axis=0)) == 4096
    check_env(env, 60)
    assert torch.equal(env.reset(seeds), first)


@needs_envpool
@pytest.mark.parametrize(
    ("env", "kwargs", "sentence"),
    [
        ("CartPol-v1", {}, "backend envpool has no CartPol-v1; did you mean 'CartPole-v1'"),
        ("ALE/Pong-v5", {}, "did you mean 'Pong-v5'"),
        (dict, {}, "backend envpool has no <class 'dict'>; it has those that"),
        ("Ant-v5", {"frame_skp": 4}, r"no argument 'frame_skp' .*; did you mean 'frame_skip'"),
        ("Ant-v5", {"from_pixels": True}, "has no argument 'from_pixels'"),
        ("Ant-v5", {"num_threads": 4}, "env.kwargs.num_threads follows from what else is asked"),
        ("Ant-v5", {"max_episode_steps": 0}, "max_episode_steps must be at least 1, got 0"),
        ("Ant-v5", {"frame_skip": "x"}, r"\(env.kwargs\): frame_skip is 'x', but by default 5$"),
        ("Ant-v5", {"xml_file": "no.xml"}, "Ant-v5 can't be made: .*Error opening file .*no.xml"),
        ("Go9x9-v1", {}, "Go9x9-v1 is played by several agents"),
        ("MiniGrid-Empty-5x5-v0", {}, r"observes an image \('image'\) among other things"),
    ],
)
def test_a_refusal_is_one_clear_sentence(env: Any, kwargs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as refused:
        EnvPoolVecEnv(env, 2, kwargs=kwargs)
    assert "\n" not in str(refused.value)


@needs_envpool
def test_wrappers_and_empty_batches_are_refused() -> None:
    with pytest.raises(UnusableWrapper, match="makes no single environments"):
        EnvPoolVecEnv("CartPole-v1", wrappers=["gymnasium.wrappers:FlattenObservation"])
    with pytest.raises(UserError, match="num_envs must be at least 1, got 0"):
        EnvPoolVecEnv("CartPole-v1", 0)


def test_without_envpool_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)  # an import of it fails now
    with pytest.raises(UserError, match=r"can't be imported .*; pip install \"hpcpod\[envpool\]\""):
        EnvPoolVecEnv("CartPole-v1")
