"""The influence of hyperparameters on scores: rank correlations, with the error that they have.

Two samples allow a claim, for in both a random number generator has set the hyperparameter:

- *draws*: founders with values drawn from the ranges, by their score at an equal round. Controls
  (defaults) and replicates (another pod's values) are no draws.
- *moves*: copies, by how far their value was moved from their parent's, and by how much their
  first round scored above the parent's evaluation that was copied.

Living pods as they are allow none: their values were selected by the scores that they would be
compared with. p is that of the largest correlation of all hyperparameters of a sample (Westfall and
Young 1993): where none matters, a sample finds one in 5 % of cases, however many it has.

Moves of late copies are unlike those of early ones, for values drift to where steps have other
sizes; and gains fall with time. So ranks of moves are centred within blocks of neighbouring births,
and chance exchanges scores within these alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from operator import mul
from random import Random
from typing import Literal

from hpcpod.config.space import AlgorithmSpace, Choice, LogUniform, Scalar
from hpcpod.records.records import PodState
from hpcpod.report.story import Story

LEVEL = 0.05
LEAST = 5
"""Pods of a sample: of four, all 24 orders give no p below 0.08."""
DRAWS = 2000
"""Random orders; of up to seven pods in one block, every order is tried."""
REACHED = 0.75
"""Share of the founders that must have reached the round at which they are compared."""
RANDOM_MOVES = ("gentle_truncation", "ranking", "restarts")
"""Generators whose copies move by chance. Others choose by the scores themselves, as those of
multi_frequency do that take the values of another pod."""
BLOCK = 5  # by 8 it was 5.2 to 5.6 % of samples without an effect, by 5 it is 4.5 to 5.1
"""Most copies, of neighbouring births, among which scores are exchanged."""


@dataclass(frozen=True)
class Sample:
    """Pods whose hyperparameters chance has set, each with a score."""

    algorithm: str
    kind: Literal["draws", "moves"]
    round: int
    """Draws: the round at which they are compared; else 0."""
    values: dict[str, list[float]]
    """Columns by hyperparameter, a number for each pod: its value, or its move; on a range's scale:
    logarithms and indices as such."""
    scores: list[float]
    """Mean return, or its gain over the parent's. Of moves in the order of births."""

    @property
    def blocks(self) -> list[slice]:
        """The pods among which scores may be exchanged: all, or neighbours by birth."""
        pods = len(self.scores)
        count = 1 if self.kind == "draws" else max(1, math.ceil(pods / BLOCK))
        ends = [pods * i // count for i in range(count + 1)]
        return [slice(low, high) for low, high in pairwise(ends)]


@dataclass(frozen=True)
class Influence:
    """The rank correlation of one hyperparameter with the score in one sample."""

    algorithm: str
    hyperparameter: str
    kind: Literal["draws", "moves"]
    pods: int
    rho: float
    """Spearman's, in [-1, 1]."""
    low: float
    """Lower end of its approximate 95 % interval (Fieller, Hartley and Pearson 1957), as if it were
    the only hyperparameter; NaN where the correlation is 1 or -1, which has none."""
    high: float
    p: float
    """Probability of so large a correlation of any hyperparameter of the sample by chance."""
    limit: float
    """The smallest correlation, without its sign, that is seen in this sample; inf: not even 1."""

    @property
    def seen(self) -> bool:
        """Chance alone would have shown so much in fewer than 5 % of such samples."""
        return self.p < LEVEL


def _limit(largest: Sequence[float]) -> float:
    """The smallest correlation that chance gives in fewer than 5 % of cases; inf if none is so."""
    order = sorted(largest, reverse=True)
    most = math.ceil(LEVEL * len(order)) - 1
    seen = [each for each in order[:most] if each > order[most] + 1e-9]
    return min(seen, default=math.inf)


def samples(story: Story) -> list[Sample]:
    """Every sample of a run that is large enough, by algorithm."""
    found: list[Sample | None] = []
    for name, space in story.algorithms.items():
        if space.ranged:
            found += [_draws(story, name, space), _moves(story, name, space)]
    return [sample for sample in found if sample is not None and len(sample.scores) >= LEAST]


def influences(sample: Sample) -> list[Influence]:
    """The correlation of each hyperparameter of a sample that varies in it, largest first."""
    blocks = sample.blocks
    scores = _centred(sample.scores, blocks)
    columns = {name: _centred(column, blocks) for name, column in sample.values.items()}
    varying = {name: column for name, column in columns.items() if any(column)}
    if not varying or not any(scores):
        return []
    scale = math.sqrt(math.fsum(map(mul, scores, scores)))
    unit = {name: [each / scale / math.sqrt(math.fsum(map(mul, values, values)))
                   for each in values] for name, values in varying.items()}  # fmt: skip
    rhos = {name: math.fsum(map(mul, values, scores)) for name, values in unit.items()}
    largest = _largest_by_chance(scores, list(unit.values()), blocks)
    limit = _limit(largest)
    found = []
    for name, rho in rhos.items():
        least = abs(rho) - 1e-9  # the order that was seen is among all orders
        p = sum(each >= least for each in largest) / len(largest)
        low, high = _interval(rho, len(scores))
        found.append(Influence(
            sample.algorithm, name, sample.kind, len(scores), rho, low, high, p, limit
        ))  # fmt: skip
    return sorted(found, key=lambda each: (each.p, -abs(each.rho)))


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(order, start=1)))}
    shared = Counter(order)
    return [first[value] + (shared[value] - 1) / 2 for value in values]


