"""Pods whose last attempt failed, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.run.text import many


def failing(seen: Snapshot) -> Iterator[str]:
    """Sentences on pods that can't finish a round, by the last attempt of one of them."""
    failing = [pod for pod in seen.board.living if pod.failure]
    if failing:
        worst = max(failing, key=lambda pod: pod.failures)
        yield (
            f"{many(len(failing), 'pod')} failed in the last attempt; {worst.id} {worst.algorithm},"
            f" {worst.failure}; `hpcpod logs {seen.word} {worst.id}` has the traceback"
        )
