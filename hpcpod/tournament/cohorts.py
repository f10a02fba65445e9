"""Cohorts of a population: its living pods, compared at equal experience.

A pod is compared at one of its rounds. Pods of its own algorithm stand in that comparison with
what they had learned by the same round, so on the same seeds and after the same number of
environment steps. Pods of other algorithms, whose steps may take a hundred times as long, stand
in it with what they had learned by the same cost in slot-seconds. Where a pod has no evaluation
just there, the nearest one below stands in, if it has at least half of the experience: if
training helps, who beats with less experience beats all the more. For a pod whose node is a few
times faster than its kin's none would be left, so there half of the cost is enough.

No pod waits for a comparison: a pod that reports early is compared one report later, when the
others have been there too, and one whose evaluation would be forgotten with those that are near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf, isinf
from statistics import median
from types import MappingProxyType

from hpcpod.config.schema import PopulationConfig, RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.records.evaluations import SCORE_ERROR
from hpcpod.records.records import Board, Entry, Evaluation, Milestone, PodState
from hpcpod.tournament.budget import later_share, young
from hpcpod.tournament.controls import ENDS, measure, privileged
from hpcpod.tournament.learnt import above, middle, negligible
from hpcpod.tournament.places import odds, places
from hpcpod.tournament.priorities import sidelined
from hpcpod.tournament.settle import HISTORY, entry_of, rank, ranked
from hpcpod.tournament.statistics import GATE, Returns, halves, mean

HOPELESS = 3
"""An algorithm is given up after this many deaths per place, if none of its pods has ever finished
a round; else, where ``stop.rounds`` end a run, when its dead have trained for as many whole runs
per place: it would never end."""
RAISED = 2
"""An algorithm is given up at once when each of its pods has raised the same so many times, and
nothing else."""
NEAR = 0.5
"""The least share of the experience at which is compared that an evaluation which stands in has."""

Standing = Evaluation | Milestone
"""An evaluation with which a pod stands in a comparison."""


@dataclass(frozen=True)
class Cohort:
    """Those among whom a pod is compared at one of its rounds.

    All are ranked by one half of their panel's episodes; the other half has no part in it, so
    that a test on it is one (``statistics.halves``).
    """

    algorithm: str
    """The pod's."""
    round: int
    cost: float
    """Slot-seconds at which pods of other algorithms are compared: the median of those of the same
    algorithm, so that no pod pays for a slow node."""
    standings: Mapping[str, Standing]
    """Evaluations with which the living stand in it, by pod."""
    order: tuple[str, ...]
    """All of these, best first."""
    best: tuple[str, ...]
    """The best 30 %, at least one, best first: who may be copied."""
    worst: frozenset[str]
    """The worst eighth of those that may be replaced at all."""
    places: int
    """Pods of the algorithm that may be replaced by a copy at this round: ceil(n / 8) of its n."""
    level: float = GATE
    """Error level of one test of a pod, over all leaders that it is tried with."""
    further: Mapping[str, Returns] = field(default_factory=dict)
    """Returns by pod that count in a test beside the standings'; see ``second_looks``."""

    def paired(self, one: str, other: str) -> bool:
        """True if two pods stand in it with the same round, so with the same seeds. A program that
        gives a score with its error has no seeds in common with any."""
        both = self.standings[one], self.standings[other]
        scored = any(SCORE_ERROR in s.metrics for s in both if isinstance(s, Evaluation))
        return both[0].round == both[1].round and not scored

    def place(self, pod: str) -> int:
        """Place of a pod in it: the best has 1, one that is not in it 0."""
        return self.order.index(pod) + 1 if pod in self.standings else 0


