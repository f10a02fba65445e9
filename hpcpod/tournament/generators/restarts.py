"""Restarts: a population that stagnates begins anew, and selects half as often from then on.

Iterated population-based training (IPBT; Chebykin et al. 2025, arXiv 2511.09190) finds the interval
between two selections by itself: the shortest first, and twice as long after each restart. A copy
that a restart makes begins with shrunk and perturbed weights (``agents.shrink_perturb``).
"""

from __future__ import annotations

from functools import lru_cache
from random import Random

import numpy as np

from hpcpod.records.records import PodState, Verdict
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gaussian_process import likeliest, matern, standardized
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.generators.succession import listed, selected
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.settle import PEAKS
from hpcpod.tournament.stopping import leader

PATIENCE = 3
"""Steps in a row without progress, after which a population begins anew."""
SLOW = 15
"""Steps in which it must have gained a standard deviation of its best scores at least."""
LONGEST = PEAKS // (SLOW + 1)
"""Rounds between two selections at most: by longer ones more would have to be remembered."""
LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Candidates for the length of the smoothing, as a share of the time since the last restart."""
NOISES = (0.01, 0.1, 0.3, 1.0)
"""Candidates for the variance of the best score beside its trend, of 1 in all."""


class Restarts(GentleTruncation):
    """Gentle truncation every 1, 2, 4 ... rounds, with a restart before each doubling.

    A step is that many rounds of the whole population. After each, the best scores since the last
    restart are smoothed by a Gaussian process with Matérn's kernel. A population whose smoothed
    best did not grow in three steps in a row, or gained less than one standard deviation in
    fifteen, begins anew, if the budget has two steps of twice the length left. Each pod does as it
    reports: every other place gets a fresh pod, the others a copy, with mutated hyperparameters,
    from the best quarter of the leaderboard, of whichever round that is. Controls that may still
    teach something and the leader train on.

    Before its first step the weights of such a copy become 0.2 of the old ones plus 0.1 of fresh
    ones, as in IPBT. Unlike there, its hyperparameters are mutated instead of drawn from a model.
    The rule is for long runs where nobody knows how often to select; it pays for that with fresh
    pods in mid-run.
    """

    def challenge(
        self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int
    ) -> Copy | Fresh | None:
        """A new beginning, if the population has stagnated; else a copy, if it is its time."""
        if not cohorts.spare(pod):
            return None
        restarts = max(each.restarts for each in cohorts.living.values())
        step = min(LONGEST, 2**restarts)
        best = leader(cohorts.board)
        leads = best is not None and best.pod == pod.id
        due = pod.restarts < restarts or stagnates(_steps(cohorts, restarts, step))
        # Twice two steps of today's; for the others of a restart that has begun they have doubled.
        needed = (4 if pod.restarts == restarts else 2) * step
        if due and not leads and _rounds_left(cohorts, pod) >= needed:
            return self._anew(cohorts, pod, key)
        if verdict.round // step == selected(cohorts, pod) // step:
            return None
        return super().challenge(cohorts, pod, verdict, key)

    def _anew(self, cohorts: Cohorts, pod: PodState, key: int) -> Copy | Fresh:
        number, rng = pod.restarts + 1, Random(key)
        said = f"the best of the population grew no more (restart {number} of its place)"
        rows = list(listed(cohorts, pod.algorithm))
        if not rows or (cohorts.places[pod.id] + number) % 2:
            drawn = self.founder(cohorts.algorithms[pod.algorithm], False, key)
            return Fresh(pod.algorithm, drawn, evidence=said, restart=True)
        row = rng.choice(rows[: max(1, len(rows) // 4)])
        copy = self.copy(cohorts, row.pod, row.round, said, rng)
        return Copy(row.pod, row.round, copy.hyperparameters, copy.mutated, said, restart=True)


def _steps(cohorts: Cohorts, restarts: int, step: int) -> tuple[float, ...]:
    """The mean of the population's best scores in each step since a restart; the first one, in
    which all is new, is left out."""
    board, places = cohorts.board, cohorts.config.population.pods.max
    began = min(
        (
            pod.born // places
            for pod in board.pods.values()
            if pod.restarts == restarts
            and pod.replaces is not None
            and board.pods[pod.replaces].restarts < restarts
        ),
        default=0,
    )
    forgotten = board.rounds // places - len(board.peaks)
    since = board.peaks[max(0, began - forgotten) :]
    ends = range(step, len(since) + 1, step)
    return tuple(sum(since[end - step : end]) / step for end in ends)[1:]


def _rounds_left(cohorts: Cohorts, pod: PodState) -> float:
    """Rounds of the whole population that the run's budget has left, as far as a pod's next birth
    tells; infinite where nothing limits the run."""
    spent = None if pod.birth is None else pod.birth.ends
    if pod.birth is None or spent is None:
        return 0.0 if pod.birth is None else np.inf
    done = cohorts.board.rounds / cohorts.config.population.pods.max
    return done * (1 - spent) / spent if spent > 0 else np.inf


@lru_cache(maxsize=64)
def stagnates(steps: tuple[float, ...]) -> bool:
    """True if the best scores of a population, step by step, grow no more, or too slowly."""
    if len(steps) <= PATIENCE:
        return False
    scores = standardized(np.array(steps, dtype=np.float64))
    if len(scores) >= SLOW and scores.max() - scores[: 1 - SLOW].max() < 1.0:
        return True
    tried = range(len(steps) - PATIENCE + 1, len(steps) + 1)
    return not any(grows(steps[:count]) for count in tried)


def grows(steps: tuple[float, ...]) -> bool:
    """True if the smoothed score of the last step is above that of the one before."""
    y = standardized(np.array(steps, dtype=np.float64))
    x = np.linspace(0.0, 1.0, len(steps))[:, None]
    smoothed = likeliest(x, y, map(matern, LENGTHS), NOISES).mean(x[-2:])
    return bool(smoothed[1] > smoothed[0])
