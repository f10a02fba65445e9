"""Two libraries on the same row: interquartile means, their difference, and who wins how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gates.contests import COUNTED, Contest
from gates.estimates import RESAMPLES, SEED, estimate, iqm
from gates.table import OURS, PEER, Run, words
from gates.zoo import PUBLISHED

FEWEST = 3
"""Seeds of each library without which nothing is said of a difference."""


@dataclass(frozen=True)
class Result:
    """A run as it is kept."""

    row: str
    library: str
    seed: int
    made: str
    """``Contest.made``."""
    scores: Sequence[float]
    """Mean return at each evaluation."""
    seconds: float
    """Of training alone."""

    @classmethod
    def of(cls, run: Run, made: str) -> Result:
        """What is kept of a run."""
        scores = [round(point["score"], 2) for point in run.curve]
        seconds = round(run.curve[-1]["seconds"], 1)
        return cls(run.row, run.library, run.order["seed"], made, scores, seconds)

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Two of the same key are the same run."""
        return self.row, self.library, self.seed, self.made

    @property
    def score(self) -> float:
        """Mean of the last evaluations."""
        return float(np.mean(self.scores[-COUNTED:]))

    def json(self) -> dict[str, Any]:
        """As plain data, the arguments of ``Result``."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """Ours less the peer's, of the interquartile means, with its 95 % interval."""

    middle: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.low > 0:
            return "better"
        return "WORSE" if self.high < 0 else "no difference shown"


def difference(ours: Sequence[float], peers: Sequence[float]) -> Difference:
    """Of two groups of seeds, each resampled by itself.

    Raises:
        ValueError: one of them is empty.
    """
    rng = np.random.default_rng(SEED)
    middle = float(iqm(ours) - iqm(peers))
    drawn = [rng.choice(np.asarray(each), (RESAMPLES, len(each))) for each in (ours, peers)]
    low, high = np.quantile(iqm(drawn[0]) - iqm(drawn[1]), [0.025, 0.975])
    return Difference(middle, float(low), float(high))


def improvement(ours: Sequence[float], peers: Sequence[float]) -> float:
    """Probability that a seed of ours is better than one of the peer's; ties count half."""
    one, other = np.asarray(ours)[:, None], np.asarray(peers)[None, :]
    return float(np.mean((one > other) + 0.5 * (one == other)))


def render(results: Iterable[Result], contests: Iterable[Contest]) -> str:
    """The table as Markdown; a row stands there when anything of it was run."""
    found = list(results)
    columns = ["row", "steps", "seeds", OURS, PEER, "difference", "P(better)", "worst seeds"]
    table = [_line([*columns, "verdict"]), _line(["---"] * (len(columns) + 1))]
    for contest in contests:
        scores = {library: _scores(found, contest, library) for library in (OURS, PEER)}
        if any(scores.values()):
            table.append(_row(contest, scores))
    return "\n".join(table)


def _scores(found: list[Result], contest: Contest, library: str) -> list[float]:
    made = contest.made(library)
    by_seed = {
        each.seed: each.score
        for each in found
        if (each.row, each.library, each.made) == (contest.name, library, made)
    }
    return [by_seed[seed] for seed in sorted(by_seed)]


def _row(contest: Contest, scores: Mapping[str, list[float]]) -> str:
    ours, peers = scores[OURS], scores[PEER]
    said = [words(estimate(each)) if each else "" for each in (ours, peers)]
    beside = ["", "", "", ""]
    if min(len(ours), len(peers)) >= FEWEST:
        apart = difference(ours, peers)
        beside = [
            f"{apart.middle:+.1f} [{apart.low:+.1f}, {apart.high:+.1f}]",
            f"{improvement(ours, peers):.2f}",
            f"{min(ours):.0f}, {min(peers):.0f}",
            apart.verdict,
        ]
    elif ours and peers:
        beside[3] = "too few seeds"
    seeds, name = f"{len(ours)}, {len(peers)}", contest.name
    if contest.preset:
        published, steps = PUBLISHED[contest.algorithm, contest.env]
        name += f" (zoo: {published:.0f} at {steps // 1000}k)"
    return _line([name, f"{contest.env_steps // 1000}k", seeds, *said, *beside])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
