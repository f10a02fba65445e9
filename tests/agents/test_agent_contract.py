"""What every agent promises, whatever its algorithm."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from hpcpod import plugins
from hpcpod.agents.base import Agent, Buffer
from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.agents.networks import encode
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, MultiDiscrete, State
from hpcpod.errors import Diverged, UnsupportedSpace
from tests.agents.training import iterate, row, small_agent, spec

AGENTS = ["ppo", "dqn"]
each_agent = pytest.mark.parametrize("name", AGENTS)


class Run:
    """An agent in training on four CartPoles."""

    def __init__(self, name: str, seed: int = 0, learning_rate: float = 1e-3) -> None:
        self.env = PreprocessVecEnv("CartPole-v1", 4)
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
    assert first.dtype == torch.int64 and first.shape == (4,)
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
        run.train(3)  # dqn: enough to fill its first batch
    weights = [key for key in state if key.startswith("network/")]

    def moved(run: Run) -> float:
        after = run.agent.state()
        return max(float((after[key] - state[key]).abs().max()) for key in weights)

    # Adam moves a weight by no more than about a learning rate a step.
    assert 0 < moved(child) < 1e-3
    assert moved(twin) > 10 * moved(child)


@each_agent
def test_reseeding_restarts_the_random_stream(name: str) -> None:
    agent = Run(name).agent
    obs = torch.zeros(4, 4)

    def draw() -> list[list[int]]:
        return [agent.act(obs, explore=True).tolist() for _ in range(10)]

    agent.reseed(5)
    first, second = draw(), draw()
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
    with pytest.raises(ValueError, match=rf"'{key}' has shape \(2,\), not \(\d+, 4\)"):
        agent.load({**state, key: torch.zeros(2)})


@each_agent
def test_a_loss_that_is_not_finite_means_diverged(name: str) -> None:
    agent = small_agent(name, spec())
    buffer = agent.make_buffer()
    for t in range(agent.horizon):
        obs, action, step = row(t)
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


@each_agent
def test_images_are_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(UnsupportedSpace, match=rf"{name} reads vectors, .*DtypeObservation"):
        small_agent(name, spec(observation=Box((3, 8, 8), 0.0, 255.0, "uint8")))


@each_agent
def test_one_choice_among_n_is_read_as_one_hot(name: str) -> None:
    env = PreprocessVecEnv("FrozenLake-v1", 4)
    agent = small_agent(name, env.spec)
    iterate(agent, env, agent.make_buffer(), env.reset(torch.arange(4)))
    first = next(weight for key, weight in agent.state().items() if key.endswith("0.weight"))
    assert first.shape[1] == 16
    assert torch.equal(encode(env.spec.observation, torch.arange(16)), torch.eye(16))


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
    ],
)
def test_impossible_hyperparameters_are_refused_in_a_sentence(
    config: Any, arguments: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        config(**arguments)


@pytest.mark.parametrize("agent", [PPO, DQN])
def test_every_hyperparameter_has_a_default_and_a_docstring(agent: type[PPO | DQN]) -> None:
    config = agent.Config
    assert config() == config()
    source = Path(inspect.getfile(config)).read_text(encoding="utf-8")
    body = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == config.__name__
    )
    documented = {
        first.target.id
        for first, second in pairwise(body)
        if isinstance(first, ast.AnnAssign)
        and isinstance(first.target, ast.Name)
        and isinstance(second, ast.Expr)
    }
    assert documented == {field.name for field in fields(config)}
    marked = {f.name: set(f.metadata) for f in fields(config) if f.metadata}
    assert marked["hidden"] == marked["layers"] == {"structural"}
    assert marked["gamma"] == {"near_one"}


def test_fresh_weights_do_not_depend_on_the_batch() -> None:
    one, many = (PPO(spec(num_envs=n), PPOConfig(), seed=3).state() for n in (1, 64))
    assert_same(one, many)
