"""Policies of all kinds for the tests of exports: tiny, and with weights that tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from hpcpod.agents.operations import NotPortable, Program, Value
from hpcpod.agents.ppo import PPO
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.make import make_env
from hpcpod.pod.factory import make_agent
from hpcpod.pod.policy import Policy, policy_meta
from tests.agents.image_env import Bright
from tests.envs.small_envs import Starting, Structured, WithAction, WithObservation

Space = gym.spaces

AWKWARD = Space.Dict(
    {
        "action": Space.Box(-5.0, 5.0, (2,), np.float64),
        "%1": Space.MultiDiscrete(np.array([[2, 3], [3, 2]]), start=np.array([[1, 0], [-1, 4]])),
        "arm": Space.Dict({"on": Space.MultiBinary(3), "at": Space.Box(-1, 1, (), np.float32)}),
        "arm/on": Space.Tuple([Space.Discrete(3, start=-2), Space.Box(0, 9, (2, 2), np.int32)]),
        "arm/at": Space.Discrete(2),
        "": Space.Box(-np.inf, np.inf, (1,), np.float32),
    }
)
"""Names and kinds of parts that an export could confuse."""

FAR = Space.Box(
    np.array([-1.0, -1.7e308, 1e3, 7.0]), np.array([1.0, 1.7e308, 1000.5, 7.0]), (4,), np.float64
)
"""Bounds that are the policy's own, too far apart for their distance, narrow, or one number."""


def seen(space: gym.Space[Any]) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: WithObservation(space)


def acted(space: gym.Space[Any]) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: WithAction(space)


@dataclass(frozen=True)
class Kind:
    agent: str
    env: Any
    hyperparameters: dict[str, Any]


SEVERAL = "a2c of choices that begin at 5, acts from 7 and from -1"
KINDS = {
    "ppo": Kind("ppo", "CartPole-v1", {}),
    SEVERAL: Kind("a2c", lambda: Starting(many=True), {"activation": "relu"}),
    "ppo of a pendulum": Kind("ppo", "Pendulum-v1", {}),
    "td3 of a pendulum": Kind("td3", "Pendulum-v1", {}),
    "ppo of a dictionary": Kind("ppo", lambda: Structured(size=3), {"layers": 1}),
    "ppo of awkward parts": Kind("ppo", seen(AWKWARD), {}),
    "ppo of 64-bit actions far apart": Kind("ppo", acted(FAR), {}),
    "ppo of several choices": Kind("ppo", seen(Space.MultiDiscrete([2, 4], start=[3, 0])), {}),
    "ppo of bits of a byte": Kind("ppo", seen(Space.Box(0, 255, (2, 2, 2, 2), np.uint8)), {}),
    "dqn": Kind("dqn", "CartPole-v1", {"normalize_obs": True}),
    "dqn that duels, of an image": Kind(
        "dqn", lambda: Bright(True), {"dueling": True, "layers": 3}
    ),
    "dqn that duels by one layer": Kind("dqn", Starting, {"dueling": True, "layers": 1}),
    "sac": Kind("sac", "Pendulum-v1", {"normalize_obs": True}),
    "td3 of an image": Kind("td3", lambda: Bright(False), {}),
    "ddpg of an image of 40 x 36 x 4": Kind(
        "ddpg", seen(Space.Box(0, 255, (40, 36, 4), np.uint8)), {}
    ),
    "sac of matrices": Kind("sac", acted(Space.Box(-2.0, 3.0, (2, 2), np.float32)), {}),
}


def policy_of(kind: Kind, seed: int = 0) -> Policy:
    """A policy with weights and statistics as after a long training."""
    env = make_env(kind.env, 2)
    given = {"hidden": 16, **kind.hyperparameters}
    if kind.agent in ("dqn", "sac", "td3", "ddpg"):
        given["buffer_size"] = 64
    agent = make_agent(kind.agent, env.spec, given, seed, "cpu")
    shake(agent, seed)
    name = kind.env if isinstance(kind.env, str) else "tests.deploy.policies:unknown"
    about = policy_meta(env.spec, EnvConfig(name), kind.agent, given)
    env.close()
    return Policy(agent, env.spec, about)


def shake(agent: Any, seed: int) -> None:
    """Give it weights with which different observations have different actions."""
    generator, state = torch.Generator().manual_seed(seed), agent.state()
    for name, tensor in state.items():
        drawn = torch.randn(tensor.shape, generator=generator)
        if name.startswith(("network", "policy")) and tensor.is_floating_point():
            inputs = tensor[0].numel() if tensor.ndim in (2, 4) else tensor.shape[1:2].numel()
            state[name] = (0.1 if tensor.ndim < 2 else 2 * inputs**-0.5) * drawn
        elif name.endswith("mean"):
            state[name] = 0.1 * drawn
        elif name.endswith("var"):
            state[name] = 0.5 + drawn.abs()
    agent.load(state)


class Layered(PPO):
    """An agent of a user's own with other modules, which writes its operations."""

    def __init__(self, spec: Any, config: Any, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, config, seed, device)
        self.own = nn.Sequential(
            nn.Linear(4, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 8), nn.ELU(),
            nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.Identity(), nn.Linear(8, 2),
        )  # fmt: skip
        with torch.no_grad():
            for i, weight in enumerate(self.own.parameters()):
                wave = torch.sin(torch.arange(weight.numel()) * (1.7 + i) + i).view_as(weight)
                weight.copy_(2 * wave)
            scores = self.own(torch.sin(torch.arange(64.0)).view(16, 4))
            last = list(self.own.parameters())[-1]
            last.sub_(scores.mean(dim=0))  # so that both choices are taken
        self._parts["own"] = self.own

    def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
        with torch.inference_mode():
            scores: torch.Tensor = self.own(obs)
            return scores.argmax(dim=-1)

    def write_operations(self, program: Program, x: Value) -> Value:
        return program.add("argmax", program.network(self.own, x))


class Forgetful(PPO):
    """An agent of a user's own whose operations leave the normaliser out."""

    def write_operations(self, program: Program, x: Value) -> Value:
        network = self._network
        x = program.network(network.policy, program.network(network.hidden, x))
        return program.network(network.head, x)


class Unwritten(PPO):
    """An agent of a user's own that says nothing of its operations."""

    def write_operations(self, program: Program, x: Value) -> Value:
        raise NotPortable("a module of its own")


class Branching(Unwritten):
    """One whose action can't be traced, either."""

    def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
        action = super().act(obs, explore=explore)
        return action if float(obs.sum()) > 0 else 1 - action


def own_policy(cls: Any, env_id: str = "CartPole-v1") -> Policy:
    """A policy of an agent of a user's own, in CartPole."""
    env = make_env(env_id, 2)
    agent = cls(env.spec, cls.Config(hidden=16), 0)
    shake(agent, 3)
    name = f"tests.deploy.policies:{cls.__name__}"
    return Policy(agent, env.spec, policy_meta(env.spec, EnvConfig(env_id), name, {"hidden": 16}))
