"""The progress of a slot, as its files show it after its death."""

from __future__ import annotations

from hpcpod.storage.restarts import Life
from hpcpod.storage.run_folder import RunFolder


def fruitful(folder: RunFolder, life: Life) -> bool:
    """Whether a report was published in this life, or a checkpoint saved that is further than the
    one that it began from."""
    return life.progress or any(
        folder.reports.exists(order)
        or (begun.round > 0 and reached(folder, begun.pod, begun.round) > begun.env_steps)
        for order, begun in life.orders.items()
    )


def reached(folder: RunFolder, pod: str, number: int) -> int:
    """Steps of experience that a pod's round can go on from; 0 if it begins at its start."""
    trained = folder.checkpoints.trained(pod, number)
    found = [folder.checkpoints.latest(pod, number), trained and trained.checkpoint]
    return max((checkpoint.env_steps for checkpoint in found if checkpoint), default=0)
