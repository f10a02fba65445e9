"""Rulings: a merge asks the run's updater, generator and allocator, checks, and records.

These may be a user's own code. What raises, takes too long or can't be carried out is refused: the
refusal is recorded, the built-in rule decides instead, and the run goes on.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from hpcpod.errors import UnusablePlugin, in_words
from hpcpod.records.records import (
    Board,
    Decision,
    DecisionKind,
    Hyperparameters,
    PodState,
    Report,
    Verdict,
    stable_hash,
)
from hpcpod.tournament import second_looks
from hpcpod.tournament.allocation import Allocation, Prospects, carried_out, prospects, refusal
from hpcpod.tournament.allocators.auto import Auto
from hpcpod.tournament.answers import (
    answered_in,
    contents,
    kept,
    taken_back,
    wrong_birth,
    wrong_verdict,
)
from hpcpod.tournament.barrier import at_barrier, awaited, since
from hpcpod.tournament.budget import later_share, slots_at_work
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.privilege import stays
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.updaters import PairedGate

log = logging.getLogger(__name__)

BUILT_IN = {"updater": "paired_gate", "generator": "gentle_truncation", "allocator": "auto"}
"""The rule that decides where a part's answer is refused: the default."""
STANDS_IN = "it rests: an allocator that decides for another ends no pod"
SECONDS = 10.0
"""Time that a user's rule has for one decision: all slots that report wait for it."""
FIRST_SECONDS = 60.0
"""Time of a founder at launch, where none waits: it may be the first to import a large library."""

T = TypeVar("T")


