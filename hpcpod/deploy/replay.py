"""A schedule of births trained again, from scratch, in a run folder of its own.

Each round is executed as a slot would execute it, by the same ``Pod``, or the same ranks of one, so
that equal births end in equal bits. A replay that was killed goes on where it was: rounds that are
reported are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpcpod.config.placement import ranks_of
from hpcpod.errors import Diverged, HpcpodError, UserError
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.ipc.child import Child, ChildDied
from hpcpod.pod.ipc.messages import FailureReply, Progress, ProgressReply, ReportReply, Work
from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore
from hpcpod.storage.run_folder import RunFolder

SLOT = "replay"
"""Name of the slot in reports of a replay."""
_GLANCE_SECONDS = 0.5
SEEDS = -1
"""Number of the set of seeds on which its last policy is scored: no run has such a set, for theirs
count from 0."""


@dataclass(frozen=True)
class Retrained:
    """The end of a replay."""

    checkpoint: Checkpoint
    """Of the last round."""
    reports: tuple[Report, ...]
    """Of every round, oldest first."""
    final: Report
    """Of the last policy on fresh seeds."""


def score_order(birth: Birth, checkpoint: Checkpoint) -> Rescore:
    """The order to score the policy in which a replay ended on fresh seeds.

    Args:
        birth: the last one.
        checkpoint: that it ended in.
    """
    return Rescore(
        "report", 0, birth.pod, 1, birth.algorithm, birth.hyperparameters, checkpoint, birth.round,
        set=SEEDS,
    )  # fmt: skip


class Retraining:
    """Trains births in a folder, one after another."""

    def __init__(self, folder: RunFolder) -> None:
        """Import what a pod needs.

        Args:
            folder: made for this; what it has trained already is not trained again.
        """
        self._folder = folder
        self._pod = prepare(folder)
        self._ranks: Child | None = None
        """The processes that train, where a pod of the run has several ranks."""

    @property
    def engine(self) -> str:
        """The simulator here, with its version. The environment is made once to see it."""
        return self._pod.spec.engine

    def train(
        self,
        births: Iterable[Birth],
        tell: Callable[[Birth, Report], object] = lambda birth, report: None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> Retrained:
        """Train all births, then score the last policy on fresh seeds.

        Args:
            births: in their order; the checkpoint of each is that of the one before.
            tell: called after each round with its order and its report.
            on_progress: called every half second.

        Raises:
            Diverged: the agent's numbers are not finite.
            Corrupt: a checkpoint of this replay can't be read.
        """
        reports: list[Report] = []
        birth, last = None, None
        for each in births:
            birth = replace(each, checkpoint=last)
            report = self._answer(birth, on_progress)
            assert report.checkpoint is not None
            last = report.checkpoint
            self._folder.checkpoints.drop(birth.pod, birth.round)
            self._folder.prune(last.blobs(), older_than_seconds=0.0)
            reports.append(report)
            tell(birth, report)
        if birth is None or last is None:
            raise UserError("a schedule without a round can't be trained")
        final = score_order(birth, last)
        return Retrained(last, tuple(reports), self._answer(final, on_progress))

    def _answer(self, order: Order, on_progress: Callable[[Progress], None]) -> Report:
        """The report of an order: the one that is there, or a new one."""
        from hpcpod.pod.round import Watch

        found = self._folder.reports.read(order.id)
        if found is None:
            if isinstance(order, Birth) and ranks_of(self._folder.resolved.config) > 1:
                found = self._by_ranks(order, on_progress)
            else:
                found = self._pod.execute(order, SLOT, Watch(on_progress=on_progress))
            self._folder.reports.publish(found)
        return found

    def _by_ranks(self, birth: Birth, on_progress: Callable[[Progress], None]) -> Report:
        """The report of a birth that the ranks of a pod train, all on this machine.

        Raises:
            LaunchError: what starts them is not installed.
            Diverged: the agent's numbers are not finite.
            HpcpodError: they have failed otherwise.
        """
        if self._ranks is None:
            self._ranks = Child(self._folder.path, SLOT, self._folder.resolved.config)
        ranks = self._ranks
        try:
            ranks.send(Work(birth))
            while (reply := ranks.receive(_GLANCE_SECONDS)) is None or isinstance(
                reply, ProgressReply
            ):
                if reply is not None and reply.progress is not None:
                    on_progress(reply.progress)
        except ChildDied as death:
            reply = FailureReply(str(death), death.kind)
        except BaseException:
            ranks.kill()  # they are at work: to close them waits for some seconds
            raise
        if isinstance(reply, ReportReply):
            return reply.report
        if not isinstance(reply, FailureReply):
            raise HpcpodError("the ranks were told to stop: the same command goes on")
        logs = f"their logs are in {self._folder.path / 'logs'}"
        failed = Diverged if reply.kind == "diverged" else HpcpodError
        raise failed(f"the ranks have failed: {reply.failure}; {logs}")

    def save(self, trained: Retrained, to: Path, about: dict[str, Any]) -> None:
        """Write the last policy to a file that ``load_policy`` reads, whatever is there."""
        from hpcpod.pod.policy import load_policy_file

        core = self._folder.blobs.path(trained.checkpoint.core)
        load_policy_file(core, about=about).save(to, overwrite=True)

    def close(self) -> None:
        """Close the environments, and end the ranks."""
        if self._ranks is not None:
            self._ranks.close()
        self._pod.close()
