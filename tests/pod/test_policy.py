"""A checkpoint's core is a policy wherever it is copied to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.agents.base import Agent
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.make import make_env
from hpcpod.envs.spec_json import spec_from_plain, spec_to_plain
from hpcpod.envs.vec_env import Bound, Box, Discrete, EnvSpec, MultiDiscrete, VecEnv
from hpcpod.errors import Corrupt, UserError
from hpcpod.pod.factory import make_agent
from hpcpod.pod.policy import (
    Policy,
    agent_state,
    load_policy_file,
    policy_meta,
)
from hpcpod.storage.blobs import read_blob_file, write_blob_file
from tests.envs.small_envs import Starting, WithAction
from tests.pod.rounds import first_birth, train
from tests.support.small_runs import create


def saved(agent: Agent, env: VecEnv, path: Path, name: str = "ppo", **meta: Any) -> Path:
    """Write an agent as a checkpoint does."""
    arrays = {f"agent/{key}": value.numpy() for key, value in agent.state().items()}
    about = policy_meta(env.spec, EnvConfig(env.spec.id), name, {"hidden": 16})
    write_blob_file(path, arrays, {**about, **meta})
    return path


def small(env: VecEnv, name: str = "ppo") -> Agent:
    return make_agent(name, env.spec, {"hidden": 16}, 3, "cpu")


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_the_policy_of_a_checkpoint_acts_as_its_agent_did(algorithm: str, tmp_path: Path) -> None:
    folder = create(tmp_path, algorithm)
    birth = first_birth(folder)
    report = train(folder, birth)
    assert report.checkpoint is not None
    taken_away = tmp_path / "policy.h5"
    taken_away.write_bytes(folder.blobs.path(report.checkpoint.core).read_bytes())
    policy = load_policy_file(taken_away)
    env = make_env("CartPole-v1", 4)
    agent = make_agent(algorithm, env.spec, birth.hyperparameters, 0, "cpu")
    arrays, _ = folder.blobs.get(report.checkpoint.core)
    agent.load(agent_state(arrays))
    obs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    actions = policy(obs.numpy())
    np.testing.assert_array_equal(actions, agent.act(obs, explore=False).numpy())
    assert actions.dtype == np.int64 and len(np.unique(actions)) == 2
    assert (policy.about["pod"], policy.about["round"]) == ("p0001", 1)
    assert policy.about["env_steps"] == 512
    assert policy.about["hyperparameters"] == dict(birth.hyperparameters)


def test_a_single_policy_is_saved_to_the_byte_as_a_checkpoint_has_it(tmp_path: Path) -> None:
    env = make_env("CartPole-v1", 2)
    file = saved(small(env, "dqn"), env, tmp_path / "p.h5", "dqn", pod="p0001", round=3)
    load_policy_file(file).save(tmp_path / "copy.h5")
    assert (tmp_path / "copy.h5").read_bytes() == file.read_bytes()
    assert read_blob_file(file)[1]["format"] == 2


def test_one_observation_gives_one_action_and_a_batch_a_batch(tmp_path: Path) -> None:
    env = make_env("CartPole-v1", 2)
    policy = load_policy_file(saved(small(env), env, tmp_path / "p.h5"))
    batch = np.random.default_rng(0).normal(size=(5, 4))
    actions = policy(batch)
    assert actions.shape == (5,)
    assert [int(policy(obs)) for obs in batch] == actions.tolist()
    assert policy(batch[0]).shape == () and policy(list(batch[0])).shape == ()
    assert policy(batch[::-1]).tolist() == actions.tolist()[::-1]
    batch.flags.writeable = False
    assert policy(batch).tolist() == actions.tolist()


def test_a_continuous_action_is_within_the_bounds_of_the_environment(tmp_path: Path) -> None:
    env = make_env("Pendulum-v1", 2)
    agent = small(env)
    policy = load_policy_file(saved(agent, env, tmp_path / "p.h5"))
    obs = torch.randn(256, 3, generator=torch.Generator().manual_seed(0)) * 100
    raw = agent.act(obs, explore=False).numpy()
    actions = policy(obs.numpy())
    assert actions.shape == (256, 1) and actions.dtype == np.float32
    assert np.abs(actions).max() <= 2.0
    np.testing.assert_allclose(actions, 2.0 * np.clip(raw, -1, 1), atol=1e-6)


@pytest.mark.parametrize(("many", "algorithm"), [(False, "ppo"), (False, "dqn"), (True, "ppo")])
def test_a_policy_speaks_of_choices_as_the_environment_does(
    many: bool, algorithm: str, tmp_path: Path
) -> None:
    env = make_env(lambda: Starting(many), 2)
    agent = small(env, algorithm)
    policy = load_policy_file(saved(agent, env, tmp_path / "p.h5", algorithm))
    assert policy.spec == env.spec
    raw = Starting(many)
    obs, _ = raw.reset()
    for _ in range(9):
        obs, *_ = raw.step(policy(obs))
    choices = agent.act(torch.arange(3), explore=False).numpy()
    start = [7, -1] if many else 7
    assert policy([5, 6, 7]).tolist() == (choices + start).tolist()


def test_a_checkpoint_that_says_nothing_of_a_start_counts_from_0() -> None:
    plain = spec_to_plain(make_env(Starting, 2).spec)
    for field in ("observation", "action"):
        del plain[field]["start"]
    spec = spec_from_plain(plain)
    assert (spec.observation, spec.action) == (Discrete(3), Discrete(2))


class Loud:
    """An agent that wants more than it can have."""

    def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
        return torch.tensor([[-9.0, 0.0, 0.5], [9.0, 1.0, -1.0]])[: len(obs)]


def test_each_element_of_an_action_has_its_own_bounds() -> None:
    bounds = ((-1.0, 0.0, 10.0), (1.0, 4.0, 30.0))
    spec = EnvSpec(
        "Task-v0", Box((1,), -1.0, 1.0), Box((3,), -1.0, 1.0), 2, "cpu", None, "", bounds
    )
    agent: Any = Loud()
    actions = Policy(agent, spec, {})(np.zeros((2, 1)))
    assert actions.tolist() == [[-1.0, 2.0, 25.0], [1.0, 4.0, 10.0]]


class Fine:
    """An agent whose actions have all the digits of a float32."""

    def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
        return torch.sin(torch.arange(3.0 * len(obs))).view(-1, 3)


def test_where_the_bounds_are_the_policys_own_it_gives_what_the_agent_chose() -> None:
    bounds = ((-1.0, -2.0, -1.0), (1.0, 2.0, 1.0))
    spec = EnvSpec(
        "Task-v0", Box((1,), -1.0, 1.0), Box((3,), -1.0, 1.0), 2, "cpu", None, "", bounds
    )
    agent: Any = Fine()
    chosen = agent.act(torch.zeros(99, 1), explore=False).numpy()
    actions = Policy(agent, spec, {})(np.zeros((99, 1)))
    assert np.array_equal(actions[:, ::2], chosen[:, ::2])
    assert np.allclose(actions[:, 1], 2 * chosen[:, 1], rtol=0, atol=1e-6)


class Receiving(WithAction):
    """Keeps the actions that it gets."""

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__(space)
        self.got: list[npt.NDArray[Any]] = []

    def step(self, action: npt.NDArray[Any]) -> Any:
        assert self.action_space.contains(action), action
        self.got.append(action.copy())
        return super().step(action)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([-1.0, -1.0], [1.0, 1.0]),
        ([-0.1, -0.1], [0.7, 0.7]),
        ([-1.0, -0.3], [1.0, 0.4]),
        ([0.3, -2.0], [0.3, 1e-3]),
        ([-6e4, 0.0], [6e4, 6e4]),
    ],
)
def test_a_policy_gives_bit_by_bit_what_the_environment_got_in_training(
    low: list[float], high: list[float], dtype: str, tmp_path: Path
) -> None:
    kind: Any = np.dtype(dtype)
    raw = Receiving(gym.spaces.Box(np.array(low, kind), np.array(high, kind), dtype=kind.type))
    env = make_env(lambda: raw, 1, backend="gymnasium")
    agent = small(env)
    fresh = agent.state()  # its actions are all near 0
    agent.load({**fresh, "network/policy.weight": 400 * fresh["network/policy.weight"]})
    policy = load_policy_file(saved(agent, env, tmp_path / "p.h5"))
    chosen = []
    env.reset(torch.tensor([7]))
    for obs in torch.linspace(-4, 4, 99).view(-1, 1, 1):
        chosen.append(agent.act(obs, explore=False).numpy()[0])
        env.step(torch.from_numpy(chosen[-1][None]))
        action = policy(obs.numpy()[0])
        assert action.dtype == kind and raw.action_space.contains(action)
        assert action.tobytes() == raw.got[-1].tobytes()
    own = np.stack(chosen)
    assert own.min() == -1 and own.max() == 1 and len(np.unique(own)) > 30
    if low[0] == -1.0:
        assert np.array_equal(np.stack(raw.got)[:, 0], own[:, 0].astype(kind))


def test_a_file_that_says_nothing_of_the_actions_dtype_is_of_float32(tmp_path: Path) -> None:
    env = make_env(lambda: WithAction(gym.spaces.Box(-0.5, 0.5, (1,), np.float64)), 1)
    plain = spec_to_plain(env.spec)
    assert plain.pop("action_dtype") == "float64"
    policy = load_policy_file(saved(small(env), env, tmp_path / "p.h5", spec=plain))
    assert policy(np.zeros(1)).dtype == np.float32


@pytest.mark.parametrize("shape", [(3,), (), (2, 3), (1, 2, 4)])
def test_an_observation_of_the_wrong_shape_is_one_sentence(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    env = make_env("CartPole-v1", 2)
    policy = load_policy_file(saved(small(env), env, tmp_path / "p.h5"))
    with pytest.raises(UserError) as caught:
        policy(np.zeros(shape))
    assert str(caught.value) == (
        f"CartPole-v1 observes shape (4,), or a batch of them (batch, 4);"
        f" this observation has shape {shape}"
    )


def test_an_observation_that_is_no_array_of_numbers_is_one_sentence(tmp_path: Path) -> None:
    env = make_env("CartPole-v1", 2)
    policy = load_policy_file(saved(small(env), env, tmp_path / "p.h5"))
    for nonsense in ("left", [[1, 2], [3]], {"obs": 1}):
        with pytest.raises(UserError, match=r"CartPole-v1 observes shape \(4,\)"):
            policy(nonsense)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_by_its_place(number: float, tmp_path: Path) -> None:
    env = make_env("CartPole-v1", 2)
    policy = load_policy_file(saved(small(env), env, tmp_path / "p.h5"))
    observations = np.zeros((3, 4))
    observations[1, 2] = number
    with pytest.raises(UserError, match=rf"this observation has {number} at \[1, 2\]"):
        policy(observations)
    with pytest.raises(UserError, match=rf"this observation has {number} at \[2\]"):
        policy(observations[1])


def test_a_policy_knows_the_environment_that_it_was_trained_in(tmp_path: Path) -> None:
    env = make_env("CartPole-v1", 2)
    policy = load_policy_file(saved(small(env), env, tmp_path / "p.h5"))
    assert policy.spec == env.spec
    assert policy.about["agent"] == "ppo" and policy.about["env"]["id"] == "CartPole-v1"


bounds = st.floats(-9, 9) | st.tuples(st.floats(-9, 9), st.floats(-9, 9))


def boxes() -> st.SearchStrategy[Box]:
    return st.builds(Box, st.just((2,)), bounds, bounds, st.sampled_from(["float32", "uint8"]))


several = st.lists(st.integers(1, 9), min_size=1).map(tuple)
spaces = (
    boxes()
    | st.builds(Discrete, st.integers(1, 9), st.integers())
    | st.builds(MultiDiscrete, several, st.just(0) | several)
)


@given(
    spaces,
    spaces,
    st.none() | st.integers(1),
    st.none() | st.tuples(bounds, bounds),
    st.sampled_from(["float16", "float64"]),
)
def test_a_spec_survives_its_plain_form(
    observation: Any,
    action: Any,
    limit: int | None,
    action_bounds: tuple[Bound, Bound] | None,
    dtype: str,
) -> None:
    spec = EnvSpec(
        "E-v0", observation, action, 3, "cpu", limit, "engine 1", action_bounds, action_dtype=dtype
    )
    assert spec_from_plain(spec_to_plain(spec)) == spec


def test_what_is_not_a_policy_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no checkpoint at"):
        load_policy_file(tmp_path / "nothing.h5")
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    with pytest.raises(UserError, match=r"text.h5 is damaged, or is no policy: give a run or"):
        load_policy_file(text)
    segment = tmp_path / "segment.h5"
    write_blob_file(segment, {"obs": np.zeros(3)}, {"kind": "segment"})
    with pytest.raises(UserError, match="is no policy that hpcpod"):
        load_policy_file(segment)
    env = make_env("CartPole-v1", 2)
    other = PPO(env.spec, PPOConfig(hidden=8), 0)
    with pytest.raises(Corrupt, match="does not fit its own description"):
        load_policy_file(saved(other, env, tmp_path / "other.h5"))
    renamed = saved(small(env), env, tmp_path / "renamed.h5", hyperparameters={"width": 16})
    with pytest.raises(Corrupt, match=r"does not fit its own description: .*'width'"):
        load_policy_file(renamed)
