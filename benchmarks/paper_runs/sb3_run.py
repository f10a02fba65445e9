"""Stable-Baselines3's PPO with rl-baselines3-zoo's hyperparameters, but for the networks' sizes."""

from __future__ import annotations

import copy
from typing import Any

import torch
from gates.sb3_run import own
from gates.zoo import HUMANOID, ZOO
from stable_baselines3.common.callbacks import BaseCallback

from paper_runs.order import Kept, Order, main

_models: list[Any] = []


class Snapshots(BaseCallback):  # type: ignore[misc]
    """Keeps weights and normaliser; what is looked at is the policy between two updates."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self._order = order
        self.kept: list[Kept] = []

    def _on_rollout_start(self) -> None:
        order = self._order
        while len(self.kept) < order.snapshots and order.due(len(self.kept)):
            weights = copy.deepcopy(self.model.policy.state_dict())
            normalizer = copy.deepcopy(getattr(self.model.get_vec_normalize_env(), "obs_rms", None))
            self.kept.append(Kept(order.elapsed, self.num_timesteps, (weights, normalizer)))

    def _on_step(self) -> bool:
        return len(self.kept) < self._order.snapshots


def hyperparameters(order: Order) -> dict[str, Any]:
    """The zoo's, with networks as everybody has them."""
    zoo = {row[1]: row[4] for row in ZOO if row[0] == "ppo"} | {"Humanoid-v5": HUMANOID}
    given = dict(zoo[order.env])
    sizes = {"net_arch": {"pi": [order.hidden] * 2, "vf": [order.hidden] * 2}}
    return given | {"policy_kwargs": {**given.get("policy_kwargs", {}), **sizes}}


def play(order: Order) -> list[Kept]:
    """Learn until the last snapshot."""
    torch.set_num_threads(order.cores)
    asked = {"env": {"id": order.env, "kwargs": {}}, "algorithm": "ppo", "seed": order.seed}
    model = own({**asked, "own": hyperparameters(order)})
    _models.append(model)
    snapshots = Snapshots(order)
    model.learn(1_000_000_000, callback=snapshots)
    return snapshots.kept


def load(kept: Any) -> Any:
    """The policy as it was."""
    model, (weights, normalizer) = _models[0], kept
    model.policy.load_state_dict(weights)
    env = model.get_vec_normalize_env()

    def policy(obs: Any) -> Any:
        if normalizer is not None:
            env.obs_rms = normalizer
            obs = env.normalize_obs(obs)
        return model.predict(obs, deterministic=True)[0]

    return policy


if __name__ == "__main__":
    main(play, load)
