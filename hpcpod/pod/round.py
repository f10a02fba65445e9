"""One round of one pod on one rank: begin, iterate, checkpoint, survive.

A pod's next round goes on in the environments of the round before, whose checkpoint holds their
state. They begin anew, on seeds of the round's own, in a founder's and a copied child's first
round, and where they can't be saved. Rows that are there already then end with a cut.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hpcpod.config.placement import walk_of
from hpcpod.config.schema import RunConfig
from hpcpod.envs.vec_env import State, random_seeds
from hpcpod.errors import StorageError
from hpcpod.pod.budget_span import Span
from hpcpod.pod.checkpoint import Checkpoints
from hpcpod.pod.ipc.messages import Progress
from hpcpod.pod.lesson import Lesson, lesson_of
from hpcpod.pod.ranks.communicator import RankLost
from hpcpod.pod.ranks.consensus import agree, together
from hpcpod.pod.recorder import Recorder
from hpcpod.pod.replica import Replica
from hpcpod.pod.watch import Stopped
from hpcpod.pod.watch import Watch as Watch
from hpcpod.records.records import Birth, Checkpoint, stable_hash
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


class Round:
    """A round in progress."""

    def __init__(
        self,
        birth: Birth,
        replica: Replica,
        checkpoints: Checkpoints,
        folder: RunFolder,
        config: RunConfig,
        watch: Watch,
        recorder: Recorder,
    ) -> None:
        """The round that ``birth`` orders, with nothing of it trained."""
        self.birth, self.replica, self.checkpoints = birth, replica, checkpoints
        self.recorder = recorder
        self._folder, self._config, self._watch = folder, config, watch
        self._group = replica.group
        self.saved: Checkpoint | None = None
        """The last checkpoint that all ranks have made together."""
        self.env_steps = 0
        """Experience of the agent, in environment steps."""
        self.trained = 0
        """Steps of these that were trained in this round."""
        self.inherited: tuple[float, ...] = ()
        """Returns of the parent's panel; of a copied child alone."""
        self.train_seconds = 0.0
        self._episodes: State | None = None
        self._lesson: Lesson | None = None
        self._follow()

    def start(self) -> State | None:
        """Take over the agent that the round starts from; ``begin`` does the rest.

        Returns:
            What its fusion goes on from.

        Raises:
            Corrupt: it can't be read.
        """
        birth = self.birth
        if birth.checkpoint is None:
            return None
        parts = self.checkpoints.load(birth.checkpoint, self.replica.agent)
        if birth.origin is not None:  # schedules are this run's
            getattr(self.replica.agent, "begin_run", lambda: None)()
        self.env_steps = birth.checkpoint.env_steps
        self.saved = birth.checkpoint
        self._episodes = None if birth.inherited else parts.get("worker")
        return parts.get("fusion")

    def begin(self, *, kept: bool) -> None:
        """Begin the round's random numbers, its environments and its rows, after ``start``.

        Args:
            kept: rows and environments are where the pod's round before has left them here.

        Raises:
            Corrupt: rows can't be read.
        """
        rank = self._group.rank  # rank 0 has the seeds of a pod of one rank
        seeds = self._reseed("round", "train", *([rank] if rank else []))
        worker, whole = self.replica.worker, False
        if self._episodes is None:
            worker.reset(seeds)
            self._walk()
        else:
            whole = kept or worker.restore(self._episodes)
            worker.go_on(seeds)
        cap = self._config.pod.inherit_transitions  # a row is a transition of each environment
        most = None if cap is None or not self.birth.inherited else cap // len(seeds)
        self.checkpoints.fill(
            self.replica.buffer, len(seeds), most_rows=most, cut=not whole, kept=kept
        )
        self._begin_lesson()

    def _begin_lesson(self) -> None:
        """Load the pod's teacher, if it has one."""
        replica, learner = self.replica, self._config.pod.learner
        self._lesson = lesson_of(
            self.birth, self._folder.blobs, replica.agent, replica.worker.spec, learner,
            self._group.rank,
        )  # fmt: skip

    def _walk(self) -> None:
        """Go on into the middle of episodes that the round before could not hand on."""
        birth, worker = self.birth, self.replica.worker
        most = walk_of(self._config, worker.spec.max_episode_steps)
        # Else no step behind a round's length is ever trained on.
        if most and birth.round > 1 and worker.state() is None:
            drawn = stable_hash(birth.seed, "walk", birth.round, self._group.rank)
            worker.walk(self.replica.agent, drawn % (most + 1))

    def resume(self, checkpoint: Checkpoint) -> State | None:
        """Go on from a checkpoint inside the round.

        Returns:
            What its fusion goes on from.

        Raises:
            Corrupt: it can't be read, or its environments are of another engine.
        """
        replica, rank = self.replica, self._group.rank
        parts = self.checkpoints.load(checkpoint, replica.agent, inside=True)
        self.saved = checkpoint
        self.env_steps = checkpoint.env_steps
        self._take_up(parts)
        self.recorder.resume(self.env_steps)
        if "worker" in parts and not self._is_parents(checkpoint):
            whole = replica.worker.restore(parts["worker"])
        else:  # lost with its rank
            # Of a rank that is lost twice these are no episodes of the first time.
            replica.worker.reset(self._reseed("round", "train", "anew", rank, self.env_steps))
            whole = False
        self.checkpoints.fill(replica.buffer, self._config.env.num_envs, cut=not whole)
        self._begin_lesson()
        return parts.get("fusion")

    def _is_parents(self, checkpoint: Checkpoint) -> bool:
        """True if what this rank has there is still what a copied child has started from."""
        birth, own = self.birth, checkpoint.part(self._group.rank)
        parent = birth.checkpoint if birth.inherited else None
        return parent is not None and own in parent.parts

    def _reseed(self, agent: str, envs: str, *which: int | str) -> Tensor:
        """Begin the agent's random numbers anew; the seeds of the environments."""
        seed, number = self.birth.seed, self.birth.round
        self.replica.agent.reseed(stable_hash(seed, agent, number, *which))
        return random_seeds(seed, envs, number, *which, count=self._config.env.num_envs)

    def _follow(self) -> None:
        """Have schedules follow the birth's part of the run's budget."""
        birth, steps = self.birth, -(-self._config.round.env_steps // self._group.size)
        if birth.begins is not None and birth.ends is not None:
            self.replica.follow(Span(birth.begins, birth.ends, steps))

    def _take_up(self, parts: Mapping[str, State]) -> None:
        """Take over where a round stands, of what its checkpoint holds beside agent and buffer."""
        stood = parts["round"]
        self.trained = int(stood["trained"])
        self.inherited = tuple(stood["inherited"].tolist())
        self.train_seconds = float(stood["train_seconds"])
        metrics = parts.get("metrics", {})  # none before the first update
        self.replica.metrics = {name: float(value) for name, value in metrics.items()}
        # A round that was begun before it was ordered keeps to what it was begun with.
        if len(budget := stood.get("budget", torch.empty(0))):
            begins, ends = budget.tolist()
            self.birth = replace(self.birth, begins=begins, ends=ends)
            self._follow()

    def iterate(self) -> None:
        """Collect and update until the round's steps are done."""
        try:
            self._iterate()
        except Exception:
            self.recorder.write()  # the curve of an agent that diverged is worth a look, too
            raise

    def _iterate(self) -> None:
        watch = self._watch
        birth, replica, target = self.birth, self.replica, self.target
        began, before, saved = time.monotonic(), self.env_steps, time.monotonic()
        shown = 0.0

        def due() -> bool:
            return time.monotonic() - saved > self._config.pod.checkpoint_seconds

        while self.env_steps < target:
            agreed = replica.iterate(
                left=target - self.env_steps, should_stop=watch.should_stop, due=due,
                lesson=None if self._lesson is None else self._lesson.at(self.env_steps),
            )  # fmt: skip
            self.env_steps += agreed.steps
            self.trained += agreed.steps
            replica.fuse_if_due(ends=self.env_steps >= target)
            now, ends = time.monotonic(), self.env_steps >= target
            self.recorder.look(replica, self.env_steps, self.train_seconds + now - began, ends=ends)
            if now - shown > 0.5 or ends:  # seconds
                shown = now
                rate = (self.env_steps - before) / max(now - began, 1e-9)
                watch.on_progress(  # by the slot's pipe, to its status file
                    Progress(
                        birth.pod, birth.round, self.env_steps, target,
                        replica.worker.mean_return, rate,
                    )
                )  # fmt: skip
            stop = agreed.stop and self.env_steps < target
            if stop or agreed.save:
                self.train_seconds += now - began
                began, before = now, self.env_steps
                saved = now if self._save_resume() else saved
            if stop:
                raise Stopped
        self.train_seconds += time.monotonic() - began

    @property
    def target(self) -> int:
        """Steps of experience at which the round's training is done."""
        return self.birth.round * self._config.round.env_steps

    def end(self) -> Checkpoint:
        """Checkpoint the pod at the round's end, with its environments if they can be saved."""
        episodes = self._environments()
        return self._save({} if episodes is None else {"worker": episodes})

    def _environments(self) -> State | None:
        """What going on in the environments needs; None if they can't be saved."""
        return together(self._group, self.replica.worker.state)

    def _save(self, extra: Mapping[str, State]) -> Checkpoint:
        """Checkpoint the pod, on all ranks at once."""
        replica = self.replica
        if fused := replica.state():
            extra = {**extra, "fusion": fused}
        self.saved = self.checkpoints.save(
            replica.agent, replica.buffer, self.env_steps, extra, equal=replica.equal
        )
        return self.saved

    def _save_resume(self) -> bool:
        """Checkpoint inside the round; False if the environment's state can't be saved.

        Such a round is done again from its start, with the same seeds and the same end. A disk
        that refuses costs this checkpoint, not the round; a round that may not be saved is asked
        about again when its next checkpoint is due.
        """
        first = self._group.rank == 0
        may_save = together(self._group, lambda: first and self._watch.may_save())
        if not agree(self._group, save=may_save).save:
            return True
        episodes = self._environments()
        # Some ranks' may be saved, and others' not: episodes may be too long to be played again.
        if agree(self._group, stop=episodes is None).stop or episodes is None:
            return False
        birth = self.birth
        try:
            checkpoint = self._save({"worker": episodes, **self._progress()})
            if self._group.rank == 0:
                self._folder.checkpoints.save(birth.pod, birth.round, birth.attempt, checkpoint)
                self.recorder.write()
        except StorageError as error:
            log.warning("%s has no new checkpoint to resume from: %s", birth.id, error)
        return True

    def survive(self, lost: RankLost) -> None:
        """Save what this rank has: the round goes on from one survivor's agent.

        Of the other ranks there is what all have saved together last.
        """
        birth, rank = self.birth, self._group.rank
        log.error("%s: %s", birth.id, lost)
        # Only between two iterations is a state worth saving.
        if self.replica.unfinished or not self._watch.may_save():
            return
        worker = self.replica.worker.state()
        if worker is None:
            return
        extra = {"worker": worker, **self._progress()}
        try:
            own = self.checkpoints.save_own(
                self.replica.agent, self.replica.buffer, self.env_steps, extra
            )
            parts = () if self.saved is None else self.saved.parts
            others = tuple(part for part in parts if part.rank != rank)
            checkpoint = replace(own, others=others)
            self._folder.checkpoints.publish_survivor(  # the first survivor's counts
                birth.pod, birth.round, birth.attempt, checkpoint
            )
        except StorageError as error:
            log.warning("%s has no checkpoint of this survivor: %s", birth.id, error)

    def _progress(self) -> dict[str, State]:
        """Where a round stands."""
        budget = self.birth.begins, self.birth.ends
        progress: State = {
            "trained": torch.tensor(self.trained),
            "inherited": torch.tensor(self.inherited, dtype=torch.float64),
            "train_seconds": torch.tensor(self.train_seconds, dtype=torch.float64),
            "budget": torch.tensor([s for s in budget if s is not None], dtype=torch.float64),
        }
        metrics = {
            name: torch.tensor(value, dtype=torch.float64)
            for name, value in self.replica.metrics.items()
        }
        return {"round": progress, "metrics": metrics}
