"""The upper bound: every GPU, from the instant it is free until it is needed again."""

from __future__ import annotations

from simulation.loop import Loop
from simulation.scheduler import Scheduler, Site
from simulation.trace import Trace


class Left:
    """GPU-seconds that other users leave from second 0 on, whoever has them then.

    To slots this is the physical bound: every GPU, from the instant it is free until it is needed
    again. Nobody reaches it: it takes no time to start, and none to leave. It is counted in the
    very run that it bounds, for a slot that takes a second to leave a GPU moves all that is
    scheduled after it: of two runs on one trace either may find more GPUs left.
    """

    def __init__(self, scheduler: Scheduler, most: int) -> None:
        self.seconds = 0.0
        """Of at most ``most`` GPUs at a time: what so many slots can have."""
        self.all = 0.0
        """However many."""
        self._scheduler, self._most = scheduler, most
        self._since, self._left = 0.0, int(scheduler.grid.left.sum())
        scheduler.watch = self.count

    def count(self) -> None:
        """Something has changed: book the time since the last change."""
        now = max(0.0, self._scheduler.loop.now)
        self.seconds += min(self._left, self._most) * (now - self._since)
        self.all += self._left * (now - self._since)
        self._since, self._left = now, int(self._scheduler.grid.left.sum())


def physical(trace: Trace, site: Site, most: int) -> Left:
    """What the users of a cluster leave idle without any slot there."""
    loop = Loop(trace.begin)
    scheduler = Scheduler(loop, trace, site)
    left = Left(scheduler, most)
    scheduler.load()
    loop.run(trace.end)
    left.count()
    return left