class Rulings:
    """The questions of one merge to the rules, and what was decided."""

    def __init__(self, rules: Rules, board: Board, now: float) -> None:
        self.made: list[Decision] = []
        """All decisions so far."""
        self._rules = rules
        self._board = board
        self._now = now
        self._by: dict[str, str] = {}
        """The rule that made a part's last decision."""
        population = rules.config.population
        self._updater, self._generator = PairedGate(population), GentleTruncation(population)
        self._allocator = Auto(population)

    def judge(self, cohorts: Cohorts, report: Report, *, counts: bool = True) -> Verdict:
        """The updater's verdict on a report; only one that ``counts`` is recorded."""
        verdict = self._asked(
            "updater",
            report.pod,
            lambda: self._rules.updater.judge(cohorts, report),
            lambda found: wrong_verdict(found, cohorts, report),
            lambda: self._updater.judge(cohorts, report),
            cohorts,
        )
        if verdict.round and counts:
            self._note("comparison", report.pod, "updater", in_short(verdict),
                round=verdict.round, others=_compared(verdict), tests=verdict.tests,
                numbers={"place": verdict.place, "among": verdict.among},
            )  # fmt: skip
        return verdict

    def challenge(
        self, cohorts: Cohorts, offspring: Offspring, pod: PodState, verdict: Verdict, key: int
    ) -> PodState | None:
        """The child that takes the place of a pod that has reported; None if it trains on."""
        generator = self._rules.generator
        return self._born(
            cohorts,
            offspring,
            pod,
            lambda: generator.challenge(cohorts, pod, verdict, key),
            lambda: self._generator.challenge(cohorts, pod, verdict, key),
        )

    def stays(self, cohorts: Cohorts, pod: PodState, verdict: Verdict) -> str:
        """The verdict on a pod that was beaten and trains on, in words, with the reason."""
        words = f"{in_short(verdict)}; {stays(cohorts, pod, verdict, self._rules.generator)}"
        for place, made in enumerate(self.made):
            if (made.kind, made.pod) == ("comparison", pod.id):
                self.made[place] = replace(made, outcome=words)
        return words

    def replace(self, cohorts: Cohorts, offspring: Offspring, dead: PodState, key: int) -> PodState:
        """The child that takes the place of a pod that has failed."""
        generator = self._rules.generator
        child = self._born(
            cohorts,
            offspring,
            dead,
            lambda: generator.replace(cohorts, dead, key),
            lambda: self._generator.replace(cohorts, dead, key),
        )
        assert child is not None
        return child

    def allocated(self, board: Board) -> Board:
        """The board after its allocator was asked."""
        seen = prospects(board, self._rules.config, self._now)
        allocation = self._asked(
            "allocator",
            "",
            lambda: self._rules.allocator.allocate(seen),
            lambda found: refusal(found, seen),
            lambda: self._by_default(seen),
        )
        self._note_allocation(seen, allocation)
        return carried_out(self._succeeded(board, allocation), allocation, seen.axis)

    def looked(self, board: Board, reports: Iterable[Report]) -> Board:
        """The board with a second look at each comparison of this merge that came close, and
        without those that its reports have ended."""
        config = self._rules.config
        came = (report.pod for report in reports)
        board = second_looks.kept(
            board, {pod for pod in came if not at_barrier(board, board.pods[pod])}
        )
        further = second_looks.PANELS * config.round.episodes
        for made in [each for each in self.made if each.kind == "comparison"]:
            if not second_looks.room(board, config):
                break
            test = second_looks.closest(made.tests, further)
            if test is None:
                continue
            panel = config.round.episodes
            if not second_looks.possible(board, made.pod, test, made.round, panel):
                continue
            board = second_looks.begun(board, made.pod, test, made.round, config)
            self._note("look", made.pod, "updater",
                f"it came close to being beaten by {test.rival} at round {made.round}: both play"
                f" {further} further episodes",
                round=made.round, others=(test.rival,), rule=made.rule,
                numbers={"mean": test.mean, "low": test.low},
            )  # fmt: skip
        return board

    def opening(self, board: Board) -> None:
        """Record that a board's barrier opens."""
        missing = tuple(awaited(board))
        without = f" without {', '.join(missing)}" if missing else ""
        there = sum(at_barrier(board, pod) for pod in board.living)
        begun = since(board)
        seconds = 0.0 if begun is None else self._now - begun
        self._note("barrier", "", "scheme",
            f"the barrier of round {board.barrier.round} opens{without}",
            round=board.barrier.round, others=missing,
            numbers={"there": float(there), "missing": float(len(missing)), "seconds": seconds},
        )  # fmt: skip

    def on(self, board: Board) -> Board:
        """The board with this merge's decisions, if there were any."""
        if not self.made:
            return board
        # no two merges that decide have counted as many reports and opened as many barriers
        merge = f"{board.reports:010d}-{board.barrier.round:05d}"
        names = (f"{merge}-{place:05d}" for place in range(len(self.made)))
        return replace(board, decisions=dict(zip(names, self.made, strict=True)))

    def _born(
        self,
        cohorts: Cohorts,
        offspring: Offspring,
        old: PodState,
        ask: Callable[[], Copy | Fresh | None],
        instead: Callable[[], Copy | Fresh | None],
    ) -> PodState | None:
        dead = old.fate != "alive"
        decision = self._asked(
            "generator",
            old.id,
            ask,
            lambda found: wrong_birth(found, cohorts, offspring, old),
            instead,
            cohorts,
        )
        if decision is None:
            assert not dead
            return None
        child = offspring.add(decision, old)
        first = f"a copy of {child.parent} at round {child.parent_round}" if child.parent else "new"
        self._note("birth", child.id, "generator",
            f"{child.algorithm}, {first}, in place of {old.id}: {child.evidence or 'no reason'}",
            round=child.parent_round, others=tuple(filter(None, [child.parent, old.id])),
        )  # fmt: skip
        return child

    def _succeeded(self, board: Board, allocation: Allocation) -> Board:
        """The board with new pods in the places that its allocator has given away."""
        offspring = Offspring(board, self._rules)
        for place in sorted(allocation.succeeded):
            if place in allocation.again:
                fresh = _repeated(board.pods[allocation.again[place]])
                said = f"{fresh.repeats} again with another seed"
            else:
                fresh, said = self._drawn(board, place, allocation.fresh[place]), "new"
            child = offspring.add(fresh, board.pods[place])
            self._note("birth", child.id, "allocator",
                f"{child.algorithm}, {said}, in place of {place}: {fresh.evidence}",
                others=tuple(filter(None, [fresh.repeats, place])),
            )  # fmt: skip
        return offspring.board(board)

    def _drawn(self, board: Board, place: str, evidence: str) -> Fresh:
        """A fresh draw in the place of a pod."""
        algorithm, config = board.pods[place].algorithm, self._rules.config
        space = self._rules.algorithms[algorithm]
        key = stable_hash(config.seed, place, board.rounds, "fresh")
        drawn = self._asked(
            "generator",
            place,
            lambda: self._rules.generator.founder(copy.deepcopy(space), False, key),
            space.misfit,
            lambda: self._generator.founder(space, False, key),
        )
        share = later_share(config, slots_at_work(board, config, self._now))
        return Fresh(algorithm, drawn, evidence=evidence, share=share)

    def _by_default(self, seen: Prospects) -> Allocation:
        """The default allocator's answer; every pod trains where that is refused, too.

        It ends no pod: the rule that was asked may want it at the next merge.
        """
        try:
            found = self._allocator.allocate(replace(seen))  # the rule may have sorted its lists
            ends = dict.fromkeys((*found.given_up, *found.succeeded), STANDS_IN)
            found = Allocation(found.order, {**found.resting, **ends})
            reason = refusal(found, seen)
        except Exception as error:  # it may be the rule that was asked
            reason = in_words(error)
        if not reason:
            return found
        log.warning("population.allocator: the default's decision is refused, too: %s", reason)
        self._by["allocator"] = "fair"
        return Allocation()

    def _note_allocation(self, seen: Prospects, allocation: Allocation) -> None:
        """Record who rests now, who trains again, and who is given up."""
        known = {each.pod: each for each in seen.candidates}
        changes: dict[str, tuple[DecisionKind, str]] = {
            pod: ("rest", why) for pod, why in allocation.resting.items() if not known[pod].rests
        }
        changes |= {
            pod: ("train", "it rests no longer")
            for pod, each in known.items()
            if each.rests and pod not in {**allocation.resting, **allocation.succeeded}
        }
        changes |= {pod: ("give up", why) for pod, why in allocation.given_up.items()}
        for pod, (kind, why) in sorted(changes.items()):
            numbers = {"rounds": float(known[pod].rounds)}
            if (score := known[pod].score) is not None:
                numbers["score"] = score
            if seen.spent is not None:
                numbers["spent"] = seen.spent
            self._note(kind, pod, "allocator", why, numbers=numbers)

    def _asked(
        self,
        part: str,
        pod: str,
        ask: Callable[[], T],
        wrong: Callable[[T], str],
        instead: Callable[[], T],
        shown: Cohorts | None = None,
    ) -> T:
        """The answer of a rule, or if that is refused, the built-in one's."""
        own = _built_in(getattr(self._rules, part))
        self._by[part] = BUILT_IN[part]
        if part in self._rules.silent:  # a part that took too long once would each time
            return instead()
        before = [] if own or shown is None else contents(shown)
        try:
            answer, reason = (ask(), "") if own else kept(answered_in(SECONDS, ask))
            reason = taken_back(before) or reason or wrong(answer)
        except TimeoutError:
            reason = f"it took more than {SECONDS:g} s, and is not asked again by this process"
            self._rules.silent.add(part)
        except Exception as error:  # a user's own may raise whatever it likes
            reason = in_words(error)
        if not reason:
            del self._by[part]
            return answer
        taken_back(before)
        about = f" about {pod}" if pod else ""
        log.warning("population.%s: its decision%s is refused: %s", part, about, reason)
        self._note("refusal", pod, part, reason)
        return instead()

    def _note(
        self,
        kind: DecisionKind,
        pod: str,
        part: str,
        outcome: str,
        *,
        numbers: Mapping[str, float] | None = None,
        **more: Any,
    ) -> None:
        configured = getattr(self._rules.config.population, part)
        by = configured if kind == "refusal" else self._by.get(part, configured)
        rule = more.pop("rule", by)
        time, rounds = self._now, self._board.rounds
        self.made.append(
            Decision(kind, pod, rule, outcome, time, rounds, numbers=numbers or {}, **more)
        )


