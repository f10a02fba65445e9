"""Scores of the living pods side by side, for ``hpcpod leaderboard --stats``.

A pod's last panel says what its policy is worth now. Pods of the same round have played the same
seeds, and their covariance counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation

from hpcpod.records.records import Board, PodState
from hpcpod.tournament.statistics import mean, sd, standard_error


@dataclass(frozen=True)
class PodScore:
    """The last evaluation of a living pod, and the belief about its true mean return."""

    pod: str
    """The pod's name."""
    algorithm: str
    """The name of its algorithm."""
    round: int
    """The round of its last panel."""
    episodes: int
    """Episodes of that panel."""
    mean: float
    """Mean return of that panel."""
    sd: float
    """Standard deviation of a return."""
    shrunk: float
    """The mean shrunk towards those of all pods (empirical Bayes)."""
    error: float
    """Standard deviation of the true mean about it."""
    low: float
    """Lower bound of the true mean: it is below with a probability of 5 %."""
    iqm: float
    """Interquartile mean of the returns."""
    iqm_low: float
    """Lower end of its 95 % bootstrap interval."""
    iqm_high: float
    """Upper end of it."""
    best: float
    """Probability of the highest true mean of the living pods; those that are level share it."""
    improves: float | None
    """Probability that an episode returns more than the first pod's: seed by seed if they stand at
    the same round; None of the first."""
    improves_low: float | None
    """Lower end of its 95 % interval."""
    improves_high: float | None
    """Upper end of it."""
    correlation: float | None
    """Correlation of its returns with the first pod's, seed by seed, in [-1, 1]; None of the first,
    of a pod at another round, and where one's returns are all the same."""
    slope: float | None
    """Rise of the return in a round, by the evaluations that are kept; None of fewer than three."""
    slope_error: float | None
    """Its standard error."""


def pod_scores(board: Board) -> tuple[PodScore, ...]:
    """The scores of the living pods that have an evaluation, the highest shrunk mean first."""
    import numpy as np  # the login node shows everything else without

    from hpcpod.tournament.scores import Sample, covariance, posterior

    pods = [pod for pod in board.living if pod.history]
    if not pods:
        return ()
    panels = [Sample(pod.history[-1].returns, pod.history[-1].round) for pod in pods]
    means = [mean(panel.returns) for panel in panels]
    belief = posterior(means, covariance(panels), key=board.reports)
    order = np.argsort(-belief.means, kind="stable")
    first = pods[order[0]]
    best = belief.best
    return tuple(
        _score(pods[i], first, float(belief.means[i]), float(belief.errors[i]), float(best[i]))
        for i in order
    )


def _score(pod: PodState, first: PodState, shrunk: float, error: float, best: float) -> PodScore:
    from hpcpod.tournament.scores import improvement, iqm, iqm_interval, trend

    last, against = pod.history[-1], first.history[-1]
    low, high = iqm_interval([last.returns])
    paired = last.round == against.round and len(last.returns) == len(against.returns)
    beside = None if pod is first else improvement(last.returns, against.returns, paired=paired)
    alike = _correlated(last.returns, against.returns) if paired and pod is not first else None
    kept = pod.evaluations
    errors = [standard_error(each.returns) for each in kept]
    line = trend([each.round for each in kept], [mean(each.returns) for each in kept],
                 errors if min(errors) > 0 else None)  # fmt: skip
    return PodScore(
        pod.id, pod.algorithm, last.round, len(last.returns), mean(last.returns), sd(last.returns),
        shrunk, error, shrunk - 1.6449 * error, iqm(last.returns), low, high, best,
        None if beside is None else beside.probability,
        None if beside is None else beside.low, None if beside is None else beside.high, alike,
        None if line is None else line.slope, None if line is None else line.error,
    )  # fmt: skip


def _correlated(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The correlation of two pods' returns on common seeds; None where one's are all the same."""
    try:
        return max(-1.0, min(1.0, correlation(one, other)))
    except StatisticsError:
        return None


def believed(scores: Sequence[PodScore]) -> str:
    """The grounds of a table of scores, in a sentence or two."""
    if not scores:
        return "No living pod has an evaluation yet."
    from hpcpod.tournament.scores import contenders

    likely = sum(score.best >= 0.05 for score in scores)
    equal = contenders([score.best for score in scores])
    return (
        "Of the living pods' last panels. 'shrunk' is the mean drawn towards all pods' by its"
        f" error, P(best) allows for common seeds. {likely} of {len(scores)} may be the best"
        f" with 5 % or more; it is as open as among {equal:.1f} equal ones."
    )
