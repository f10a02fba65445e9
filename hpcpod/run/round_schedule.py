"""The schedule of rounds that slots will train, simulated from now on. Pure.

Slots take orders as in ``tournament.claims``: the algorithm whose pods have cost least comes first,
in it the fewest rounds, and of these the pod that the slot has trained last.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hpcpod.records.records import stable_hash

MOST = 2000
"""Rounds that are played one by one; of a longer run several of a pod's together."""


@dataclass
class Task:
    """A pod's rounds that are still to be trained."""

    pod: str
    algorithm: str
    round: int
    """The next one."""
    left: float
    """The number of rounds; infinite where nothing limits them."""
    seconds: float
    """Seconds that a slot takes to train one, waits included."""
    after: float = 0.0
    """Seconds from then until its report, where it is scored beside training."""
    cost: float = 0.0
    """Slot-seconds that the pod has cost so far."""


@dataclass
class Hand:
    """A slot and what it has in hand."""

    free: float = 0.0
    """Seconds until it is done with that."""
    task: Task | None = None
    """The task of that round; it counts the rounds after it. None: a score, or nothing."""
    ends: float = math.inf
    """Seconds until its job's time limit, when it is requeued."""


@dataclass
class Gate:
    """A barrier at which pods wait for each other, see ``tournament.barrier``."""

    round: int
    """Pods that have trained it wait."""
    quorum: float
    deadline: float
    since: float = 0.0
    """Seconds at which the one before has opened: 0 is now."""
    met: float | None = None
    """Seconds at which the quorum was there; None: it is not."""
    held: list[Task] = field(default_factory=list)
    """Tasks of the pods that wait."""
    pods: Counter[int] = field(default_factory=Counter)
    """Pods by rounds of experience."""

    def opens(self, now: float) -> bool:
        """True if it opens now."""
        missing = self.pods[self.round - 1]
        there = sum(pods for rounds, pods in self.pods.items() if rounds >= self.round)
        if not self.held or there < self.quorum * (there + missing) - 1e-9:
            self.met = None
            return False
        self.met = now if self.met is None else self.met
        return not missing or now >= self.end

    @property
    def end(self) -> float:
        """Seconds until it opens though pods are missing."""
        return (
            math.inf if self.met is None else self.since + self.deadline * (self.met - self.since)
        )


@dataclass(frozen=True)
class Played:
    """The rest of a run."""

    seconds: float
    """Until the last round that counts is reported; infinite if none ever is the last."""
    pods: Mapping[str, float] = field(default_factory=dict)
    """Until each pod has trained all its rounds."""
    limited: bool = False
    """The number of rounds was met, before all pods had trained theirs."""


