"""What every agent promises, whatever its algorithm."""

from __future__ import annotations

import ast
import inspect
import math
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from hpcpod import plugins
from hpcpod.agents.base import Agent, Buffer
from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.agents.td3 import DDPG, TD3, DDPGConfig, TD3Config
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space, State
from hpcpod.errors import Diverged, UnsupportedSpace
from tests.agents.training import iterate, row, small_agent, spec

ENVS = {
    "ppo": "CartPole-v1",
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


class Run:
    """An agent in training on four environments."""

    def __init__(self, name: str, seed: int = 0, learning_rate: float = 1e-3) -> None:
        self.env = PreprocessVecEnv(ENVS[name], 4)
        self.agent: Agent = small_agent(name, self.env.spec, seed, learning_rate)
        self.buffer: Buffer = self.agent.make_buffer()
        self.obs = self.env.reset(torch.arange(4))

    def train(self, iterations: int) -> Run:
        for _ in range(iterations):
            self.obs, _ = iterate(self.agent, self.env, self.buffer, self.obs)
        return self


def assert_same(a: State, b: State) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@each_agent
def test_its_registered_name_finds_it(name: str) -> None:
    assert plugins.resolve("agents", name).__name__ == name.upper()


@each_agent
def test_a_run_that_was_stopped_and_resumed_is_the_run_that_was_not(name: str) -> None:
    run = Run(name).train(7)
    agent, env = run.agent.state(), run.env.state()
    assert env is not None
    oldest, rows = run.buffer.oldest, run.buffer.rows
    segments = [(oldest, run.buffer.segment(oldest, rows))] if rows > oldest else []
    obs = run.obs.clone()
    run.train(5)

    other = Run(name, seed=99)
    other.agent.load(agent)
    other.env.restore(env)
    other.buffer.restore(rows, segments)
    other.obs = obs
    other.train(5)
    assert_same(run.agent.state(), other.agent.state())
    assert torch.equal(run.obs, other.obs)


@each_agent
def test_equal_arguments_give_equal_runs(name: str) -> None:
    once, again = Run(name).train(4).agent.state(), Run(name).train(4).agent.state()
    assert_same(once, again)
    other = Run(name, seed=1).agent.state()
    first = next(key for key in other if key.endswith("0.weight"))
    assert not torch.equal(other[first], Run(name).agent.state()[first])


@each_agent
def test_the_global_random_generator_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    Run(name).train(3)
    assert torch.equal(before, torch.get_rng_state())


@each_agent
def test_acting_without_exploring_is_deterministic_and_changes_nothing(name: str) -> None:
    run = Run(name).train(3)
    before = run.agent.state()
    first = run.agent.act(run.obs, explore=False)
    if ENVS[name] == "CartPole-v1":
        assert first.dtype == torch.int64 and first.shape == (4,)
    else:
        assert first.dtype == torch.float32 and first.shape == (4, 1)
    for _ in range(5):
        assert torch.equal(first, run.agent.act(run.obs, explore=False))
    assert_same(before, run.agent.state())


@each_agent
def test_a_state_is_a_copy_of_plain_tensors(name: str) -> None:
    run = Run(name).train(3)
    state = run.agent.state()
    kept = {key: tensor.clone() for key, tensor in state.items()}
    run.train(2)
    assert_same(kept, state)
    assert all(type(tensor) is torch.Tensor for tensor in state.values())
    assert state["updates"].dtype == torch.int64 and state["updates"].dim() == 0
    assert state["rng"].dtype == torch.uint8


@each_agent
def test_a_child_takes_the_weights_and_keeps_its_own_learning_rate(name: str) -> None:
    parent = Run(name).train(4)
    state = parent.agent.state()
    child, twin = Run(name, learning_rate=1e-5), Run(name)
    for run in (child, twin):
        run.agent.load(state)
        run.train(3)  # those with a replay buffer: enough to fill its first batch
    weights = [key for key in state if key.startswith("network/")]

    def moved(run: Run) -> float:
        after = run.agent.state()
        return max(float((after[key] - state[key]).abs().max()) for key in weights)

    # Adam moves a weight by no more than about a learning rate a step.
    assert 0 < moved(child) < 1e-3
    assert moved(twin) > 10 * moved(child)


@each_agent
def test_reseeding_restarts_the_random_stream(name: str) -> None:
    run = Run(name).train(3)
    agent, obs = run.agent, run.obs

    def draw() -> list[list[float]]:
        return [agent.act(obs, explore=True).tolist() for _ in range(10)]

    state = agent.state()
    agent.reseed(5)
    first, second = draw(), draw()
    agent.load(state)  # for what else exploration depends on: how many steps there were
    agent.reseed(5)
    assert draw() == first != second


@each_agent
def test_a_state_that_does_not_fit_is_refused_by_name(name: str) -> None:
    agent = Run(name).agent
    state = agent.state()
    with pytest.raises(ValueError, match="'updates' is missing"):
        agent.load({key: tensor for key, tensor in state.items() if key != "updates"})
    with pytest.raises(ValueError, match="'extra' is unknown"):
        agent.load({**state, "extra": torch.zeros(1)})
    key = next(key for key in state if key.endswith("0.weight"))
    with pytest.raises(ValueError, match=rf"'{key}' has shape \(2,\), not \(\d+, [34]\)"):
        agent.load({**state, key: torch.zeros(2)})


@each_agent
def test_a_loss_that_is_not_finite_means_diverged(name: str) -> None:
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
    first = next(weight for key, weight in agent.state().items() if key.endswith("0.weight"))
    assert first.shape[1] == 16


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
    config: Any, arguments: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        config(**arguments)


@pytest.mark.parametrize("agent", [PPO, DQN, SAC, TD3, DDPG])
def test_every_hyperparameter_has_a_default_and_a_docstring(agent: Any) -> None:
    config = agent.Config
    assert config() == config()
    source = Path(inspect.getfile(config)).read_text(encoding="utf-8")
    family = {cls.__name__ for cls in config.__mro__}
    documented = {
        first.target.id
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name in family
        for first, second in pairwise(node.body)
        if isinstance(first, ast.AnnAssign)
        and isinstance(first.target, ast.Name)
        and isinstance(second, ast.Expr)
    }
    assert documented == {field.name for field in fields(config)}
    marked = {f.name: set(f.metadata) for f in fields(config) if f.metadata}
    assert marked["hidden"] == marked["layers"] == {"structural"}
    assert marked["gamma"] == {"near_one"}


@each_agent
def test_fresh_weights_do_not_depend_on_the_batch(name: str) -> None:
    one, many = (small_agent(name, own_spec(name, num_envs=n), 3).state() for n in (1, 64))
    assert_same(one, many)
