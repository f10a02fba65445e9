"""ElegantRL: its agents under its own ``train_agent``, timed after each ``update_net``."""

from __future__ import annotations

import tempfile
from typing import Any

import gymnasium
import numpy as np
import torch
from elegantrl.agents.AgentDQN import AgentDQN
from elegantrl.agents.AgentPPO import AgentDiscretePPO, AgentPPO
from elegantrl.agents.AgentSAC import AgentSAC
from elegantrl.agents.AgentTD3 import AgentTD3
from elegantrl.train.config import Config
from elegantrl.train.run import train_agent

from contenders import episodes, process, rows
from contenders.process import Task

NEVER = 10**12


class Single:
    """What the library calls an environment: one, in numpy."""

    def __init__(self, task: Task) -> None:
        self._env = episodes.make(task)
        self._scale = _scale(self._env)

    def reset(self) -> Any:
        return self._env.reset()[0]

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        scaled = action if self._scale is None else action * self._scale
        obs, reward, terminated, truncated, _ = self._env.step(scaled)
        return obs, float(reward), terminated or truncated, {}


class Several:
    """The same for many, in tensors; they reset themselves."""

    def __init__(self, task: Task) -> None:
        self._envs = [episodes.make(task) for _ in range(task.row.num_envs)]
        self._scale = _scale(self._envs[0])

    def reset(self) -> torch.Tensor:
        return _tensor([env.reset()[0] for env in self._envs])

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        actions = action.cpu().numpy()
        if self._scale is not None:
            actions = actions * self._scale
        observations, rewards, dones = [], [], []
        for env, each in zip(self._envs, actions, strict=True):
            obs, reward, terminated, truncated, _ = env.step(each)
            done = terminated or truncated
            observations.append(env.reset()[0] if done else obs)
            rewards.append(reward)
            dones.append(done)
        return _tensor(observations), _tensor(rewards), torch.tensor(dones), {}


def _tensor(values: list[Any]) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))


def _scale(env: gymnasium.Env[Any, Any]) -> Any:
    """The library acts in [-1, 1]."""
    space = env.action_space
    return space.high if isinstance(space, gymnasium.spaces.Box) else None


def agent_class(task: Task) -> Any:
    """The row's agent; the library looks for PPO in its name."""
    row = task.row
    discrete = row.env == "CartPole-v1"
    kinds = {"sac": AgentSAC, "td3": AgentTD3, "dqn": AgentDQN}
    kind = kinds.get(row.algorithm, AgentDiscretePPO if discrete else AgentPPO)
    rounds = 0

    def update_net(self: Any, buffer: Any) -> Any:
        nonlocal rounds
        answer = kind.update_net(self, buffer)
        rounds += 1
        start = 0 if row.epochs else rows.LEARNING_STARTS
        task.round_ends(start + rounds * row.rollout)
        return answer

    return type(kind.__name__, (kind,), {"update_net": update_net})


def config_of(task: Task, folder: str) -> Any:
    row = task.row
    env = episodes.make(task)
    space: Any = env.action_space
    discrete = isinstance(space, gymnasium.spaces.Discrete)
    about = {
        "env_name": row.env,
        "num_envs": row.num_envs,
        "max_step": 1000,
        "state_dim": int(np.prod(env.observation_space.shape or ())),
        "action_dim": int(space.n) if discrete else int(space.shape[0]),
        "if_discrete": discrete,
        "task": task,
    }
    config = Config(agent_class(task), Single if row.num_envs == 1 else Several, about)
    config.eval_env_class, config.eval_env_args = Single, {**about, "num_envs": 1}
    given = {
        "gamma": rows.GAMMA,
        "net_dims": (row.hidden, row.hidden),
        "learning_rate": row.learning_rate,
        "batch_size": row.batch,
        "horizon_len": row.horizon,
        "soft_update_tau": rows.TAU,
        "gpu_id": -1,
        "learner_gpus": -1,
        "num_threads": 2 if "2threads" in task.words else 1,
        "random_seed": task.seed,
        "cwd": folder,
        "eval_per_step": NEVER,
        "break_step": NEVER,
    }
    if row.epochs:
        # It divides the horizon, not the rollout, into batches.
        given |= {"repeat_times": float(row.epochs * row.num_envs)}
        given |= {"ratio_clip": rows.CLIP, "lambda_gae_adv": rows.GAE_LAMBDA}
        given |= {"lambda_entropy": 0.0, "clip_grad_norm": rows.MAX_GRAD_NORM}
    else:
        given |= {"repeat_times": row.updates / row.rollout, "buffer_size": rows.BUFFER}
        given |= {"eval_times": rows.LEARNING_STARTS // row.horizon}  # of random horizons, too
        given |= {"explore_rate": rows.EPSILON_END, "explore_noise_std": 0.1}
    for name, value in given.items():
        setattr(config, name, value)
    return config


def train(task: Task) -> None:
    if task.row.activation != "relu":
        task.notes.append("its networks are relu")
    if task.row.algorithm in ("sac", "td3"):
        task.notes.append("its two critics are one network with two outputs: half the work")
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(task, folder)
        task.meter.begin()
        train_agent(config)


if __name__ == "__main__":
    process.main(train, "elegantrl")
