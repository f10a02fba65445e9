"""RLlib's PPO: its settings of ``benchmarks/peers.py``, two env runners beside the learner."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from contenders import rllib
from contenders.meter import Meter
from contenders.process import Task
from contenders.rows import ROWS
from ray.tune.registry import register_env

from paper_runs.order import Kept, Order, main

_algorithms: list[Any] = []


def play(order: Order) -> Iterator[Kept]:
    """Train until the last snapshot."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)

    def make(_config: Any) -> gymnasium.Env[Any, Any]:
        return gymnasium.make(order.env)

    register_env("peer", make)
    row = replace(ROWS["ppo-ant"], env=order.env, hidden=order.hidden)
    task = Task(row, order.seed, frozenset({"processes"}), Meter(1.0, None, 1.0), [])
    algorithm = rllib.config_of(task).build_algo()
    _algorithms.append(algorithm)
    taken = 0
    while taken < order.snapshots:
        steps = int(algorithm.train()["env_runners"][rllib.LIFETIME])
        while taken < order.snapshots and order.due(taken):
            taken += 1
            yield Kept(order.elapsed, steps, copy.deepcopy(algorithm.get_module().get_state()))


def load(state: Any) -> Any:
    """The policy as it was: the mean action, moved to the task's bounds as RLlib does it."""
    module = _algorithms[0].get_module()
    module.set_state(state)
    space = module.action_space
    low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))

    def policy(obs: Any) -> Any:
        with torch.no_grad():
            seen = torch.from_numpy(np.asarray(obs, np.float32))
            out = module.forward_inference({"obs": seen})["action_dist_inputs"].numpy()
        mean = np.clip(out[:, : low.size], -1.0, 1.0)
        return (low + (mean + 1.0) * (high - low) / 2.0).astype(space.dtype)

    return policy


if __name__ == "__main__":
    main(play, load)
