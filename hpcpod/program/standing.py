"""The standing of a round: where an attempt begins, and how far the program says that it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hpcpod.pod.ipc.messages import Progress
from hpcpod.pod.watch import Watch
from hpcpod.program.curve import ProgressCurve
from hpcpod.program.follow import Follower
from hpcpod.program.session_folder import Task
from hpcpod.records.records import Birth, Checkpoint


@dataclass
class Standing:
    """The point that a round has reached before an attempt, and at which it began."""

    start: int
    """Experience at its begin."""
    done: int = 0
    """Steps of it before this attempt."""
    seconds: float = 0.0
    """Seconds of its training before this attempt."""
    inherited: tuple[float, ...] = ()
    source: Checkpoint | None = None
    """The checkpoint that it goes on from."""

    def about(self, seconds: float) -> dict[str, Any]:
        """Facts for an attempt that goes on."""
        return {"round": {"inherited": list(self.inherited), "seconds": self.seconds + seconds,
                          "start": self.start}}  # fmt: skip


def teller(
    birth: Birth, stood: Standing, task: Task, curve: ProgressCurve, watch: Watch,
    follower: Follower, sign: float,
) -> Callable[[int, Mapping[str, float]], None]:  # fmt: skip
    """A listener that passes the program's progress on to the curve and to the slot.

    Args:
        birth: of the round.
        stood: where the attempt began.
        task: what the program was given.
        curve: gets each line.
        watch: of the slot.
        follower: knows how long it has trained.
        sign: -1 where less is better to the program.
    """
    target, began = stood.start + (task.steps or 0), time.monotonic()

    def tell(steps: int, row: Mapping[str, float]) -> None:
        at = stood.start + stood.done + steps
        curve.add(at, stood.seconds + follower.trained, row)
        mean = next((row[name] for name in ("mean_return", "return", "score") if name in row), None)
        watch.on_progress(
            Progress(
                birth.pod, birth.round, at, max(target, at),
                math.nan if mean is None else sign * mean,
                steps / max(time.monotonic() - began, 1e-9),
            )
        )  # fmt: skip

    return tell
