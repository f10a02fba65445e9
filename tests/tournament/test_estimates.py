"""A checkpoint's estimate: its panel's mean, shrunk towards those of the rounds beside it."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from hpcpod.records.records import Checkpoint, Evaluation, Motion
from hpcpod.tournament.estimates import estimated, moved, neighbour_weight
from hpcpod.tournament.settle import HISTORY, rank
from hpcpod.tournament.statistics import mean


def evaluation(number: int, *returns: float) -> Evaluation:
    return Evaluation(number, returns, Checkpoint(f"c{number}", number))


def test_a_motion_by_hand() -> None:
    one, two = evaluation(1, 1.0, 3.0), evaluation(2, 4.0, 8.0)
    motion = moved(Motion(), None, one)
    assert motion == Motion(0, 0.0, 1, 1.0)  # variance 2, of two episodes
    assert moved(motion, one, two) == Motion(1, 16.0, 2, 1.0 + 4.0)


@pytest.mark.parametrize(
    ("motion", "weight"),
    [
        (Motion(0, 0.0, 1, 1.0), 0.0),  # nothing to tell drift by
        (Motion(1, 9.0, 2, 0.0), 0.0),  # no error
        (Motion(3, 6.0, 4, 4.0), 1.0),  # mean square 2 is what two errors of 1 make
        (Motion(3, 15.0, 4, 4.0), 0.25),  # 5 - 2 is drift: 1 / (1 + 3)
    ],
)
def test_a_neighbour_counts_by_error_and_drift(motion: Motion, weight: float) -> None:
    assert neighbour_weight(motion) == weight


def test_estimates_by_hand() -> None:
    history = [evaluation(r, m - 1, m + 1) for r, m in ((1, 0.0), (2, 6.0), (3, 3.0))]
    found = estimated(history, Motion(3, 6.0, 4, 4.0))  # weight 1
    # the first is final; the second lies between two; the last has one beside it yet
    assert [each.estimate for each in found] == [None, 3.0, 4.5]
    # a round that was lost in between is no neighbour
    apart = [evaluation(1, 0.0, 0.0), evaluation(3, 2.0, 2.0)]
    assert [e.estimate for e in estimated(apart, Motion(3, 6.0, 4, 4.0))] == [0.0, 2.0]


def test_of_equal_policies_the_best_estimate_is_nearer_the_truth_than_the_best_mean() -> None:
    rng, means, estimates = Random(5), [], []
    for _ in range(60):
        motion, kept = Motion(), []
        history: tuple[Evaluation, ...] = ()
        for number in range(1, 31):
            now = evaluation(number, *[rng.gauss(0, 1) for _ in range(16)])
            motion = moved(motion, history[-1] if history else None, now)
            history = estimated((*history, now), motion)[-HISTORY:]
            kept.append(history[-2] if number > 1 else now)
        means.append(max(mean(each.returns) for each in kept))
        estimates.append(max(rank(each)[0] for each in kept[1:]))
    assert fmean(means) > 0.45
    assert fmean(estimates) < 0.7 * fmean(means)
