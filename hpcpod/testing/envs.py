"""The contract of batched environments as tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from hpcpod.envs.checking import check_env
from hpcpod.envs.vec_env import (
    Box,
    EnvSpec,
    Step,
    VecEnv,
    episode_seed,
    random_actions,
    random_seeds,
)
from hpcpod.errors import Diverged


class EnvContract:
    """The promises of ``hpcpod.envs.vec_env.VecEnv``, a test for each.

    A subclass whose name begins with ``Test`` is one environment behind one adapter; it says how
    that is made, and what it can't promise. Give it episodes that are short: what happens at
    their ends is most of the contract.

    Environments are made once for a class, as simulators may take long to start, and begin anew
    in each test; they are closed when all tests of the class are done.
    """

    num_envs: ClassVar[int] = 4
    """Environments in the batch, at least 2."""
    steps: ClassVar[int] = 300
    """Steps of random actions in which every environment ends at least one episode."""
    seeded: ClassVar[bool] = True
    """True if the seeds of ``reset`` decide the episodes; see ``EnvSpec.seeded``."""
    later_seeds: ClassVar[bool] = True
    """True if later episodes run on ``episode_seed``, too; an engine that resets by itself goes on
    with the generator that the seed began."""
    final_obs: ClassVar[bool] = True
    """True if ``next_obs`` is the true successor at the end of an episode; see
    ``EnvSpec.final_obs``."""
    saveable: ClassVar[bool] = True
    """True if ``state()`` gives a state, not None."""
    deterministic: ClassVar[bool] = False
    """True if equal actions make all episodes equal, whatever their seeds are."""
    _pool: ClassVar[dict[tuple[int, int], VecEnv]]

    def make_env(self, num_envs: int) -> VecEnv:
        """The environment as a batch of N, each time a new one."""
        raise NotImplementedError(f"{type(self).__name__} has no make_env(self, num_envs)")

    @classmethod
    def teardown_class(cls) -> None:
        """Close what its tests have made; pytest calls it."""
        for env in cls._made().values():
            env.close()
        cls._made().clear()

    @classmethod
    def _made(cls) -> dict[tuple[int, int], VecEnv]:
        if "_pool" not in vars(cls):  # that of a class above is not its own
            cls._pool = {}
        return cls._pool

    def _env(self, num_envs: int | None = None, place: int = 0) -> VecEnv:
        """One of the class's environments; those of different places are different."""
        key = (num_envs or self.num_envs, place)
        if key not in self._made():
            self._made()[key] = self.make_env(key[0])
        return self._made()[key]

    def _twins(self) -> tuple[VecEnv, VecEnv]:
        """Two instances that are at the same place, just after a reset."""
        env, other = self._env(), self._env(place=1)
        env.reset(_seeds(env.spec))
        if self.seeded:
            other.reset(_seeds(env.spec))
        elif self.saveable:
            _restart(env, other)
        else:
            pytest.skip("neither seeds nor states make two of these environments alike")
        return env, other

    def test_what_can_be_seen_from_outside_is_as_promised(self) -> None:
        """Shapes, dtypes, devices, ends, states: ``hpcpod.envs.check_env``."""
        check_env(self._env(), self.steps)

    def test_one_environment_is_a_batch_too(self) -> None:
        """``num_envs=1`` keeps its axis."""
        env = self._env(1)
        assert env.spec.num_envs == 1, f"make_env(1) gives a batch of {env.spec.num_envs}"
        check_env(env, self.steps)

    def test_the_spec_says_what_is_not_promised(self) -> None:
        """An adapter that loses something must say so, and a test that it does must know."""
        env = self._env()
        spec = env.spec
        assert spec.num_envs == self.num_envs, f"the batch is one of {spec.num_envs}"
        for name in ("seeded", "final_obs"):
            said, wanted = getattr(spec, name), getattr(self, name)
            assert said == wanted, f"spec.{name} is {said}, but this contract says {wanted}"
        env.reset(_seeds(spec))
        saved = env.state() is not None
        assert saved == self.saveable, (
            f"state() gives {'a state' if saved else 'None'}, but this contract says"
            f" saveable = {self.saveable}"
        )

    def test_an_episode_is_the_same_in_any_batch_and_at_any_place(self) -> None:
        """Its seed and its actions decide it, bit by bit, and so they do its later ones."""
        self._only_if(self.seeded, "its seeds don't decide its episodes")
        env, n = self._env(), self.num_envs
        seeds, actions = _seeds(env.spec), _actions(env.spec, self.steps)
        first, together = _play(env, seeds, actions)
        turned = _play(env, seeds.flip(0), [action.flip(0) for action in actions])
        for i in range(n):
            same = _first_difference(_rows(together, i), _rows(turned[1], n - 1 - i))
            assert torch.equal(first[i], turned[0][n - 1 - i]) and not same, (
                f"at place {n - 1 - i} the episodes of a seed are others than at place {i}: {same}"
            )
        alone = self._env(1)
        for i in (0, n - 1):
            begun, single = _play(alone, seeds[i : i + 1], [a[i : i + 1] for a in actions])
            different = _first_difference(_rows(together, i), single)
            assert torch.equal(first[i : i + 1], begun) and not different, (
                f"in a batch of 1 the episodes of a seed are others than in one of {n}: {different}"
            )

    def test_later_episodes_run_on_the_seeds_that_follow(self) -> None:
        """The k-th after a reset on ``seed`` begins as one on ``episode_seed(seed, k)``."""
        self._only_if(self.seeded, "its seeds don't decide its episodes")
        self._only_if(self.later_seeds, "its later episodes go on with its own generator")
        env, other = self._env(), self._env(place=1)
        seeds = _seeds(env.spec)
        _, steps = _play(env, seeds, _actions(env.spec, self.steps))
        later, count = seeds.clone(), [0] * self.num_envs
        for i, begun in _later_beginnings(steps):
            count[i] += 1
            if count[i] > 3:
                continue
            later[i] = episode_seed(int(seeds[i]), count[i])
            assert torch.equal(begun, other.reset(later)[i]), (
                f"episode {count[i]} of environment {i} does not begin as a reset on"
                f" episode_seed(seed, {count[i]}) does"
            )
        assert all(count), self._too_long(count)

    def test_episodes_differ(self) -> None:
        """Later ones from the first, and those of one environment from those of another."""
        self._only_if(not self.deterministic, "all its episodes are alike")
        env = self._env()
        episodes = _episodes(env, self.steps)
        assert all(len(own) > 1 for own in episodes), self._too_long([len(e) - 1 for e in episodes])
        assert any(any(map(_unlike, episodes[0], others)) for others in episodes[1:]), (
            "all environments play the same episodes, though their seeds differ"
        )
        assert any(_unlike(own[0], each) for own in episodes for each in own[1:]), (
            "every episode of an environment is the same; each must have a seed of its own"
        )

    def test_the_time_limit_truncates(self) -> None:
        """After ``spec.max_episode_steps`` steps an episode has ended, truncated if by that."""
        env = self._env()
        limit = env.spec.max_episode_steps
        if limit is None:
            pytest.skip("it has no time limit")
        age = torch.zeros(self.num_envs, dtype=torch.int64)
        env.reset(_seeds(env.spec))
        reached = 0
        for action in _actions(env.spec, self.steps):
            step = env.step(action)
            age += step.valid.cpu()
            last, ended = age >= limit, _ended(step).cpu()
            assert bool((ended | ~last).all()), f"an episode goes on after {limit} steps"
            reached += int((last & step.truncated.cpu()).sum())
            age[ended] = 0
        if not reached:
            pytest.skip(f"no episode lasts {limit} steps; make_env with a shorter limit")

    def test_the_successor_at_an_end_is_the_declared_one(self) -> None:
        """The last observation acted on, where ``spec.final_obs`` is False."""
        self._only_if(not self.final_obs, "its successors are true ones, see check_env")
        env = self._env()
        obs = env.reset(_seeds(env.spec))
        for action in _actions(env.spec, self.steps):
            step = env.step(action)
            ended = _ended(step)
            assert torch.equal(step.next_obs[ended], obs[ended]), (
                "next_obs at the end of an episode is not what was acted on last, as"
                " spec.final_obs = False says"
            )
            obs = step.obs

    def test_a_state_goes_on_in_another_instance(self) -> None:
        """Bit by bit, as a run does that is resumed on another node."""
        self._only_if(self.saveable, "its state can't be saved")
        env, other = self._env(), self._env(place=1)
        actions = _actions(env.spec, self.steps)
        _play(env, _seeds(env.spec), actions[: len(actions) // 3])
        other.reset(_seeds(env.spec) + 1)
        _restart(env, other)
        rest = actions[len(actions) // 3 :]
        once, again = ([each.step(action) for action in rest] for each in (env, other))
        different = _first_difference(once, again)
        assert not different, f"a second instance goes on differently after restore(): {different}"

    def test_continuous_actions_are_clipped(self) -> None:
        """Actions outside [-1, 1] count as their nearest bound."""
        self._only_if(isinstance(self._env().spec.action, Box), "its actions are choices")
        env, other = self._twins()
        actions = [action * 3 for action in _actions(env.spec, 5)]
        once = [env.step(action) for action in actions]
        again = [other.step(action.clamp(-1, 1)) for action in actions]
        different = _first_difference(once, again)
        assert not different, f"actions beyond [-1, 1] are not clipped: {different}"

    def test_an_action_that_is_not_finite_means_diverged(self) -> None:
        """Off the CPU that may be left to the agent's losses, as nothing waits for the device."""
        env = self._env()
        if not isinstance(env.spec.action, Box) or torch.device(env.spec.device).type != "cpu":
            pytest.skip("its actions are choices, or not on the CPU")
        env.reset(_seeds(env.spec))
        action = _actions(env.spec, 1)[0]
        action[self.num_envs - 1] = torch.nan
        with pytest.raises(Diverged) as death:
            env.step(action)
        assert str(death.value), "the error says nothing"
        env.reset(_seeds(env.spec))
        env.step(_actions(env.spec, 1)[0])

    def test_actions_of_another_shape_are_refused_with_both(self) -> None:
        """As a ``ValueError`` that says what was expected and what came."""
        env = self._env()
        env.reset(_seeds(env.spec))
        [action] = _actions(env.spec, 1)
        for wrong in (action[:-1], action.unsqueeze(0), action.unsqueeze(-1)):
            with pytest.raises(ValueError) as refused:
                env.step(wrong)
            for shape in (tuple(action.shape), tuple(wrong.shape)):
                said = str(refused.value)
                assert str(shape) in said, f"the error does not name the shape {shape}: {said}"

    def test_whoever_gets_tensors_may_write_into_them(self) -> None:
        """And into what was given: the environment keeps none of it."""
        env, other = self._twins()
        seeds = _seeds(env.spec)
        if self.seeded:
            env.reset(seeds).zero_()
            seeds += 1
            other.reset(_seeds(env.spec))
        actions, once = _actions(env.spec, self.steps), []
        for action in actions:
            given = action.clone()
            step = env.step(given)
            once.append(Step(*(tensor.clone() for tensor in step)))
            for tensor in (*step, given):  # one that wrote into its action changed what was stored
                tensor.zero_()
        different = _first_difference(once, [other.step(action) for action in actions])
        assert not different, (
            f"writing into what it gave, or was given, changes what follows: {different}"
        )

    def test_closing_twice_is_fine(self) -> None:
        """Close before the first reset, and after it."""
        for begun in (False, True):
            env = self.make_env(self.num_envs)
            if begun:
                env.reset(_seeds(env.spec))
            env.close()
            env.close()

    def _only_if(self, promised: bool, why_not: str) -> None:
        if not promised:
            pytest.skip(why_not)

    def _too_long(self, ends: Sequence[int]) -> str:
        return (
            f"in {self.steps} steps the environments end {list(ends)} episodes; make_env one with"
            " shorter episodes, or give more `steps`"
        )


def _seeds(spec: EnvSpec) -> Tensor:
    return random_seeds("contract", count=spec.num_envs)


def _actions(spec: EnvSpec, count: int) -> list[Tensor]:
    """Random ones, the same every time."""
    return random_actions(spec, count, torch.Generator().manual_seed(0))


def _play(env: VecEnv, seeds: Tensor, actions: Sequence[Tensor]) -> tuple[Tensor, list[Step]]:
    return env.reset(seeds), [env.step(action) for action in actions]


def _restart(env: VecEnv, other: VecEnv) -> None:
    """Have the other go on where this one is; what is saved is not kept."""
    saved = env.state()
    assert saved is not None, "state() gives None in the middle of an episode"
    other.restore(saved)
    for tensor in saved.values():
        tensor.zero_()


def _rows(steps: Sequence[Step], i: int) -> list[Step]:
    return [Step(*(tensor[i : i + 1] for tensor in step)) for step in steps]


def _ended(step: Step) -> Tensor:
    return (step.terminated | step.truncated) & step.valid


def _first_difference(once: Sequence[Step], again: Sequence[Step]) -> str:
    """The first field that is not the same, bit by bit; empty if none is."""
    for t, (a, b) in enumerate(zip(once, again, strict=True)):
        for name, x, y in zip(Step._fields, a, b, strict=True):
            if not torch.equal(x, y):
                return f"{name} of step {t}"
    return ""


def _episodes(env: VecEnv, steps: int) -> list[list[list[Tensor]]]:
    """For each environment its episodes, each as its observations, rewards and ends.

    The t-th action of every episode is the same: only chance can make them differ.
    """
    n = env.spec.num_envs
    actions = [action[0] for action in _actions(env.spec, steps)]
    episodes = [[[row]] for row in _flat(env.reset(_seeds(env.spec)))]
    ages = [0] * n
    for _ in range(steps):
        step = env.step(torch.stack([actions[age] for age in ages]))
        seen = torch.stack((step.reward, step.terminated, step.truncated), dim=1).cpu()
        ended, acted_on, successors = _ended(step).tolist(), _flat(step.obs), _flat(step.next_obs)
        for i, valid in enumerate(step.valid.tolist()):
            if not valid:  # the engine has only reset
                episodes[i][-1] = [acted_on[i]]
                continue
            episodes[i][-1] += [successors[i], seen[i]]
            ages[i] += 1
            if ended[i]:
                episodes[i].append([acted_on[i]])
                ages[i] = 0
    return episodes


def _flat(obs: Tensor) -> Tensor:
    return obs.reshape(len(obs), -1).cpu()


def _later_beginnings(steps: Sequence[Step]) -> Iterator[tuple[int, Tensor]]:
    """Each episode that begins after a first one: in which environment, its first observation.

    It comes with the last step of the episode before, or with a step that only reset.
    """
    for step, following in pairwise(steps):
        for i in _ended(step).nonzero()[:, 0].tolist():
            yield i, (step if following.valid[i] else following).obs[i]


def _unlike(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """True if they differ, as far as both go."""
    return not all(map(torch.equal, one, other))
