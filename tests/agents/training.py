"""A loop that trains, as plain as it can be, and rows of made-up experience."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpcpod.agents.a2c import A2C
from hpcpod.agents.base import Agent, Buffer, Metrics
from hpcpod.agents.dqn import DQN
from hpcpod.agents.ppo import PPO
from hpcpod.agents.sac import SAC
from hpcpod.agents.td3 import DDPG, TD3
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, Space, Step, VecEnv, random_seeds


def spec(
    action: Space | None = None, observation: Space | None = None, num_envs: int = 2
) -> EnvSpec:
    return EnvSpec(
        id="Task-v0",
        observation=observation or Box((3,), -1.0, 1.0),
        action=action or Discrete(2),
        num_envs=num_envs,
        device="cpu",
        max_episode_steps=None,
        engine="none",
    )


_REPLAYED: dict[str, Any] = {
    "buffer_size": 96,  # the ring of the contract's runs wraps
    "learning_starts": 32,
    "horizon": 16,
    "updates_per_step": 0.2,  # 13 a round: TD3's delay ends in the middle of one
    "batch_size": 16,
    "hidden": 32,
}
SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"horizon": 16, "minibatch_size": 32, "epochs": 2},
    "a2c": {},
    "dqn": {
        "buffer_size": 96,
        "learning_starts": 32,
        "horizon": 16,
        "updates_per_iteration": 10,
        "target_interval": 7,
    },
    "sac": _REPLAYED,
    "td3": _REPLAYED,
    "ddpg": _REPLAYED,
}
"""Hyperparameters by which updates are short."""
SEEN: dict[str, dict[str, Any]] = {
    "dqn": {"updates_per_iteration": 5, "batch_size": 16, "hidden": 32},
    "sac": {"updates_per_step": 0.08},  # 5 a round: TD3's delay ends in the middle of one
    "td3": {"updates_per_step": 0.08},
}
"""Changes to them for images, of which an update takes three times as long or more."""
CLASSES: dict[str, Any] = {"ppo": PPO, "a2c": A2C, "dqn": DQN, "sac": SAC, "td3": TD3, "ddpg": DDPG}


def small_agent(name: str, env_spec: EnvSpec, seed: int = 0, **config: Any) -> Agent:
    """An agent whose updates are short."""
    cls = CLASSES[name]
    agent: Agent = cls(env_spec, cls.Config(**{"learning_rate": 1e-3} | SMALL[name] | config), seed)
    return agent


def iterate(agent: Agent, env: VecEnv, buffer: Buffer, obs: Tensor) -> tuple[Tensor, Metrics]:
    """Collect ``horizon`` rows, then update."""
    for _ in range(agent.horizon):
        action = agent.act(obs, explore=True)
        step = env.step(action)
        buffer.add(obs, action, step)
        obs = step.obs
    return obs, agent.update(buffer)


def evaluate(agent: Agent, env_id: str, episodes: int = 16) -> float:
    """Mean return of the deterministic policy on fixed episodes."""
    env = PreprocessVecEnv(env_id, episodes)
    obs = env.reset(random_seeds("evaluation", count=episodes))
    returns, running = torch.zeros(episodes), torch.ones(episodes, dtype=torch.bool)
    while running.any():
        step = env.step(agent.act(obs, explore=False))
        returns += step.reward * running
        running &= ~(step.terminated | step.truncated)
        obs = step.obs
    return float(returns.mean())


def row(t: int, **flags: list[bool]) -> tuple[Tensor, Tensor, Step]:
    """Row t of the made-up experience of two environments.

    Environment i observes 100 i + t and acts next on 100 i + t + 1; the final observation of
    an episode is 100 i + t + 0.5. So an observation tells which step it belongs to.
    """
    num_envs = 2
    at = 100.0 * torch.arange(num_envs)[:, None] + t
    at = at.repeat(1, 3)

    def flag(name: str, default: bool) -> Tensor:
        return torch.tensor(flags.get(name, [default] * num_envs))

    terminated, truncated = flag("terminated", False), flag("truncated", False)
    ended = (terminated | truncated)[:, None]
    step = Step(
        obs=at + 1,
        reward=at[:, 0].clone(),
        terminated=terminated,
        truncated=truncated,
        next_obs=torch.where(ended, at + 0.5, at + 1),
        valid=flag("valid", True),
    )
    return at, torch.full((num_envs,), t % 2), step