def ordered(choice: Choice) -> bool:
    """True if all values are numbers."""
    return not any(isinstance(value, (str, bool)) for value in choice.values)


def in_order(choice: Choice) -> tuple[Scalar, ...]:
    """The values by size; as they are given, unless all are numbers."""
    if not ordered(choice):
        return choice.values
    return tuple(sorted(choice.values, key=float))


def as_number(space: AlgorithmSpace, name: str, value: Scalar) -> float:
    """A value on the scale of its range: a logarithm, the place among choices by size, or itself.
    Texts and booleans have no order: NaN."""
    given = space.values[name]
    if isinstance(value, (str, bool)):
        return math.nan
    if isinstance(given, Choice):
        places = [i for i, each in enumerate(in_order(given)) if each == value]
        return float(places[0]) if places and ordered(given) else math.nan
    if isinstance(given, LogUniform):
        return math.log(value) if value > 0 else math.nan
    return float(value)


def _draws(story: Story, algorithm: str, space: AlgorithmSpace) -> Sample | None:
    """The founders that drew their values, at the last round that most of them have reached."""
    pods = [
        pod for pod in story.board.pods.values()
        if pod.algorithm == algorithm and pod.cause == "fresh" and not pod.control
        and pod.repeats is None and pod.id in story.rounds
    ]  # fmt: skip
    means = {pod.id: {row.round: row.mean for row in story.rounds[pod.id]} for pod in pods}
    reached = Counter(number for rows in means.values() for number in rows)
    enough = [number for number, pods_there in reached.items() if pods_there >= REACHED * len(pods)]
    if not enough:
        return None
    at = max(enough)
    there = [(pod, score) for pod in pods if (score := means[pod.id].get(at)) is not None]
    return _sample(story, algorithm, space, "draws", at, [(p, None, s) for p, s in there])


def _moves(story: Story, algorithm: str, space: AlgorithmSpace) -> Sample | None:
    """The copies with a first round of their own, whose parent's evaluation is known."""
    if story.config.population.generator not in RANDOM_MOVES:
        return None
    found: list[tuple[PodState, PodState | None, float]] = []
    for pod in story.board.pods.values():
        parent = story.board.pods.get(pod.parent or "")
        mine = story.rounds.get(pod.id)
        if pod.algorithm != algorithm or parent is None or not mine:
            continue
        before = [row.mean for row in story.rounds.get(parent.id, ())
                  if row.round == pod.parent_round]  # fmt: skip
        after = mine[0].mean if mine[0].round == pod.parent_round + 1 else None
        if after is not None and before and before[0] is not None:
            found.append((pod, parent, after - before[0]))
    found.sort(key=lambda each: (each[0].born, each[0].id))
    return _sample(story, algorithm, space, "moves", 0, found)


def _sample(
    story: Story, algorithm: str, space: AlgorithmSpace, kind: Literal["draws", "moves"], at: int,
    pods: Sequence[tuple[PodState, PodState | None, float]],
) -> Sample:  # fmt: skip
    names = space.ranged if kind == "draws" else tuple(space.mutable)
    values: dict[str, list[float]] = {}
    for name in names:
        column = [_value(space, name, pod, parent) for pod, parent, _ in pods]
        if all(map(math.isfinite, column)):
            values[name] = column
    return Sample(algorithm, kind, at, values, [score for _, _, score in pods])


def _value(space: AlgorithmSpace, name: str, pod: PodState, parent: PodState | None) -> float:
    own = as_number(space, name, pod.hyperparameters.get(name, math.nan))
    if parent is None:
        return own
    return own - as_number(space, name, parent.hyperparameters.get(name, math.nan))


def _centred(values: Sequence[float], blocks: Sequence[slice]) -> list[float]:
    """Ranks less the mean rank of the block."""
    ranked, found = ranks(values), []
    for block in blocks:
        middle = math.fsum(ranked[block]) / len(ranked[block])
        found += [rank - middle for rank in ranked[block]]
    return found


def _largest_by_chance(
    scores: list[float], columns: list[list[float]], blocks: Sequence[slice]
) -> list[float]:
    """The largest correlation of any column, without its sign, under each order of the scores
    within their blocks; the one that was seen is one of them."""
    if len(scores) <= 7 and len(blocks) == 1:
        orders = permutations(scores)
        return [max(abs(sum(map(mul, column, order))) for column in columns) for order in orders]
    rng = Random(len(scores))
    found = [max(abs(sum(map(mul, column, scores))) for column in columns)]
    for _ in range(DRAWS - 1):
        order = []
        for block in blocks:
            order += rng.sample(scores[block], len(scores[block]))
        found.append(max(abs(sum(map(mul, column, order))) for column in columns))
    return found


def _interval(rho: float, pods: int) -> tuple[float, float]:
    if abs(rho) > 1 - 1e-9:
        return math.nan, math.nan
    half = 1.96 * math.sqrt(1.06 / (pods - 3))
    z = math.atanh(rho)
    return math.tanh(z - half), math.tanh(z + half)
