"""The guard of a fusion: it goes back to the best replica if that was better."""

from __future__ import annotations

import json
import logging
import math
import statistics
from collections.abc import Callable, Sequence

from hpcpod._student_t import t_quantile
from hpcpod.agents.base import Agent
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.consensus import agree, together
from hpcpod.pod.ranks.fusion import Fusion

log = logging.getLogger(__name__)

_LEVEL = 0.05
"""Rate at which a fusion that is as good as the best member is thrown away, if none is better."""


class Guard:
    """Scores members and fused agent on common seeds, and goes back to a member that is better.

    The member is chosen by one half of the episodes and compared on the other: on those by which it
    was chosen the best of 16 equal ones beat the fused one, which is as good, in 32 % of cases.
    """

    def __init__(
        self,
        group: Communicator,
        every: int,
        score: Callable[[Agent, int], Sequence[float]],
    ) -> None:
        """``score(agent, fusion)`` gives returns on episodes that are the same on every rank."""
        self._group, self._every, self._score = group, every, score

    def is_due(self, number: int) -> bool:
        """True if it watches over the fusion of this number, from 1."""
        return number % self._every == 0

    def fuse(self, agent: Agent, fusion: Fusion, weight: float, number: int) -> None:
        """Fuse for the ``number``-th time, and go back to the best member if it got worse.

        Raises:
            RankLost: another rank is gone.
        """
        own = agent.state()
        returns = together(self._group, lambda: self._score(agent, number))
        members = [json.loads(s) for s in self._group.gather(json.dumps(list(returns)))]
        fusion.fuse(weight)
        fused = together(self._group, lambda: self._score(agent, number))
        rank = chosen(members)
        best = members[rank]
        # The first rank's word counts: on other processors others' last digits may differ.
        if agree(self._group, stop=self._group.rank == 0 and worse(fused, best)).stop:
            log.info(
                "fusion %d: %.4g is worse than rank %d's %.4g, which goes on instead",
                number, statistics.fmean(fused), rank, statistics.fmean(best),
            )  # fmt: skip
            fusion.take(rank, own)


def chosen(members: Sequence[Sequence[float]]) -> int:
    """The member, by number, with the largest sum of every second return, from the first on."""
    return max(range(len(members)), key=lambda number: math.fsum(members[number][::2]))


def worse(fused: Sequence[float], best: Sequence[float]) -> bool:
    """True if the first returns are lower than the second, beyond the error of their differences.

    Student's one-sided paired test at 5 %, on those episodes by which ``chosen`` did not choose:
    d̄ < -t s_d / √n for their n differences d. Of fewer than two nothing can be said: False.
    """
    apart = [a - b for a, b in zip(fused[1::2], best[1::2], strict=True)]
    if len(apart) < 2:
        return False
    error = statistics.stdev(apart) / math.sqrt(len(apart))
    return statistics.fmean(apart) < -t_quantile(1 - _LEVEL, len(apart) - 1) * error
