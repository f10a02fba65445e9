"""A gymnasium VectorEnv as a batch, in each of its modes of resetting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import Tensor

import hpcpod.api
from hpcpod.config.loader import from_mapping
from hpcpod.envs import observations
from hpcpod.envs.checking import check_env
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import Discrete, Step, VecEnv, episode_seed, tensor_form
from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.errors import EnvFailed, UnusableWrapper, UserError
from hpcpod.testing import EnvContract
from tests.envs.small_envs import Counting, Floats, Starting

# Python 3.12 warns of what AsyncVectorEnv does by default on Linux.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

MODES = list(AutoresetMode)
KINDS: dict[str, Any] = {
    "sync-live": partial(SyncVectorEnv, copy=False),
    "sync": partial(SyncVectorEnv, copy=True),
    "async": partial(AsyncVectorEnv, copy=False, shared_memory=True),
}
PATH = "hpcpod.envs.vector:GymnasiumVectorEnv"


class Uneven(Counting):
    """An episode's length is drawn, and whether it terminates; each observation is an own array."""

    def reset(self, **arguments: Any) -> tuple[Floats, dict[str, Any]]:
        obs, info = super().reset(**arguments)
        length = int(self.np_random.integers(1, 7))
        ends = bool(self.np_random.integers(2))
        self._end, self._cut = (length, 99) if ends else (99, length)
        return obs.copy(), info

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return (obs.copy(), *rest)


TASKS: dict[str, Callable[[], Any]] = {
    "CartPole-v1": partial(gym.make, "CartPole-v1", max_episode_steps=30),
    "Pendulum-v1": partial(gym.make, "Pendulum-v1", max_episode_steps=30),
    "Uneven": Uneven,
    "Starting": Starting,
}


def uneven(num_envs: int, mode: str = "SameStep", too_many: int = 0) -> Any:
    return SyncVectorEnv([Uneven] * (num_envs + too_many), autoreset_mode=mode)


@contextmanager
def adapter(kind: Any, task: str, mode: AutoresetMode, n: int = 3) -> Iterator[GymnasiumVectorEnv]:
    env = GymnasiumVectorEnv.of(kind([TASKS[task]] * n, autoreset_mode=mode))
    try:
        yield env
    finally:
        env.close()


