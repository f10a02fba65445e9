"""Stable-Baselines3 or sb3-contrib as a program of a run: copy this file, and change it.

Any of their algorithms: the configuration names it, its environment, and whatever hyperparameters
its class takes. `width` is of both layers of the policy. Without a run: `python sb3.py`.
"""

import time

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import hpcpod

SAVE_SECONDS = 300
"""Steps that a preemption without a warning may cost."""


class Seeded(gymnasium.Wrapper):
    """An environment whose first episode is a seed's."""

    def __init__(self, env, seed):
        super().__init__(env)
        self._seed = seed

    def reset(self, *, seed=None, options=None):
        seed, self._seed = self._seed, None
        return self.env.reset(seed=seed, options=options)


class Report(BaseCallback):
    """Tells hpcpod of each rollout, saves now and then, and ends training where it should stop."""

    def __init__(self, pod):
        super().__init__()
        self.pod = pod

    def _on_training_start(self):
        self.start, self.saved = self.model.num_timesteps, time.monotonic()

    def _on_step(self):
        return not self.pod.should_stop

    def _on_rollout_end(self):
        steps = self.model.num_timesteps - self.start
        numbers = {k: v for k, v in self.logger.name_to_value.items() if np.isfinite(v)}
        self.pod.progress(steps=steps, **numbers)
        if time.monotonic() > self.saved + SAVE_SECONDS:
            save(self.model, self.pod.save_to)
            self.pod.saved()
            self.saved = time.monotonic()


def save(model, folder):
    model.save(folder / "model.zip")
    model.get_env().save(folder / "normalizer.pkl")
    if hasattr(model, "replay_buffer"):
        model.save_replay_buffer(folder / "replay.pkl")


def evaluate(model, normalizer, env_id, seeds):
    """The return of the first episode of each seed."""
    envs = DummyVecEnv([lambda s=s: Seeded(gymnasium.make(env_id), s) for s in seeds])
    totals, over = np.zeros(len(seeds)), np.zeros(len(seeds), bool)
    obs, state, first = envs.reset(), None, np.ones(len(seeds), bool)
    while not over.all():
        obs = normalizer.normalize_obs(obs)
        action, state = model.predict(obs, state=state, episode_start=first, deterministic=True)
        obs, rewards, first, _ = envs.step(action)
        totals += np.where(over, 0, rewards)
        over |= first
    envs.close()
    return totals


def play(pod):
    """One round."""
    given = dict(pod.hyperparameters)
    name, env_id = given.pop("algorithm"), given.pop("env")
    num_envs, width = given.pop("num_envs"), given.pop("width")
    kind = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    env = make_vec_env(env_id, n_envs=num_envs, seed=pod.seed)
    if pod.checkpoint:
        env = VecNormalize.load(str(pod.checkpoint / "normalizer.pkl"), env)
        model = kind.load(pod.checkpoint / "model.zip", env=env, seed=pod.seed, **given)
        if hasattr(model, "replay_buffer") and pod.mode == "train":
            model.load_replay_buffer(pod.checkpoint / "replay.pkl")
    else:
        env = VecNormalize(env, norm_reward=False)
        policy = "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy"
        layers = {"net_arch": [width, width]}
        model = kind(policy, env, seed=pod.seed, policy_kwargs=layers, **given)
    if pod.mode == "train":
        before = model.num_timesteps
        if pod.train_steps_left:
            model.learn(pod.train_steps_left, callback=Report(pod), reset_num_timesteps=False)
        save(model, pod.save_to)
        if pod.should_stop:  # the evaluation may take longer than is left
            pod.saved(steps=model.num_timesteps - before)
        returns = evaluate(model, env, env_id, pod.panel_seeds)
        pod.report(returns=returns, steps=model.num_timesteps - before)
    else:
        pod.report(returns=evaluate(model, env, env_id, pod.panel_seeds))
    env.close()


if __name__ == "__main__":
    for pod in hpcpod.sessions():
        if not pod.hyperparameters:  # outside of a run
            pod.hyperparameters.update(algorithm="PPO", env="CartPole-v1", num_envs=8, width=64)
        play(pod)
