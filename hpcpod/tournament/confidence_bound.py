"""Confidence bounds for the target: a lower bound by betting, safe against rare bad episodes.

Student's bound trusts the spread of the sample. Where one episode in a hundred fails, sixty-four
often hold none, their spread is too small, and the bound lies above the true mean in half of all
samples. Here each episode multiplies a wealth that begins at 1 by

    1 - c + c (x - w) / (m - w)

with x its return, w the worst return that an episode may have, m the claimed mean and c in
(0, 1) the stake. If the true mean is m or less the wealth can't be expected to grow, whatever
the distribution above w, so it ever reaches 1 / level with a probability of at most ``level``
(Ville's inequality; Waudby-Smith and Ramdas 2024, J. R. Stat. Soc. B 86). "Ever" lets sets of
fresh episodes be pooled until they decide. The stake must be chosen before the episodes that it
is for: the panel chooses the one of the whole attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Returns = Sequence[float]

MOST_EPISODES = 1024
"""Fresh episodes that one checkpoint's attempt may take."""
_STAKES = tuple(k / 20 for k in range(1, 20))  # 0.05 to 0.95
_STEPS = 60
"""Halvings in the search for a bound."""


def worst_case(seen: float, target: float, returns: Returns = ()) -> float:
    """The worst return that an episode of a policy near the target is taken to have.

    That is the lowest that the run has ever seen, and at least as far below the target as the
    target is from 0, and as the best of these returns is above it: a run that has not seen its
    policies fail yet does not know how they will.

    Args:
        seen: the lowest return of any episode of the run.
        target: the mean to be shown.
        returns: further episodes.
    """
    apart = max([abs(target), *(abs(value - target) for value in returns)])
    return min([seen, target - apart, *returns])


def log_wealth(returns: Returns, target: float, worst: float, stake: float) -> float:
    """The logarithm of what the bet against a mean of ``target`` or less has come to.

    Args:
        returns: in any order, none below ``worst``.
        target: m, above ``worst``.
        worst: w.
        stake: c, in (0, 1).
    """
    scale = target - worst
    return math.fsum(math.log1p(stake * ((value - worst) / scale - 1.0)) for value in returns)


def best_stake(returns: Returns, target: float, worst: float) -> float:
    """The stake by which these returns would have won most, of 0.05, 0.10 and so on to 0.95."""
    return max(_STAKES, key=lambda stake: log_wealth(returns, target, worst, stake))


def lower_bound(returns: Returns, level: float, worst: float, stake: float) -> float:
    """The bound that the true mean is below with a probability of ``level`` at most.

    Args:
        returns: fresh ones, none below ``worst``.
        level: of error, in (0, 1).
        worst: see ``worst_case``.
        stake: chosen before them.

    Returns:
        ``worst`` where they show nothing.
    """
    # Student's: with 500, and 20 in 1 % of episodes, 53 % of tries passed a target of 496.
    needed, mean = math.log(1.0 / level), math.fsum(returns) / len(returns)
    return highest(worst, mean, lambda m: log_wealth(returns, m, worst, stake) >= needed)


def highest(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The highest value for which it holds, by halving; ``low`` where it holds for none."""
    for _ in range(_STEPS):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def episodes_needed(
    like: Returns, level: float, target: float, worst: float, won: float = 0.0
) -> float:
    """Fresh episodes after which the target would be shown if all were like these.

    Args:
        like: returns to go by.
        level: of error.
        target: the mean to be shown.
        worst: see ``worst_case``.
        won: the logarithm of the wealth so far.

    Returns:
        Infinity if such episodes would never show it.
    """
    if worst >= target:  # all are as the target 0 is: nothing is left to bet on
        return math.inf
    growth = log_wealth(like, target, worst, best_stake(like, target, worst)) / len(like)
    missing = math.log(1.0 / level) - won
    if missing <= 0:
        return 0.0
    return missing / growth if growth > 0 else math.inf
