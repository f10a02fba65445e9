"""The population of slots on GPUs: claim an order, train a round, save, come back."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from hpcpod.records.records import (
    Birth,
    Board,
    Checkpoint,
    Evaluation,
    Owner,
    PodState,
    stable_hash,
)
from hpcpod.tournament.priorities import resting_pods
from simulation.elements import Element
from simulation.loop import Loop


@dataclass(frozen=True)
class Work:
    """What a slot needs time for, in seconds."""

    pods: int = 2000
    startup: float = 12.0
    """From the scheduler's start to the first step: prolog, imports, the checkpoint."""
    round: float = 1800.0
    """A round of the median pod."""
    spread: float = 0.25
    """Sigma of the logarithm of how fast pods are."""
    checkpoint: float = 60.0
    """Between two checkpoints inside a round: what a slot without a signal loses at most."""
    save: float = 5.0
    """From a signal to the end of the process, everything saved."""
    polite: bool = True
    """Slots listen to signals, and ask to come back at their time limit."""


@dataclass
class Ledger:
    """GPU-seconds of slots, by what became of them: together, all that was allocated."""

    trained: float = 0.0
    """Training that was kept."""
    starting: float = 0.0
    lost: float = 0.0
    """Training since the last checkpoint of what died without a word."""
    saving: float = 0.0
    """From a signal to the end."""
    waiting: float = 0.0
    """For an order."""

    @property
    def wasted(self) -> float:
        return self.starting + self.lost + self.saving + self.waiting


@dataclass(eq=False)
class Pod:
    """A pod's progress."""

    name: str
    seconds: float
    """That its round takes."""
    round: int = 1
    attempt: int = 1
    done: float = 0.0
    """Seconds of this round that are saved."""

    @property
    def order(self) -> str:
        return f"{self.name}-{self.round:05d}-{self.attempt}"

    @property
    def urgency(self) -> tuple[int, int, str]:
        return self.round, stable_hash(self.name, self.round), self.name


@dataclass(eq=False)
class Seat:
    """A slot that runs: since when it does what."""

    element: Element
    since: float
    doing: str = "starting"
    """``starting``, ``training``, ``waiting`` or ``saving``."""
    pod: Pod | None = None
    step: int = 0
    """Changes of what it does: what was due for an earlier one is void."""


