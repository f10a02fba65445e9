"""The contract of agents, kept by every algorithm; and hpcpod's own promises beyond it."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
import torch

from hpcpod import plugins
from hpcpod.agents.a2c import A2C
from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.agents.td3 import DDPG, TD3, DDPGConfig, TD3Config
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space
from hpcpod.errors import Diverged, UnsupportedSpace
from hpcpod.testing import AgentContract
from tests.agents.image_env import Bright
from tests.agents.training import SEEN, SMALL, iterate, row, small_agent, spec
from tests.envs.small_envs import Starting


class TestPPO(AgentContract):
    agent = "ppo"
    env = "CartPole-v1"
    config = SMALL["ppo"]


class TestPPOWithContinuousActions(TestPPO):
    env = "Pendulum-v1"


class TestPPOWithSeveralChoices(AgentContract):
    agent = "ppo"
    env = partial(Starting, many=True)
    config = SMALL["ppo"]


class TestPPOOfImages(AgentContract):
    agent = "ppo"
    env = partial(Bright, discrete=True)
    config = SMALL["ppo"]


class TestPPOWithEveryOption(TestPPO):
    config = SMALL["ppo"] | {
        "normalize_returns": True,
        "value_clip": 0.2,
        "target_kl": 0.01,
        "anneal_steps": 300,
        "entropy": 0.01,
        "h_term": 0.125,
        "activation": "relu",
    }


class TestA2C(AgentContract):
    agent = "a2c"
    env = "CartPole-v1"
    config = SMALL["a2c"]


class TestDQN(AgentContract):
    agent = "dqn"
    env = "CartPole-v1"
    config = SMALL["dqn"]


class TestDuelingDQN(TestDQN):
    config = SMALL["dqn"] | {"dueling": True}


class TestDQNWithEveryOption(TestDQN):
    config = SMALL["dqn"] | {
        "priority_exponent": 0.6,
        "n_steps": 3,
        "normalize_obs": True,
        "anneal_steps": 300,
    }


class TestDQNOfImages(AgentContract):
    agent = "dqn"
    env = partial(Bright, discrete=True)
    config = SMALL["dqn"] | SEEN["dqn"]


class TestSAC(AgentContract):
    agent = "sac"
    env = "Pendulum-v1"
    config = SMALL["sac"]
    bounded = True


class TestSACWithAFixedTemperature(TestSAC):
    config = SMALL["sac"] | {"temperature": 0.2}


class TestSACWithEveryOption(TestSAC):
    config = SMALL["sac"] | {"normalize_obs": True, "h_term": 0.125}


class TestSACOfImages(AgentContract):
    agent = "sac"
    env = partial(Bright, discrete=False)
    config = SMALL["sac"] | SEEN["sac"]
    bounded = True


class TestTD3OfImagesWithEveryOption(TestSACOfImages):
    agent = "td3"
    config = SMALL["td3"] | SEEN["td3"] | {"normalize_obs": True, "h_term": 0.125}


class TestTD3(AgentContract):
    agent = TD3
    env = "Pendulum-v1"
    config = SMALL["td3"]
    bounded = True


class TestDDPG(AgentContract):
    agent = "ddpg"
    env = "Pendulum-v1"
    config = SMALL["ddpg"]
    bounded = True


ENVS = {
    "ppo": "CartPole-v1",
    "a2c": "CartPole-v1",
    "dqn": "CartPole-v1",
    "sac": "Pendulum-v1",
    "td3": "Pendulum-v1",
    "ddpg": "Pendulum-v1",
}
"""Each agent, and the environment that it is tried in."""
each_agent = pytest.mark.parametrize("name", ENVS)


def own_spec(name: str, observation: Space | None = None, num_envs: int = 2) -> EnvSpec:
    """A made-up environment with actions of a kind that the agent knows."""
    discrete = ENVS[name] == "CartPole-v1"
    return spec(Discrete(2) if discrete else Box((1,), -1.0, 1.0), observation, num_envs)


@each_agent
def test_its_registered_name_finds_it(name: str) -> None:
    found = plugins.resolve("agents", name)
    assert found.__name__ == name.upper()
    assert plugins.config_of(name) is found.Config


@each_agent
def test_a_child_takes_the_weights_and_keeps_its_own_learning_rate(name: str) -> None:
    env = PreprocessVecEnv(ENVS[name], 4)
    state = small_agent(name, env.spec).state()

    def moved(learning_rate: float) -> float:
        agent = small_agent(name, env.spec, 1, learning_rate=learning_rate)
        agent.load(state)
        buffer, obs = agent.make_buffer(), env.reset(torch.arange(4))
        for _ in range(3):  # those with a replay buffer: enough to fill its first batch
            obs, _ = iterate(agent, env, buffer, obs)
        after = agent.state()
        # the critic's last layer also moves with the scale of the returns
        weights = [key for key in state if key.startswith("network/") and "/value." not in key]
        return max(float((after[key] - state[key]).abs().max()) for key in weights)

    # Adam moves a weight by no more than about a learning rate a step.
    child = moved(1e-5)
    assert 0 < child < 1e-3
    assert moved(1e-3) > 10 * child


def of_first_layer(name: str) -> bool:
    """Whether it is the name of the weights that read the observation."""
    return name.endswith(("0.weight", "hidden.weights.0"))


@each_agent
def test_a_state_of_other_shapes_is_refused_with_both(name: str) -> None:
    agent = small_agent(name, own_spec(name))
    state = agent.state()
    with pytest.raises(ValueError, match="'updates' is missing"):
        agent.load({key: tensor for key, tensor in state.items() if key != "updates"})
    with pytest.raises(ValueError, match="'extra' is unknown"):
        agent.load({**state, "extra": torch.zeros(1)})
    key = next(filter(of_first_layer, state))
    with pytest.raises(ValueError, match=rf"'{key}' has shape \(2,\), not \(.*\b3\b.*\)"):
        agent.load({**state, key: torch.zeros(2)})


@each_agent
def test_a_loss_that_is_not_finite_is_named(name: str) -> None:
    agent = small_agent(name, own_spec(name))
    buffer = agent.make_buffer()
    for t in range(agent.horizon):
        obs, _, step = row(t)
        action = agent.act(obs, explore=True)
        buffer.add(obs, action, step._replace(reward=torch.tensor([float("nan"), 0.0])))
    with pytest.raises(Diverged, match=f"{name}: not finite after update"):
        agent.update(buffer)


@pytest.mark.parametrize(
    ("action", "kind"),
    [(Box((1,), -1.0, 1.0), "a continuous"), (MultiDiscrete((2, 2)), "a multi-discrete")],
)
def test_dqn_refuses_what_it_cannot_act_in_and_says_what_can(
    action: Box | MultiDiscrete, kind: str
) -> None:
    sentence = f"dqn acts in discrete spaces only, but Task-v0 has {kind} action space; use ppo"
    with pytest.raises(UnsupportedSpace, match=sentence):
        DQN(spec(action), DQNConfig(), seed=0)


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Discrete(2), "a discrete action space; use dqn or ppo"),
        (MultiDiscrete((2, 2)), "a multi-discrete action space; use ppo"),
    ],
)
def test_those_of_continuous_actions_refuse_choices_and_say_what_can(
    name: str, action: Space, words: str
) -> None:
    sentence = f"{name} acts in continuous spaces only, but Task-v0 has {words}"
    with pytest.raises(UnsupportedSpace, match=sentence):
        small_agent(name, spec(action))


@each_agent
def test_one_choice_among_n_is_read_as_one_hot(name: str) -> None:
    agent = small_agent(name, own_spec(name, Discrete(16)))
    buffer = agent.make_buffer()
    for t in range(agent.horizon):
        _, _, step = row(t)
        obs = torch.tensor([t % 16, (t + 5) % 16])
        action = agent.act(obs, explore=True)
        buffer.add(obs, action, step._replace(obs=obs, next_obs=(obs + 1) % 16))
    assert agent.update(buffer)
    first = next(weight for key, weight in agent.state().items() if of_first_layer(key))
    assert 16 in first.shape


@pytest.mark.parametrize("name", ["ppo", "sac", "td3", "ddpg"])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_continuous_actions_keep_their_shape_and_are_learned_from(
    name: str, shape: tuple[int, ...]
) -> None:
    agent = small_agent(name, spec(Box(shape, -1.0, 1.0)))
    buffer = agent.make_buffer()
    for t in range(2 * agent.horizon):  # the second half is past the random actions
        obs, _, step = row(t)
        action = agent.act(obs / 100, explore=True)
        best = agent.act(obs / 100, explore=False)
        assert action.shape == best.shape == (2, *shape)
        assert float(best.abs().max()) <= 1
        buffer.add(obs / 100, action, step)
    assert agent.update(buffer)


@pytest.mark.parametrize(
    ("config", "arguments", "sentence"),
    [
        (PPOConfig, {"gamma": 1.7}, r"gamma must be in \[0, 1\], got 1.7"),
        (PPOConfig, {"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        (PPOConfig, {"activation": "gelu"}, "activation must be one of tanh, relu, got gelu"),
        (PPOConfig, {"epochs": 0}, "epochs must be at least 1, got 0"),
        (PPOConfig, {"entropy": float("nan")}, "entropy must be at least 0, got nan"),
        (DQNConfig, {"tau": 0.0}, "tau must be positive, got 0.0"),
        (DQNConfig, {"epsilon_end": -0.1}, r"epsilon_end must be in \[0, 1\], got -0.1"),
        (DQNConfig, {"batch_size": 0}, "batch_size must be at least 1, got 0"),
        (SACConfig, {"temperature": -0.1}, "temperature must be at least 0, got -0.1"),
        (SACConfig, {"temperature_init": 0.0}, "temperature_init must be positive, got 0.0"),
        (SACConfig, {"target_entropy": math.inf}, "target_entropy must be finite, got inf"),
        (SACConfig, {"critics": 65}, "critics must be at most 64, got 65"),
        (TD3Config, {"policy_delay": 0}, "policy_delay must be at least 1, got 0"),
        (TD3Config, {"tau": 1.5}, r"tau must be in \[0, 1\], got 1.5"),
        (DDPGConfig, {"updates_per_step": 0.0}, "updates_per_step must be positive, got 0.0"),
        (DDPGConfig, {"target_noise": -1.0}, "target_noise must be at least 0, got -1.0"),
    ],
)
def test_impossible_hyperparameters_are_refused_in_a_sentence(
    config: Any, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        config(**arguments)


@pytest.mark.parametrize("agent", [PPO, A2C, DQN, SAC, TD3, DDPG])
def test_the_shape_of_the_networks_and_the_discount_are_marked(agent: Any) -> None:
    marks = {f.name: f.metadata.keys() - {"search", "actions"} for f in fields(agent.Config)}
    marked = {name: found for name, found in marks.items() if found}
    assert marked["hidden"] == marked["layers"] == {"structural"}
    assert marked["gamma"] == {"near_one"}
