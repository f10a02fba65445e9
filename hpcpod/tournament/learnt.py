"""Evidence that training has taught a pod anything: it returns more than untrained policies do.

Scores of pods that have learnt nothing say little of their prospects, or the wrong thing: on
Pendulum and MountainCarContinuous a policy that hardly changes is ahead of all that explore, and
those are the ones that learn.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcpod.tournament.statistics import GATE, Returns, difference, mean

NEGLIGIBLE = 0.005  # on MountainCarContinuous pods went on from -0.04 to -0.0001 for 60 rounds
"""Share of the way from the worst return of all to the best score."""
OUTLIER = 10  # one episode of -1,000,000, and no gain counted for the rest of a run
"""The worst return of all counts as at most so many times as far from the best score as the lowest
median of a panel is."""


def middle(first: Iterable[Returns]) -> Returns:
    """Episode by episode the mean over the middle half of pods' first panels, of up to four the
    middle one: what untrained policies return if most have learnt nothing in their first round.

    The panels have common seeds, so their episodes together would seem to be more than they are.

    Args:
        first: one panel at least, each of as many episodes.
    """
    ranked = sorted(first, key=mean)
    centre = (len(ranked) - 1) // 2
    # by the middle one alone, an episode of -1000 in it hid for half of a run what all had learnt
    half = ranked[centre - centre // 2 : centre + centre // 2 + 1]
    return tuple(map(mean, zip(*half, strict=True)))


def above(panel: Returns, untrained: Returns, least: float, tests: int) -> bool:
    """True if a panel's mean is shown to be above that of the untrained, by more than a negligible
    gain: Welch's test at 5 % over so many tests (Bonferroni). Panels of one episode show nothing,
    and count as above.

    Args:
        panel: returns of a pod.
        untrained: see ``middle``; on other seeds.
        least: a smaller difference is none, see ``negligible``.
        tests: that are made.
    """
    test = difference(panel, untrained, paired=False, level=GATE / tests)
    return test is None or (test.low > 0 and test.mean > least)


def negligible(best: float | None, worst: float | None, floor: float | None) -> float:
    """A gain that is none, however sure: a policy that has learnt to do nothing does even less.

    Args:
        best: the best score of the living.
        worst: the worst return of an episode that the run has seen.
        floor: the lowest median of a panel that the run has seen.
    """
    if worst is None or best is None:
        return 0.0
    if floor is not None and floor < best:
        worst = max(worst, best - OUTLIER * (best - floor))
    return NEGLIGIBLE * (best - worst)
