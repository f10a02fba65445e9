"""The order to an arm, and its delivery: the common part of every arm's process."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from arms.tasks import TASKS, TRAININGS, Task

MARK = "delivered:"
"""Begins the line with the answer: libraries print what they like."""
PODS = 16
"""Members of hpcpod's populations: of 8, 16 and 32 the best on the tasks of ``RESULTS.md``."""
Axis = Literal["env_steps", "seconds"]


@dataclass(frozen=True)
class Order:
    """One cell of the benchmark, as its process is asked for it."""

    task_name: str
    arm: str
    seed: int
    axis: Axis
    """The budget that is equal for all: environment steps, or wall time."""
    slots: int
    """Trainings at once, a core each."""
    folder: str
    """An empty folder, for whatever the arm writes."""
    share: float = 1.0
    """Of the task's budget: below 1 to see that it works."""
    began: float = field(default_factory=time.time)
    """Unix time at which the process was started: wall time counts from here."""

    @cached_property
    def task(self) -> Task:
        """The task."""
        return TASKS[self.task_name]

    @property
    def env_steps(self) -> int:
        """The budget in environment steps, a multiple of a round's."""
        steps = self.task.round_steps
        return max(1, round(self.share * TRAININGS * self.task.training / steps)) * steps

    @property
    def seconds(self) -> float:
        """The budget in wall time."""
        return self.share * self.task.seconds

    @property
    def policy(self) -> Path:
        """The file of the delivered policy."""
        return Path(self.folder) / "policy.h5"

    @property
    def played(self) -> Path:
        """The log of trained rounds, a line each."""
        return Path(self.folder) / "played.jsonl"

    def is_over(self, env_steps: int) -> bool:
        """True if the budget is spent, ``env_steps`` steps included."""
        if self.axis == "env_steps":
            return env_steps >= self.env_steps
        return time.time() - self.began >= self.seconds

    def config(self) -> dict[str, Any]:
        """The configuration that all arms share: task, ranges, rounds."""
        task = self.task
        return {
            "name": "run",
            "seed": self.seed,
            "env": {"id": task.env, "num_envs": task.num_envs},
            "population": {
                "pods": {"min": 1, "max": PODS},
                "algorithms": dict.fromkeys(task.spaces, 1),
                "controls": 0,  # else agents' defaults are among the founders: others have no such
            },
            "round": {"env_steps": task.round_steps, "episodes": 32},
            "agents": task.agents(),
            "stop": {"env_steps": self.env_steps},
            "cluster": {"slots": self.slots},
        }


@dataclass(frozen=True)
class Delivery:
    """An arm's account of itself; its policy lies in ``Order.policy``."""

    claimed: float
    """The mean return that it shows for its policy."""
    env_steps: int
    """Steps that it has trained."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Such as its copies."""


def best_played(order: Order) -> Delivery:
    """Deliver the checkpoint with the best score of all rounds that were trained in time.

    Raises:
        RuntimeError: none was.
    """
    lines = [json.loads(line) for line in order.played.read_text().splitlines()]
    in_time = [
        line for line in lines
        if line["file"] and (order.axis == "env_steps" or line["at"] <= order.began + order.seconds)
    ]  # fmt: skip
    if not in_time:
        raise RuntimeError("no training came to a score")
    best = max(in_time, key=lambda line: float(line["score"]))
    shutil.copyfile(best["file"], order.policy)
    detail = {"trainings": len({line["key"] for line in lines}), "rounds": len(lines)}
    return Delivery(best["score"], sum(line["steps"] for line in lines), detail)


def main(play: Callable[[Order], Delivery]) -> None:
    """Play the order on standard input, and print a line with what was delivered."""
    order = Order(**json.load(sys.stdin))
    delivery = play(order)
    seconds = time.time() - order.began
    print(MARK + json.dumps({**asdict(delivery), "seconds": seconds}), flush=True)