class Population:
    """The tenant of a run's slots, with its board. Nothing is counted before second 0."""

    def __init__(self, loop: Loop, work: Work, seed: int = 0) -> None:
        rng = random.Random(seed)
        self.loop, self.work = loop, work
        self.polite = work.polite
        self.ledger = Ledger()
        self.allocated = 0.0
        """GPU-seconds between a slot's start and its end."""
        self.delays: list[float] = []
        """Seconds from a GPU being given back by somebody to its first training step here."""
        self.claims: dict[str, Owner] = {}
        self.reports = 0
        self.fruitful: set[str] = set()
        """Arrays of which a slot has trained something that was kept."""
        self.pods = {
            name: Pod(name, work.round * math.exp(work.spread * rng.gauss(0, 1)))
            for name in (f"p{number:05d}" for number in range(1, work.pods + 1))
        }
        self.seats: dict[str, Seat] = {}
        """Of slots that run, by their names."""
        self.exit: Callable[[Element], None] = lambda element: None
        """Called when a slot ends by itself, for good."""
        self._holders: dict[str, Pod] = {}
        """Pods that are claimed, by the slot's name."""
        self._open = [pod.urgency for pod in self.pods.values()]
        heapq.heapify(self._open)
        self._asleep: frozenset[str] = frozenset()
        self._retiring: set[str] = set()
        self._waiting: deque[Seat] = deque()
        self._changed: set[str] = set()
        self._board = _first_board(self.pods)

    @property
    def board(self) -> Board:
        """The board as a merge at this moment would leave it.

        For as long as nothing happens: the next one has the same mapping of pods, for a copy of
        thousands at each tick would take longer than the plan.
        """
        states = self._board.pods
        assert isinstance(states, dict)
        for name in self._changed:
            states[name] = _state(self.pods[name], states[name])
        self._changed.clear()
        self._board = replace(self._board, reports=self.reports, rounds=self.reports)
        return self._board

    def started(self, element: Element) -> None:
        """Its processes start; then it claims an order."""
        seat = Seat(element, self.loop.now)
        self.seats[element.name] = seat
        self.loop.at(self.loop.now + self.work.startup, partial(self._claim, seat, seat.step))

    def leaving(self, element: Element, allowed: float) -> float:
        """Save what was trained: seconds that it takes, if so many are allowed."""
        seat = self.seats[element.name]
        if not self.polite:
            return 1.0
        seconds = self.work.save if seat.doing == "training" else 1.0
        self._turn(seat, "saving", killed=seconds > allowed)
        return seconds

    def ended(self, element: Element, killed: bool) -> None:
        """Its processes are gone."""
        seat = self.seats.pop(element.name)
        self._turn(seat, "gone", killed=killed)
        self.allocated += self._since_zero(element.started)

    def retire(self, slots: Collection[str]) -> None:
        """These slots end for good after the round in hand."""
        self._retiring.update(slots)

    def give_out(self, orders: Collection[str], size: int | None = None) -> None:
        """These orders' slots are gone: whoever wants may claim their next attempts.

        ``size`` is how many pods may be in training from now on; None leaves it as it was.
        """
        if size is not None:
            self._board = replace(self._board, size=size if size < len(self.pods) else None)
        if self._board.size is not None or self._asleep:
            for name in self._asleep - self._held():
                heapq.heappush(self._open, self.pods[name].urgency)
            self._asleep = resting_pods(self.board)
            self._open = [each for each in self._open if each[2] not in self._asleep]
            heapq.heapify(self._open)
        for order in orders:
            owner = self.claims.pop(order, None)
            pod = self._holders.pop(owner.slot, None) if owner is not None else None
            if pod is not None:
                pod.attempt += 1
                self._free(pod)
        while self._open and self._waiting:
            seat = self._waiting.popleft()
            if seat.doing == "waiting":
                self._claim(seat, seat.step)

    def close(self) -> None:
        """Count what slots do at this moment as done."""
        for seat in self.seats.values():
            self._count(seat, killed=False)
            self.allocated += self._since_zero(seat.element.started)

    def _since_zero(self, second: float) -> float:
        return self.loop.now - max(0.0, second)

    def _claim(self, seat: Seat, step: int) -> None:
        """Go on with the order that it holds, else take the most urgent open one."""
        if seat.step != step or seat.doing not in ("starting", "waiting"):
            return
        name = seat.element.name
        pod = self._holders.get(name)
        if pod is None and self._open:
            pod = self.pods[heapq.heappop(self._open)[2]]
            self._holders[name] = pod
            self.claims[pod.order] = Owner(name, str(seat.element.array.number))
        if pod is None:
            self._turn(seat, "waiting")
            self._waiting.append(seat)
            return
        # A GPU that was idle before second 0 says nothing of how soon one is found.
        if seat.doing == "starting" and seat.element.free_since >= 0:
            self.delays.append(self.loop.now - seat.element.free_since)
        self._turn(seat, "training", pod)
        left = max(1.0, pod.seconds - pod.done)
        self.loop.at(self.loop.now + left, partial(self._report, seat, seat.step))

    def _report(self, seat: Seat, step: int) -> None:
        """A round is over; the slot goes on with the most urgent one."""
        pod = seat.pod
        if seat.step != step or pod is None:
            return
        self._turn(seat, "waiting")
        del self.claims[pod.order]
        del self._holders[seat.element.name]
        pod.round, pod.attempt, pod.done = pod.round + 1, 1, 0.0
        self.reports += 1
        self._free(pod)
        if seat.element.name in self._retiring:
            self.exit(seat.element)
        else:
            self._claim(seat, seat.step)

    def _free(self, pod: Pod) -> None:
        """Nobody holds its order any more."""
        self._changed.add(pod.name)
        if pod.name not in self._asleep:
            heapq.heappush(self._open, pod.urgency)

    def _held(self) -> set[str]:
        return {pod.name for pod in self._holders.values()}

    def _turn(self, seat: Seat, doing: str, pod: Pod | None = None, killed: bool = False) -> None:
        self._count(seat, killed)
        seat.doing, seat.since, seat.pod = doing, self.loop.now, pod
        seat.step += 1

    def _count(self, seat: Seat, killed: bool) -> None:
        """Book the time since the slot's last turn."""
        seconds = self._since_zero(seat.since)
        if seat.doing == "training" and seat.pod is not None:
            kept = self.loop.now - seat.since
            if killed:
                kept -= kept % self.work.checkpoint
            seat.pod.done += kept
            if kept > 0:
                self.fruitful.add(str(seat.element.array.number))
            kept = min(kept, seconds)
            self.ledger.trained += kept
            self.ledger.lost += seconds - kept
        elif seat.doing == "starting":
            self.ledger.starting += seconds
        elif seat.doing == "saving":
            self.ledger.saving += seconds
        elif seat.doing == "waiting":
            self.ledger.waiting += seconds


def _first_board(pods: Mapping[str, Pod]) -> Board:
    states = {
        name: PodState(
            name, "ppo", "ppo", {"learning_rate": 3e-4}, seed=number, cause="fresh",
            control=number == 1, birth=Birth(name, 1, 1, "ppo", {"learning_rate": 3e-4}, number),
        )
        for number, name in enumerate(pods, start=1)
    }  # fmt: skip
    return Board(started=0.0, next_pod=len(pods) + 1, pods=states)


def _state(pod: Pod, state: PodState) -> PodState:
    """The pod's row of the board now: a later round has an evaluation, some pods do better."""
    checkpoint = Checkpoint(core=f"{pod.name}-{pod.round}", env_steps=pod.round)
    birth = Birth(
        pod.name, pod.round, pod.attempt, state.algorithm, state.hyperparameters, state.seed,
        checkpoint if pod.round > 1 else None,
    )  # fmt: skip
    if pod.round == 1:
        return replace(state, birth=birth)
    score = float(state.seed * 7919 % 1000) + pod.round
    return replace(state, birth=birth, history=(Evaluation(pod.round - 1, (score,), checkpoint),))
