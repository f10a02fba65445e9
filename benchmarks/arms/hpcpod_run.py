"""hpcpod's own runs: the tournament by its defaults, its variants, and long runs of one pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hpcpod
from arms.order import Delivery, Order, main
from arms.tasks import TRAININGS

MANY = {"min": 1, "max": TRAININGS}
PLAIN = {"finalists": 1, "ensembles": {"rules": []}}
"""The best row of the leaderboard is delivered, as the others deliver the best of their scores:
finalists on fresh episodes and ensembles cost no training, and would be ahead for that alone."""
POPULATIONS: Mapping[str, Mapping[str, Any]] = {
    "tournament": {},
    "finals": {},
    "generational": {"scheme": "generational"},
    "halving": {"allocator": "halving", "pods": MANY},
    "replicates": {"allocator": "replicates", "generator": "random_search", "pods": MANY},
    "pods_8": {"pods": {"min": 1, "max": 8}},
    "pods_32": {"pods": MANY},
    "pb2": {"generator": "pb2"},
    "no_evolution": {"generator": "looser_rules:NoCopies"},
}
"""Differences in ``population``."""
RESERVE = 12.0
"""Seconds of a budget in wall time for starting, and for scoring the finalists."""


def config(order: Order) -> dict[str, Any]:
    """The configuration of an arm's run."""
    common = order.config()
    if order.axis == "seconds":
        common["stop"] = {"minutes": max(1.0, order.seconds - RESERVE) / 60}
    if order.arm == "replicates":  # what a full training leaves of the budget is for other seeds
        common["stop"]["rounds"] = order.task.rounds
    if order.arm in POPULATIONS:
        population = {**common["population"], **POPULATIONS[order.arm]}
        stop = common["stop"] if order.arm == "finals" else {**common["stop"], **PLAIN}
        return {**common, "population": population, "stop": stop}
    task, one = order.task, {"min": 1, "max": 1}
    long = task.long if order.arm == "long_run" else task.searched
    return {
        **common,
        "env": {**common["env"], "num_envs": long.num_envs},
        "population": {"pods": one, "algorithms": {long.algorithm: 1}, "controls": 0},
        "agents": {long.algorithm: dict(long.hyperparameters)},
        "resources": {"cpus_per_pod": order.slots},  # it is scored beside its training
        "cluster": {"slots": 1},
    }


def play(order: Order) -> Delivery:
    """Launch, wait, export."""
    run = hpcpod.launch(config(order), runs=order.folder, detach=False, progress=False)
    status = run.wait(poll=0.5, progress=False)
    run.export(order.policy)
    assert status.best is not None
    detail = {"born": status.born, "copies": status.copies, "rounds": status.rounds}
    return Delivery(status.best.mean, status.env_steps, detail)


if __name__ == "__main__":
    main(play)
