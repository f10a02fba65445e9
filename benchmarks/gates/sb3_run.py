"""One run of stable-baselines3: ``python -m gates.sb3_run``, as ``gates.hpcpod_run``.

It runs in an environment of its own, without hpcpod. ``order["hyperparameters"]`` are hpcpod's, by
the names that they have there; what has no counterpart is said where it is left out.
``order["own"]`` stands in their place where the library's own are meant, by its own names.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


def train(order: dict[str, Any]) -> list[dict[str, float]]:
    """Train and score as ``Row.order`` says; returns what ``hpcpod_run.train`` does."""
    model = own(order) if "own" in order else translated(order)
    scores = Scores(order)
    model.learn(order["env_steps"], callback=scores)
    scores.score_if_due()
    return scores.curve


def own(order: dict[str, Any]) -> Any:
    """A model as the library or its zoo makes it: nothing but ``order["own"]`` is told.

    There ``n_envs`` and ``normalize`` are what the zoo's files mean by them, a string
    ``lin_3e-4`` is a rate that falls to 0 by the end of the run, and ``noise_std`` is that of
    normal noise on actions.
    """
    env, given = order["env"], dict(order["own"])
    count, normalize = given.pop("n_envs", 1), given.pop("normalize", False)
    vec_env: Any = DummyVecEnv([lambda: gym.make(env["id"], **env["kwargs"])] * count)
    if normalize:
        vec_env = VecNormalize(vec_env, gamma=given.get("gamma", 0.99))
    for name, value in given.items():
        if isinstance(value, str) and value.startswith("lin_"):
            given[name] = LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    if "noise_std" in given:
        mean = np.zeros(vec_env.action_space.shape)
        given["action_noise"] = NormalActionNoise(mean, mean + given.pop("noise_std"))
    if "activation_fn" in given.get("policy_kwargs", {}):
        activation = getattr(torch.nn, given["policy_kwargs"]["activation_fn"])
        given["policy_kwargs"] = given["policy_kwargs"] | {"activation_fn": activation}
    make = getattr(sb3, order["algorithm"].upper())
    return make("MlpPolicy", vec_env, seed=order["seed"], device="cpu", **given)


def translated(order: dict[str, Any]) -> Any:
    """A model with hpcpod's environments and hyperparameters."""
    env, given = order["env"], order["hyperparameters"]
    make = [lambda: gym.make(env["id"], **env["kwargs"]) for _ in range(env["num_envs"])]
    vec_env: Any = DummyVecEnv(make)
    normalize_returns = given.get("normalize_returns") or given.get("normalize_rewards", False)
    if given["normalize_obs"] or normalize_returns:
        vec_env = VecNormalize(
            vec_env, norm_obs=given["normalize_obs"], norm_reward=normalize_returns,
            gamma=given["gamma"],
        )  # fmt: skip
    return MODELS[order["algorithm"]](vec_env, given, order)


class Scores(BaseCallback):  # type: ignore[misc]
    """Scores the policy between an update and the next rollout; the clock stops meanwhile."""

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__()
        self._order = order
        self._envs = [
            gym.make(order["env"]["id"], **order["env"]["kwargs"]) for _ in order["panel"]
        ]
        self._seconds, self._since = 0.0, time.monotonic()
        self.curve: list[dict[str, float]] = []

    def _on_training_start(self) -> None:
        self._since = time.monotonic()

    def _on_rollout_start(self) -> None:
        self.score_if_due()

    def _on_step(self) -> bool:
        return True

    def score_if_due(self) -> None:
        """Evaluate when the next share of the steps is done."""
        steps, done = self._order["env_steps"], self.num_timesteps
        due = (len(self.curve) + 1) * steps / self._order["evaluations"]
        # at the end the last update has been counted already
        if done < min(steps, due) or (self.curve and self.curve[-1]["env_steps"] == done):
            return
        self._seconds += time.monotonic() - self._since
        score = self._mean_return()
        self.curve.append({"env_steps": done, "score": score, "seconds": self._seconds})
        self._since = time.monotonic()

    def _mean_return(self) -> float:
        panel = self._order["panel"]
        pairs = zip(self._envs, panel, strict=True)
        obs = np.stack([env.reset(seed=seed)[0] for env, seed in pairs])
        returns, running = np.zeros(len(panel)), np.ones(len(panel), dtype=bool)
        normalizer = self.model.get_vec_normalize_env()
        while running.any():
            seen = normalizer.normalize_obs(obs) if normalizer else obs
            actions, _ = self.model.predict(seen, deterministic=True)
            for i in np.flatnonzero(running):
                obs[i], reward, terminated, truncated, _ = self._envs[i].step(actions[i])
                returns[i] += float(reward)
                running[i] = not (terminated or truncated)
        return float(returns.mean())


