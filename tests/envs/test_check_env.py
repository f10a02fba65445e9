"""``check_env`` finds the bugs that batched environments really have."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hpcpod.envs.checking import check_env
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import State, Step
from hpcpod.errors import UserError
from tests.envs.small_envs import Counting


class Sound(PreprocessVecEnv):
    def __init__(self) -> None:
        super().__init__(lambda: Counting(end=7), 3)


class Aliasing(Sound):
    """Gives its live buffer."""

    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        if not hasattr(self, "_buffer"):
            self._buffer = step.reward
        self._buffer.copy_(step.reward)
        return step._replace(reward=self._buffer)


class SharingMemory(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(next_obs=step.obs)


class BothAtOnce(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(truncated=step.terminated.clone())


class ResetAsSuccessor(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(next_obs=step.obs.clone())


class RewardingResets(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(reward=step.reward + 1, valid=~step.terminated)


class TerminalAsNext(Sound):
    """Acts on another observation than the successor although the episode goes on."""

    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(obs=step.obs + 1)


class DoublePrecision(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(reward=step.reward.double())


class ColumnReward(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(reward=step.reward[:, None])


class IgnoringSeeds(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        return super().reset(None)


class SeedsByPlace(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        return super().reset(torch.arange(3))


class ForgettingState(Sound):
    def restore(self, state: State) -> None:
        super().restore({**state, "1/env/steps": torch.tensor(0)})


def test_a_sound_environment_passes() -> None:
    check_env(Sound())


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Aliasing, "overwrites tensors that it gave before"),
        (SharingMemory, "obs and next_obs share their memory"),
        (BothAtOnce, "both terminated and truncated"),
        (ResetAsSuccessor, "next_obs is the observation after the reset"),
        (RewardingResets, "not valid has a reward or ends an episode"),
        (TerminalAsNext, "next_obs differs from obs although no episode ended"),
        (DoublePrecision, r"step.reward is torch.float64 \[3\], not torch.float32 \[3\]"),
        (ColumnReward, r"step.reward is torch.float32 \[3, 1\]"),
        (IgnoringSeeds, "the same seeds gives other observations"),
        (SeedsByPlace, "depends on the place in the batch"),
        (ForgettingState, r"after restore\(\) the episode goes on differently"),
    ],
)
def test_a_broken_environment_is_named(broken: type[Sound], sentence: str) -> None:
    with pytest.raises(UserError, match=f"breaks the environment contract: .*{sentence}"):
        check_env(broken())


class Trembling(Sound):
    """The first step after ``restore()`` is 1e-5 off, as where a GPU adds in another order."""

    off = 0.0

    def restore(self, state: State) -> None:
        super().restore(state)
        self.off = 1e-5

    def step(self, action: Tensor) -> Step:
        step, off = super().step(action), self.off
        self.off = 0.0
        return step._replace(obs=step.obs + off, next_obs=step.next_obs + off)


def test_a_restored_step_may_be_off_by_so_much_and_no_more() -> None:
    check_env(Trembling(), restored=1e-4)
    for restored in (0.0, 1e-6):
        with pytest.raises(UserError, match=r"after restore\(\) the episode goes on differently"):
            check_env(Trembling(), restored=restored)
