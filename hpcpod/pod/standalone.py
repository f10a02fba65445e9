"""Standalone training: one agent, no tournament; the paper's vanilla, and a trial of a task."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.envs.vec_env import State, random_seeds
from hpcpod.errors import EndlessEpisode
from hpcpod.pod.budget_span import Span
from hpcpod.pod.device import device_of
from hpcpod.pod.evaluator import Evaluator, never, scored
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.ipc.messages import Progress
from hpcpod.pod.learner import Learner
from hpcpod.pod.numerics import numerics
from hpcpod.pod.pipeline.pipeline import Workers
from hpcpod.pod.policy import Policy, policy_meta
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.fusion import Fusion
from hpcpod.pod.ranks.group import join_peers
from hpcpod.pod.replica import Replica
from hpcpod.records.records import Keep, stable_hash
from hpcpod.storage.disk import check_writable

log = logging.getLogger(__name__)


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
    """The result of ``train``."""

    policy: Policy
    """Of the point that was kept."""
    curve: tuple[Point, ...]
    kept: Point
    """Point of the policy: of several points that saw the same return, the last one."""
    returns: tuple[float, ...]
    """Undiscounted returns of the policy, without exploring: ``stop.confirm_episodes`` episodes, or
    a few more, of seeds that did not choose it; of the last point's panel if that was kept
    because it is the last."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the last update."""
    saved_to: Path | None = None
    """The file of the policy, if there is one: beside the one that was asked for where that came to
    be during the training."""

    @property
    def mean_return(self) -> float:
        """Mean of ``returns``: what the policy is worth, not the best that was ever seen."""
        return math.fsum(self.returns) / len(self.returns)


class _Scores:
    """Scores an agent on its way, and knows what it was at its best."""

    def __init__(self, agent: Agent, evaluator: Evaluator, config: RunConfig, keep: Keep) -> None:
        self.agent, self._evaluator, self._config, self._keep = agent, evaluator, config, keep
        self.curve: list[Point] = []
        self._best = -1
        self._at_best: State = {}
        self._chosen_by: tuple[float, ...] = ()
        self._beyond = False  # the agent has trained on after the last point

    def add(self, env_steps: int, began: float) -> bool:
        """Score the agent as it is now; the seconds of the point are since ``began``.

        Returns:
            Whether there is a point; False: an episode does not end, and earlier points are kept.

        Raises:
            EndlessEpisode: there is no earlier point.
        """
        try:
            returns = self._play("panel", len(self.curve))
        except EndlessEpisode as error:
            if not self.curve:
                raise
            log.warning("%s; the training ends here, with what was scored before", error)
            self._beyond = True
            return False
        mean = sum(returns) / len(returns)
        if self._keep == "last" or not self.curve or mean >= self.curve[self._best].mean_return:
            self._best, self._chosen_by = len(self.curve), returns
            self._at_best = self.agent.state()
        self.curve.append(Point(env_steps, mean, time.monotonic() - began))
        return True

    def keep(self) -> tuple[Point, tuple[float, ...]]:
        """Make the agent the one that is kept; where that stood, and returns that are true of it.

        A best point was chosen by its own panel, and stands too high there: it is scored again.
        """
        kept = self.curve[self._best]
        if self._beyond or self._best != len(self.curve) - 1:
            self.agent.load(self._at_best)
        if self._keep == "last":
            return kept, self._chosen_by
        # Whole panels, in the batch that there is: a few episodes more than asked for.
        panels = -(-self._config.stop.confirm_episodes // self._config.round.episodes)
        played = (self._play("fresh", panel) for panel in range(panels))
        try:
            return kept, tuple(chain.from_iterable(played))
        except EndlessEpisode as error:
            log.warning("%s; the policy's score is the one that it was chosen by", error)
            return kept, self._chosen_by

    def _play(self, *panel: int | str) -> tuple[float, ...]:
        episodes = self._config.round.episodes
        return scored(self._evaluator, self.agent, self._config.seed, *panel, episodes=episodes)


def train(  # noqa: PLR0913 (what one says of a training, by name)
    config: RunConfig,
    space: AlgorithmSpace,
    hyperparameters: Mapping[str, Scalar],
    *,
    env_steps: int,
    save_to: Path | None = None,
    overwrite: bool = False,
    keep: Keep = "best",
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
        overwrite: write it even where there is one.
        keep: the point of the curve whose policy is given and saved.
        on_progress: called after every update.

    Raises:
        UserError: ``save_to`` can't be written, or is there; said before the training.
        Diverged: the agent's numbers stopped being finite.
        LaunchError: ranks can't meet.
        EndlessEpisode: the first panel has an episode without an end; such a later one ends the
            training with what was scored before.
        RankLost: another rank is gone.
    """
    if save_to is not None:
        check_writable(save_to, overwrite=overwrite)
    with numerics(config), closing(join_peers(config)) as group:
        training = _train(config, group, space, hyperparameters, env_steps, keep, on_progress)
        if save_to is not None and group.rank == 0:
            # Asked again: of several trainings at once the last one overwrote the others' policy.
            file = save_to if overwrite else _free(save_to)
            training.policy.save(file, overwrite=overwrite)
            training = replace(training, saved_to=file)
    return training


def _free(path: Path) -> Path:
    """The path, or one beside it where another training has written there meanwhile."""
    names = chain([path], (path.with_stem(f"{path.stem}-{n}") for n in count(2)))
    return next(name for name in names if not name.exists())


def _train(
    config: RunConfig,
    group: Communicator,
    space: AlgorithmSpace,
    hyperparameters: Mapping[str, Scalar],
    env_steps: int,
    keep: Keep,
    on_progress: Callable[[Progress], None],
) -> Training:
    device = device_of(config)
    make_env = EnvFactory(config.env, device)
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
    scores = _Scores(agent, evaluator, config, keep)
    done, began = 0, time.monotonic()
    while done < env_steps:
        done += replica.iterate(left=env_steps - done, should_stop=never, due=never).steps
        replica.fuse_if_due(ends=done >= env_steps)
        seconds = time.monotonic() - began
        if group.rank == 0:
            rate, points = done / seconds, len(scores.curve) + 1
            on_progress(Progress("train", points, done, env_steps, worker.mean_return, rate))
        # Every rank plays the panel, and so none waits for the first one.
        due = done >= min(env_steps, (len(scores.curve) + 1) * config.round.env_steps)
        if due and not scores.add(done, began):
            break
    kept, returns = scores.keep()
    for part in (workers, evaluator, env):
        part.close()
    meta = policy_meta(env.spec, config, space.agent, hyperparameters)
    about = {"env_steps": kept.env_steps, "mean_return": sum(returns) / len(returns)}
    policy = Policy(agent, env.spec, meta | about)
    return Training(policy, tuple(scores.curve), kept, returns, replica.metrics)
