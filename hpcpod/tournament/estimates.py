"""Estimates of a checkpoint's true mean return, by its panel and those of the rounds beside it.

The best of many panels is mostly a lucky one: of eight equal pods with forty rounds each it lies
2.9 standard errors above the truth. A checkpoint before or after it is nearly the same policy, so
its panel says something of it, too: with the error variance v of a panel's mean and the variance
q by which true means move in a round, a neighbour counts v / (v + q) as much as the checkpoint's
own panel. Both are estimated from the panels of the pod and its ancestors: v is the mean of their
squared standard errors, q what the mean squared difference of successive means is above 2 v. Where
policies move by less than the error the estimate is nearly a moving average, where they jump it is
the panel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpcpod.records.records import Evaluation, Motion
from hpcpod.tournament.statistics import mean, standard_error


def moved(motion: Motion, before: Evaluation | None, now: Evaluation) -> Motion:
    """The motion after another panel; ``before`` is the one of the round before, if any."""
    # SAC on Pendulum, which oscillates, was copied at its lucky panels
    step = None if before is None else mean(now.returns) - mean(before.returns)
    return Motion(
        motion.steps + (step is not None),
        motion.squares + (0.0 if step is None else step**2),
        motion.panels + 1,
        motion.noise + standard_error(now.returns) ** 2,
    )


def estimated(history: Sequence[Evaluation], motion: Motion) -> tuple[Evaluation, ...]:
    """A pod's last evaluations with the estimates of the last two, of which the former has a
    neighbour more than it had; those of older ones are final."""
    weight = neighbour_weight(motion)
    means = [mean(evaluation.returns) for evaluation in history]
    found = list(history)
    for i in range(max(0, len(history) - 2), len(history)):
        beside = [
            means[k]
            for k in (i - 1, i + 1)
            if 0 <= k < len(history) and abs(history[k].round - history[i].round) == 1
        ]
        estimate = (means[i] + weight * sum(beside)) / (1.0 + weight * len(beside))
        found[i] = replace(history[i], estimate=estimate)
    return tuple(found)


def neighbour_weight(motion: Motion) -> float:
    """v / (v + q), in [0, 1]; 0 if there is no error or nothing to estimate q from."""
    if motion.steps == 0 or motion.noise == 0.0:
        return 0.0
    error = motion.noise / motion.panels
    drift = max(0.0, motion.squares / motion.steps - 2.0 * error)
    return error / (error + drift)
