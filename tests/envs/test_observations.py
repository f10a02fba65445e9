"""Dictionaries and tuples become one vector, in the order that is declared."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import hpcpod
from hpcpod.envs import observations
from hpcpod.envs.checking import check_env
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.gymnasium_make import observation_space
from hpcpod.envs.vec_env import Box, MultiDiscrete, VecEnv
from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.errors import UnsupportedSpace, UserError
from tests.envs.small_envs import Structured, WithObservation

SPACE = spaces.Dict(
    OrderedDict(
        zone=spaces.Discrete(3, start=4),
        arm=spaces.Dict(
            OrderedDict(
                pose=spaces.Box(-2.0, 2.0, (2, 2), np.float64),
                grip=spaces.MultiDiscrete([2, 3], start=[1, -1]),
            )
        ),
        rest=spaces.Tuple([spaces.MultiBinary(2), spaces.Box(0, 9, (1,), np.uint8)]),
    )
)
ONE = {
    "zone": 5,
    "arm": {"pose": np.array([[0.5, -1.0], [1.5, 2.0]]), "grip": np.array([2, -1])},
    "rest": (np.array([0, 1], np.int8), np.array([7], np.uint8)),
}
BY_HAND = [
    *(0.0, 1.0, 0.0),  # zone 5 of 4, 5, 6
    *(0.5, -1.0, 1.5, 2.0),  # the pose in C order
    *(0.0, 1.0),  # grip: 2 of 1, 2
    *(1.0, 0.0, 0.0),  # grip: -1 of -1, 0, 1
    *(0.0, 1.0),  # bits
    7.0,
]


class Watching(gym.Env[Any, Any]):
    """Observes samples of a space, drawn by its own generator; three steps are an episode."""

    def __init__(self, space: gym.Space[Any] = SPACE) -> None:
        self.observation_space = deepcopy(space)  # which has a generator of its own
        self.action_space = spaces.Discrete(2)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.observation_space.sample(), 1.0, False, self._steps >= 3, {}


def vector(source: Any, count: int) -> VecEnv:
    def make(num_envs: int) -> SyncVectorEnv[Any, Any]:
        mode = gym.vector.AutoresetMode.SAME_STEP
        return SyncVectorEnv([source] * num_envs, autoreset_mode=mode)

    return GymnasiumVectorEnv(make, count)


def serial(source: Any, count: int) -> VecEnv:
    return PreprocessVecEnv(source, count)


ADAPTERS = [serial, vector]


def test_a_vector_is_laid_out_as_worked_by_hand() -> None:
    row = observations.as_vector(SPACE, ONE)
    assert row.dtype == np.float32
    assert row.tolist() == BY_HAND


def test_a_batch_is_laid_out_as_its_rows_and_as_gymnasium_does() -> None:
    space = spaces.Dict(SPACE.spaces)
    space.seed(3)
    rows = [space.sample() for _ in range(5)]
    out: Any = gym.vector.utils.create_empty_array(space, 5)
    batch = gym.vector.utils.concatenate(space, rows, out)
    laid = observations.as_vector(space, batch, (5,))
    assert laid.shape == (5, len(BY_HAND))
    for row, together in zip(rows, laid, strict=True):
        assert np.array_equal(observations.as_vector(space, row), together)
        peer = np.asarray(spaces.utils.flatten(space, row), np.float32)
        assert np.array_equal(peer, together)


def test_a_plain_dictionary_is_sorted_by_gymnasium_and_an_ordered_one_stays() -> None:
    parts = [("b", spaces.Discrete(2)), ("a", spaces.Box(0.0, 1.0, (1,)))]
    value = {"a": np.array([0.25], np.float32), "b": 1}
    assert observations.as_vector(spaces.Dict(dict(parts)), value).tolist() == [0.25, 0.0, 1.0]
    kept = spaces.Dict(OrderedDict(parts))
    assert observations.as_vector(kept, value).tolist() == [0.0, 1.0, 0.25]


def test_the_spec_says_the_bounds_in_the_same_order() -> None:
    box = observation_space("Any", SPACE)
    pose = 4 * (2.0,)
    assert box == Box(
        (15,),
        (0.0, 0.0, 0.0, *(-x for x in pose), *(8 * (0.0,))),
        (1.0, 1.0, 1.0, *pose, *(7 * (1.0,)), 9.0),
    )


@pytest.mark.parametrize("make", ADAPTERS)
def test_structured_observations_keep_the_contract(make: Any) -> None:
    check_env(make(Watching, 3), 60)
    check_env(make(lambda: Structured(size=2), 2), 60)


@pytest.mark.parametrize("make", ADAPTERS)
def test_both_adapters_give_what_the_flattening_wrapper_gives(make: Any) -> None:
    env = make(Watching, 3)
    peer = PreprocessVecEnv(Watching, 3, wrappers=["gymnasium.wrappers:FlattenObservation"])
    assert env.spec.observation == peer.spec.observation
    seeds = torch.arange(3)
    assert torch.equal(env.reset(seeds), peer.reset(seeds))
    for _ in range(3):
        action = torch.zeros(3, dtype=torch.int64)
        assert torch.equal(env.step(action).next_obs, peer.step(action).next_obs)


@pytest.mark.parametrize("make", ADAPTERS)
def test_several_choices_at_once_are_counted_from_0(make: Any) -> None:
    env = make(lambda: Watching(spaces.MultiDiscrete([2, 3], start=[5, -1])), 4)
    assert env.spec.observation == MultiDiscrete((2, 3), (5, -1))
    obs = env.reset(torch.arange(4))
    assert obs.dtype == torch.int64
    assert bool((obs >= 0).all() and (obs < torch.tensor([2, 3])).all())
    check_env(env, 30)


def test_a_policy_on_dictionaries_reads_what_gymnasium_flattens(tmp_path: Path) -> None:
    task, made = "tests.envs.small_envs:Structured", Structured(size=3)
    hpcpod.train(
        "ppo", task, env_steps=64, horizon=4, minibatch_size=8,
        save_to=tmp_path / "policy.h5", env_kwargs={"size": 3},
    )  # fmt: skip
    flat: Any = spaces.utils.flatten(made.observation_space, made.reset()[0])
    policy = hpcpod.load_policy(tmp_path / "policy.h5")
    assert int(policy(flat)) in (0, 1)


IMAGE = spaces.Box(0, 255, (4, 4, 3), np.uint8)


def test_a_tuple_of_gymnasiums_own_keeps_the_contract() -> None:
    env = PreprocessVecEnv("Blackjack-v1", 3)
    assert env.spec.observation == Box((45,), 0.0, 1.0)  # sums to 31, cards to 10, an ace or not
    check_env(env, 60)


class Seeing(Watching):
    """Observes an image in a dictionary, which no agent reads."""

    def __init__(self) -> None:
        super().__init__(spaces.Dict(camera=IMAGE))


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (
            spaces.Dict(arm=spaces.Dict(camera=IMAGE), place=spaces.Box(0, 1, (2,))),
            r"observes an image \('arm/camera'\) among other things, .*FilterObservation",
        ),
        (spaces.Tuple([spaces.Discrete(2), IMAGE]), r"observes an image \('1'\) among"),
        (spaces.Dict(said=spaces.Text(3)), r"observes a Text space \('said'\) among .*Filter"),
        (spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]), r"a Sequence space \('0'\)"),
        (spaces.Dict(), "observes nothing: its Dict has no parts"),
    ],
)
@pytest.mark.parametrize("make", ADAPTERS)
def test_parts_that_are_no_vector_are_one_clear_sentence(
    make: Any, space: gym.Space[Any], sentence: str
) -> None:
    with pytest.raises(UnsupportedSpace, match=sentence) as caught:
        make(lambda: WithObservation(space), 2)
    assert "\n" not in str(caught.value)


def test_pixels_are_read_as_plain_numbers_if_asked() -> None:
    space = spaces.Dict(camera=IMAGE, place=spaces.Box(0, 1, (2,)))
    flat = "gymnasium.wrappers:FlattenObservation"
    env = PreprocessVecEnv(lambda: WithObservation(space), wrappers=[flat])
    assert isinstance(env.spec.observation, Box)
    assert env.spec.observation.shape == (50,)


class Wrong(Watching):
    """Observes what its space does not hold."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**arguments)
        return self._value, {}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"zone": 7}, "'zone' of the observation is not from 4 to 6: 7"),
        ({"arm": {"pose": np.zeros((2, 2))}}, "'arm' of the observation has no 'grip'"),
        ({"rest": (np.zeros(2),)}, "'rest' of the observation has 1 parts, not 2"),
        (
            {"arm": {**ONE["arm"], "pose": np.zeros(4)}},  # type: ignore[dict-item]
            r"'arm/pose' of the observation is of shape \(4,\), not \(2, 2\)",
        ),
    ],
)
def test_an_observation_that_is_not_of_its_space_is_one_clear_sentence(
    change: dict[str, Any], sentence: str
) -> None:
    env = PreprocessVecEnv(lambda: Wrong({**ONE, **change}))
    with pytest.raises(UserError, match=rf"its reset\(\) must return .*; {sentence}"):
        env.reset()
