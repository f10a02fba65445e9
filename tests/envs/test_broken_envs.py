"""The contract of environments fails those that break it, and says how."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.envs.arrays import Array
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import State, Step, VecEnv
from hpcpod.testing import EnvContract
from tests.envs.small_envs import Counting

LIMIT = 5


class Sound(PreprocessVecEnv):
    """Episodes of at most five steps."""

    def __init__(self, num_envs: int) -> None:
        limit: dict[str, object] = {"max_episode_steps": LIMIT}
        super().__init__(Counting, num_envs, wrappers=[{"gymnasium.wrappers:TimeLimit": limit}])


class SeedsByPlace(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        return super().reset(torch.arange(self.spec.num_envs))


class SeedsBySize(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        return super().reset(None if seeds is None else seeds + self.spec.num_envs)


class OneSeedForAll(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        return super().reset(None if seeds is None else seeds[:1].expand(len(seeds)))


class OneSeedForEver(Sound):
    def _next_episode(self, i: int, into: Array) -> None:
        self._episodes[i] = -1
        super()._next_episode(i, into)


class NeverTruncates(Sound):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return step._replace(truncated=torch.zeros_like(step.truncated))


class Forgetful(Sound):
    """Pays a little more for every step since it was made, which is in no state."""

    _paid = 0

    def step(self, action: Tensor) -> Step:
        self._paid += 1
        step = super().step(action)
        return step._replace(reward=step.reward + self._paid)


class KeepsTheStateItWasGiven(Sound):
    """Pays what is missing in the state that it was given."""

    _given: Tensor | None = None

    def restore(self, state: State) -> None:
        super().restore(state)
        self._given = state["seeds"]

    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        if self._given is None:
            return step
        return step._replace(reward=step.reward + torch.tensor(self._seeds) - self._given)


class Unclipped(Sound):
    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self._to_env = lambda action: action * 4 + 2


class TakesNaN(Sound):
    def step(self, action: Tensor) -> Step:
        return super().step(action.nan_to_num())


class TakesAnyShape(Sound):
    def step(self, action: Tensor) -> Step:
        return super().step(action.flatten()[0].expand(self.spec.num_envs, 1))


class RefusesWithoutAWord(Sound):
    def step(self, action: Tensor) -> Step:
        with contextlib.suppress(ValueError):
            return super().step(action)
        raise ValueError("that won't do")


class OnAnotherDevice(Sound):
    """Declares a device that its tensors are not on."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self._own = self.spec
        self.spec = dataclasses.replace(self._own, device="meta")

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        declared, self.spec = self.spec, self._own
        obs = super().reset(seeds)
        self.spec = declared
        return obs


class KeepsWhatItGives(Sound):
    """Its reward is what was acted on, as far as it is still there."""

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        self._last = super().reset(seeds)
        return self._last

    def step(self, action: Tensor) -> Step:
        reward = self._last[:, 0].clone()
        step = super().step(action)._replace(reward=reward)
        self._last = step.obs
        return step