def actions_of(env: Any, count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    n, space = env.spec.num_envs, env.spec.action
    if isinstance(space, Discrete):
        return [torch.randint(space.n, (n,), generator=generator) for _ in range(count)]
    shape = (n, *tensor_form(space)[0])
    return [torch.rand(shape, generator=generator) * 2.4 - 1.2 for _ in range(count)]


def everywhere(*tasks: str) -> pytest.MarkDecorator:
    """Every kind, with each of the tasks, in every mode."""
    cases = [
        pytest.param(kind, task, mode, id=f"{name}-{task}-{mode.name}")
        for (name, kind), task, mode in product(KINDS.items(), tasks, MODES)
    ]
    return pytest.mark.parametrize(("kind", "task", "mode"), cases)


class TestInSameStep(EnvContract):
    saveable = False
    later_seeds = False
    mode: ClassVar[str] = "SameStep"

    def make_env(self, num_envs: int) -> VecEnv:
        return GymnasiumVectorEnv(uneven, num_envs, kwargs={"mode": self.mode})


class TestInNextStep(TestInSameStep):
    mode: ClassVar[str] = "NextStep"


class TestInDisabled(TestInSameStep):
    mode: ClassVar[str] = "Disabled"
    later_seeds = True


class TestInNextStepOfProcesses(TestInNextStep):
    def make_env(self, num_envs: int) -> VecEnv:
        return GymnasiumVectorEnv.of(AsyncVectorEnv([TASKS["Pendulum-v1"]] * num_envs, copy=False))


@everywhere(*TASKS)
def test_first_episodes_are_those_of_the_serial_adapter(
    kind: Any, task: str, mode: AutoresetMode
) -> None:
    seeds = torch.tensor([5, 6, 7])
    with adapter(kind, task, mode) as env:
        assert env.spec.seeded
        peer = PreprocessVecEnv(TASKS[task], 3)
        assert env.spec.observation == peer.spec.observation
        assert env.spec.action == peer.spec.action
        assert env.spec.action_bounds == peer.spec.action_bounds
        assert torch.equal(env.reset(seeds), peer.reset(seeds))
        first = torch.ones(3, dtype=torch.bool)
        for action in actions_of(env, 90):
            one, other = env.step(action), peer.step(action)
            # Without resets of its own a VectorEnv has every later episode's seed from us too.
            rows = torch.ones_like(first) if mode is AutoresetMode.DISABLED else first
            for name in ("reward", "terminated", "truncated", "next_obs", "valid"):
                a, b = getattr(one, name)[rows], getattr(other, name)[rows]
                assert torch.equal(a, b), name
            if mode is AutoresetMode.DISABLED:
                assert torch.equal(one.obs, other.obs)
            first &= ~(one.terminated | one.truncated)
        assert not first.any(), "an episode never ended, so its end was not compared"


def by_hand(
    make: Callable[[], Any], seed: int, actions: list[Any], mode: AutoresetMode
) -> Iterator[tuple[Any, ...]]:
    """What one environment's rows must be, from gymnasium's own two methods."""
    env = make()
    env.reset(seed=seed)
    ended, episode = False, 0
    for action in actions:
        if ended and mode is AutoresetMode.NEXT_STEP:
            obs, _ = env.reset()
            yield obs, 0.0, False, False, obs, False
            ended = False
            continue
        final, reward, end, cut, _ = env.step(action)
        ended, obs = end or cut, final
        if ended and mode is AutoresetMode.SAME_STEP:
            obs, _ = env.reset()
        if ended and mode is AutoresetMode.DISABLED:
            episode += 1
            obs, _ = env.reset(seed=episode_seed(seed, episode))
        yield obs, reward, end, cut and not end, final, True


@everywhere("CartPole-v1", "Uneven")
def test_whole_rollouts_are_those_worked_by_hand(kind: Any, task: str, mode: AutoresetMode) -> None:
    with adapter(kind, task, mode) as env:
        env.reset(torch.tensor([5, 6, 7]))
        # Uneven rescales: [-1, 1] stands for [-2, 6].
        actions = actions_of(env, 90)
        steps = [env.step(action) for action in actions]
    for i in range(3):
        own = [a[i].numpy() if task == "CartPole-v1" else rescaled(a[i]) for a in actions]
        rows = by_hand(TASKS[task], 5 + i, own, mode)
        for step, row in zip(steps, rows, strict=True):
            expected = Step(*map(torch.as_tensor, row))
            got = Step(*(t[i] for t in step))
            for name, a, b in zip(Step._fields, got, expected, strict=True):
                assert torch.equal(a, b.to(a.dtype)), name


def rescaled(action: Tensor) -> Floats:
    unit = (action.numpy() + np.float32(1)) / np.float32(2)
    scaled: Floats = np.clip(np.float32(-2) + unit * np.float32(8), -2, 6).astype(np.float32)
    return scaled


def test_a_step_that_only_resets_is_not_valid_and_ignores_its_action() -> None:
    env = GymnasiumVectorEnv.of(
        SyncVectorEnv([lambda: Counting(end=2)] * 2, autoreset_mode="NextStep")
    )
    begun = env.reset(torch.tensor([1, 2]))
    steps = [env.step(torch.full((2, 1), 0.5)) for _ in range(4)]
    assert [s.valid.all().item() for s in steps] == [True, True, False, True]
    assert [s.terminated.all().item() for s in steps] == [False, True, False, False]
    assert [s.reward[0].item() for s in steps] == [4.0, 4.0, 0.0, 4.0]
    assert torch.equal(steps[1].next_obs, begun + 2)
    assert torch.equal(steps[3].next_obs, steps[2].obs + 1)


def test_a_reset_between_an_end_and_its_reset_begins_anew() -> None:
    for kind in KINDS.values():
        with adapter(kind, "Uneven", AutoresetMode.NEXT_STEP) as env:
            seeds = torch.tensor([5, 6, 7])
            env.reset(seeds)
            while not (step := env.step(torch.zeros(3, 1))).terminated.any():
                assert step.obs.shape == (3, 1)
            begun = env.reset(seeds)
            after = env.step(torch.zeros(3, 1))
            assert after.valid.all()
            assert torch.equal(after.next_obs, begun + 1)


class ForgettingValid(GymnasiumVectorEnv):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(valid=torch.ones_like(step.valid))


class ForgettingFinals(GymnasiumVectorEnv):
    def _put_finals(self, info: Any, into: Any) -> None:
        pass


class ForgettingMasks(GymnasiumVectorEnv):
    def _begin_where(self, mask: Any) -> Any:
        return super()._begin_where(np.ones_like(mask))


@pytest.mark.parametrize(
    ("kind", "mode", "sentence"),
    [
        (ForgettingValid, "NextStep", "mark a step that only resets as not valid"),
        (ForgettingFinals, "SameStep", "next_obs is the observation after the reset"),
        (ForgettingMasks, "Disabled", "next_obs differs from obs although no episode ended"),
    ],
)
def test_an_adapter_that_forgets_something_is_caught(
    kind: type[GymnasiumVectorEnv], mode: str, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        check_env(kind.of(uneven(3, mode)))


def test_an_adapter_that_gives_live_buffers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def live(_: Any, values: Any, lead: tuple[int, ...] = ()) -> Any:
        return np.asarray(values)

    monkeypatch.setattr(observations, "as_rows", live)
    env = GymnasiumVectorEnv.of(SyncVectorEnv([Uneven] * 3, copy=False, autoreset_mode="NextStep"))
    with pytest.raises(UserError, match="overwrites tensors that it gave before"):
        check_env(env)


def test_a_final_observation_that_the_environment_overwrites_is_caught() -> None:
    venv = SyncVectorEnv([lambda: Counting(end=7)] * 3, autoreset_mode="SameStep")
    with pytest.raises(UserError, match="next_obs is the observation after the reset"):
        check_env(GymnasiumVectorEnv.of(venv))


def test_one_seed_for_the_whole_batch_is_said_and_kept() -> None:
    kwargs = {"vectorization_mode": "vector_entry_point"}
    env = make_env("CartPole-v1", 3, PATH, kwargs=kwargs)
    assert (env.spec.id, env.spec.num_envs, env.spec.seeded) == ("CartPole-v1", 3, False)
    assert env.spec.max_episode_steps == 500
    check_env(env, 200)
    seeds = torch.tensor([4, 5, 6])
    assert torch.equal(env.reset(seeds), env.reset(seeds))


def test_factories_are_called_by_path_and_as_they_are() -> None:
    by_path = make_env("tests.envs.test_vector_env:uneven", 2, PATH, kwargs={"mode": "Disabled"})
    as_it_is = make_env(partial(uneven, mode="Disabled"), 2, PATH)
    assert by_path.spec.id == "tests.envs.test_vector_env:uneven"
    assert by_path.spec.engine == f"gymnasium {gym.__version__}"
    seeds = torch.tensor([3, 4])
    assert torch.equal(by_path.reset(seeds), as_it_is.reset(seeds))
    for action in actions_of(by_path, 20):
        for a, b in zip(by_path.step(action), as_it_is.step(action), strict=True):
            assert torch.equal(a, b)
    assert by_path.state() is None


def test_an_existing_one_keeps_its_id_and_time_limit() -> None:
    env = GymnasiumVectorEnv.of(SyncVectorEnv([TASKS["CartPole-v1"]] * 2))
    assert (env.spec.id, env.spec.max_episode_steps) == ("CartPole-v1", 30)
    with pytest.raises(ValueError, match="expected 2 seeds"):
        env.reset(torch.arange(3))
    with pytest.raises(UnusableWrapper, match="wrap them where the VectorEnv is made"):
        GymnasiumVectorEnv(uneven, wrappers=["gymnasium.wrappers:FlattenObservation"])


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.parametrize("agent", ["ppo", "td3"])
def test_agents_train_in_every_mode(agent: str, mode: str) -> None:
    settings = (
        {"horizon": 8, "minibatch_size": 8}
        if agent == "ppo"
        else {"learning_starts": 16, "batch_size": 8}
    )
    config = from_mapping(
        {
            "name": "train",
            "env": {
                "id": "tests.envs.test_vector_env:uneven",
                "backend": PATH,
                "num_envs": 2,
                "kwargs": {"mode": mode},
            },
            "stop": {"env_steps": 64},
            "round": {"env_steps": 32, "episodes": 4},
            "population": {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 1}},
            "agents": {agent: settings},
        }
    )
    training = hpcpod.api.train_config(config)
    assert len(training.curve) == 2


class Dying(Counting):
    """Its process is gone at the second step."""

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        if self._steps == 1:
            os._exit(3)
        return super().step(action)


def test_a_process_that_dies_is_one_clear_sentence_and_all_can_be_closed() -> None:
    venv = AsyncVectorEnv([Counting, Dying])
    env = GymnasiumVectorEnv.of(venv)
    env.reset()
    env.step(torch.zeros(2, 1))
    with pytest.raises(EnvFailed, match="a process that steps some of its environments is gone"):
        env.step(torch.zeros(2, 1))
    env.close()
    assert not any(process.is_alive() for process in venv.processes)
