"""One agent, no tournament: the paper's vanilla, and the way to try a task out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from hpcpod import plugins
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.envs.vec_env import random_seeds
from hpcpod.pod.device import device_of
from hpcpod.pod.evaluator import Evaluator, never
from hpcpod.pod.learner import Learner
from hpcpod.pod.making import env_factory, make_agent
from hpcpod.pod.numerics import numerics
from hpcpod.pod.pipeline import Workers
from hpcpod.pod.policy import Policy, policy_meta
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.fusion import Fusion
from hpcpod.pod.ranks.joining import join_peers
from hpcpod.pod.replica import Replica
from hpcpod.pod.round import Progress
from hpcpod.pod.span import Span
from hpcpod.records import stable_hash
from hpcpod.storage.blobs import write_blob_file
from hpcpod.storage.disk import check_writable


@dataclass(frozen=True)
class Point:
    """One point of a learning curve."""

    env_steps: int
    mean_return: float
    """Mean undiscounted return of the panel's episodes, without exploring."""
    seconds: float
    """Wall time of training and evaluating until here."""


@dataclass(frozen=True)
class Training:
    """What ``train`` gives."""

    policy: Policy
    curve: tuple[Point, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the last update."""


def train(
    config: RunConfig,
    space: AlgorithmSpace,
    hyperparameters: Mapping[str, Scalar],
    *,
    env_steps: int,
    save_to: Path | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Training:
    """Train one agent for ``env_steps`` steps, scoring it each ``round.env_steps``.

    Args:
        config: its ``env``, ``seed``, ``round``, ``pod`` and ``resources`` count. Where torchrun,
            mpirun or srun has started several of these processes, they are the ranks of one pod:
            each calls this, and the first one tells and saves.
        space: which agent.
        hyperparameters: every one of the agent's.
        env_steps: environment steps, over all environments; at least 1.
        save_to: where to write the policy, a file that ``load_policy`` reads.
        on_progress: told after every update.

    Raises:
        UserError: ``save_to`` can't be written; said before the training.
        Diverged: the agent's numbers stopped being finite.
        LaunchError: ranks can't meet.
        RankLost: another rank is gone.
    """
    if save_to is not None:
        check_writable(save_to)
    with numerics(config), closing(join_peers(config)) as group:
        return _train(config, group, space, hyperparameters, env_steps, save_to, on_progress)


def _train(
    config: RunConfig,
    group: Communicator,
    space: AlgorithmSpace,
    hyperparameters: Mapping[str, Scalar],
    env_steps: int,
    save_to: Path | None,
    on_progress: Callable[[Progress], None],
) -> Training:
    device = device_of(config)
    make_env = env_factory(config, device)
    env = make_env(config.env.num_envs)
    evaluator: Evaluator = plugins.make(Evaluator, "evaluators", config.pod.evaluator, make_env)
    agent = make_agent(space.agent, env.spec, hyperparameters, config.seed, device)
    workers = Workers(config)
    worker = workers.make(env, space.agent, hyperparameters)
    learner = plugins.make(Learner, "learners", config.pod.learner, agent)
    replica = Replica(agent, agent.make_buffer(), worker, learner, group)
    replica.follow(Span(0.0, 1.0, -(-env_steps // group.size)))
    if group.size > 1:
        fusion = plugins.make(Fusion, "fusions", config.pod.fusion.scheme, agent, group)
        replica.begin(config.pod.fusion, fusion)
    own = (group.rank,) if group.rank else ()
    agent.reseed(stable_hash(config.seed, "train", *own))
    worker.reset(random_seeds(config.seed, "train", *own, count=env.spec.num_envs))
    curve: list[Point] = []
    done, began = 0, time.monotonic()
    while done < env_steps:
        done += replica.iterate(left=env_steps - done, should_stop=never, due=never).steps
        replica.fuse_if_due(ends=done >= env_steps)
        seconds = time.monotonic() - began
        if group.rank == 0:
            rate = done / seconds
            on_progress(
                Progress("train", len(curve) + 1, done, env_steps, worker.mean_return, rate)
            )
        # Every rank plays the panel, and so none waits for the first one.
        if done >= min(env_steps, (len(curve) + 1) * config.round.env_steps):
            returns = evaluator.evaluate(
                agent, config.seed, "panel", len(curve), episodes=config.round.episodes
            )
            mean = sum(returns) / len(returns)
            curve.append(Point(done, mean, time.monotonic() - began))
    for part in (workers, evaluator, env):
        part.close()
    meta = policy_meta(env.spec, config.env, space.agent, hyperparameters) | {"env_steps": done}
    if save_to is not None and group.rank == 0:
        arrays = {f"agent/{k}": v.detach().cpu().numpy() for k, v in agent.state().items()}
        write_blob_file(save_to, arrays, meta)
    about = {k: v for k, v in meta.items() if k not in ("format", "spec")}
    return Training(Policy(agent, env.spec, about), tuple(curve), replica.metrics)
