"""Halving: each stage of the budget trains half as many pods as the one before.

With a budget in steps or minutes the stages are equal shares of it. N pods pass through
K = ceil(log2 N) halvings; in stage k of K + 1 the best N / 2^k train, by their estimated score. No
pod waits for another at the end of a stage: at each report the best of that moment train. One that
rested comes back if those before it collapse. Successive halving (Jamieson and Talwalkar 2016) by
shares of the budget instead of rungs, so that pods of different speeds compete for hours. A pod
that has not had its part of the first stage never rests (``budget.first_share``).

Early scores mislead where a policy that does nothing is ahead of all that learn. So no stage counts
before a pod is shown to have learnt anything (``learnt.above``): until then each pod has the share
of a fresh draw (``budget.later_share``), and then those that have had least train, beside fresh
draws. Where the best of a stage have stopped gaining, a pod that rests trains if it would be ahead
in the end at its own pace; where there is none, the worst gives its place to a fresh draw. That
takes half of the slots at most, or three quarters of a single one.

Where only ``stop.rounds`` end the run, it is asynchronous successive halving (Li et al. 2020): at
the rungs of 1, 2, 4, 8 ... rounds a pod goes on if it is among the better half of those that have
been there.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from statistics import NormalDist

from hpcpod.config.schema import PopulationConfig
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects
from hpcpod.tournament.budget import stage_count
from hpcpod.tournament.learnt import above, middle, negligible

LEVEL = 0.16
"""Of one pod, a gain of a standard error."""
NONE_YET = "no pod has learnt anything yet"
TURNS = 4
"""Of a single slot this part is the best's though they stand still: of so many turns of equal cost
one."""


class Halving:
    """Successive halving, by shares of the budget or by rounds."""

    def __init__(self, config: PopulationConfig) -> None:
        self._warmup = config.warmup_rounds
        self._trained = config.start_from is not None

    def allocate(self, prospects: Prospects) -> Allocation:
        """Train the best of this stage, the least experienced first; the others rest."""
        if prospects.spent is None:
            return self._by_rungs(prospects)
        if not (self._trained or learning(prospects)):
            return self._evenly(prospects)
        ahead = prospects.scored
        places, said = stage(prospects.pods, prospects.spent)
        kept = names(ahead[:places]) | always(ahead, self._warmup)
        found = divided(prospects, kept, said)
        if not found.resting or gaining(ahead[:places], least_gain(prospects)):
            return found
        return instead(
            prospects,
            found,
            "the best have stopped gaining, and no pod that rests would be ahead soon",
        )

    def _evenly(self, prospects: Prospects) -> Allocation:
        """While none has learnt anything no score counts: each has a fresh draw's share; then the
        half that has had least trains, beside fresh draws."""
        untried = [each for each in prospects.scored if each.untried]
        if untried:
            kept = names(untried) | always(prospects.scored, self._warmup)
            return divided(prospects, kept, f"{NONE_YET}; it has had its share")
        least = sorted(prospects.scored, key=lambda each: (each.spent, each.pod))
        kept = names(least[: math.ceil(len(least) / 2)]) | always(prospects.scored, self._warmup)
        found = divided(prospects, kept, f"{NONE_YET}, and others have trained less")
        return instead(prospects, found, NONE_YET) if found.resting else found

    def _by_rungs(self, prospects: Prospects) -> Allocation:
        kept = names(prospects.scored)
        for rung in rungs(prospects):
            # a copy of a dead pod remembers nothing that comes before it
            there = [e for e in prospects.rivals if e.curve[0].round <= rung <= e.rounds]
            passing = sorted(there, key=lambda each: (-score_at(each, rung), each.pod))
            kept -= names(passing[math.ceil(len(passing) / 2) :])
        kept |= always(prospects.scored, self._warmup)
        if not (kept or prospects.unscored or prospects.done):  # each lost at some rung
            kept = names(prospects.scored[:1])
        return divided(prospects, kept, "it is in the worse half of those at its rung")


def names(candidates: Iterable[Candidate]) -> set[str]:
    """The names of pods."""
    return {each.pod for each in candidates}


def always(candidates: Iterable[Candidate], warmup: int) -> set[str]:
    """Pods that train whatever their rank: the protected, those that are in their warm-up, and
    those that have not had their share of the budget."""
    return names(
        each for each in candidates if each.protected or each.rounds <= warmup or each.young
    )


def gain(candidate: Candidate) -> tuple[float, float]:
    """The gain of a pod's score in the second half of its training, and the standard error of that;
    infinite where its curve is too short to tell.

    It counts from the last point of the first half that the board has kept. Of older rounds these
    are 1, 2, 4, 8 and so on, so it is of the last half to three quarters.
    """
    # by the nearest point to the middle, none of four recorded tasks was better and one was worse
    before = [point for point in candidate.curve if point.spent <= candidate.spent / 2]
    if not before:
        return math.inf, math.inf
    first, last = before[-1], candidate.curve[-1]
    return last.mean - first.mean, math.hypot(first.error, last.error)


def least_gain(prospects: Prospects) -> float:
    """A gain that is none, see ``learnt.negligible``."""
    scored = prospects.scored
    return negligible(scored[0].score if scored else None, prospects.worst, prospects.floor)


def learning(prospects: Prospects) -> bool:
    """True if a pod has been seen to have learnt anything."""
    pods = [each for each in (*prospects.scored, *prospects.done) if each.curve]
    if not pods:
        return False
    untrained = middle(each.curve[0].returns for each in pods)
    least, tests = least_gain(prospects), sum(len(each.curve) for each in pods)
    tops = (max(each.curve, key=lambda point: point.mean) for each in pods)
    return any(above(top.returns, untrained, least, tests) for top in tops)


def gaining(candidates: Sequence[Candidate], least: float = 0.0) -> list[Candidate]:
    """Those that were seen to gain in the second half of their training, or have trained too
    little to tell. Where none gains, any is said to in ``LEVEL`` of cases, however many there
    are.

    Args:
        candidates: some pods.
        least: a smaller gain is none.
    """
    errors = NormalDist().inv_cdf(1 - LEVEL / max(1, len(candidates)))
    found = ((each, *gain(each)) for each in candidates)
    return [
        each
        for each, gained, error in found
        if gained > max(errors * error, least) or math.isinf(gained)
    ]


def instead(prospects: Prospects, halved: Allocation, said: str) -> Allocation:
    """The allocation where none of a stage's best gains any more; ``said`` is why a draw comes."""
    slots = prospects.slots or 1
    room = max(1, slots // 2)
    resting = [each for each in prospects.scored if each.pod in halved.resting]
    young = names(prospects.unscored) | names(each for each in prospects.scored if each.young)
    going = list(rising(prospects, resting))[:room]
    fresh: dict[str, str] = {}
    if not going:
        worst = resting[::-1][: min(max(0, room - len(young)), affordable(prospects))]
        fresh = {each.pod: said for each in worst}
    first = [*going, *(pod for pod in halved.order if pod in young)]
    others = [pod for pod in halved.order if pod not in first]
    if slots == 1 and first and others and bests_turn(prospects, others[0], first[0]):
        first, others = others, first
    still = {k: why for k, why in halved.resting.items() if k not in going and k not in fresh}
    return Allocation((*first, *others), still, fresh=fresh)


def bests_turn(prospects: Prospects, best: str, other: str) -> bool:
    """True if a single slot's next turn is the best's, by what a round of each costs."""
    # by turns alone, rounds that cost eight times as much had 24 of 25 parts of the slot
    costs = round_cost(prospects, best), round_cost(prospects, other)
    turns = (TURNS - 1) / (costs[1] / costs[0] if all(costs) else 1.0)
    if turns >= 1:
        return prospects.counted % (1 + round(turns)) == 0
    return prospects.counted % (1 + round(1 / turns)) != 0


def round_cost(prospects: Prospects, pod: str) -> float:
    """The mean cost of a pod's rounds, or of its algorithm's where it has none yet, on the budget's
    axis; 0: none is known."""
    [own] = [each for each in prospects.candidates if each.pod == pod]
    known = [own]
    if not own.rounds:
        known = [each for each in prospects.candidates if each.algorithm == own.algorithm]
    return sum(each.spent for each in known) / max(1, sum(each.rounds for each in known))


def rising(prospects: Prospects, resting: Sequence[Candidate]) -> Iterator[str]:
    """Pods that rest and would be ahead of the best one if they had half of the budget that is
    left, and went on gaining as in the second half of their training; the farthest first. Pods of
    which that is unknown come before them."""
    top = prospects.scored[0].score or 0.0
    found = []
    for each in gaining(resting, least_gain(prospects)):
        again = prospects.left / each.spent if prospects.left and each.spent else 1.0
        found.append(((each.score or 0.0) + again * gain(each)[0], each.pod))
    yield from (pod for reach, pod in sorted(found, reverse=True) if reach > top)


def affordable(prospects: Prospects) -> int:
    """Fresh draws that can have their share of what is left of the budget: of environment steps
    all spend the same, of time each on a slot of its own."""
    left, share = prospects.left, prospects.share
    if left is None or share <= 0:
        return prospects.pods
    return int(left / share) if prospects.axis == "env_steps" or left < share else prospects.pods


def divided(prospects: Prospects, kept: Container[str], said: str) -> Allocation:
    """The allocation by which some train, the least experienced first, and the others rest; pods
    without a score train."""
    scored = prospects.scored
    training = sorted(
        (each for each in scored if each.pod in kept), key=lambda each: (each.spent, each.pod)
    )
    order = tuple(each.pod for each in (*prospects.unscored, *training))
    resting = {
        each.pod: f"{said}; it is number {place}"
        for place, each in enumerate(scored, start=1)
        if each.pod not in kept
    }
    return Allocation(order, resting)


def stage(pods: int, spent: float) -> tuple[int, str]:
    """The number of pods that train after this share of the budget, and a sentence on it."""
    stages = stage_count(pods)
    number = min(stages - 1, int(spent * stages))
    places = math.ceil(pods / 2**number)
    return places, f"stage {number + 1} of {stages} trains the best {places} of {pods}"


def rungs(prospects: Prospects) -> Iterator[int]:
    """Rounds at which pods are compared: 1, 2, 4, 8 ..., below the last."""
    rung, end = 1, prospects.rounds or 2**30
    farthest = max((each.rounds for each in prospects.scored), default=0)
    while rung <= farthest and rung < end:
        yield rung
        rung *= 2


def score_at(candidate: Candidate, rung: int) -> float:
    """A pod's mean at a rung: of the last evaluation that it has from there or before."""
    return [point.mean for point in candidate.curve if point.round <= rung][-1:][0]
