"""One run of hpcpod: ``python -m gates.hpcpod_run`` reads a ``Row.order`` and prints its curve.

It is ``hpcpod.train``, scored on the panel of the gates.
"""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from typing import Any

from gates.panel import FixedPanel
from hpcpod.api import train_config
from hpcpod.config.loader import from_mapping


def train(order: dict[str, Any]) -> list[dict[str, float]]:
    """Train and score as a ``Row.order`` says.

    Returns:
        Each evaluation: the environment steps before it, the mean return (``score``) and the
        seconds of training, without those of evaluating.
    """
    algorithm, steps = order["algorithm"], order["env_steps"]
    config = {
        "name": "gate",
        "seed": order["seed"],
        "env": order["env"],
        "stop": {"env_steps": steps},
        "population": {"algorithms": {algorithm: 1}, "pods": {"min": 1, "max": 1}},
        "agents": {algorithm: order["hyperparameters"]} if order["hyperparameters"] else {},
        "round": {
            "env_steps": max(1, steps // order["evaluations"]),
            "episodes": len(order["panel"]),
        },
        "pod": {
            "pipeline": order.get("pipeline", False),
            "evaluator": f"{FixedPanel.__module__}:{FixedPanel.__name__}",
        },
    }
    curve = train_config(from_mapping(config), keep="last").curve
    return [
        {"env_steps": p.env_steps, "score": p.mean_return, "seconds": p.seconds - spent}
        for p, spent in zip(curve, accumulate(FixedPanel.spent), strict=True)
    ]


if __name__ == "__main__":
    print(json.dumps(train(json.load(sys.stdin))))
