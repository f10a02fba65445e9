"""Places of the algorithms in a population: their quotas, as long as each may have the best pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

UNLIKELY = 0.05
"""An algorithm keeps its quota while the best pod is one of its with this probability, at least."""
FLOOR = 1
"""Places that each algorithm keeps."""
DRAWS = 2048
MOST = 256  # of 2,000 it took 6 s, at each merge with a death
"""Pods among which the best is looked for, those of the highest means."""


def places(quotas: Mapping[str, int], odds: Mapping[str, float]) -> dict[str, int]:
    """The places that each algorithm should have, by name; they sum to those of the quotas.

    An algorithm that has the best pod with a probability below 5 % keeps one place. The rest of its
    quota goes to those that are no less likely, in proportion to their odds, by largest remainder.

    Args:
        quotas: places by the configuration's shares.
        odds: of algorithms to have the best pod. One that nothing is known of keeps its quota.
    """
    ahead = {name: odds[name] for name in quotas if odds.get(name, 0.0) >= UNLIKELY}
    found = {
        name: FLOOR if ahead and odds.get(name, 1.0) < UNLIKELY else quota
        for name, quota in quotas.items()
    }
    free = sum(quotas.values()) - sum(found.values())
    exact = {name: free * share / sum(ahead.values()) for name, share in ahead.items()}
    by_remainder = sorted(exact, key=lambda name: int(exact[name]) - exact[name])
    short = free - sum(int(more) for more in exact.values())
    for name, more in exact.items():
        found[name] += int(more) + (name in by_remainder[:short])
    return found


def odds(
    panels: Mapping[str, tuple[int, Sequence[float]]], of: Mapping[str, str]
) -> dict[str, float]:
    """The probability that the best of some pods is of an algorithm, by the beliefs about their
    true means (``scores.posterior``).

    Args:
        panels: the round, which says the seeds, and the returns, by pod.
        of: algorithms, by pod.
    """
    from hpcpod.tournament.scores import Sample, covariance, posterior  # numpy: 0.1 s

    means = {pod: sum(returns) / len(returns) for pod, (_, returns) in panels.items()}
    pods = [*means]
    if len(pods) > MOST:
        pods = sorted(pods, key=lambda pod: (-means[pod], pod))[:MOST]
    samples = [Sample(tuple(panels[pod][1]), panels[pod][0]) for pod in pods]
    belief = posterior([means[pod] for pod in pods], covariance(samples), draws=DRAWS)
    found = dict.fromkeys((of[pod] for pod in panels), 0.0)
    for pod, probability in zip(pods, belief.best.tolist(), strict=True):
        found[of[pod]] += probability
    return found
