"""Reports of a program: read, held against the task, and brought into the tournament's form."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcpod.config.schema import RunConfig
from hpcpod.errors import Diverged
from hpcpod.program.files import number
from hpcpod.records.evaluations import SCORE_EPISODES, SCORE_ERROR
from hpcpod.records.records import stable_hash

MOST_METRICS = 64
MOST_STEPS = 2**53
"""Beyond it floats don't count."""
LARGEST = 1e100
"""Returns beyond it are taken for infinite."""
RESERVED = (SCORE_ERROR, SCORE_EPISODES)
"""Names of metrics by which hpcpod itself knows a score."""


class BadReport(ValueError):
    """A report that can't be taken; says why in one sentence."""


@dataclass(frozen=True)
class Answer:
    """A program's answer to a task."""

    returns: tuple[float, ...] = ()
    """More is better; empty where it gives a score."""
    score: tuple[float, float] | None = None
    """A mean, more is better, and its standard error."""
    steps: int | None = None
    """Steps of this task; None if it does not say."""
    saved: bool = True
    metrics: Mapping[str, float] = field(default_factory=dict)

    def panel(self, episodes: int, *names: int | str) -> tuple[float, ...]:
        """The returns; of a score a normal sample with just this mean and error.

        Draws of a normal sample, given its mean and its standard error, have halves that are
        independent of each other, as halves of a real panel are: so the gate ranks by one and tests
        by the other, though the program has given two numbers alone. No two pods have common draws.

        Args:
            episodes: of the panel.
            names: of the sample: equal ones give equal draws.
        """
        if self.score is None:
            return self.returns
        mean, error = self.score
        drawn = random.Random(stable_hash("score", *names))
        raw = [drawn.gauss(0.0, 1.0) for _ in range(episodes)]
        middle = math.fsum(raw) / episodes
        spread = math.sqrt(math.fsum((z - middle) ** 2 for z in raw) / (episodes - 1))
        scale = error * math.sqrt(episodes) / spread
        return tuple(mean + scale * (z - middle) for z in raw)


def needs_error(config: RunConfig) -> bool:
    """True if something in a run tests scores, or shows them as measured: an updater but
    ``ranking``, a target, scores on fresh seeds."""
    program = config.program
    scores = program is not None and program.scores
    return scores or config.stop.target is not None or config.population.updater != "ranking"


def read_answer(
    report: Mapping[str, Any], seeds: Sequence[int], *, minimize: bool, needs_error: bool
) -> Answer:
    """A program's report as an answer.

    Args:
        report: as the program wrote it.
        seeds: of the panel.
        minimize: less is better to the program.
        needs_error: a score without its error is refused.

    Raises:
        BadReport: it is not what the contract says.
        Diverged: a return or the score is not finite.
    """
    sign = -1.0 if minimize else 1.0
    metrics = _metrics(report)
    steps = report.get("steps")
    whole = isinstance(steps, int) and not isinstance(steps, bool)
    if steps is not None and not (whole and 0 <= steps < MOST_STEPS):
        raise BadReport(f"its report has steps {steps!r}, no whole number from 0 on")
    saved = report.get("saved", True) is not False
    if report.get("returns") is not None:
        returns = tuple(sign * value for value in _returns(report, seeds))
        return Answer(returns, None, steps, saved, metrics)
    if report.get("score") is None:
        raise BadReport("its report has neither returns nor a score")
    score, error = report["score"], report.get("error")
    if error is None and needs_error:
        raise BadReport(
            "its report has a score without its standard error, which the run needs for tests and"
            " intervals: report error, too, or set population.updater to ranking, program.scores"
            " to false and no stop.target"
        )
    metrics |= _episodes(report, known=error is not None)
    error = 0.0 if error is None else error
    _finite("score", [score])
    _finite("error", [error])
    if error < 0:
        raise BadReport(f"its report has the error {error!r}, which is below 0")
    metrics[SCORE_ERROR] = float(error)
    return Answer((), (sign * score, float(error)), steps, saved, metrics)


def _episodes(report: Mapping[str, Any], *, known: bool) -> dict[str, float]:
    """The metric of a score's episodes, if the program tells them; 1 of an error that is not
    known."""
    told = report.get("episodes")
    if told is not None and not (isinstance(told, int) and 1 <= told < MOST_STEPS):
        raise BadReport(f"its report has {str(told)[:40]!r} episodes, no whole number from 1 on")
    if not known:
        return {SCORE_EPISODES: 1.0}
    return {} if told is None else {SCORE_EPISODES: float(max(2, told))}


def _returns(report: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
    returns = report["returns"]
    if not isinstance(returns, list):
        raise BadReport(f"its report has returns of type {type(returns).__name__}, not a list")
    if len(returns) != len(seeds):
        raise BadReport(
            f"it reported {len(returns)} return{'s' * (len(returns) != 1)} for the"
            f" {len(seeds)} seeds of the panel"
        )
    if report.get("seeds") is not None and report["seeds"] != list(seeds):
        raise BadReport("it reported returns for other seeds than those of the panel")
    _finite("return", returns)
    return [float(value) for value in returns]


def _finite(what: str, values: Sequence[Any]) -> None:
    for value in values:
        if not number(value):
            raise BadReport(f"its report has the {what} {str(value)[:40]!r}, which is no number")
        if not abs(value) < LARGEST:  # false for nan
            raise Diverged(f"the program reported a {what} that is not finite: {value}")


def _metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers beside the score: ``metrics``, and ``costs`` as their mean under ``cost``."""
    given = report.get("metrics") or {}
    found = {}
    if isinstance(given, dict):
        if taken := [name for name in RESERVED if name in given]:
            raise BadReport(
                f"its report has the metric {taken[0]}, a name that hpcpod has another use for:"
                " rename it"
            )
        kept = [(str(k)[:100], v) for k, v in given.items() if number(v) and math.isfinite(v)]
        found = {name: float(value) for name, value in kept[:MOST_METRICS]}
    costs = report.get("costs", report.get("cost"))
    costs = [costs] if number(costs) else costs
    if isinstance(costs, list) and costs and all(number(c) and math.isfinite(c) for c in costs):
        found["cost"] = math.fsum(costs) / len(costs)
    return found
