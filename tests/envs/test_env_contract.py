"""Every adapter keeps the contract that ``hpcpod.testing`` offers to authors of others."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.backend import Wanted
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.isaac_lab import IsaacLabVecEnv
from hpcpod.envs.make import make_env
from hpcpod.envs.mujoco.env import MujocoVecEnv
from hpcpod.envs.processes.env import ProcessVecEnv
from hpcpod.envs.processes.remote import RemoteVecEnv
from hpcpod.envs.torch_envs import TorchVecEnv
from hpcpod.envs.vec_env import Step, VecEnv, random_seeds
from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.errors import UserError
from hpcpod.testing import EnvContract
from tests.agents.image_env import Bright
from tests.envs.small_envs import Counting, Starting

SHORT: dict[str, Any] = {"max_episode_steps": 20}


class TestGymnasium(EnvContract):
    how: ClassVar[dict[str, Any]] = {"env": "CartPole-v1", "kwargs": SHORT}
    """Arguments of ``make_env``."""

    def make_env(self, num_envs: int) -> VecEnv:
        return make_env(num_envs=num_envs, **self.how)


class TestGymnasiumWithContinuousActions(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": "Pendulum-v1", "kwargs": SHORT}


class TestGymnasiumWithDiscreteObservations(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": "FrozenLake-v1"}


class TestGymnasiumWithWrappers(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {
        "env": "Pendulum-v1",
        "kwargs": SHORT,
        "wrappers": [
            {"gymnasium.wrappers:RescaleAction": {"min_action": -3.0, "max_action": 1.0}},
            "gymnasium.wrappers:FlattenObservation",
        ],
    }


class TestAClassOfOnesOwn(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": partial(Counting, end=7, cut=7)}


class TestSeveralChoices(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": partial(Starting, many=True)}
    deterministic = True


class TestGymnasiumsImages(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": partial(Bright, discrete=True)}


@pytest.mark.skipif(find_spec("mujoco") is None, reason="pip install 'hpcpod[mujoco]'")
class TestMujoco(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": "Ant-v5", "backend": "mujoco", "kwargs": SHORT}
    num_envs = 3
    steps = 150


class TestTorch(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": "CartPole-v1", "backend": "torch", "kwargs": SHORT}


class TestTorchPendulum(TestTorch):
    how: ClassVar[dict[str, Any]] = {**TestTorch.how, "env": "Pendulum-v1"}


class TestTorchAcrobot(TestTorch):
    how: ClassVar[dict[str, Any]] = {**TestTorch.how, "env": "Acrobot-v1"}


class TestTorchMountainCar(TestTorch):
    how: ClassVar[dict[str, Any]] = {**TestTorch.how, "env": "MountainCar-v0"}


class TestTorchMountainCarContinuous(TestTorch):
    how: ClassVar[dict[str, Any]] = {**TestTorch.how, "env": "MountainCarContinuous-v0"}


class TestCounter(TestTorch):
    how: ClassVar[dict[str, Any]] = {"env": "hpcpod/Counter-v0", "backend": "torch"}


class TestMemory(TestTorch):
    how: ClassVar[dict[str, Any]] = {"env": "hpcpod/Memory-v0", "backend": "torch"}


class TestImage(TestTorch):
    how: ClassVar[dict[str, Any]] = {
        "env": "hpcpod/Image-v0",
        "backend": "torch",
        "kwargs": {**SHORT, "side": 8},
    }


class TestProcesses(TestGymnasium):
    how: ClassVar[dict[str, Any]] = {"env": "Pendulum-v1", "kwargs": SHORT}

    def make_env(self, num_envs: int) -> VecEnv:
        return make_env(num_envs=num_envs, processes=min(2, num_envs), **self.how)


class TestProcessesOfTorch(TestProcesses):
    how: ClassVar[dict[str, Any]] = {"env": "hpcpod/Counter-v0", "backend": "torch"}


class OnItsOwn(TorchVecEnv):
    """Draws its episodes as it likes, and knows no successor but reset ones; it says so."""

    def __init__(self, num_envs: int) -> None:
        super().__init__("hpcpod/Counter-v0", num_envs)
        self.spec = dataclasses.replace(self.spec, seeded=False, final_obs=False)

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        self._acted_on = super().reset(None).clone()
        return self._acted_on.clone()

    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        ended = (step.terminated | step.truncated)[:, None]
        given = step._replace(next_obs=torch.where(ended, self._acted_on, step.next_obs))
        self._acted_on = step.obs.clone()
        return given

    def state(self) -> None:
        return None


class TestWhatCanPromiseLittle(EnvContract):
    seeded = False
    final_obs = False
    saveable = False

    def make_env(self, num_envs: int) -> VecEnv:
        return OnItsOwn(num_envs)


class ResettingLater(PreprocessVecEnv):
    """Takes a step of its own to reset, as some engines do: that row is not valid."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(lambda: Counting(end=7), num_envs)

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        self._waiting = torch.zeros(self.spec.num_envs, dtype=torch.bool)
        self._begun = super().reset(seeds)
        return self._begun.clone()

    def step(self, action: Tensor) -> Step:
        if bool(self._waiting.any()):  # Counting's episodes all end at once
            zeros = torch.zeros_like(self._waiting)
            self._waiting = zeros.clone()
            return Step(
                obs=self._begun.clone(),
                reward=zeros.float(),
                terminated=zeros.clone(),
                truncated=zeros.clone(),
                next_obs=self._begun.clone(),
                valid=zeros,
            )
        step = super().step(action)
        self._waiting = step.terminated | step.truncated
        self._begun = step.obs.clone()
        return step._replace(obs=torch.where(self._waiting[:, None], step.next_obs, step.obs))

    def state(self) -> None:
        return None


class TestAnEngineThatTakesAStepToReset(EnvContract):
    saveable = False

    def make_env(self, num_envs: int) -> VecEnv:
        return ResettingLater(num_envs)


def test_a_class_without_an_environment_says_what_it_lacks() -> None:
    class Nothing(EnvContract):
        pass

    with pytest.raises(NotImplementedError, match=r"Nothing has no make_env\(self, num_envs\)"):
        Nothing().test_one_environment_is_a_batch_too()


@pytest.mark.parametrize(
    "adapter",
    [
        GymnasiumVectorEnv,
        IsaacLabVecEnv,
        MujocoVecEnv,
        PreprocessVecEnv,
        lambda env, num_envs: ProcessVecEnv(Wanted(env, num_envs), 1),
        lambda env, num_envs: RemoteVecEnv(EnvConfig(env, python=sys.executable), num_envs),
        TorchVecEnv,
    ],
)
def test_a_batch_of_none_is_refused_by_all(adapter: Any) -> None:
    with pytest.raises(UserError, match=r"^num_envs must be at least 1, got 0$"):
        adapter("CartPole-v1", 0)


def test_environments_are_made_once_for_a_class_and_closed_with_it() -> None:
    closed = []

    class Noting(TorchVecEnv):
        def close(self) -> None:
            closed.append(self)

    class Contract(EnvContract):
        def make_env(self, num_envs: int) -> VecEnv:
            return Noting("hpcpod/Counter-v0", num_envs)

    class Heir(Contract):
        pass

    for contract in (Contract, Heir):
        for _ in range(2):
            contract().test_one_environment_is_a_batch_too()
    made = [contract()._env(1) for contract in (Contract, Heir)]
    assert made[0] is not made[1] and made[0].reset(random_seeds("x", count=1)).shape == (1, 2)
    Contract.teardown_class()
    assert closed == made[:1]
    Heir.teardown_class()
    assert closed == made
