"""The time that a pod's rounds take, by what was measured so far. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from hpcpod.config.schema import RunConfig
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import PodState
from hpcpod.storage.slots import OrderStatus
from hpcpod.tournament.statistics import sd

# These were chosen by eleven recorded runs; of five others 13 of 15 forecasts held within 30 %.
LAST = 4
"""Measured rounds of a pod that count, the newest most."""
FADING = 0.6
"""Weight of a round in that of the one after it."""
STEADY = 0.12
"""Doubt, as a logarithm, that remains of rounds which were measured often: a machine's load and an
episode's length change."""
SINGLE = 0.3
"""Doubt of a single measured round, beside that."""
KIN, STRANGER = 0.5, 0.8
"""Doubt of a pod that has none: by other pods of its algorithm, or by other algorithms."""
GUESSED_SCORING = 0.15
"""Share of a round's training that its evaluation takes, while none has been measured."""
STEP = 16
"""Episodes that could be stepped in the time that each step of a batch takes beside them."""


@dataclass(frozen=True)
class Cost:
    """The cost of one round of a pod."""

    train: float
    """Seconds of a slot."""
    evaluate: float
    """Seconds of its panel."""
    doubt: float
    """Uncertainty of both, as a logarithm: from ``exp(-doubt)`` to ``exp(doubt)`` times."""
    scored: bool = True
    """A panel was measured; else ``evaluate`` is a guess."""


def costs_of(seen: Snapshot) -> dict[str, Cost]:
    """The cost of a round for each pod: by its own last rounds and the speed of the one in hand;
    where a living one has none, by those of its algorithm, else by all.

    Returns:
        By pod; empty while nothing was measured.
    """
    shown = {part.pod: part for slot in seen.slots.values() for part in slot.orders}
    known: dict[str, Cost] = {}
    for pod in seen.board.pods.values():
        found = _measured(pod, shown.get(pod.id), seen.config)
        if found is not None:
            known[pod.id] = found
    algorithms = {name: pod.algorithm for name, pod in seen.board.pods.items()}
    costs = dict(known)
    for pod in seen.board.living if known else ():
        if pod.id not in known:
            # One mean for all pods said 18 s of a run whose slow algorithm took 3 min more.
            kin = [cost for name, cost in known.items() if algorithms[name] == pod.algorithm]
            costs[pod.id] = mean_cost(kin or known.values(), KIN if kin else STRANGER)
    return costs


def progress(shown: OrderStatus, config: RunConfig) -> float | None:
    """The share of a round's steps that is done, in [0, 1]; None where that is not shown."""
    steps, number = shown.env_steps, shown.round
    if steps is None or number is None or shown.state != "training":
        return None
    each = config.round.env_steps
    return min(1.0, max(0.0, float(steps - (number - 1) * each) / each))


def panel_seconds(cost: Cost, episodes: int, config: RunConfig) -> float:
    """Seconds that ``episodes`` take which are played side by side, by those of a panel."""
    return cost.evaluate * (episodes + STEP) / (config.round.episodes + STEP)


def _measured(pod: PodState, shown: OrderStatus | None, config: RunConfig) -> Cost | None:
    """The cost by the pod's own rounds and the speed of the one in hand; None without both."""
    rounds = _rounds(pod)
    samples = [(cost, FADING**age) for age, cost in enumerate(reversed(rounds[-LAST:]))]
    # The longest episode decides what a panel takes, and that is chance: the whole history counts.
    panels = [(e.evaluate_seconds, FADING**age) for age, e in enumerate(reversed(pod.history))]
    evaluate = _weighted(panels) if panels else None
    rate = None if shown is None else shown.steps_per_second
    done = None if shown is None else progress(shown, config)
    if rate and done:
        training = config.round.env_steps / rate
        if evaluate is None:
            evaluate = GUESSED_SCORING * training  # s
        samples.append((training + evaluate, done))
    if not samples or evaluate is None:
        return None
    whole = _weighted(samples)
    many = sum(weight for _, weight in samples)
    spread = sd([math.log(cost) for cost, _ in samples])
    doubt = STEADY + max(SINGLE, spread) / math.sqrt(max(many, 0.25))  # a standard error
    return Cost(max(0.0, whole - evaluate), min(evaluate, whole), doubt, bool(panels))


def _weighted(samples: list[tuple[float, float]]) -> float:
    """The mean of values, each with its weight."""
    return sum(value * weight for value, weight in samples) / sum(weight for _, weight in samples)


def _rounds(pod: PodState) -> list[float]:
    """Slot-seconds of each round that is still known of a pod, oldest first."""
    points = {milestone.round: milestone.cost for milestone in pod.milestones}
    points |= {evaluation.round: evaluation.cost for evaluation in pod.history}
    if pod.parent is None:
        points.setdefault(0, 0.0)
    ordered = sorted(points.items())
    return [
        (cost - before) / (number - last)
        for (last, before), (number, cost) in pairwise(ordered)
        if cost > before
    ]


def mean_cost(costs: Iterable[Cost], doubt: float) -> Cost:
    """The mean of costs, for a pod that was not measured."""
    found = list(costs)
    return Cost(
        sum(cost.train for cost in found) / len(found),
        sum(cost.evaluate for cost in found) / len(found),
        doubt,
        all(cost.scored for cost in found),
    )
