"""A pod trains one agent for one round: collect, update, checkpoint, evaluate.

A round is a function of its birth alone: the checkpoint it starts from, the pod's name and
seed and the round's number decide every random number in it. So a round that was stopped
and resumed, or done again from its start, ends in the very same bits (on the same CPU and
number of threads).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hpcpod import plugins
from hpcpod.agents.base import Agent, Buffer
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import State, VecEnv, random_seeds
from hpcpod.errors import Corrupt, StorageError
from hpcpod.pod.checkpoint import Checkpoints, read_arrays
from hpcpod.pod.evaluator import Evaluator, Stopped, never
from hpcpod.pod.learner import Learner
from hpcpod.pod.policy import agent_state, policy_meta
from hpcpod.pod.worker import Worker
from hpcpod.records import Birth, Checkpoint, Order, Report, Rescore, stable_hash
from hpcpod.storage.patience import patiently
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """Where a round stands, for those who look."""

    pod: str
    round: int
    env_steps: int
    """Steps of experience of the agent."""
    target_steps: int
    """Steps at which the round ends."""
    mean_return: float
    """Mean return of the last training episodes; NaN before the first has ended."""
    steps_per_second: float


@dataclass
class Watch:
    """How a round is followed and stopped from outside."""

    should_stop: Callable[[], bool] = never
    on_progress: Callable[[Progress], None] = lambda progress: None


@dataclass
class _Round:
    """The moving parts of a round in progress."""

    birth: Birth
    agent: Agent
    buffer: Buffer
    worker: Worker
    checkpoints: Checkpoints
    fusion: Fusion
    env_steps: int = 0
    """Experience of the agent, in environment steps."""
    trained: int = 0
    """Of these, trained in this round."""
    inherited: tuple[float, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    train_seconds: float = 0.0


class Pod:
    """The training process's view of a run: it executes orders, one after another."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        algorithms: Mapping[str, AlgorithmSpace],
        group: Communicator = ALONE,
    ) -> None:
        self._folder = folder
        self._group = group
        self._config = config
        self._algorithms = algorithms
        self._device = device_of(config)
        self._env: VecEnv | None = None
        self._make_env = env_factory(config, self._device)
        self._evaluator: Evaluator = plugins.make(
            Evaluator, "evaluators", config.pod.evaluator, self._make_env
        )
        self._evaluate_seconds = 0.0
        self._kept: tuple[Checkpoint, Buffer] | None = None

    def execute(self, order: Order, slot: str, watch: Watch) -> Report:
        """Train the round of a birth, or score the checkpoint of a rescore.

        Raises:
            Stopped: ``watch.should_stop`` became true; the round can be resumed. Training
                stops between two iterations: only there is a state that is worth saving.
            Diverged: the agent's numbers are not finite.
            Corrupt: a checkpoint can't be read.
        """
        began = time.monotonic()
        self._evaluate_seconds = 0.0
        report = (
            self._rescore(order, slot, watch) if isinstance(order, Rescore)
            else self._train(order, slot, watch)
        )  # fmt: skip
        return replace(
            report,
            wall_seconds=time.monotonic() - began,
            evaluate_seconds=self._evaluate_seconds,
            engine=self.env.spec.engine,
        )

    @property
    def env(self) -> VecEnv:
        """The training environment, made when it is first needed and then kept."""
        if self._env is None:
            self._env = self._make_env(self._config.env.num_envs)
        return self._env

    def _agent(self, algorithm: str, hyperparameters: Mapping[str, Scalar], seed: int) -> Agent:
        return make_agent(
            self._algorithms[algorithm].agent, self.env, hyperparameters, seed, self._device
        )

    def _meta(self, order: Order) -> dict[str, Any]:
        agent = self._algorithms[order.algorithm].agent
        meta = policy_meta(self.env.spec, self._config.env, agent, order.hyperparameters)
        return {**meta, "pod": order.pod, "round": order.round}

    def _rescore(self, order: Rescore, slot: str, watch: Watch) -> Report:
        agent = self._agent(order.algorithm, order.hyperparameters, 0)
        agent.load(agent_state(read_arrays(self._folder.blobs, order.checkpoint.core)))
        panel = self._config.seed, order.purpose, order.number
        returns = self._score(agent, watch, *panel, episodes=self._config.stop.confirm_episodes)
        return Report(order.id, order.pod, order.round, order.attempt, slot, returns)

    def _panel(self, agent: Agent, watch: Watch, round_number: int) -> tuple[float, ...]:
        panel = self._config.seed, "panel", round_number
        return self._score(agent, watch, *panel, episodes=self._config.round.episodes)

    def _score(
        self, agent: Agent, watch: Watch, *panel: int | str, episodes: int
    ) -> tuple[float, ...]:
        began = time.monotonic()
        returns = self._evaluator.evaluate(
            agent, *panel, episodes=episodes, should_stop=watch.should_stop
        )
        self._evaluate_seconds += time.monotonic() - began
        return returns

    def _train(self, birth: Birth, slot: str, watch: Watch) -> Report:
        running = self._begin(birth, watch)
        self._iterate(running, watch)
        try:
            returns = self._panel(running.agent, watch, birth.round)
        except Stopped:
            self._save_resume(running)
            raise
        checkpoint = patiently(
            lambda: running.checkpoints.save(running.agent, running.buffer, running.env_steps),
            watch.should_stop,
        )
        self._kept = checkpoint, running.buffer
        return Report(
            birth.id, birth.pod, birth.round, birth.attempt, slot, returns,
            inherited_returns=running.inherited,
            checkpoint=checkpoint,
            trained_steps=running.trained,
            train_seconds=running.train_seconds,
            metrics=running.metrics,
        )  # fmt: skip

    def _begin(self, birth: Birth, watch: Watch) -> _Round:
        """Set a round up: from the last checkpoint inside it if there is one, else its start."""
        kept = self._take_kept(birth)  # first: not two buffers at once
        resume = self._folder.latest_resume(birth.pod, birth.round)
        if resume is not None:
            kept = None
            try:
                return self._resumed(birth, resume)
            except Corrupt as error:
                log.warning("%s goes back to the round's start: %s", birth.id, error)
        running = self._empty(birth, kept)
        if birth.checkpoint is not None:
            cap = self._config.pod.inherit_transitions
            most = None if cap is None or not birth.inherited else cap // self.env.spec.num_envs
            running.checkpoints.load(
                birth.checkpoint, running.agent, running.buffer,
                most_rows=most, kept=kept is not None,
            )  # fmt: skip
            running.env_steps = birth.checkpoint.env_steps
        if birth.inherited:
            running.inherited = self._panel(running.agent, watch, birth.round - 1)
        rank, num_envs = self._group.rank, self.env.spec.num_envs
        # Of rank 0 as of a pod of one rank.
        own = (rank,) if rank else ()
        running.agent.reseed(stable_hash(birth.seed, "round", birth.round, *own))
        running.worker.reset(random_seeds(birth.seed, "train", birth.round, *own, count=num_envs))
        return running

    def _take_kept(self, birth: Birth) -> Buffer | None:
        """The buffer of the last round, if this is the same pod's next: it is not read again."""
        kept, self._kept = self._kept, None
        same = kept is not None and kept[0] == birth.checkpoint and not birth.inherited
        return kept[1] if kept is not None and same else None

    def _empty(self, birth: Birth, buffer: Buffer | None = None) -> _Round:
        agent = self._agent(birth.algorithm, birth.hyperparameters, birth.seed)
        checkpoints = Checkpoints(self._folder.blobs, self._meta(birth), self._group)
        if buffer is None:
            buffer = agent.make_buffer()
        fusion = plugins.make(Fusion, "fusions", self._config.pod.fusion.scheme, agent, self._group)
        return _Round(birth, agent, buffer, Worker(self.env), checkpoints, fusion)

    def _resumed(self, birth: Birth, checkpoint: Checkpoint) -> _Round:
        running = self._empty(birth)
        parts = running.checkpoints.load(checkpoint, running.agent, running.buffer)
        if "worker" in parts:
            running.worker.restore(parts["worker"])
        running.env_steps = checkpoint.env_steps
        running.trained = int(parts["round"]["trained"])
        running.inherited = tuple(parts["round"]["inherited"].tolist())
        running.train_seconds = float(parts["round"]["train_seconds"])
        running.metrics = {name: float(value) for name, value in parts["metrics"].items()}
        log.info("%s goes on at %d env steps", birth.id, running.env_steps)
        return running

    def _iterate(self, running: _Round, watch: Watch) -> None:
        """Collect and update until the round's steps are done."""
        birth, config = running.birth, self._config
        target = self._target(birth)
        learner = Learner(running.agent)
        began, before, saved = time.monotonic(), running.env_steps, time.monotonic()
        told = 0.0
        while running.env_steps < target:
            steps = running.agent.horizon
            last = running.env_steps + steps * self.env.spec.num_envs >= target
            counted = running.worker.collect(running.agent, running.buffer, steps, cut=last)
            running.metrics = dict(learner.learn(running.buffer))
            if math.isfinite(running.worker.mean_return):
                running.metrics["training_return"] = running.worker.mean_return
            running.env_steps += counted
            running.trained += counted
            now = time.monotonic()
            if now - told > 0.5 or running.env_steps >= target:
                told = now
                rate = (running.env_steps - before) / max(now - began, 1e-9)
                watch.on_progress(
                    Progress(
                        birth.pod, birth.round, running.env_steps, target,
                        running.worker.mean_return, rate,
                    )
                )  # fmt: skip
            stop = watch.should_stop() and running.env_steps < target
            if stop or now - saved > config.pod.checkpoint_seconds:
                running.train_seconds += now - began
                began, before = now, running.env_steps
                saved = now if self._save_resume(running) else saved
            if stop:
                raise Stopped
        running.train_seconds += time.monotonic() - began

    def _target(self, birth: Birth) -> int:
        """Steps of experience at which a round's training is done."""
        return birth.round * self._config.round.env_steps

    def _save_resume(self, running: _Round) -> bool:
        """Checkpoint inside the round; False if the environment's state can't be saved.

        Such a round is done again from its start, with the same seeds and the same end; but
        once its training is done, and it has only to be scored, that state is not needed.
        A disk that refuses costs this checkpoint, not the round.
        """
        trained = running.env_steps >= self._target(running.birth)
        worker = {} if trained else running.worker.state()
        if worker is None:
            return False
        progress: State = {
            "trained": torch.tensor(running.trained),
            "inherited": torch.tensor(running.inherited, dtype=torch.float64),
            "train_seconds": torch.tensor(running.train_seconds, dtype=torch.float64),
        }
        metrics = {
            name: torch.tensor(value, dtype=torch.float64)
            for name, value in running.metrics.items()
        }
        birth = running.birth
        try:
            checkpoint = running.checkpoints.save(
                running.agent, running.buffer, running.env_steps,
                {"worker": worker, "round": progress, "metrics": metrics},
            )  # fmt: skip
            self._folder.save_resume(birth.pod, birth.round, birth.attempt, checkpoint)
        except StorageError as error:
            log.warning("%s has no new checkpoint to resume from: %s", birth.id, error)
        return True

    def close(self) -> None:
        """Close the environments."""
        if self._env is not None:
            self._env.close()


def device_of(config: RunConfig) -> str:
    """Where a pod of this run trains: ``cpu`` or ``cuda``."""
    if config.pod.device != "auto":
        return config.pod.device
    if config.resources.gpus_per_pod == 0:
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    log.warning("torch %s sees no GPU here: this pod trains on the CPU", torch.__version__)
    return "cpu"


def env_factory(config: RunConfig, device: str) -> Callable[[int], VecEnv]:
    """A function that makes the run's environment as a batch of N."""
    env = config.env
    return lambda num_envs: make_env(
        env.id, num_envs, env.backend, device, env.wrappers, env.kwargs
    )


def make_agent(
    name: str, env: VecEnv, hyperparameters: Mapping[str, Scalar], seed: int, device: str
) -> Agent:
    """Build an agent by its plugin name for an environment."""
    config = plugins.resolve("agents", name).Config(**hyperparameters)
    agent: Agent = plugins.make(Agent, "agents", name, env.spec, config, seed % 2**63, device)
    return agent
