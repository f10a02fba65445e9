"""Curves of a population for a terminal: panel means by round, as far as boards have told them.

A board keeps of each pod the evaluations of rounds 1, 2, 4, 8 and so on, and the last four. Who
sees every board as it comes has every round; no report is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from hpcpod.records.records import Board, PodState
from hpcpod.tournament.statistics import mean

LEVELS = "▁▂▃▄▅▆▇█"
"""Characters of a sparkline, lowest first."""

MOST_POINTS = 256
"""Rounds that are remembered of a pod; of more every other one is dropped."""

Values = Sequence[float | None]


class Curves:
    """Panel means by round of the living pods and of those on the leaderboard."""

    def __init__(self) -> None:
        self._points: dict[str, dict[int, float]] = {}
        self._pods: dict[str, PodState] = {}
        self._living: list[str] = []
        self.rounds = 0
        """The furthest round of a living pod; 0 before the first."""
        self._drawn: dict[int, tuple[Values, Values]] = {}

    def add(self, board: Board) -> None:
        """Take in what a board has; the pods that it has no more are forgotten."""
        shown = {*(pod.id for pod in board.living), *(entry.pod for entry in board.entries)}
        before, known = self._points, self._pods
        self._pods = {name: board.pods[name] for name in sorted(shown)}
        self._points = {
            name: before[name] if known.get(name) is pod else self._of(pod, before)
            for name, pod in self._pods.items()
        }
        self._living = [pod.id for pod in board.living]
        self.rounds = max((max(self._points[each], default=0) for each in self._living), default=0)
        self._drawn.clear()

    def _of(self, pod: PodState, before: dict[str, dict[int, float]]) -> dict[int, float]:
        known = before.get(pod.id)
        if known is None:  # what its ancestors were seen to do is its past
            parent = before.get(pod.parent or "", {})
            known = {
                number: value for number, value in parent.items() if number <= pod.parent_round
            }
        for milestone in pod.milestones:
            if milestone.round not in known:
                known[milestone.round] = mean(milestone.returns)
        for evaluation in pod.history:  # always: a damaged round is trained a second time
            known[evaluation.round] = mean(evaluation.returns)
        if len(known) > MOST_POINTS:
            rounds = sorted(known)
            known = {number: known[number] for number in {*rounds[::2], *rounds[-8:]}}
        return known

    def pod(self, name: str, most: int) -> list[float]:
        """The last means of a pod, its ancestors' included, oldest first."""
        return [value for _, value in sorted(self._points.get(name, {}).items())][-most:]

    def population(self, columns: int) -> tuple[Values, Values]:
        """The best and the median of the living pods, by each pod's last mean up to a round.

        Args:
            columns: as many rounds at most, evenly from the first to the last; at least 2.

        Returns:
            Two sequences of the same length; None where no pod had a mean.
        """
        if columns not in self._drawn:
            self._drawn[columns] = self._population(columns)
        return self._drawn[columns]

    def _population(self, columns: int) -> tuple[Values, Values]:
        last = self.rounds
        count = min(columns, last)
        rounds = [1 + index * (last - 1) / max(1, count - 1) for index in range(count)]
        lines = [list(_steps(sorted(self._points[name].items()), rounds)) for name in self._living]
        found = [
            [value for value in column if value is not None] for column in zip(*lines, strict=True)
        ]
        return (
            [max(values) if values else None for values in found],
            [median(values) if values else None for values in found],
        )


def _steps(points: Sequence[tuple[int, float]], rounds: Iterable[float]) -> Iterable[float | None]:
    """At each round the last value up to it."""
    place, value = 0, None
    for number in rounds:
        while place < len(points) and points[place][0] <= number:
            value = points[place][1]
            place += 1
        yield value


def sparkline(values: Values, scale: Values | None = None) -> str:
    """A curve in a line of characters, one for each value; a blank where there is none.

    Args:
        values: the curve.
        scale: values of which the lowest and the highest are the ends; by default its own.
    """
    ends = [each for each in (scale or values) if each is not None and math.isfinite(each)]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    return "".join(_level(value, low, high) for value in values)


def _level(value: float | None, low: float, high: float) -> str:
    if value is None or not math.isfinite(value):
        return " "
    if high <= low:
        return LEVELS[3]
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the range may overflow
    return LEVELS[min(len(LEVELS) - 1, max(0, int(share * len(LEVELS))))]