class KeepsSeeds(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        self._given: Any = seeds
        return super().reset(seeds)

    def _next_episode(self, i: int, into: Array) -> None:
        self._seeds[i] = int(self._given[i])
        super()._next_episode(i, into)


class KeepsActions(Sound):
    """Does what it was told one step before."""

    _before: Tensor | None = None

    def step(self, action: Tensor) -> Step:
        done = action.clone() if self._before is None else self._before
        self._before = action
        return super().step(done)


class ClosesOnce(Sound):
    def close(self) -> None:
        del self._envs


class SqueezesOne(Sound):
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        return super().reset(seeds).squeeze(0)


class HidesItsState(Sound):
    def state(self) -> None:
        return None


class SaysNothingOfSeeds(Sound):
    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.spec = dataclasses.replace(self.spec, seeded=False)


class LosesTheEnd(Sound):
    """It says so, but gives something else there than was acted on."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.spec = dataclasses.replace(self.spec, final_obs=False)


BROKEN = {
    SeedsByPlace: ("any_batch", "at place 3 the episodes of a seed are others than at place 0"),
    SeedsBySize: ("any_batch", "in a batch of 1 the episodes of a seed are others than in one of"),
    OneSeedForAll: ("differ", "all environments play the same episodes"),
    OneSeedForEver: ("differ", "every episode of an environment is the same"),
    NeverTruncates: ("time_limit", "an episode goes on after 5 steps"),
    Forgetful: ("another_instance", r"goes on differently after restore\(\): reward of step 0"),
    KeepsTheStateItWasGiven: ("another_instance", "differently after .*: reward of step 0"),
    Unclipped: ("clipped", r"beyond \[-1, 1\] are not clipped: reward of step 0"),
    TakesNaN: ("not_finite", "DID NOT RAISE .*Diverged"),
    TakesAnyShape: ("another_shape", "DID NOT RAISE .*ValueError"),
    RefusesWithoutAWord: ("another_shape", r"does not name the shape \(4, 1\): that won't do"),
    OnAnotherDevice: ("seen_from_outside", r"reset\(\) is on cpu, but the spec says meta"),
    KeepsWhatItGives: ("write_into", "changes what follows: reward of step 0"),
    KeepsSeeds: ("write_into", "changes what follows: obs of step 4"),
    KeepsActions: ("write_into", "changes what follows: reward of step 1"),
    ClosesOnce: ("closing_twice", "no attribute '_envs'"),
    SqueezesOne: ("one_environment", r"reset\(\) is torch.float32 \[1\], but the spec says .*1, 1"),
    HidesItsState: ("not_promised", "gives None, but this contract says saveable = True"),
    SaysNothingOfSeeds: ("not_promised", "spec.seeded is False, but this contract says True"),
    LosesTheEnd: ("declared_one", "at the end of an episode is not what was acted on last"),
}
"""The test that each must fail, and what that says."""

TESTS = [name for name in vars(EnvContract) if name.startswith("test_")]


@contextmanager
def contract_of(broken: type[Sound]) -> Iterator[EnvContract]:
    class Contract(EnvContract):
        steps = 40
        final_obs = broken is not LosesTheEnd

        def make_env(self, num_envs: int) -> VecEnv:
            return broken(num_envs)

    yield Contract()
    if broken is not ClosesOnce:
        Contract.teardown_class()


@pytest.mark.parametrize("broken", BROKEN)
def test_an_environment_that_breaks_a_promise_fails_its_test(broken: type[Sound]) -> None:
    part, words = BROKEN[broken]
    [name] = [test for test in TESTS if part in test]
    with contract_of(broken) as contract, pytest.raises(BaseException, match=words) as failure:
        getattr(contract, name)()
    assert not isinstance(failure.value, pytest.skip.Exception)


@pytest.mark.parametrize("name", TESTS)
def test_a_sound_environment_passes(name: str) -> None:
    with contract_of(Sound) as contract:
        if name == "test_the_successor_at_an_end_is_the_declared_one":
            with pytest.raises(pytest.skip.Exception):
                getattr(contract, name)()
        else:
            getattr(contract, name)()


def test_every_test_has_an_environment_that_fails_it() -> None:
    """But the one of later episodes, which the one below breaks, too."""
    bitten = {test for test in TESTS for part, _ in BROKEN.values() if part in test}
    assert {*TESTS} - bitten == {"test_later_episodes_run_on_the_seeds_that_follow"}
    with (
        contract_of(OneSeedForEver) as contract,
        pytest.raises(AssertionError, match=r"episode 1 of environment . does not begin as"),
    ):
        contract.test_later_episodes_run_on_the_seeds_that_follow()
    for name in TESTS:
        assert inspect.getdoc(getattr(EnvContract, name)), name


def test_episodes_that_do_not_end_are_too_long() -> None:
    class Endless(EnvContract):
        def make_env(self, num_envs: int) -> VecEnv:
            return PreprocessVecEnv(Counting, num_envs)

    for test in (
        Endless().test_episodes_differ,
        Endless().test_later_episodes_run_on_the_seeds_that_follow,
    ):
        with pytest.raises(AssertionError, match=r"end \[0, 0, 0, 0\] episodes; make_env one with"):
            test()