def _shared(given: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    return {"gamma": given["gamma"], "seed": order["seed"], "device": "cpu"}


def _on_policy(given: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    sizes = [given["hidden"]] * given["layers"]
    network = {"net_arch": {"pi": sizes, "vf": sizes}, "log_std_init": given["log_std_init"]}
    return _shared(given, order) | {
        "learning_rate": _annealed(given, order["env_steps"]),
        "n_steps": given["horizon"],
        "gae_lambda": given["gae_lambda"],
        "ent_coef": given["entropy"],
        "vf_coef": given["value_coef"],
        "max_grad_norm": given["max_grad_norm"],
        "normalize_advantage": given["normalize_advantage"],
        "policy_kwargs": network,
    }


def _annealed(given: dict[str, Any], total: int) -> Callable[[float], float]:
    """The learning rate as a function of the share of the run that is left."""

    def rate(left: float) -> float:
        steps, to = given.get("anneal_steps", 0), max(0.01, given.get("anneal_to", 0.0))
        done = 1.0 - left if given.get("anneal") else 0.0
        if steps:
            done = min(1.0, (1.0 - left) * total / steps)
        return float(given["learning_rate"] * (1.0 - done * (1.0 - to)))

    return rate


def ppo(env: Any, given: dict[str, Any], order: dict[str, Any]) -> Any:
    """PPO; its value clip counts in scaled rewards, hpcpod's in units of reward. Where hpcpod
    normalises returns, rewards are divided by the deviation of the discounted return."""
    clip: Any = given["clip"]
    if given.get("anneal_clip"):
        falling = {**given, "learning_rate": clip, "anneal": True, "anneal_to": 0.0}
        clip = _annealed(falling, order["env_steps"])
    return sb3.PPO(
        "MlpPolicy", env, batch_size=given["minibatch_size"], n_epochs=given["epochs"],
        clip_range=clip, clip_range_vf=given["value_clip"] or None,
        target_kl=given["target_kl"] or None, **_on_policy(given, order),
    )  # fmt: skip


def a2c(env: Any, given: dict[str, Any], order: dict[str, Any]) -> Any:
    """A2C with Adam, as hpcpod's."""
    return sb3.A2C("MlpPolicy", env, use_rms_prop=False, **_on_policy(given, order))


def _replayed(given: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    return _shared(given, order) | {
        "learning_rate": _annealed(given, order["env_steps"]),
        "buffer_size": given["buffer_size"],
        "batch_size": given["batch_size"],
        "learning_starts": given["learning_starts"],
        "train_freq": given["horizon"],
        "tau": given["tau"],
    }


def _continuous(given: dict[str, Any], order: dict[str, Any]) -> dict[str, Any]:
    collected = given["horizon"] * order["env"]["num_envs"]
    return _replayed(given, order) | {
        "gradient_steps": max(1, round(given["updates_per_step"] * collected))
    }


def dqn(env: Any, given: dict[str, Any], order: dict[str, Any]) -> Any:
    """DQN; here is neither double nor dueling, nor are priorities. Its target network counts in
    environment steps, hpcpod's in updates."""
    collected = given["horizon"] * order["env"]["num_envs"]
    updates = given["updates_per_iteration"] or round(given["updates_per_step"] * collected)
    interval = given["target_interval"] / updates * collected
    return sb3.DQN(
        "MlpPolicy", env, gradient_steps=max(1, updates),
        target_update_interval=max(1, round(interval)),
        exploration_fraction=given["epsilon_steps"] / order["env_steps"]
        or given["epsilon_fraction"],
        exploration_initial_eps=given["epsilon_start"], exploration_final_eps=given["epsilon_end"],
        max_grad_norm=given["max_grad_norm"],
        policy_kwargs={"net_arch": [given["hidden"]] * given["layers"]}, n_steps=given["n_steps"],
        **_replayed(given, order),
    )  # fmt: skip


def sac(env: Any, given: dict[str, Any], order: dict[str, Any]) -> Any:
    """SAC."""
    size = int(np.prod(env.action_space.shape))
    return sb3.SAC(
        "MlpPolicy", env, ent_coef=given["temperature"] or f"auto_{given['temperature_init']}",
        target_entropy=given["target_entropy"] * size, policy_kwargs=_critics(given),
        **_continuous(given, order),
    )  # fmt: skip


def td3(env: Any, given: dict[str, Any], order: dict[str, Any]) -> Any:
    """TD3, and DDPG by TD3's options, as it is there too."""
    mean, smooth = np.zeros(env.action_space.shape), given["target_noise"] > 0
    return sb3.TD3(
        "MlpPolicy", env, action_noise=NormalActionNoise(mean, mean + given["exploration_noise"]),
        policy_delay=given["policy_delay"], policy_kwargs=_critics(given),
        # a standard deviation of 0 is refused
        target_policy_noise=given["target_noise"] if smooth else 0.1,
        target_noise_clip=given["target_noise_clip"] if smooth else 0.0,
        **_continuous(given, order),
    )  # fmt: skip


def _critics(given: dict[str, Any]) -> dict[str, Any]:
    return {"net_arch": [given["hidden"]] * given["layers"], "n_critics": given["critics"]}


Make = Callable[[Any, dict[str, Any], dict[str, Any]], Any]
MODELS: dict[str, Make] = {
    "ppo": ppo, "a2c": a2c, "dqn": dqn, "sac": sac, "td3": td3, "ddpg": td3
}  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(train(json.load(sys.stdin))))
