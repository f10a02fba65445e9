"""One run of hpcpod: ``python -m gates.hpcpod_run`` reads a ``Row.order`` and prints its curve.

Its own environments, worker and learner, as a round of a pod uses them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from gates.rows import PANEL
from hpcpod.config.loading import from_mapping
from hpcpod.envs.vec_env import random_seeds
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.learner import Learner
from hpcpod.pod.making import env_factory, make_agent
from hpcpod.pod.pipeline import Workers


def train(order: dict[str, Any]) -> list[dict[str, float]]:
    """Train and score as a ``Row.order`` says.

    Returns:
        Each evaluation: the environment steps before it, the mean return (``score``) and the
        seconds of training, without those of evaluating.
    """
    pod = {"pipeline": order.get("pipeline", False)}
    config = from_mapping({"name": "gate", "env": order["env"], "pod": pod})
    make_env = env_factory(config, "cpu")
    env, evaluator = make_env(config.env.num_envs), PanelEvaluator(make_env)
    seed, steps, evaluations = order["seed"], order["env_steps"], order["evaluations"]
    agent = make_agent(order["algorithm"], env.spec, order["hyperparameters"], seed, "cpu")
    buffer, learner, workers = agent.make_buffer(), Learner(agent), Workers(config)
    worker = workers.make(env, order["algorithm"], order["hyperparameters"])
    worker.reset(random_seeds(seed, "train", count=config.env.num_envs))
    curve: list[dict[str, float]] = []
    done, seconds = 0, 0.0
    while done < steps:
        began = time.monotonic()
        done += worker.iterate(agent, buffer, learner, left=steps - done)[0]
        seconds += time.monotonic() - began
        if done >= min(steps, (len(curve) + 1) * steps / evaluations):
            returns = evaluator.evaluate(agent, PANEL, episodes=len(order["panel"]))
            score = sum(returns) / len(returns)
            curve.append({"env_steps": done, "score": score, "seconds": seconds})
    workers.close()
    return curve


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print(json.dumps(train(json.load(sys.stdin))))
