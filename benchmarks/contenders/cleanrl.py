"""CleanRL: the scripts of its package, each run as it is under a writer that tells the meter.

The package has one script per algorithm and its networks are written into them: a network of
another width is put in by replacing the numbers as the script is read.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contenders import process, rows
from contenders.process import Task
from contenders.rows import Row

STEPS = 100_000_000
SCRIPTS = {
    "sac": "sac_continuous_action",
    "td3": "td3_continuous_action",
    "dqn": "dqn",
}
NORMALISES = "its script for continuous actions normalises observations and rewards"


def arguments(row: Row, seed: int) -> dict[str, object]:
    """Of the command line of the row's script."""
    equal: dict[str, object] = {"env-id": row.env, "seed": seed, "cuda": False}
    equal |= {"total-timesteps": STEPS, "gamma": rows.GAMMA}
    if row.algorithm == "ppo":
        return equal | {
            "learning-rate": row.learning_rate,
            "num-envs": row.num_envs,
            "num-steps": row.horizon,
            "anneal-lr": False,
            "gae-lambda": rows.GAE_LAMBDA,
            "num-minibatches": row.rollout // row.batch,
            "update-epochs": row.epochs,
            "clip-coef": rows.CLIP,
            "clip-vloss": False,
            "ent-coef": 0.0,
            "vf-coef": rows.VALUE_COEF,
            "max-grad-norm": rows.MAX_GRAD_NORM,
        }
    equal |= {"buffer-size": rows.BUFFER, "batch-size": row.batch}
    equal |= {"learning-starts": rows.LEARNING_STARTS}
    if row.algorithm == "dqn":
        return equal | {
            "learning-rate": row.learning_rate,
            "train-frequency": row.rollout // row.updates,  # one by one
            "target-network-frequency": rows.TARGET_STEPS,
            "end-e": rows.EPSILON_END,
            "exploration-fraction": rows.EPSILON_STEPS / STEPS,
        }
    equal["tau"] = rows.TAU
    if row.algorithm == "td3":
        return equal | {"learning-rate": row.learning_rate}
    return equal | {"policy-lr": row.learning_rate, "q-lr": row.learning_rate}


def source_of(task: Task) -> tuple[str, Path]:
    """The row's script, with the row's width, and where it stands."""
    row = task.row
    name = SCRIPTS.get(row.algorithm, "ppo" if row.env == "CartPole-v1" else "")
    if not name:
        name = "ppo_continuous_action"
        task.notes.append(NORMALISES)
    spec = find_spec(f"cleanrl.{name}")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    text = path.read_text(encoding="utf-8")
    if row.algorithm == "dqn":
        for width in ("120", "84"):
            text = text.replace(f", {width})", f", {row.hidden})")
            text = text.replace(f"Linear({width},", f"Linear({row.hidden},")
    return text, path


def writer_for(task: Task) -> type[Any]:
    """What stands in for TensorBoard's writer: the scripts report to it after every round."""

    class Writer:
        def __init__(self, *args: object, **kwargs: object) -> None:
            task.meter.begin()

        def add_text(self, *args: object) -> None:
            pass

        def add_scalar(self, tag: str, value: Any, step: int) -> None:
            if tag == "charts/episodic_return":
                task.meter.episode(float(value))
            elif tag == "charts/SPS":
                task.round_ends(step)

    return Writer


def train(task: Task) -> None:
    from torch.utils import tensorboard

    vars(tensorboard)["SummaryWriter"] = writer_for(task)
    if task.row.algorithm == "dqn":  # this script alone wants a newer one; see build_cleanrl.py
        sys.path.insert(0, str(Path(sys.prefix) / "newer"))
    text, path = source_of(task)
    sys.argv = [str(path)]
    for name, value in arguments(task.row, task.seed).items():
        sys.argv += [f"--{name}", str(value)]
    exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})


if __name__ == "__main__":
    process.main(train, "cleanrl")
