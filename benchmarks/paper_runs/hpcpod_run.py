"""hpcpod: the project's own files of a task, by PPO or by PPO and SAC, or one vanilla agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import hpcpod
from hpcpod.errors import UserError
from paper_runs.order import Kept, Order, main

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = {"Ant-v5": "ant_ppo.yaml", "Humanoid-v5": "humanoid_ppo.yaml"}
SAC: dict[str, Any] = {
    "learning_rate": {"log_uniform": [1.0e-4, 1.0e-3]},
    "updates_per_step": 0.0625,  # by a quarter a round took two minutes of two cores
}
SHARES = {"ppo": 3, "sac": 1}


def config(order: Order) -> dict[str, Any]:
    """The configuration of a run."""
    if order.way == "vanilla ppo":
        given: dict[str, Any] = {
            "env": {"id": order.env, "num_envs": 16},
            "population": {"pods": {"min": 1, "max": 1}, "controls": 0},
            "round": {"env_steps": 20_480, "episodes": 16},
            "agents": {"ppo": {}},  # the defaults
        }
    else:
        given = yaml.safe_load((CONFIGS / FILES[order.env]).read_text(encoding="utf-8"))
        given.pop("snapshots", None)
    if order.way == "tournament ppo+sac":
        given["agents"]["sac"] = SAC
    given["population"]["algorithms"] = {name: SHARES[name] for name in given["agents"]}
    return {
        **given,
        "name": "run",
        "seed": order.seed,
        "agents": {
            name: {**each, "hidden": order.hidden} for name, each in given["agents"].items()
        },
        "resources": {"cpus_per_pod": order.cores},
        # What ends the run is the last snapshot: a schedule's end lies there.
        "stop": {"minutes": order.seconds / 60, "finalists": 1, "confirm_episodes": 2},
        "cluster": {"slots": 1},
    }


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
