"""The guard of a fusion: it goes back to the best member if that was better."""

from __future__ import annotations

import json
import logging
import math
import statistics
from collections.abc import Callable, Sequence

from hpcpod.agents.base import Agent
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.fusion import Fusion
from hpcpod.pod.ranks.team import agree, together

log = logging.getLogger(__name__)

_BEYOND_DOUBT = 1.64
"""Standard errors: one-sided, 5 %."""


class Guard:
    """Scores members and fused agent on common seeds, and keeps the better of the two."""

    def __init__(
        self,
        group: Communicator,
        every: int,
        score: Callable[[Agent, int], Sequence[float]],
    ) -> None:
        """``score(agent, fusion)`` gives returns on episodes that are the same on every rank."""
        self._group, self._every, self._score = group, every, score

    def is_due(self, number: int) -> bool:
        """Whether it watches over the fusion of this number, from 1."""
        return number % self._every == 0

    def fuse(self, agent: Agent, fusion: Fusion, weight: float, number: int) -> None:
        """Fuse for the ``number``-th time, and go back to the best member if it got worse.

        Raises:
            RankLost: another rank is gone.
        """
        own = agent.state()
        returns = together(self._group, lambda: self._score(agent, number))
        told = self._group.gather(json.dumps(list(returns)))
        fusion.fuse(weight)
        fused = together(self._group, lambda: self._score(agent, number))
        rank, best = max(enumerate(json.loads(text) for text in told), key=lambda m: sum(m[1]))
        # The first rank's word counts: on other processors others' last digits may differ.
        if agree(self._group, stop=self._group.rank == 0 and worse(fused, best)).stop:
            log.info(
                "fusion %d: %.4g is worse than rank %d's %.4g, which goes on instead",
                number, statistics.fmean(fused), rank, statistics.fmean(best),
            )  # fmt: skip
            fusion.take(rank, own)


def worse(fused: Sequence[float], best: Sequence[float]) -> bool:
    """Whether the first returns are lower than the second, episode by episode, beyond the error.

    That is d̄ < -1.64 s_d / √n for the n differences d.
    """
    apart = [a - b for a, b in zip(fused, best, strict=True)]
    error = statistics.stdev(apart) / math.sqrt(len(apart))
    return statistics.fmean(apart) < -_BEYOND_DOUBT * error
