"""Encoded observations, images among them, as networks read them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hpcpod.agents.base import Agent
from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.agents.observations import Observations, image_shape
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.agents.td3 import TD3, TD3Config
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space
from tests.agents.image_env import Bright, best_return
from tests.agents.training import iterate, row, spec


def seen(space: Space, normalize: bool = False) -> Observations:
    return Observations(spec(observation=space), normalize, "cpu")


def test_choices_are_read_as_one_hot() -> None:
    one = seen(Discrete(3))
    assert one.size == one.width == 3
    assert one(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    several = seen(MultiDiscrete((2, 3)))
    assert several.size == 5
    assert several(torch.tensor([[1, 0], [0, 2]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_vectors_are_flat_and_bytes_are_scaled_to_one() -> None:
    assert seen(Box((2, 2), -1.0, 1.0))(torch.ones(3, 2, 2)).shape == (3, 4)
    assert seen(Box((), -1.0, 1.0))(torch.ones(3)).shape == (3, 1)
    read = seen(Box((2,), 0.0, 255.0, "uint8"))(torch.tensor([[51, 255]], dtype=torch.uint8))
    assert read.tolist() == [[pytest.approx(0.2), 1.0]]


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((84, 84, 4), (4, 84, 84)),
        ((4, 84, 84), (4, 84, 84)),
        ((8, 8, 8), (8, 8, 8)),  # ambiguous: gymnasium's images have their channels last
        ((7, 9), (1, 7, 9)),
        ((2, 30), None),
        ((30,), None),
    ],
)
def test_what_is_an_image_and_where_its_channels_are(
    shape: tuple[int, ...], image: tuple[int, int, int] | None
) -> None:
    space = Box(shape, 0.0, 255.0, "uint8")
    assert image_shape(space) == image
    obs = torch.randint(256, (5, *shape), dtype=torch.uint8)
    read = seen(space)(obs)
    if image is None:
        assert read.dtype == torch.float32 and read.dim() == 2
        return
    assert read.dtype == torch.uint8 and read.shape == (5, *image)
    encoder = seen(space).encoder(torch.Generator().manual_seed(0))
    assert encoder(read).shape == (5, seen(space).width) == (5, 256)
    if len(shape) == 3 and shape[0] >= shape[2]:
        assert torch.equal(read[2, 3], obs[2, :, :, 3])
    elif len(shape) == 3:
        assert torch.equal(read, obs)


def test_statistics_are_of_vectors_alone_and_only_when_asked_for() -> None:
    assert seen(Box((3,), -1.0, 1.0)).state() == {}
    assert seen(Box((8, 8), 0.0, 255.0, "uint8"), normalize=True).state() == {}
    assert seen(Discrete(3), normalize=True).state() == {}
    read = seen(Box((1,), -1.0, 1.0), normalize=True)
    read.learn(torch.tensor([[1.0], [3.0]]))
    # mean 2, variance 1
    assert read(torch.tensor([[4.0]])).tolist() == [[pytest.approx(2.0)]]


@pytest.mark.parametrize("agent", [SAC, TD3, DQN])
def test_agents_with_a_replay_learn_their_statistics_from_each_row_once(agent: type) -> None:
    config = {"horizon": 4, "learning_starts": 8, "hidden": 8, "normalize_obs": True}
    action = Discrete(2) if agent is DQN else Box((2,), -1.0, 1.0)
    learner = agent(spec(action), agent.Config(batch_size=4, **config), 0)  # type: ignore[attr-defined]
    buffer, rows = learner.make_buffer(), []
    for t in range(12):
        obs = torch.full((2, 3), float(t))
        buffer.add(obs, learner.act(obs, explore=True), row(t)[2])
        rows.append(obs)
        if t % 4 == 3:
            learner.update(buffer)
    state = learner.state()
    everything = torch.cat(rows)
    assert float(state["normalizer/count"]) == 24
    assert torch.allclose(state["normalizer/mean"], everything.mean(0))
    assert torch.allclose(state["normalizer/var"], everything.var(0, correction=0))


def image_agent(kind: str, env_spec: EnvSpec) -> Agent:
    off: dict[str, Any] = {"learning_starts": 256, "horizon": 16, "batch_size": 64, "hidden": 32}
    off["learning_rate"] = 1e-3
    if kind == "ppo":
        config = PPOConfig(gamma=0.0, horizon=16, minibatch_size=64, epochs=4)
        return PPO(env_spec, config, 0)
    if kind == "dqn":
        small = DQNConfig(gamma=0.0, epsilon_steps=1000, updates_per_iteration=16, **off)
        return DQN(env_spec, small, 0)
    if kind == "sac":
        return SAC(env_spec, SACConfig(gamma=0.0, updates_per_step=0.25, **off), 0)
    return TD3(env_spec, TD3Config(gamma=0.0, updates_per_step=0.25, **off), 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ppo", "dqn", "sac", "td3"])
def test_agents_learn_to_point_at_what_they_see(kind: str) -> None:
    discrete = kind in ("ppo", "dqn")
    env = PreprocessVecEnv(lambda: Bright(discrete), 8)
    agent = image_agent(kind, env.spec)
    buffer, obs = agent.make_buffer(), env.reset(torch.arange(8))
    assert best_return(agent, discrete) < 0.6
    for iteration in range(60):
        obs, _ = iterate(agent, env, buffer, obs)
        if iteration % 5 == 4 and best_return(agent, discrete) > 0.85:
            return
    pytest.fail(f"{kind} has not learned to look")
