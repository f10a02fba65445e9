"""One round of one pod on one rank: iterate, checkpoint, survive."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from hpcpod.config.schema import RunConfig
from hpcpod.envs.vec_env import State
from hpcpod.errors import StorageError
from hpcpod.pod.checkpoint import Checkpoints
from hpcpod.pod.evaluator import Stopped, never
from hpcpod.pod.ranks.communicator import RankLost
from hpcpod.pod.ranks.team import agree, together
from hpcpod.pod.replica import Replica
from hpcpod.pod.span import Span
from hpcpod.records import Birth, Checkpoint
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
    may_save: Callable[[], bool] = lambda: True
    """Whether what an unfinished round can go on from may be left in the run folder."""


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
    ) -> None:
        """The round that ``birth`` orders, with nothing of it trained."""
        self.birth, self.replica, self.checkpoints = birth, replica, checkpoints
        self._folder, self._config, self._watch = folder, config, watch
        self._group = replica.group
        self.saved: Checkpoint | None = None
        """The last checkpoint that all ranks have made together."""
        self.env_steps = 0
        """Experience of the agent, in environment steps."""
        self.trained = 0
        """Of these, trained in this round."""
        self.inherited: tuple[float, ...] = ()
        """Returns of the parent's panel; of a copied child alone."""
        self.train_seconds = 0.0
        self._follow()

    def _follow(self) -> None:
        """Have schedules follow the birth's part of the run's budget."""
        birth, steps = self.birth, -(-self._config.round.env_steps // self._group.size)
        if birth.begins is not None and birth.ends is not None:
            self.replica.follow(Span(birth.begins, birth.ends, steps))

    def go_on(self, parts: Mapping[str, State]) -> None:
        """Take over where a round stands, of what its checkpoint holds beside agent and buffer."""
        stood = parts["round"]
        self.trained = int(stood["trained"])
        self.inherited = tuple(stood["inherited"].tolist())
        self.train_seconds = float(stood["train_seconds"])
        self.replica.metrics = {name: float(value) for name, value in parts["metrics"].items()}
        # A round that was begun before it was ordered keeps to what it was begun with.
        if len(budget := stood.get("budget", torch.empty(0))):
            begins, ends = budget.tolist()
            self.birth = replace(self.birth, begins=begins, ends=ends)
            self._follow()

    def iterate(self) -> None:
        """Collect and update until the round's steps are done."""
        watch = self._watch
        birth, replica, target = self.birth, self.replica, self.target
        began, before, saved = time.monotonic(), self.env_steps, time.monotonic()
        told = 0.0

        def due() -> bool:
            return time.monotonic() - saved > self._config.pod.checkpoint_seconds

        while self.env_steps < target:
            agreed = replica.iterate(
                left=target - self.env_steps, should_stop=watch.should_stop, due=due
            )
            self.env_steps += agreed.steps
            self.trained += agreed.steps
            replica.fuse_if_due(ends=self.env_steps >= target)
            now = time.monotonic()
            if now - told > 0.5 or self.env_steps >= target:
                told = now
                rate = (self.env_steps - before) / max(now - began, 1e-9)
                watch.on_progress(
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

    def save(self, extra: Mapping[str, State]) -> Checkpoint:
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
        worker = self.replica.worker.state()
        if worker is None:
            return False
        birth = self.birth
        try:
            checkpoint = self.save({"worker": worker, **self._progress()})
            if self._group.rank == 0:
                self._folder.save_resume(birth.pod, birth.round, birth.attempt, checkpoint)
        except StorageError as error:
            log.warning("%s has no new checkpoint to resume from: %s", birth.id, error)
        return True

    def survive(self, lost: RankLost) -> None:
        """Save what this rank has: the round goes on from one survivor's agent.

        Of the other ranks there is what all have saved together last.
        """
        birth, rank = self.birth, self._group.rank
        log.error("%s: %s", birth.id, lost)
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
            self._folder.publish_survivor(birth.pod, birth.round, birth.attempt, checkpoint)
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
