"""A pod trains one agent for one round: collect, update, checkpoint, evaluate.

A round is a function of its birth alone: the checkpoint it starts from, the pod's name and seed and
the round's number decide every random number in it. So a round that was stopped and resumed, or
done again from its start, ends in the very same bits (on the same CPU and number of threads).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from hpcpod import plugins
from hpcpod.agents.base import Acting, Agent, Buffer
from hpcpod.agents.shrink_perturb import shrink_perturb
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.envs.vec_env import EnvSpec, State, VecEnv
from hpcpod.errors import Corrupt, StorageError, UserError
from hpcpod.metrics.mirrors import Mirrors
from hpcpod.pod.checkpoint import Checkpoints, read_blob
from hpcpod.pod.device import device_of
from hpcpod.pod.evaluator import Evaluator, Stopped, scored
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.finals import agree_on_engine, final_evaluator, fresh_seeds, joined
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Workers
from hpcpod.pod.policy import Policy, agent_state, policy_meta
from hpcpod.pod.ranks.communicator import ALONE, Communicator, RankLost
from hpcpod.pod.ranks.consensus import agree, together
from hpcpod.pod.ranks.fusion import Fusion
from hpcpod.pod.ranks.fusion_guard import Guard
from hpcpod.pod.recorder import Recorder
from hpcpod.pod.replica import Replica
from hpcpod.pod.round import Round, Watch
from hpcpod.records.records import Birth, Checkpoint, Member, Order, Report, Rescore, decode, encode
from hpcpod.storage.retry import with_retries
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


class Pod:
    """The training process's view of a run: it executes orders, one after another."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        algorithms: Mapping[str, AlgorithmSpace],
        group: Communicator = ALONE,
    ) -> None:
        """``group``: the processes that train it together; each makes a ``Pod`` of its own."""
        self._folder = folder
        self._group = group
        self._config = config
        self._algorithms = algorithms
        self._device = device_of(config)
        self._env: VecEnv | None = None
        self._spec: EnvSpec | None = None
        self._make_env = EnvFactory(config.env, self._device)
        self._evaluator: Evaluator = plugins.make(
            Evaluator, "evaluators", config.pod.evaluator, self._make_env
        )
        self._finals: tuple[Evaluator, str] | None = None
        self._evaluate_seconds = 0.0
        self._kept: tuple[Checkpoint, Buffer] | None = None
        first = group.rank == 0
        self._curve_rows = config.pod.curve_rows if first else 0
        self._mirrors = Mirrors(())
        self._metrics = config.metrics if first else ()
        self._workers = Workers(config)

    def execute(self, order: Order, slot: str, watch: Watch) -> Report:
        """Train the round of a birth, or score the checkpoint of a rescore, on all ranks at once.

        Of several ranks the first one scores what was trained; the others' reports have no returns.

        Raises:
            EngineDiffers: the environment here is not what computes this run's scores.
            Stopped: ``watch.should_stop`` became true; the round can be resumed. Training
                stops between two iterations: only there is a state that is worth saving.
            Diverged: the agent's numbers are not finite.
            Corrupt: a checkpoint can't be read.
            RankLost: another rank is gone; the round can be resumed from where this one was.
        """
        if isinstance(order, Rescore):
            return self._timed(lambda: self._rescore(order, slot, watch))
        return self._timed(lambda: self._train_and_score(order, slot, watch))

    def train(self, birth: Birth, slot: str, watch: Watch) -> Report:
        """Train the round of a birth and leave its panel to ``score``: a report without returns.

        Raises:
            Stopped: see ``execute``, as for the others that it raises.
        """
        return self._timed(lambda: self._train(birth, slot, watch)[0])

    def score(self, birth: Birth, checkpoint: Checkpoint, slot: str, watch: Watch) -> Report:
        """Score the checkpoint in which a birth's training has ended, on its round's panel.

        The returns are those that the process that trained it would have got, bit by bit.

        Raises:
            Stopped: ``watch.should_stop`` became true.
            Corrupt: the checkpoint can't be read.
        """

        def panel() -> Report:
            self._agree_on_engine()
            agent = self._loaded(birth, checkpoint)
            returns = self._panel(agent, watch, self._config.seed, birth.round)
            return replace(self._bare(birth, slot), returns=returns)

        return self._timed(panel)

    def _timed(self, work: Callable[[], Report]) -> Report:
        began = time.monotonic()
        self._evaluate_seconds = 0.0
        report = work()
        return replace(
            report,
            wall_seconds=time.monotonic() - began,
            evaluate_seconds=self._evaluate_seconds,
            engine=report.engine or self.spec.engine,  # of the process that has scored
        )

    @property
    def env(self) -> VecEnv:
        """The training environment, made when it is first stepped here and then kept."""
        if self._env is None:
            self._env = self._make_env(self._config.env.num_envs)
            self._spec = self._env.spec
        return self._env

    @property
    def spec(self) -> EnvSpec:
        """The spec of the training environment, wherever it is stepped."""
        if self._spec is None:
            with closing(self._make_env(1)) as one:  # in a pipeline the actor has the whole batch
                self._spec = replace(one.spec, num_envs=self._config.env.num_envs)
        return self._spec

    @property
    def finals(self) -> tuple[Evaluator, str]:
        """The evaluator on fresh seeds, made when it is first needed, and its engine."""
        if self._finals is None:
            self._finals = final_evaluator(self._config, self._device, self._evaluator, self.spec)
        return self._finals

    def _agree_on_engine(self, *, trains: bool = False) -> None:
        """Also on what will score at last, before anything is trained for it."""
        # Where this process steps the environments itself, no other one is made to ask.
        spec = self.env.spec if trains and not self._config.pod.pipeline else self.spec
        agree_on_engine(self._folder, self._config, "panel", spec.engine)
        if trains and self._group.rank == 0:
            agree_on_engine(self._folder, self._config, "final", self.finals[1])

    def _agent(self, algorithm: str, hyperparameters: Mapping[str, Scalar], seed: int) -> Agent:
        return make_agent(
            self._algorithms[algorithm].agent, self.spec, hyperparameters, seed, self._device
        )

    def _meta(self, order: Order | Member) -> dict[str, Any]:
        agent = self._algorithms[order.algorithm].agent
        meta = policy_meta(self.spec, self._config, agent, order.hyperparameters)
        return {**meta, "pod": order.pod, "round": order.round}

    def _rescore(self, order: Rescore, slot: str, watch: Watch) -> Report:
        if self._group.rank > 0:
            return self._bare(order, slot)
        looks = order.purpose == "look"  # it goes on with what panels have begun
        by, engine = (self._evaluator, self.spec.engine) if looks else self.finals
        agree_on_engine(self._folder, self._config, "panel" if looks else "final", engine)
        bare = replace(self._bare(order, slot), engine=engine)
        singles = [
            Policy(self._loaded(each, each.checkpoint), self.spec, self._meta(each))
            for each in order.members or (order,)
        ]
        try:
            policy = joined(order, singles)
        except UserError as misfit:  # no fault of this process, and none of a machine
            return replace(bare, rule=order.rule, failure=str(misfit), failure_kind="raised")
        if order.members:
            made = Checkpoint(self._folder.blobs.put(*policy.stored()), order.checkpoint.env_steps)
            bare = replace(bare, rule=policy.about["rule"], checkpoint=made)
        seed, episodes = fresh_seeds(order, self._config)
        return replace(bare, returns=self._score(by, policy.agent, watch, *seed, episodes=episodes))

    def _loaded(self, order: Order | Member, checkpoint: Checkpoint) -> Agent:
        """An agent as it was saved, without its buffer: enough to be scored."""
        # No seed counts: the state holds the generators'.
        agent = self._agent(order.algorithm, order.hyperparameters, 0)
        agent.load(agent_state(read_blob(self._folder.blobs, checkpoint.core)[0]))
        return agent

    def _panel(self, agent: Agent, watch: Watch, seed: int, number: int) -> tuple[float, ...]:
        episodes = self._config.round.episodes
        return self._score(self._evaluator, agent, watch, seed, "panel", number, episodes=episodes)

    def _score(
        self, by: Evaluator, agent: Acting, watch: Watch, *panel: int | str, episodes: int
    ) -> tuple[float, ...]:
        began = time.monotonic()
        returns = scored(by, agent, *panel, episodes=episodes, should_stop=watch.should_stop)
        self._evaluate_seconds += time.monotonic() - began
        return returns

    def _train_and_score(self, birth: Birth, slot: str, watch: Watch) -> Report:
        report, agent = self._train(birth, slot, watch)
        if agent is None:  # the first rank scores
            return report
        try:
            return replace(
                report, returns=self._panel(agent, watch, self._config.seed, birth.round)
            )
        except Stopped:
            if watch.may_save():
                try:
                    self._folder.checkpoints.save_trained(report)
                except StorageError as error:
                    log.warning("%s will have to be trained again: %s", report.order, error)
            raise

    def _train(self, birth: Birth, slot: str, watch: Watch) -> tuple[Report, Agent | None]:
        """Train a round, or find that it is trained.

        Returns:
            Its report without returns, and on the first rank the agent.
        """
        first = self._group.rank == 0
        together(self._group, lambda: self._agree_on_engine(trains=True))
        done = together(self._group, lambda: self._trained_already(birth, slot) if first else None)
        if self._group.gather("" if done is None else "done")[0]:
            self._kept = None
            return done or (self._bare(birth, slot), None)
        running = self._begin(birth, watch)
        try:
            running.iterate()
            checkpoint = self._saved(running, watch)
            running.recorder.seal()
        except RankLost as lost:
            running.survive(lost)
            raise
        self._kept = checkpoint, running.replica.buffer
        report = replace(
            self._bare(birth, slot),
            inherited_returns=running.inherited,
            checkpoint=checkpoint,
            trained_steps=running.trained,
            train_seconds=running.train_seconds,
            metrics=running.replica.metrics,
            begins=running.birth.begins,
            ends=running.birth.ends,
        )
        return report, running.replica.agent if first else None

    def _saved(self, running: Round, watch: Watch) -> Checkpoint:
        """The checkpoint at the round's end. One rank waits for a disk that refuses; of several
        each would wait as long as it likes, so for them it is the slot that tries again.
        """
        if self._group.size > 1:
            return running.end()
        return with_retries(running.end, watch.should_stop)

    def _bare(self, order: Order, slot: str) -> Report:
        return Report(order.id, order.pod, order.round, order.attempt, slot)

    def _trained_already(self, birth: Birth, slot: str) -> tuple[Report, Agent] | None:
        """What a round's training came to, if it lacks its score alone."""
        done = self._folder.checkpoints.trained(birth.pod, birth.round)
        if done is None or done.checkpoint is None:
            return None
        try:
            agent = self._loaded(birth, done.checkpoint)
        except Corrupt as error:
            log.warning("%s is trained again: %s", birth.id, error)
            return None
        log.info("%s is trained already, at %d env steps", birth.id, done.checkpoint.env_steps)
        # Its engine is that of those who score it.
        return replace(done, order=birth.id, attempt=birth.attempt, slot=slot, engine=""), agent

    def _begin(self, birth: Birth, watch: Watch) -> Round:
        """Set a round up: from the last checkpoint inside it if there is one, else its start."""
        # To read a million transitions takes 0.6 s, with priorities 1.5 s.
        kept = self._take_kept(birth)  # first: not two buffers at once
        resume = self._latest_resume(birth)
        if resume is not None:
            kept = None
            try:
                return together(self._group, lambda: self._resumed(birth, watch, resume))
            except Corrupt as error:
                log.warning("%s goes back to the round's start: %s", birth.id, error)
        running, fused = together(self._group, lambda: self._started(birth, watch, kept))
        if birth.inherited:
            running.inherited = self._inherited(running.replica.agent, watch, birth)
        together(self._group, lambda: self._train_from(running, fused, kept=kept is not None))
        return running

    def _started(
        self, birth: Birth, watch: Watch, kept: Buffer | None
    ) -> tuple[Round, State | None]:
        """The round at its start, without environments and rows; what its fusion goes on from."""
        running = self._new(birth, watch, kept)
        return running, running.start()

    def _train_from(self, running: Round, fused: State | None, *, kept: bool) -> None:
        """Prepare the first step of a round at its start; a copied parent has been scored."""
        birth, agent = running.birth, running.replica.agent
        if birth.shrink:
            fresh = self._agent(birth.algorithm, birth.hyperparameters, birth.seed)
            if shrink_perturb(agent, fresh):
                fused = None  # an outer optimizer's momentum is that of the old weights
                log.info("%s begins with shrunk and perturbed weights", birth.id)
        self._fuse(running.replica, fused)
        running.begin(kept=kept)

    def _resumed(self, birth: Birth, watch: Watch, resume: Checkpoint) -> Round:
        """The round at a checkpoint inside it."""
        running = self._new(birth, watch, None)
        self._fuse(running.replica, running.resume(resume))
        log.info("%s goes on at %d env steps", birth.id, running.env_steps)
        return running

    def _latest_resume(self, birth: Birth) -> Checkpoint | None:
        """As rank 0 sees it: a shared filesystem may show it to some ranks later."""
        first = self._group.rank == 0
        found = together(
            self._group,
            lambda: self._folder.checkpoints.latest(birth.pod, birth.round) if first else None,
        )
        sent = self._group.gather("" if found is None else json.dumps(encode(found)))[0]
        return decode(Checkpoint, json.loads(sent)) if sent else None

    def _inherited(self, agent: Agent, watch: Watch, birth: Birth) -> tuple[float, ...]:
        """The panel of a copied parent; every rank runs it, and so none waits."""

        def score() -> tuple[float, ...]:
            try:
                return self._panel(agent, watch, *birth.parents_panel(self._config.seed))
            except Stopped:
                return ()

        returns = together(self._group, score)
        if agree(self._group, stop=not returns).stop:
            raise Stopped
        return returns

    def _guarded(self, agent: Agent, fusion: int) -> tuple[float, ...]:
        panel = self._config.seed, "guard", fusion
        return scored(self._evaluator, agent, *panel, episodes=self._config.round.episodes)

    def _take_kept(self, birth: Birth) -> Buffer | None:
        """The buffer of the last round, if this is the same pod's next: it is not read again."""
        kept, self._kept = self._kept, None
        same = kept is not None and kept[0] == birth.checkpoint and not birth.inherited
        return kept[1] if kept is not None and same else None

    def _new(self, birth: Birth, watch: Watch, kept: Buffer | None) -> Round:
        """The round before it has an agent's state, environments and rows."""
        config, group = self._config, self._group
        name = self._algorithms[birth.algorithm].agent
        env = self.spec if config.pod.pipeline else self.env
        worker = self._workers.make(env, name, birth.hyperparameters)
        agent = self._agent(birth.algorithm, birth.hyperparameters, birth.seed)
        checkpoints = Checkpoints(self._folder.blobs, self._meta(birth), group)
        learner = plugins.make(Learner, "learners", config.pod.learner, agent)
        buffer = agent.make_buffer() if kept is None else kept
        replica = Replica(agent, buffer, worker, learner, group)
        if self._metrics:  # a process that only scores imports no loggers
            self._mirrors, self._metrics = Mirrors(self._metrics), ()
        recorder = Recorder(self._folder, birth, self._curve_rows, self._mirrors, watch.may_save)
        return Round(birth, replica, checkpoints, self._folder, config, watch, recorder)

    def _fuse(self, replica: Replica, state: State | None) -> None:
        """Have replicas fused from now on, of several ranks; the agent is what it starts from."""
        rules, group = self._config.pod.fusion, self._group
        if group.size > 1:
            fusion = plugins.make(Fusion, "fusions", rules.scheme, replica.agent, group)
            guard = Guard(group, rules.guard, self._guarded) if rules.guard else None
            replica.begin(rules, fusion, guard, state)

    def close_loggers(self) -> None:
        """Have loggers write what they have got; waits for some seconds at most."""
        self._mirrors.close()

    def close(self) -> None:
        """Close the environments and the loggers."""
        self.close_loggers()
        self._workers.close()
        self._evaluator.close()
        if self._finals is not None and self._finals[0] is not self._evaluator:
            self._finals[0].close()
        if self._env is not None:
            self._env.close()