class Cohorts:
    """A board with all reports of a merge applied, and what judgements and births ask of it.

    Cohorts stay as they were when the reports were in; ``living``, ``members`` and ``copies``
    follow the births of the merge.
    """

    def __init__(
        self, board: Board, config: RunConfig, algorithms: Mapping[str, AlgorithmSpace],
        slots: float | None = None,
    ) -> None:  # fmt: skip
        self.board = board
        self.config = config
        self.slots = slots
        """At work; None: those that are asked for."""
        self.algorithms = algorithms
        self.living: dict[str, PodState] = {pod.id: pod for pod in board.living}
        self.members = Counter(pod.algorithm for pod in self.living.values())
        """Living pods of each algorithm."""
        copied = {pod.replaces for pod in board.pods.values() if pod.cause == "copy"}
        self.copies = Counter(
            (pod.algorithm, pod.judged) for pod in board.pods.values()
            if pod.fate == "replaced" and pod.id in copied
        )  # fmt: skip
        """Pods replaced by copies, by their algorithm and the round of their comparison."""
        self._kin: dict[str, list[PodState]] = {}
        for pod in self.living.values():
            self._kin.setdefault(pod.algorithm, []).append(pod)
        # Those that rest with the last turns of a budget in seconds count: without them copies came
        # sooner, and 400 replayed runs of two tasks delivered 7 and 2 % less (1.9 errors each).
        aside = sidelined(board)
        self._active = Counter(p.algorithm for p in self.living.values() if p.id not in aside)
        self._standings = {pod.id: _standings(pod) for pod in self.living.values()}
        self._cohorts: dict[tuple[str, int], Cohort] = {}
        self._quorums: dict[tuple[str, int], bool] = {}
        self._ranks: dict[int, float] = {}
        self._rows: dict[str, tuple[Entry, ...]] = {}
        self._quotas = quotas(config.population)
        self._wanted: dict[str, int] = {}
        self._trained = {pod.algorithm for pod in board.pods.values() if pod.trained_steps > 0}
        self._broken = broken(board)
        dead = [pod for pod in board.pods.values() if pod.fate == "failed"]
        self._deaths = Counter(pod.algorithm for pod in dead)
        self._wasted = Counter[str]()
        """Environment steps that the dead of an algorithm have trained, and a round for each."""
        for pod in dead:
            self._wasted[pod.algorithm] += pod.trained_steps + config.round.env_steps

    @cached_property
    def _least(self) -> float:
        newest = [mean(own[-1].returns) for own in self._standings.values() if own]
        return negligible(max(newest, default=None), self.board.worst, self.board.floor)

    @cached_property
    def _measure(self) -> PodState | None:
        return measure(self.board)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The number of each pod's place, from 0, among those of its founder's algorithm: who
        replaces a pod takes its place."""
        founders = Counter[str]()
        places: dict[str, int] = {}
        for pod in sorted(self.board.pods.values(), key=lambda pod: (len(pod.id), pod.id)):
            if pod.replaces is None:
                places[pod.id] = founders[pod.algorithm]
                founders[pod.algorithm] += 1
            else:
                places[pod.id] = places[pod.replaces]
        return places

    def rows(self, algorithm: str) -> tuple[Entry, ...]:
        """The best evaluations of an algorithm's pods whose checkpoints are kept, the best first:
        its leaderboard with the reports of this merge, as long as that of all."""
        if algorithm not in self._rows:
            pods = [pod for pod in self.board.pods.values() if pod.algorithm == algorithm]
            kept = [(pod, pod.best) for pod in pods if pod.best is not None]
            kept.sort(key=lambda each: (rank(each[1]), each[0].id), reverse=True)
            best = kept[: self.config.population.capacity]
            self._rows[algorithm] = ranked([entry_of(pod, found) for pod, found in best])
        return self._rows[algorithm]

    def due(self, pod: PodState) -> int | None:
        """The latest round at which a pod can be compared and has not been.

        More than half of the living pods of its algorithm, and at least two, must have come so
        far. An evaluation that is about to be forgotten is compared with those that are near.
        """
        after = max(pod.judged, self.config.population.warmup_rounds)
        # By a report's own round alone only the last to come to it could lose.
        rounds = [evaluation.round for evaluation in pod.history if evaluation.round > after]
        full = [r for r in rounds if self._quorum(pod.algorithm, r)]
        if full:
            return max(full)
        if len(pod.history) < HISTORY or pod.history[0].round not in rounds:
            return None
        last_chance = pod.history[0].round
        return last_chance if len(self.cohort(pod.algorithm, last_chance).standings) > 1 else None

    def latest(self) -> Cohort | None:
        """The cohort of the latest round, by cost, that has a quorum and is worth copying.

        It is past the warm-up, and leaves a copy something to train.
        """
        return self._latest

    def cohort(self, algorithm: str, round_number: int) -> Cohort:
        """Those among whom pods of an algorithm are compared at a round."""
        key = algorithm, round_number
        if key not in self._cohorts:
            self._cohorts[key] = self._gather(algorithm, round_number)
        return self._cohorts[key]

    def source(self, parent: str, standing: Standing) -> Evaluation | None:
        """The evaluation of which a copy is made: the one that was compared if its checkpoint is
        still kept, else the parent's newest, if that is no worse; None if it is."""
        history = self.living[parent].history
        for evaluation in history:
            if evaluation.round == standing.round:
                return evaluation
        newest = history[-1]
        return newest if mean(newest.returns) >= mean(standing.returns) else None

    def spare(self, pod: PodState, heir: str = "") -> bool:
        """True if a pod may be replaced: no control that may still teach something, it has had its
        share of the budget, and it is not the last of its algorithm, but by an heir of that."""
        last = self.members[pod.algorithm] == 1 and heir != pod.algorithm
        if last or self.young(pod):
            return False
        return not privileged(pod, self._measure, ENDS)

    def learnt(self, cohort: Cohort, pods: Collection[str]) -> list[str]:
        """Those of a cohort's pods that are shown to have learnt anything: they return more than
        pods of the cohort's algorithm did at first, see ``learnt.above``. All of them, where the
        first pods started from a trained policy, or no budget has fresh draws take places."""
        config = self.config
        if config.population.start_from is not None or not later_share(config, self.slots):
            return list(pods)
        untrained = middle(
            self._standings[pod.id][0].returns
            for pod in self._kin[cohort.algorithm]
            if self._standings[pod.id]
        )
        return [
            pod
            for pod in pods
            if above(cohort.standings[pod].returns, untrained, self._least, len(cohort.best))
        ]

    def young(self, pod: PodState) -> bool:
        """True while a pod has not had its share of the budget."""
        last = pod.history[-1] if pod.history else None
        return young(last, pod.share, self.config, self.slots)

    def hopeful(self) -> list[str]:
        """Algorithms worth another fresh pod, those farthest below their places first."""
        wanted = self.wanted()
        hopeful = [name for name in wanted if not self._hopeless(name)]
        return sorted(hopeful, key=lambda name: self.members[name] - wanted[name])

    def heir(self, algorithm: str) -> str:
        """The algorithm of a fresh pod in the place of one that died: its own, if that is hopeful
        and has fewer pods than places; some algorithm is hopeful."""
        hopeful = self.hopeful()
        own = algorithm in hopeful and self.members[algorithm] < self.wanted()[algorithm]
        return algorithm if own else hopeful[0]

    def wanted(self) -> Mapping[str, int]:
        """The places that each algorithm should have, by its quota and its odds in the latest
        cohort."""
        if not self._wanted:
            cohort = self.latest() if len(self._quotas) > 1 else None
            panels = {} if cohort is None else cohort.standings
            of = {pod: self.board.pods[pod].algorithm for pod in panels}
            compared = {pod: (each.round, each.returns) for pod, each in panels.items()}
            known = odds(compared, of) if len({*of.values()}) > 1 else {}
            self._wanted = places(self._quotas, known)
        return self._wanted

    def succeed(self, old: PodState, child: PodState) -> None:
        """Note that a child has taken a pod's place."""
        if self.living.pop(old.id, None) is not None:
            self.members[old.algorithm] -= 1
            self.copies[old.algorithm, old.judged] += child.cause == "copy"
        self.members[child.algorithm] += 1

    @cached_property
    def _latest(self) -> Cohort | None:  # each of the dead asks
        first, end = self.config.population.warmup_rounds + 1, self.config.stop.rounds
        found = []
        for algorithm, kin in sorted(self._kin.items()):
            rounds = {e.round for pod in kin for e in pod.history}
            fit = (r for r in rounds if r >= first and (end is None or r < end))
            newest = max((r for r in fit if self._quorum(algorithm, r)), default=None)
            if newest is not None:
                found.append(self.cohort(algorithm, newest))
        return max(found, key=lambda cohort: (cohort.cost, cohort.round), default=None)

    def _hopeless(self, algorithm: str) -> bool:
        """True if an algorithm's pods only ever fail."""
        tolerated = HOPELESS * self._quotas[algorithm]
        if algorithm in self._trained:
            rounds = self.config.stop.rounds
            whole = None if rounds is None else rounds * self.config.round.env_steps
            # One that diverges in its third round never came to the last, and the run to no end.
            return whole is not None and self._wasted[algorithm] > tolerated * whole
        return self._deaths[algorithm] > tolerated or algorithm in self._broken

    def _quorum(self, algorithm: str, round_number: int) -> bool:
        """True if more than half of an algorithm's pods were at a round, or are past it."""
        key = algorithm, round_number
        if key not in self._quorums:
            there = sum(1 for _ in self._kin_at(algorithm, round_number, past=True))
            self._quorums[key] = there > max(1, self._active[algorithm] // 2)
        return self._quorums[key]

    def _kin_at(
        self, algorithm: str, round_number: int, *, past: bool, cost: float = inf
    ) -> Iterator[tuple[PodState, Standing]]:
        """Pods of an algorithm with what they had learned by a round.

        With ``past`` those alone that were there or are past it: the others may still come. With
        ``cost`` also those with much less experience that have cost at least half of it.
        """
        first = self.config.population.warmup_rounds + 1
        for pod in self._kin.get(algorithm, []):
            if past and (not pod.history or pod.history[-1].round < round_number):
                continue
            least = max(first, NEAR * round_number)
            for standing in reversed(self._standings[pod.id]):
                if standing.round <= round_number:
                    near = standing.round >= first and standing.cost >= NEAR * cost
                    if near or standing.round >= least:
                        yield pod, standing
                    break

    def _others_at(self, algorithm: str, cost: float) -> Iterator[tuple[PodState, Standing]]:
        """Pods of other algorithms with what they had learned by a cost."""
        first = self.config.population.warmup_rounds + 1
        for other, kin in self._kin.items():
            for pod in kin if other != algorithm else []:
                for standing in reversed(self._standings[pod.id]):
                    if standing.cost <= cost:
                        if standing.cost >= NEAR * cost and standing.round >= first:
                            yield pod, standing
                        break

    def _gather(self, algorithm: str, round_number: int) -> Cohort:
        full = self._quorum(algorithm, round_number)
        standings = (self._standings[pod.id] for pod in self._kin.get(algorithm, []))
        there = [each.cost for own in standings for each in own if each.round == round_number]
        cost = median(there) if there else -inf
        reach = inf if full or not there else cost
        kin = list(self._kin_at(algorithm, round_number, past=full, cost=reach))
        found = [*kin, *self._others_at(algorithm, cost)]
        ranked = sorted(found, key=lambda each: (-self._rank(each[1]), each[0].id))
        spare = [pod.id for pod, _ in ranked if self.spare(self.board.pods[pod.id])]
        return Cohort(
            algorithm,
            round_number,
            cost,
            MappingProxyType({pod.id: own for pod, own in sorted(found, key=lambda x: x[0].id)}),
            order=(order := tuple(pod.id for pod, _ in ranked)),
            best=order[: max(1, len(ranked) * 3 // 10)],
            # Simulated: copies by most pods lost to none at all where greed is punished.
            worst=frozenset(spare[-ceil(len(ranked) / 8) :]),
            places=ceil((len(kin) + self.copies[algorithm, round_number]) / 8),
            level=GATE / 2 if self.config.population.second_looks > 0 else GATE,
        )

    def _rank(self, standing: Standing) -> float:
        """The mean by which an evaluation ranks; each is asked for in many cohorts."""
        key = id(standing)
        if key not in self._ranks:
            # tested by what ranked them, the worst of 4 to 64 equal pods fell in 30 to 100 %
            self._ranks[key] = mean(halves(standing.returns)[0])
        return self._ranks[key]


def broken(board: Board) -> set[str]:
    """Algorithms that raise one and the same exception in each pod's first round."""
    raised: dict[str, set[str]] = {}
    for pod in board.pods.values():
        often = pod.failures >= RAISED
        raised.setdefault(pod.algorithm, set()).add(pod.raised if often else "")
    return {algorithm for algorithm, words in raised.items() if len(words) == 1 and all(words)}


def quotas(population: PopulationConfig) -> dict[str, int]:
    """Places of each algorithm: its share by largest remainder, and at least one."""
    total, shares = population.pods.max, population.algorithms
    if isinf(total * sum(shares.values())):  # 1e308 twice
        shares = {name: share / max(shares.values()) for name, share in shares.items()}
    whole = sum(shares.values())
    ideal = {name: total * share / whole for name, share in shares.items()}
    quota = {name: max(1, int(exact)) for name, exact in ideal.items()}
    while (unfilled := total - sum(quota.values())) != 0:
        if unfilled > 0:
            quota[max(quota, key=lambda name: ideal[name] - quota[name])] += 1
        else:
            several = [name for name in quota if quota[name] > 1]
            quota[max(several, key=lambda name: quota[name] - ideal[name])] -= 1
    return quota


def _standings(pod: PodState) -> list[Standing]:
    """All that is kept of a pod's evaluations and its ancestors', oldest first; none while it has
    no checkpoint of its own, of which a copy could be made."""
    return pod.evaluations if pod.history else []
