"""Faults of a VectorEnv, each in one clear sentence."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from hpcpod.envs.vector import GymnasiumVectorEnv
from hpcpod.errors import Diverged, UnsupportedSpace, UserError
from tests.envs.small_envs import Counting, WithAction, WithObservation

SAME = AutoresetMode.SAME_STEP


class Faulty(VectorEnv[Any, Any, Any]):
    """N counters that end at their third step; what is given replaces what they do."""

    def __init__(self, num_envs: int, mode: object = SAME, **faults: Any) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.single_action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._faults = faults
        self._steps = 0
        self.was_closed = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        if "raised" in self._faults:
            raise self._faults["raised"]
        self._steps = 0
        obs = np.zeros((self.num_envs, 1), np.float32)
        return self._faults.get("reset", (obs, {}))

    def step(self, actions: Any) -> Any:
        self._steps += 1
        n, over = self.num_envs, self._steps == 3
        obs = np.full((n, 1), float(self._steps), np.float32)
        info: dict[str, Any] = {}
        if over:
            info = {"final_obs": obs.copy(), "_final_obs": np.ones(n, np.bool_)}
            obs[:], self._steps = 0.0, 0
        ended = np.full(n, over)
        now = {"obs": obs, "reward": np.zeros(n), "end": ended, "cut": ended.copy(), "info": info}
        now |= {key: value for key, value in self._faults.items() if key in now}
        return tuple(now.values())

    def close_extras(self, **_: Any) -> None:
        self.was_closed = True


def faulty(**arguments: Any) -> GymnasiumVectorEnv:
    return GymnasiumVectorEnv(Faulty, 2, kwargs=arguments)


def test_without_a_fault_final_observations_may_be_one_array() -> None:
    env = faulty()
    env.reset()
    steps = [env.step(torch.zeros(2, 1)) for _ in range(3)]
    assert steps[2].next_obs.tolist() == [[3.0], [3.0]]
    assert steps[2].obs.tolist() == [[0.0], [0.0]]
    assert steps[2].terminated.all()
    assert not steps[2].truncated.any()


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ({"obs": np.zeros((2, 3))}, r"of 2 environments; the observation is of shape \(2, 3\)"),
        ({"reward": np.zeros((2, 1))}, r"got an array of shape \(2, 1\), not \(2,\)"),
        ({"end": False}, r"got an array of shape \(\), not \(2,\)"),
        ({"info": {}}, r"must give the true final observation of each .*KeyError: 'final_obs'"),
        (
            {"info": {"final_obs": np.zeros((2, 1)), "_final_obs": np.array([True, False])}},
            r"ValueError: info\['_final_obs'\] is \[True, False\]",
        ),
        (
            {"info": {"final_obs": np.zeros((2, 9)), "_final_obs": np.ones(2, np.bool_)}},
            r"the observation is of shape \(9,\), not \(1,\)",
        ),
    ],
)
def test_a_step_that_breaks_the_api_is_one_clear_sentence(
    faults: dict[str, Any], sentence: str
) -> None:
    env = faulty(**faults)
    env.reset()
    with pytest.raises(UserError, match=sentence) as caught:
        for _ in range(3):
            env.step(torch.zeros(2, 1))
    assert "\n" not in str(caught.value)


def test_what_a_step_that_only_resets_says_beside_is_not_listened_to() -> None:
    env = faulty(mode="NextStep", reward=np.array([2.0, 3.0]), end=np.ones(2, np.bool_))
    env.reset()
    steps = [env.step(torch.zeros(2, 1)) for _ in range(4)]
    assert [s.valid.tolist() for s in steps] == [[True] * 2, [False] * 2] * 2
    assert [s.reward.tolist() for s in steps] == [[2.0, 3.0], [0.0, 0.0]] * 2
    assert [s.terminated.tolist() for s in steps] == [[True] * 2, [False] * 2] * 2


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("observation", {"obs": np.array([[0.0], [np.nan]])}),
        ("reward", {"reward": np.array([0.0, np.inf])}),
    ],
)
def test_a_number_that_is_not_finite_is_refused_by_name(field: str, values: Any) -> None:
    env = faulty(**values)
    env.reset()
    with pytest.raises(Diverged, match=f"the {field} of environment 1 is not finite"):
        env.step(torch.zeros(2, 1))


def test_an_action_that_is_not_finite_is_refused() -> None:
    env = faulty()
    env.reset()
    with pytest.raises(Diverged, match="action is not finite"):
        env.step(torch.full((2, 1), float("nan")))


def test_a_reset_that_breaks_the_api_is_one_clear_sentence() -> None:
    with pytest.raises(UserError, match=r"its reset\(\) must return \(observations, info\)"):
        faulty(reset=(np.zeros((3, 1)), {})).reset()
    with pytest.raises(UserError, match=r"can't be reset: KeyError: 'a file' \(with one seed"):
        faulty(raised=KeyError("a file"))
    with pytest.raises(Diverged, match="the observation of environment 0 is not finite"):
        faulty(reset=(np.full((2, 1), np.nan, np.float32), {})).reset()
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\)"):
        faulty().step(torch.zeros(2, 1))


@pytest.mark.parametrize(
    ("source", "kwargs", "sentence"),
    [
        (lambda num_envs: Counting(), {}, "gave a Counting, but backend vector needs a gymnasium"),
        (lambda num_envs: Faulty(num_envs + 1), {}, "gave 3 environments, but 2 are needed"),
        (lambda: Faulty(2), {}, "refused its arguments .*'num_envs'"),
        (Faulty, {"mode": None}, r"metadata\['autoreset_mode'\] is None; set it to a gymnasium"),
        (Faulty(2), {"mode": SAME}, "exists already, so kwargs can't be given"),
        (Faulty(3), {}, "gave 3 environments, but 2 are needed"),
        ("tests.envs.test_vector_faults:SAME", {}, "is a AutoresetMode, not a factory"),
        ("tests.envs.test_vector_faults:Nothing", {}, "has no 'Nothing'"),
        ("CartPol-v1", {}, "CartPol-v1 can't be made: .*CartPole"),
    ],
)
def test_what_gives_no_vector_env_is_one_clear_sentence(
    source: Any, kwargs: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        GymnasiumVectorEnv(source, 2, kwargs=kwargs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "env", [partial(WithObservation, gym.spaces.Text(3)), partial(WithAction, gym.spaces.Text(3))]
)
def test_a_space_that_no_agent_can_use_is_refused(env: Any) -> None:
    with pytest.raises(UnsupportedSpace, match="Text"):
        GymnasiumVectorEnv.of(SyncVectorEnv([env] * 2))


def test_what_was_made_and_refused_is_closed_and_what_was_given_is_not() -> None:
    made: list[Faulty] = []

    def make(num_envs: int) -> Faulty:
        made.append(Faulty(num_envs, mode=None))
        return made[0]

    with pytest.raises(UserError, match="does not say how it resets"):
        GymnasiumVectorEnv(make, 2)
    assert made[0].was_closed
    given = Faulty(2, mode=None)
    with pytest.raises(UserError, match="does not say how it resets"):
        GymnasiumVectorEnv.of(given)
    assert not given.was_closed


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_processes_that_do_not_forget_an_end_are_refused() -> None:
    venv = AsyncVectorEnv([Counting] * 2, shared_memory=False, autoreset_mode="NextStep")
    try:
        with pytest.raises(UserError, match=r"does not forget .*make it with shared_memory=True"):
            GymnasiumVectorEnv.of(venv)
    finally:
        venv.close()
