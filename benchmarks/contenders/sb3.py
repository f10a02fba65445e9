"""Stable-Baselines3: its own ``learn``, timed by a callback."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from contenders import process, rows
from contenders.process import Task
from contenders.rows import Row

ENDLESS = 1_000_000_000


class Timer(BaseCallback):  # type: ignore[misc]
    """A rollout starts where the updates before it have ended."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task
        self._done = False

    def _on_training_start(self) -> None:
        self._task.meter.begin()

    def _on_rollout_start(self) -> None:
        row, model = self._task.row, self.model
        updates = model._n_updates  # PPO counts epochs, the others gradient updates
        if row.epochs:
            updates *= row.rollout // row.batch
        last = None
        if row.threshold is not None:
            last = [info["r"] for info in list(model.ep_info_buffer)[-20:]]
        self._done = self._task.meter.tick(self.num_timesteps, updates, last)

    def _on_step(self) -> bool:
        return not self._done


class Pool(VecEnv):  # type: ignore[misc]
    """EnvPool, whose threads step the environments, as this library wants them."""

    def __init__(self, task: Task) -> None:
        import envpool

        row = task.row
        self._pool: Any = envpool.make_gymnasium(
            row.env, num_envs=row.num_envs, num_threads=row.cores, seed=task.seed
        )
        super().__init__(row.num_envs, self._pool.observation_space, self._pool.action_space)

    def reset(self) -> Any:
        return self._pool.reset()[0]

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        obs, reward, terminated, truncated, _ = self._pool.step(self._actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(done)
        if len(ended):
            obs = obs.copy()
            for i in ended:
                cut = bool(truncated[i] and not terminated[i])
                infos[i] = {"terminal_observation": obs[i].copy(), "TimeLimit.truncated": cut}
            obs[ended] = self._pool.reset(ended.astype(np.int32))[0]
        return obs, reward, done, infos

    def close(self) -> None:
        self._pool.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def environments(task: Task) -> Any:
    row = task.row
    if "envpool" in task.words:
        return Pool(task)
    kind = SubprocVecEnv if "processes" in task.words else DummyVecEnv
    return make_vec_env(row.env, row.num_envs, seed=task.seed, vec_env_cls=kind)


def model_of(row: Row, env: Any, seed: int) -> Any:
    """The model with the row's settings."""
    from torch import nn

    sizes = [row.hidden, row.hidden]
    equal: dict[str, Any] = {"learning_rate": row.learning_rate, "batch_size": row.batch}
    equal |= {"gamma": rows.GAMMA, "seed": seed, "device": "cpu"}
    activation = nn.Tanh if row.activation == "tanh" else nn.ReLU
    policy: dict[str, Any] = {"activation_fn": activation, "net_arch": sizes}
    if row.algorithm == "ppo":
        return PPO(
            "MlpPolicy",
            env,
            n_steps=row.horizon,
            n_epochs=row.epochs,
            gae_lambda=rows.GAE_LAMBDA,
            clip_range=rows.CLIP,
            ent_coef=0.0,
            vf_coef=rows.VALUE_COEF,
            max_grad_norm=rows.MAX_GRAD_NORM,
            policy_kwargs={**policy, "net_arch": {"pi": sizes, "vf": sizes}},
            **equal,
        )
    equal |= {
        "buffer_size": rows.BUFFER,
        "learning_starts": rows.LEARNING_STARTS,
        "train_freq": row.horizon,
        "gradient_steps": row.updates,
        "policy_kwargs": policy,
    }
    if row.algorithm == "sac":
        return SAC("MlpPolicy", env, tau=rows.TAU, **equal)
    if row.algorithm == "td3":
        numbers = env.action_space.shape
        noise = NormalActionNoise([0.0] * numbers[0], [0.1] * numbers[0])
        return TD3("MlpPolicy", env, tau=rows.TAU, action_noise=noise, **equal)
    return DQN(
        "MlpPolicy",
        env,
        target_update_interval=rows.TARGET_STEPS,
        exploration_fraction=rows.EPSILON_STEPS / ENDLESS,
        exploration_final_eps=rows.EPSILON_END,
        **equal,
    )


def train(task: Task) -> None:
    row = task.row
    env = environments(task)
    model = model_of(row, env, task.seed)
    model.learn(ENDLESS, callback=Timer(task))
    env.close()


if __name__ == "__main__":
    process.main(train, "stable_baselines3")
