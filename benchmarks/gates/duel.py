"""Two libraries on the same row: interquartile means, their difference, and who wins how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from gates.contests import COUNTED, Contest
from gates.estimates import RESAMPLES, SEED, estimate, iqm
from gates.table import OURS, PEER, Run, words
from gates.zoo import PUBLISHED

FEWEST = 3
"""Seeds of each library without which nothing is said of a difference."""
SURE = 0.05
"""The largest share of cases in which a difference is said to be shown where there is none."""
SPLITS = 20_000
"""Divisions of all seeds into two groups that are tried, at most."""


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
    """Ours less the peer's, of the interquartile means, with a 95 % bootstrap interval.

    The interval of three seeds is too narrow: of equal groups of ten and three, normally
    distributed, it missed 0 in 16 % of cases, of two threes in 20 %. So ``p`` decides.
    """

    middle: float
    low: float
    high: float
    wins: float
    """See ``improvement``."""
    p: float
    """See ``chance``."""

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.p > SURE:
            return "no difference shown"
        return "better" if self.wins > 0.5 else "WORSE"


def difference(ours: Sequence[float], peers: Sequence[float]) -> Difference:
    """Of two groups of seeds, each resampled by itself.

    Raises:
        ValueError: one of them is empty.
    """
    rng = np.random.default_rng(SEED)
    middle = float(iqm(ours) - iqm(peers))
    drawn = [rng.choice(np.asarray(each), (RESAMPLES, len(each))) for each in (ours, peers)]
    low, high = np.quantile(iqm(drawn[0]) - iqm(drawn[1]), [0.025, 0.975])
    wins, p = improvement(ours, peers), chance(ours, peers)
    return Difference(middle, float(low), float(high), wins, p)


def chance(ours: Sequence[float], peers: Sequence[float]) -> float:
    """Share of the divisions of all seeds into two such groups at least as uneven as this one.

    The Mann-Whitney test by permutation, two-sided: "uneven" is how far ``improvement`` lies
    from 1/2. Where both libraries' seeds are of one distribution, the share is at most x in at
    most x of cases, however few the seeds and whatever the ties (Phipson and Smyth 2010,
    doi:10.2202/1544-6115.1585). All divisions are tried where ``SPLITS`` allows it, else so many,
    random ones and this one.
    """
    scores, count = np.asarray([*ours, *peers], dtype=np.float64), len(ours)
    order = np.arange(len(scores))
    if comb(len(scores), count) <= SPLITS:
        divided = np.asarray(list(combinations(order.tolist(), count)))
    else:
        rng = np.random.default_rng(SEED)
        divided = rng.permuted(np.tile(order, (SPLITS, 1)), axis=1)[:, :count]
        divided[0] = order[:count]
    beaten = np.sum(scores[:, None] > scores, axis=1) - np.sum(scores[:, None] < scores, axis=1)
    # Within a group wins and losses cancel: what is left is against the other group.
    uneven = np.abs(beaten[divided].sum(axis=1))
    return float(np.mean(uneven >= abs(beaten[:count].sum())))


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
            f"{apart.wins:.2f}",
            f"{min(ours):.0f}, {min(peers):.0f}",
            f"{apart.verdict} ({f'p {apart.p:.3f}' if apart.p >= 0.001 else 'p < 0.001'})",
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
