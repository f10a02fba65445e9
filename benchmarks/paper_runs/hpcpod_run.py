"""hpcpod: a tournament of PPO, one of PPO and SAC, or one vanilla agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hpcpod
from hpcpod.errors import UserError
from paper_runs.order import Kept, Order, main

PODS = 4
PPO: dict[str, Any] = {
    "learning_rate": {"log_uniform": [2.0e-5, 1.2e-3]},
    "gamma": {"choice": [0.95, 0.98, 0.99]},
    "gae_lambda": {"uniform": [0.88, 0.98]},
    "clip": {"uniform": [0.1, 0.3]},
    "log_std_init": {"choice": [-2.0, -1.0, 0.0]},
    "horizon": 64,
    "minibatch_size": 256,
    "epochs": 5,
}
"""The ranges of configs/ant_ppo.yaml and configs/humanoid_ppo.yaml together."""
SAC: dict[str, Any] = {"learning_rate": {"log_uniform": [1.0e-4, 1.0e-3]}, "updates_per_step": 0.25}


def config(order: Order) -> dict[str, Any]:
    """The configuration of a run."""
    agents = {"ppo": PPO, "sac": SAC} if order.way == "tournament ppo+sac" else {"ppo": PPO}
    if order.way == "vanilla ppo":
        agents = {"ppo": {}}  # the defaults
    pods = 1 if order.way == "vanilla ppo" else PODS
    slots = min(pods, order.cores)
    return {
        "name": "run",
        "seed": order.seed,
        "env": {"id": order.env, "num_envs": 16},
        "population": {
            "pods": {"min": 1, "max": pods}, "algorithms": dict.fromkeys(agents, 1), "controls": 0,
        },
        "round": {"env_steps": 20_480, "episodes": 16},
        "agents": {name: {**given, "hidden": order.hidden} for name, given in agents.items()},
        "resources": {"cpus_per_pod": order.cores // slots},
        # What ends the run is the last snapshot: a schedule's end lies there.
        "stop": {"minutes": order.seconds / 60, "finalists": 1, "confirm_episodes": 2},
        "cluster": {"slots": slots},
    }  # fmt: skip


def play(order: Order) -> Iterator[Kept]:
    """Keep the leader's policy at equal wall times."""
    run = hpcpod.launch(config(order), runs=order.folder, detach=False, progress=False)
    for taken in range(order.snapshots):
        while not order.due(taken):
            time.sleep(0.1)
        file = Path(order.folder) / f"snapshot-{taken}.h5"
        try:
            steps = run.status().env_steps
            yield Kept(order.elapsed, steps, str(run.export(file)))
        except UserError:  # no round has ended yet
            continue
    run.stop(now=True)
    run.wait(progress=False)


if __name__ == "__main__":
    main(play, hpcpod.load_policy)