def _repeated(pod: PodState) -> Fresh:
    """A pod's training once more, with another seed."""
    first = pod.repeats or pod.id
    evidence = f"{first} is among the best, and one training says little"
    return Fresh(pod.algorithm, pod.hyperparameters, evidence=evidence, repeats=first, share=0.0)


def drawn_founder(rules: Rules, algorithm: str, control: bool, key: int) -> Hyperparameters:
    """Hyperparameters of a pod of the first generation.

    Raises:
        UnusablePlugin: the generator raises, takes too long, or gives what no pod can have.
    """
    space = rules.algorithms[algorithm]
    ask = partial(rules.generator.founder, copy.deepcopy(space), control, key)
    own = _built_in(rules.generator)
    try:
        drawn, wrong = kept(ask() if own else answered_in(FIRST_SECONDS, ask))
        wrong = wrong or space.misfit(drawn)
    except TimeoutError:
        wrong = f"it took more than {FIRST_SECONDS:g} s, the most that a first answer may take"
    except Exception as error:  # a user's own may raise whatever it likes
        wrong = in_words(error)
    if wrong:
        said = f"{rules.config.population.generator} gives no founder of {algorithm}: {wrong}"
        raise UnusablePlugin(f"population.generator: {said}")
    return drawn


def _built_in(rule: object) -> bool:
    """True of a rule of hpcpod's own, which needs no time limit."""
    return type(rule).__module__.startswith("hpcpod.")


def in_short(verdict: Verdict) -> str:
    """A verdict in a sentence."""
    where = f"at round {verdict.round}"
    if verdict.place:
        where += f" it was number {verdict.place} of {verdict.among}"
    if verdict.beaten_by:
        first = verdict.evidence.get(verdict.beaten_by[0], "")
        return f"{where}, and is beaten by {', '.join(verdict.beaten_by)}" + (
            f": {first}" if first else ""
        )
    if verdict.tests:
        best = max(verdict.tests, key=lambda test: test.low)
        return (
            f"{where}, and was tested against {len(verdict.tests)}, of which none was shown to be"
            f" better; {best.rival} came closest: mean difference {best.mean:.6g}, lower bound"
            f" {best.low:.6g} at {100 * best.level:.3g} %"
        )
    return where + (", not among those that are tested" if verdict.place else "")


def _compared(verdict: Verdict) -> tuple[str, ...]:
    """The rivals of a verdict, by name."""
    return tuple(sorted({test.rival for test in verdict.tests} | set(verdict.beaten_by)))
