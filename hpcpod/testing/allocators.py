"""The contract of allocators as tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import ClassVar

from hpcpod.config.schema import StopConfig
from hpcpod.testing.populations import STEPS, boards, check_kept, rules_of, same_run, within
from hpcpod.tournament.allocation import (
    Allocation,
    Allocator,
    Candidate,
    Point,
    Prospects,
    prospects,
    refusal,
)
from hpcpod.tournament.rules import Rules

MANY = 128
EDGES: Mapping[str, tuple[tuple[float, ...], ...]] = {
    "no pod": (),
    "a pod without a round": ((),),
    "one pod": ((1.0, 2.0),),
    "pods without a round": ((), (), ()),
    "pods that are equal": ((3.0, 3.0), (3.0, 3.0), (3.0, 3.0)),
    "one pod without a round": ((1.0,), (), (2.0, 2.0)),
    "one pod far ahead": ((1e9, 1e9), (0.0,), (-1e9,)),
    "many pods": tuple((float(place % 7), float(place % 11)) for place in range(MANY)),
}
"""Means of rounds, by pod."""


class AllocatorContract:
    """The promises of ``hpcpod.tournament.allocation.Allocator``, a test for each.

    A subclass whose name begins with ``Test`` is one allocator. It is asked about prospects of runs
    whose agents are numbers, and about odd ones, and then plays runs of its own.
    """

    allocator: ClassVar[str]
    """Its name, or its path as in ``population.allocator``: ``"my_pkg.mod:Mine"``."""
    population: ClassVar[Mapping[str, str]] = {}
    """Other fields of ``population`` that it reads."""
    seconds: ClassVar[float] = 10.0
    """Seconds that it has for one decision, about 128 pods at most."""

    def _made(self) -> Allocator:
        return self._rules(None).allocator

    def _rules(self, stop: StopConfig | None) -> Rules:
        return rules_of(stop=stop, population={"allocator": self.allocator, **self.population})

    def test_the_same_question_has_the_same_answer(self) -> None:
        """Another object gives it, too, whatever it was asked before: any slot may merge."""
        one, other = self._made(), self._made()
        again = [other.allocate(seen) for _, seen in reversed(_cases())][::-1]
        for (name, seen), second in zip(_cases(), again, strict=True):
            first = one.allocate(seen)
            assert first == second, f"{name}: {first}, and then {second}"

    def test_it_changes_nothing(self) -> None:
        """The prospects, and the lists that they keep, are what they were."""
        allocator = self._made()
        for (name, seen), (_, before) in zip(_cases(), _cases(), strict=True):
            allocator.allocate(seen)
            lists = ("scored", "rivals", "unscored")
            changed = [each for each in lists if getattr(seen, each) != getattr(before, each)]
            same = seen == before and not changed
            assert same, f"{name}: the prospects have changed: {', '.join(changed) or 'a field'}"

    def test_what_it_decides_can_be_carried_out(self) -> None:
        """No pod that is not there, no rest for a protected one, somebody trains."""
        allocator = self._made()
        for name, seen in _cases():
            _check(name, seen, allocator.allocate(seen))

    def test_it_allocates_in_time(self) -> None:
        """A merge waits for it, and all slots for the merge."""
        allocator = self._made()
        for _, seen in _cases():
            with within(self.seconds):
                allocator.allocate(seen)

    def test_runs_by_it_spend_their_budget(self) -> None:
        """Rounds end one and steps the other, the same in whatever order reports come."""
        for stop in (StopConfig(env_steps=60 * STEPS), StopConfig(rounds=4)):
            same_run(partial(self._rules, stop))


def _cases() -> tuple[tuple[str, Prospects], ...]:
    """Prospects by name, made anew: an allocator may change the lists that they keep."""
    return tuple((name, replace(seen)) for name, seen in _kept())


@cache
def _kept() -> tuple[tuple[str, Prospects], ...]:
    found = []
    for place, (rules, board) in enumerate(boards()):
        seen = prospects(board, rules.config, now=60.0 * (place % 4))
        found.append((f"board {place} of a run with {rules.config.stop}", seen))
    for name, means in EDGES.items():
        pods = tuple(_candidate(place, curve) for place, curve in enumerate(means))
        for spent in (None, 0.6) if len(pods) < MANY else (0.6,):
            left = None if spent is None else 1e5 * (1 - spent)
            odd = Prospects(
                pods, "env_steps", spent, left, 9, max(1, len(pods)), key=5,
                counted=sum(map(len, means)),
            )  # fmt: skip
            found.append((f"{name}, {spent} of the budget spent", odd))
    return tuple(found)


def _candidate(place: int, means: tuple[float, ...]) -> Candidate:
    panels = [tuple(mean + (-1) ** episode for episode in range(8)) for mean in means]
    curve = tuple(Point(float(STEPS * at), at, each) for at, each in enumerate(panels, start=1))
    returns, last = (panels[-1], means[-1]) if means else ((), None)
    return Candidate(f"p{place:04d}", "ppo", curve, returns, last, protected=place == 0)


def _check(name: str, seen: Prospects, found: Allocation) -> None:
    assert isinstance(found, Allocation), f"{name}: it gives a {type(found).__name__}"
    check_kept(name, found)
    assert not refusal(found, seen), f"{name}: {refusal(found, seen)}"
    idle = {**found.resting, **found.given_up}
    both = [pod for pod in found.order if pod in idle]
    assert not both, f"{name}: {both[0]} trains and does not"
    assert len(set(found.order)) == len(found.order), f"{name}: the order names a pod twice"
