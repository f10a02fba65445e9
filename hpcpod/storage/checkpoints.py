"""Checkpoints of unfinished rounds: where training can go on, and training that is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcpod.records.records import Checkpoint, Report, encode
from hpcpod.storage.checksummed import pack
from hpcpod.storage.layout import blob_path, plain
from hpcpod.storage.store import Store


@dataclass(frozen=True)
class _Resume:
    pod: str
    round: int
    checkpoint: Checkpoint
    trained: Report | None = None
    """The whole report but for the panel's returns, if only they are missing."""


class Checkpoints(Store):
    """The checkpoints of a run's unfinished rounds, one writer per attempt at a round.

    Damaged ones go into quarantine, ones whose blobs are gone are passed over. The folder of this
    store is the run folder: it looks into ``pods`` and ``blobs``.
    """

    def holds(self, checkpoint: Checkpoint) -> bool:
        """Look whether all blobs of a checkpoint are there; their content is not verified."""
        paths = (blob_path(self._folder / "blobs", sha256) for sha256 in checkpoint.blobs())
        return all(self._disk.exists(path) for path in paths)

    def save(self, pod: str, round: int, attempt: int, checkpoint: Checkpoint) -> None:
        """Save a checkpoint that a round can go on from; its blobs must be put before."""
        path = self._of_pod(pod) / f"{round:05d}-{attempt}.json"
        self._disk.replace(path, pack(encode(_Resume(pod, round, checkpoint))))

    def publish_survivor(self, pod: str, round: int, attempt: int, checkpoint: Checkpoint) -> bool:
        """``save`` by a rank that has lost others; False if another survivor was first."""
        name = f"{round:05d}-{attempt}-survivor-{checkpoint.env_steps}.json"
        path = self._of_pod(pod) / name
        return self._disk.publish(path, pack(encode(_Resume(pod, round, checkpoint))))

    def save_trained(self, report: Report) -> None:
        """Save a round whose training is done, and only its score is missing.

        Raises:
            ValueError: the report names no checkpoint.
        """
        if report.checkpoint is None:
            raise ValueError(f"{report.order}: a trained round has a checkpoint")
        path = self._of_pod(report.pod) / f"{report.round:05d}-{report.attempt}-trained.json"
        resume = _Resume(report.pod, report.round, report.checkpoint, report)
        self._disk.replace(path, pack(encode(resume)))

    def latest(self, pod: str, round: int) -> Checkpoint | None:
        """The checkpoint of a round with the most steps, by any attempt; None if there is none."""
        found = (r.checkpoint for r in self._found(pod, round) if r.trained is None)
        return max(found, key=lambda checkpoint: checkpoint.env_steps, default=None)

    def trained(self, pod: str, round: int) -> Report | None:
        """The report of a round whose training is done, by any attempt; None if there is none."""
        return next((r.trained for r in self._found(pod, round) if r.trained is not None), None)

    def steps(self, pod: str, round: int) -> int:
        """Steps of experience that a round can go on from; 0 if it begins at its start."""
        trained = self.trained(pod, round)
        found = [self.latest(pod, round), trained and trained.checkpoint]
        return max((checkpoint.env_steps for checkpoint in found if checkpoint), default=0)

    def all(self) -> dict[str, list[Checkpoint]]:
        """The checkpoints that unfinished rounds may go on from, by pod."""
        found: dict[str, list[Checkpoint]] = {}
        for path in sorted((self._folder / "pods").glob("*/resume/*.json")):
            # Unlike a shell's, pathlib's * matches hidden files.
            resume = None if path.name.startswith(".") else self._quarantine.sound(_Resume, path)
            if resume is not None:
                found.setdefault(resume.pod, []).append(resume.checkpoint)
        return found

    def drop(self, pod: str, round: int) -> None:
        """Remove the checkpoints of a round: its report is on the board."""
        for path in self._paths(pod, round):
            self._disk.remove(path)

    def _found(self, pod: str, round: int) -> Iterator[_Resume]:
        for path in self._paths(pod, round):
            resume = self._quarantine.sound(_Resume, path)
            if resume is None or (resume.pod, resume.round) != (pod, round):
                continue
            if self.holds(resume.checkpoint):
                yield resume

    def _of_pod(self, pod: str) -> Path:
        return self._folder / "pods" / plain(pod) / "resume"

    def _paths(self, pod: str, round: int) -> list[Path]:
        return sorted(self._of_pod(pod).glob(f"{round:05d}-*.json"))
