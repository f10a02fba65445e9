"""hpcpod: its own environments, worker and learner, as a round of a pod uses them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from contenders import process, rows
from contenders.meter import EPISODES
from contenders.process import Task
from contenders.rows import Row
from hpcpod.agents.base import Agent
from hpcpod.agents.dqn import DQN
from hpcpod.agents.ppo import PPO
from hpcpod.agents.sac import SAC
from hpcpod.agents.td3 import TD3
from hpcpod.config.loader import from_mapping
from hpcpod.envs.make import make_env
from hpcpod.envs.threads import set_env_threads
from hpcpod.envs.vec_env import VecEnv, random_seeds
from hpcpod.errors import UnusablePlugin
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Pipeline, Turns, Workers
from hpcpod.pod.worker import RECENT

ENDLESS = 10**12
"""Steps."""

AGENTS: dict[str, Any] = {"ppo": PPO, "sac": SAC, "td3": TD3, "dqn": DQN}


def hyperparameters(row: Row) -> dict[str, object]:
    """The row's settings by hpcpod's names: all that a contender is told to be equal in."""
    given: dict[str, object] = {
        "learning_rate": row.learning_rate,
        "gamma": rows.GAMMA,
        "horizon": row.horizon,
        "hidden": row.hidden,
        "layers": 2,
        "activation": row.activation,
    }
    if row.algorithm == "ppo":
        return given | {
            "gae_lambda": rows.GAE_LAMBDA,
            "clip": rows.CLIP,
            "value_coef": rows.VALUE_COEF,
            "max_grad_norm": rows.MAX_GRAD_NORM,
            "epochs": row.epochs,
            "minibatch_size": row.batch,
            "normalize_obs": False,
            "normalize_returns": False,
        }
    given |= {"buffer_size": rows.BUFFER, "learning_starts": rows.LEARNING_STARTS}
    given["batch_size"] = row.batch
    if row.algorithm == "dqn":
        return given | {
            "updates_per_iteration": row.updates,
            "target_interval": rows.TARGET_STEPS * row.updates // row.rollout,
            "epsilon_steps": rows.EPSILON_STEPS,
            "epsilon_end": rows.EPSILON_END,
            "double": False,
            "max_grad_norm": 0.0,
        }
    return given | {"tau": rows.TAU, "updates_per_step": row.updates / row.rollout}


def known_settings(row: Row) -> dict[str, Any]:
    """Those of the agent's hyperparameters; settings that are no choice in it are left out."""
    known = {field.name for field in fields(AGENTS[row.algorithm].Config)}
    return {name: value for name, value in hyperparameters(row).items() if name in known}


def agent_of(task: Task, env: VecEnv) -> Agent:
    """The agent."""
    kind: Any = AGENTS[task.row.algorithm]
    agent: Agent = kind(env.spec, kind.Config(**known_settings(task.row)), task.seed)
    return agent


def env_of(task: Task) -> VecEnv:
    """The row's environments on the row's backend, or on gymnasium's where that is missing."""
    row, backend = task.row, task.row.backend
    try:
        return make_env(row.env, row.num_envs, backend=backend)
    except UnusablePlugin as error:
        task.notes.append(str(error))
    return make_env(row.env, row.num_envs, backend="gymnasium")


def workers_of(task: Task) -> Workers:
    """What iterates, as the variant says."""
    row, words = task.row, task.words
    pod = {"pipeline": "pipeline" in words, "matmul": "medium" if "medium" in words else "highest"}
    return Workers(
        from_mapping(
            {
                "name": "peers",
                "env": {"id": row.env, "num_envs": row.num_envs, "backend": row.backend},
                "pod": pod,
                "resources": {"cpus_per_pod": row.cores},
            }
        )
    )


def train(task: Task) -> None:
    row = task.row
    torch.set_flush_denormal(True)  # as in every pod
    set_env_threads(row.cores)
    env = env_of(task)
    agent, workers = agent_of(task, env), workers_of(task)
    buffer, learner = agent.make_buffer(), Learner(agent)
    worker = workers.make(env, row.algorithm, known_settings(row))
    task.meter.begin()
    worker.reset(random_seeds(task.seed, count=row.num_envs))
    steps = updates = 0
    done = False
    while not done:
        counted, metrics = worker.iterate(agent, buffer, learner, left=ENDLESS)
        steps += counted
        if metrics:
            updates += row.updates_per_round
        last = last_returns(worker) if row.threshold is not None else None
        done = task.meter.tick(steps, updates, last)
    workers.close()
    env.close()


def last_returns(worker: Turns | Pipeline) -> list[float]:
    """Returns of the last episodes; empty as long as there are fewer than a threshold needs."""
    state = worker.state()
    if state is None:
        return []
    ended = int(state["episodes"])
    recent = state["recent"].tolist()
    return [recent[n % RECENT] for n in range(ended - EPISODES, ended)] if ended >= EPISODES else []


if __name__ == "__main__":
    process.main(train, "hpcpod")