class _Queue:
    """Pods whose next round no slot has in hand."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._spent: dict[str, float] = {}
        self._pods: dict[str, int] = {}
        self._waiting: dict[str, list[tuple[int, int, str, Task]]] = {}
        for task in tasks:
            self._spent[task.algorithm] = self._spent.get(task.algorithm, 0.0) + task.cost
            self._pods[task.algorithm] = self._pods.get(task.algorithm, 0) + 1

    def put(self, task: Task) -> None:
        # As the tournament draws it: the founders by name, in later rounds no pod always first.
        lot = 0 if task.round == 1 else stable_hash(task.pod, task.round)
        waiting = self._waiting.setdefault(task.algorithm, [])
        heapq.heappush(waiting, (task.round, lot, task.pod, task))

    def take(self, own: Task | None) -> Task | None:
        """The most urgent; ``own``, which is not in it yet, if it is as urgent."""
        waiting = [name for name, tasks in self._waiting.items() if tasks]
        if own is not None and own.algorithm not in waiting:
            waiting.append(own.algorithm)
        if not waiting:
            return None
        algorithm = min(waiting, key=self._urgency)
        tasks = self._waiting.get(algorithm, [])
        same = own is not None and own.algorithm == algorithm
        if own is not None and same and (not tasks or own.round <= tasks[0][0]):
            return own
        if own is not None:
            self.put(own)
        return heapq.heappop(tasks)[3]

    def spend(self, task: Task, rounds: float) -> None:
        self._spent[task.algorithm] += rounds * (task.seconds + task.after)

    def _urgency(self, algorithm: str) -> tuple[bool, str, float]:
        tasks = self._waiting.get(algorithm, [])
        if tasks and tasks[0][0] == 1:
            return False, tasks[0][2], 0.0
        return True, "", self._spent[algorithm] / self._pods[algorithm]


def play(
    tasks: list[Task],
    hands: list[Hand],
    *,
    rounds: float = math.inf,
    scores: Iterable[float] = (),
    gap: float = 0.0,
    lifetime: float = math.inf,
    gate: Gate | None = None,
) -> Played:
    """Play the rest of a run's rounds.

    Args:
        tasks: all pods that have rounds to train; those that a hand holds count from the round
            after that. They are used up.
        hands: the slots. They are used up.
        rounds: after so many reports the rest counts for nothing.
        scores: seconds of each order to score that no slot has in hand.
        gap: seconds from a slot's time limit to its work.
        lifetime: seconds from one time limit to the next.
        gate: at which pods wait; None: they don't. It is used up.
    """
    left = min(rounds, sum(task.left for task in tasks) + len(hands))
    if not hands or math.isinf(left):  # nothing limits the rounds: it would play for ever
        return Played(math.inf)
    block = math.ceil(left / MOST)
    gate = gate if block == 1 else None
    return _Play(tasks, hands, rounds, list(scores), (gap, lifetime), block, gate).run()


class _Play:
    def __init__(
        self, tasks: list[Task], hands: list[Hand], rounds: float, scores: list[float],
        requeue: tuple[float, float], block: int, gate: Gate | None,
    ) -> None:  # fmt: skip
        self._queue = _Queue(tasks)
        self._gate = gate
        held = {id(hand.task) for hand in hands}
        for task in tasks:
            if gate is not None:
                gate.pods[task.round - (2 if id(task) in held else 1)] += 1
            if id(task) not in held and task.left > 0 and not self._waits(task):
                self._queue.put(task)
        self._hands, self._rounds, self._scores = hands, rounds, scores
        (self._gap, self._lifetime), self._block = requeue, block
        self._ends: dict[str, float] = {}
        self._events = [(hand.free, index) for index, hand in enumerate(hands)]
        self._sizes = [1.0] * len(hands)
        self._idle: list[int] = []

    def run(self) -> Played:
        done, last = 0.0, 0.0
        heapq.heapify(self._events)
        self._open(0.0)
        while self._events:
            now, index = heapq.heappop(self._events)
            if index < 0:  # a gate's deadline
                self._open(now)
                self._serve(now)
                continue
            hand, own = self._hands[index], None
            if hand.task is not None:
                task, hand.task = hand.task, None
                done += self._sizes[index]
                last = max(last, now + task.after)
                self._queue.spend(task, self._sizes[index])
                if self._gate is not None:
                    self._gate.pods.subtract([task.round - 2])
                    self._gate.pods[task.round - 1] += 1
                if task.left == 0:
                    self._ends[task.pod] = now + task.after
                elif not self._waits(task):
                    own = task
                if done >= self._rounds:
                    return Played(last, self._ends, limited=True)
            self._open(now)
            self._give(index, now, own)
            self._serve(now)
        return Played(last, self._ends)

    def _serve(self, now: float) -> None:
        while self._idle and self._give(self._idle[0], now, None):
            self._idle.pop(0)

    def _waits(self, task: Task) -> bool:
        """True if a pod is at the gate; then it is held."""
        gate = self._gate
        if gate is None or task.round <= gate.round:
            return False
        gate.held.append(task)
        return True

    def _open(self, now: float) -> None:
        """Open the gate, if it opens now; else note when it does at the latest."""
        gate = self._gate
        if gate is None:
            return
        known = gate.end
        while gate.opens(now):
            waited, gate.held = gate.held, []
            gate.round, gate.since, gate.met = gate.round + 1, now, None
            for task in waited:
                if not self._waits(task):
                    self._queue.put(task)
        if now < gate.end < math.inf and (gate.end != known or not now):
            heapq.heappush(self._events, (gate.end, -1))

    def _give(self, index: int, now: float, own: Task | None) -> bool:
        """Hand a slot the next order there is; without one it idles."""
        hand = self._hands[index]
        if self._scores:
            if own is not None:
                self._queue.put(own)
            seconds = self._scores.pop(0)
        else:
            task = self._queue.take(own)
            if task is None:
                if index not in self._idle:
                    self._idle.append(index)
                return False
            size = min(float(self._block), task.left)
            self._sizes[index], seconds = size, size * task.seconds
            task.left -= size
            task.round += int(size)
            hand.task = task
        heapq.heappush(self._events, (self._until(hand, now, seconds), index))
        return True

    def _until(self, hand: Hand, now: float, seconds: float) -> float:
        """Seconds until work that begins now is done, with the requeues in between."""
        ends = now + seconds
        while hand.ends < ends:
            ends += self._gap
            hand.ends += self._gap + self._lifetime
        return ends


def together(seconds: Iterable[float], free: Iterable[float]) -> float:
    """Seconds until all of these are done, each by the slot that is free first.

    Args:
        seconds: that each takes, in the order in which they are taken.
        free: when each slot is.
    """
    slots, last = list(free), 0.0
    heapq.heapify(slots)
    for each in seconds:
        done = slots[0] + each
        heapq.heapreplace(slots, done)
        last = max(last, done)
    return last
