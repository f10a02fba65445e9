"""Conversion of tensors and arrays: actions, and numbers that are none."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hpcpod.envs.arrays import action_map, check_finite
from hpcpod.errors import Diverged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_bounds_that_are_all_the_same_map_bit_by_bit_like_any(
    shape: tuple[int, ...], dtype: Any
) -> None:
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (50, *shape)).astype(np.float32)
    space = gym.spaces.Box(-0.7, 1.1, shape, dtype)
    unit = (actions + 1.0) / 2.0
    low, high = np.full(actions.shape, -0.7, dtype), np.full(actions.shape, 1.1, dtype)
    by_hand = np.clip(low + unit * (high - low), low, high).astype(dtype)
    mapped = action_map(space)(actions)
    assert mapped.dtype == dtype and mapped.shape == by_hand.shape
    assert np.array_equal(mapped, by_hand)


def test_bounds_that_differ_map_each_to_its_own() -> None:
    low, high = np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)
    mapped = action_map(gym.spaces.Box(low, high))(np.array([[0.5, 0.5], [-3.0, 3.0]], np.float32))
    assert mapped.tolist() == [[0.5, 3.0], [-1.0, 4.0]]


def test_bounds_of_float16_may_be_further_apart_than_any_float16() -> None:
    actions = np.array([[-1.0], [0.0], [0.5], [1.0]], np.float32)
    mapped = action_map(gym.spaces.Box(-60000.0, 60000.0, (1,), np.float16))(actions)
    assert mapped.dtype == np.float16
    assert mapped.tolist() == [[-60000.0], [0.0], [30000.0], [60000.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_may_be_further_apart_than_any_number_of_their_kind(dtype: Any) -> None:
    most = np.finfo(dtype).max
    actions = np.array([[-1.0], [0.0], [0.5], [1.0]], np.float32)
    mapped = action_map(gym.spaces.Box(-most, most, (1,), dtype))(actions)
    assert mapped.dtype == dtype
    assert mapped.ravel().tolist() == pytest.approx([-most, 0.0, most / 2, most])


def test_an_environment_may_write_into_the_choices_that_it_is_given() -> None:
    action = np.array([[1, 0, 1]])
    given = action_map(gym.spaces.MultiBinary(3))(action)
    given[:] = 0
    assert action.tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("low", [[-1.0, -1.0, -1.0], [-1.0, 0.0, -2.0]])
def test_where_the_bounds_are_those_of_a_policy_its_action_stays_as_it_is(
    low: list[float], dtype: Any
) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (500, 3)).astype(np.float32)
    moved = -1.0 + (actions[:, 0] + np.float32(1)) / 2 * 2.0
    assert np.count_nonzero(moved != actions[:, 0]) > 100
    mapped = action_map(gym.spaces.Box(np.array(low, dtype), -np.array(low, dtype), dtype=dtype))
    same = mapped(actions)[:, np.array(low) == -1.0]
    assert same.dtype == dtype
    assert np.array_equal(same, actions[:, np.array(low) == -1.0])


def test_of_some_rows_the_one_that_is_not_finite_has_the_batch_s_number() -> None:
    values = np.zeros((5, 2), np.float32)
    values[1], values[3, 1] = np.nan, np.inf
    check_finite("Some-v0", "observation", values, np.array([0, 4]))
    check_finite("Some-v0", "observation", values, np.array([], np.int64))
    with pytest.raises(Diverged, match=r"observation of environment 3 is not finite: \[0.0, inf\]"):
        check_finite("Some-v0", "observation", values, np.array([2, 3]))
    with pytest.raises(Diverged, match="Some-v0: the observation of environment 1 is not finite"):
        check_finite("Some-v0", "observation", values)
