"""The use of a run so far, and the time at which its limits will end it. Pure.

The rest of the run is played ahead of time three times: with what each pod's rounds are measured
to take, and with the least and the most that they may well take (``costs``, ``schedule``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from hpcpod.config.placement import scores_beside
from hpcpod.launchers.base import THROTTLED
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Confirmed, Rescore
from hpcpod.run.costs import Cost, costs_of, mean_cost, panel_seconds, progress
from hpcpod.run.round_schedule import Gate, Hand, Played, Task, play, together
from hpcpod.storage.slots import OrderStatus, element
from hpcpod.tournament.barrier import since
from hpcpod.tournament.budget import followed
from hpcpod.tournament.policy_snapshots import being_scored, policies, to_score

Limit = Literal["minutes", "env_steps", "rounds", "user", "target"]

START_SECONDS = 15.0
"""Time from a slot's start to its work: what it imports."""
GAP_SECONDS = (5.0, 30.0, 120.0)
"""Pause from a slot's time limit to its work, before the first requeue: least, likely, most."""
FRESH = 0.3
"""Doubt of a score on fresh seeds, beside its pod's: there are more episodes, in a batch of their
own, maybe by another engine."""
NOTICE_SECONDS = {True: 2.0, False: 6.0}
"""Until slots have seen that the finals have begun and made their environments: here, elsewhere."""
LATE = 0.3
"""Share of the time that it has taken for which a score goes on that should be done by now."""
SILENCE = 60.0
"""Seconds since a slot's last word in which it is taken to have gone on."""


@dataclass(frozen=True)
class Forecast:
    """The limit of ``stop`` that comes first, and when the run has ended then."""

    limit: Limit
    """Its name in the configuration; ``user`` once a person ends the run, ``target`` while the
    snapshots of one that has reached it are scored."""
    seconds: float
    """Time left to the end of the run, the final evaluation included; an estimate."""
    low: float
    """Seconds after which the run may well have ended: the lower end of a range that holds what
    happens in most runs, narrow once rounds were measured."""
    high: float
    """Seconds after which it should have."""


def forecast(seen: Snapshot) -> Forecast | None:
    """The time at which the first of the limits ends the run, if its target does not.

    Returns:
        None if the limit is unknown: there is none, or nothing was measured yet.
    """
    if seen.board.phase == "finished":
        return None
    low, likely, high = (outlook.end() for outlook in _outlooks(seen))
    if low is None or likely is None or high is None:
        return None
    (limit, seconds), least, most = likely, low[1], high[1]
    return Forecast(limit, seconds, min(least, seconds), max(most, seconds))


def last_rounds(seen: Snapshot) -> dict[str, tuple[float, float]]:
    """In how many seconds each pod that is in training has trained its last round: at the earliest,
    and at the latest. Empty if its rounds do not end it, or if unknown."""
    if seen.config.stop.rounds is None or followed(seen.config) or seen.board.phase != "running":
        return {}
    low, _, high = (outlook.played() for outlook in _outlooks(seen))
    if low is None or high is None:
        return {}
    return {pod: (low.pods[pod], end) for pod, end in high.pods.items() if pod in low.pods}


def _outlooks(seen: Snapshot) -> tuple[_Outlook, _Outlook, _Outlook]:
    costs = costs_of(seen)
    return _Outlook(seen, costs, -1), _Outlook(seen, costs, 0), _Outlook(seen, costs, 1)


class _Outlook:
    """A run's future if all goes well (``way`` -1), as expected (0) or badly (1)."""

    def __init__(self, seen: Snapshot, costs: Mapping[str, Cost], way: int) -> None:
        self._seen, self._board, self._config = seen, seen.board, seen.config
        self._way, self._local = way, seen.local
        self._beside = scores_beside(seen.config)
        self._costs = {pod: self._scaled(cost) for pod, cost in costs.items()}
        scored = [cost for cost in self._costs.values() if cost.scored]
        self._others = mean_cost(scored, 0.0) if scored else None

    def _scaled(self, cost: Cost) -> Cost:
        factor = math.exp(self._way * cost.doubt)
        return replace(cost, train=factor * cost.train, evaluate=factor * cost.evaluate)

    def end(self) -> tuple[Limit, float] | None:
        """The limit that ends the run, and the seconds to its end; None if unknown."""
        board, stop, finals = self._board, self._config.stop, self._finals()
        if board.phase == "finals":
            if finals is None or not self._seen.slots:
                return None
            left = self._rest_of_finals() + self._later_stages()
            return cast(Limit, board.stop_reason), left
        played = self.played()
        seconds = math.inf if played is None else played.seconds
        limit: Limit = "env_steps" if played is not None and played.limited else "rounds"
        if stop.minutes is not None and board.began is not None:
            # By the clock of the disk: one node whose own was hours ahead ended a run.
            left = max(0.0, 60 * stop.minutes - board.elapsed(self._seen.clock))
            if left <= seconds:
                # Slots that report notice it, and so does each tick.
                late = 0.0 if self._way < 1 else self._config.cluster.tick_interval
                limit, seconds = "minutes", left + late
        if math.isinf(seconds):
            return None
        return limit, seconds + (finals or 0.0) + self._snapshots(seconds)

    def _rest_of_finals(self) -> float:
        """Seconds until the finals that have begun are over, at the pace that they have."""
        board, held = self._board, self._seen.held
        spent = 0.0 if board.stopped is None else max(0.0, self._seen.clock - board.stopped)
        done = [self._confirmed(score) for score in board.confirmed if score.purpose != "confirm"]
        batches = board.finals.played.items() if board.finals.stage == "select" else ()
        done += [n * self._score(pod, self._config.stop.batch) for pod, n in batches]
        kept = [row for row in policies(board).values() if row.settled]
        done += [self._score(row.pod, self._config.snapshots.episodes) for row in kept]
        orders = board.rescores.values()
        begun = [self._ordered(order) for order in orders if order.id in held]
        others = [self._ordered(order) for order in orders if order.id not in held]
        if not being_scored(board.rescores):
            others += [self._ordered(order) for order in to_score(board).values()]
        slots = len(self._seen.slots)
        factor = math.exp(self._way * FRESH)
        # Recorded runs: a score that takes longer than its panel promised says so of the others.
        if not done:
            expected = sum(begun) / max(1, len(begun))
            slow = max(1.0, spent / expected) if expected > 0 else 1.0
            begun = [max(each - spent, LATE * spent) for each in begun]
            each = [*begun, *(slow * score for score in others)]
            return factor * together(each, [0.0] * slots)
        promised = sum(done) + 0.5 * sum(begun) or 1.0  # a program has told no seconds of a score
        pace = spent * min(slots, len(done) + len(begun)) / promised
        each = [*(0.5 * pace * score for score in begun), *(pace * score for score in others)]
        return factor * together(each, [0.0] * slots)

    def played(self) -> Played | None:
        """The rest of the training; None if unknown."""
        stop, board = self._config.stop, self._board
        if not self._costs or (stop.rounds is None and stop.env_steps is None):
            return None
        if self._seen.drain is not None:
            return None
        tasks = {task.pod: task for task in self._tasks()}
        hands = [self._hand(name, tasks) for name in self._seen.slots]
        hands += [Hand(seconds) for seconds in self._coming()]
        held = self._seen.held
        scores = [self._ordered(o) for o in board.rescores.values() if o.id not in held]
        rounds = math.inf
        if stop.env_steps is not None:
            left = max(0, stop.env_steps - board.env_steps)
            rounds = math.ceil(left / self._config.round.env_steps)
        lifetime = math.inf if self._local else 60.0 * self._config.cluster.minutes
        return play(
            list(tasks.values()), hands, rounds=rounds, scores=scores, gap=self._gap(),
            lifetime=lifetime, gate=self._gate(),
        )  # fmt: skip

    def _gate(self) -> Gate | None:
        """The barrier that pods are at, or come to next."""
        barrier, population = self._board.barrier, self._config.population
        if not barrier.round:
            return None
        now, begun = self._seen.clock, since(self._board)
        return Gate(
            barrier.round, population.quorum, population.deadline,
            0.0 if begun is None else min(0.0, begun - now),
            None if barrier.met is None else min(0.0, barrier.met - now),
        )  # fmt: skip

    def _tasks(self) -> Iterator[Task]:
        # the next one in its place is taken to go on as it does
        rounds = None if followed(self._config) else self._config.stop.rounds
        for pod in self._board.living:
            if pod.birth is None:
                continue
            cost, number = self._costs[pod.id], pod.birth.round
            left = math.inf if rounds is None else rounds - number + 1
            whole = cost.train + cost.evaluate
            seconds = max(cost.train, cost.evaluate) if self._beside else whole
            yield Task(pod.id, pod.algorithm, number, left, seconds, whole - seconds, pod.cost)

    def _hand(self, slot: str, tasks: Mapping[str, Task]) -> Hand:
        """A slot with the rest of what it has in hand; its task counts from the round after."""
        shown = self._seen.slots[slot]
        jobs = self._seen.cluster.jobs
        left = next((job.left for job in jobs if job.slot in (slot, element(slot))), None)
        ends = math.inf if left is None else left
        pod, number = str(shown.pod), shown.round
        if shown.order in {order.id for order in self._board.rescores.values()}:
            return Hand(0.5 * self._score(pod), None, ends)
        task = tasks.get(pod)
        if task is None or number is None or task.round > number:  # reported, or counts no more
            return Hand(ends=ends)
        task.left -= number + 1 - task.round
        task.round = number + 1
        since = self._seen.clock if shown.mtime is None else shown.mtime
        silent = min(SILENCE, max(0.0, self._seen.clock - since))
        return Hand(max(0.0, self._rest(shown, task) - silent), task, ends)

    def _rest(self, shown: OrderStatus, task: Task) -> float:
        """Seconds until the round in hand is done, from a slot's last word on."""
        cost, done = self._costs[task.pod], progress(shown, self._config) or 0.0
        if shown.state == "scoring" or (done == 1.0 and not self._beside):
            return 0.5 * cost.evaluate
        if self._beside:
            return (1.0 - done) * task.seconds
        return (1.0 - done) * cost.train + cost.evaluate

    def _ordered(self, order: Rescore) -> float:
        """Seconds that an order to score on fresh seeds takes."""
        episodes = order.episodes or None
        if order.purpose == "snapshot":
            episodes = self._config.snapshots.episodes
        return max(1, len(order.members)) * self._score(order.pod, episodes)

    def _confirmed(self, score: Confirmed) -> float:
        """Seconds that a score of the finals has taken."""
        return max(1, len(score.members)) * self._score(score.pod, score.episodes or None)

    def _score(self, pod: str, episodes: int | None = None) -> float:
        """Seconds that a set of fresh seeds takes a pod; by default one of finals."""
        cost = self._costs.get(pod)
        cost = cost if cost is not None and cost.scored else self._others
        if cost is None:
            return 0.0
        episodes = episodes or self._config.stop.confirm_episodes
        return panel_seconds(cost, episodes, self._config)

    def _finals(self) -> float | None:
        """Seconds that all finalists take to be scored; None if no panel was measured."""
        if self._others is None:  # a guess by a long first round said hours where minutes are sure
            return None
        board, stop = self._board, self._config.stop
        most = min(self._config.population.capacity, max(len(board.entries), len(board.living)))
        count = min(stop.finalists, most)
        pods = [entry.pod for entry in board.entries[:count]]
        pods += [""] * (count - len(pods))
        free = [0.0] * len(self._seen.slots) or [0.0]
        wanted = self._seen.wanted
        if wanted is not None and self._way < 1:  # who had nothing to do has left
            again = START_SECONDS + (self._config.cluster.tick_interval if self._way == 0 else 0.0)
            free += [again] * (min(wanted, count) - len(free))
        heed = NOTICE_SECONDS[self._local]
        factor = math.exp(self._way * FRESH)
        if count == 1:
            return heed + factor * together([self._score(pods[0])], free)
        first = together([self._score(pod, stop.batch) for pod in pods], free)
        rest = self._more_batches(pods, len(free), stop.select_episodes // stop.batch - count)
        return heed + factor * (first + rest + self._confirm_and_report(pods, len(free)))

    def _later_stages(self) -> float:
        """Seconds of the stages of a final evaluation that are still to be opened."""
        finals, stop = self._board.finals, self._config.stop
        pods, slots = [member.pod for member in finals.finalists], max(1, len(self._seen.slots))
        factor = math.exp(self._way * FRESH)
        if finals.stage == "select":
            open_now = len(self._board.rescores) + sum(finals.played.values())
            rest = self._more_batches(pods, slots, stop.select_episodes // stop.batch - open_now)
            return factor * (rest + self._confirm_and_report(pods, slots))
        return factor * self._score(pods[0]) if finals.stage == "confirm" else 0.0

    def _more_batches(self, pods: Sequence[str], slots: int, most: int) -> float:
        """Seconds of the batches after the first ones: none if the best is clear, or all there
        are."""
        expected = max(0, most) * (0.0, 0.5, 1.0)[1 + self._way]
        each = sum(self._score(pod, self._config.stop.batch) for pod in pods) / len(pods)
        return each * expected / min(slots, len(pods))

    def _confirm_and_report(self, pods: Sequence[str], slots: int) -> float:
        """Seconds of the confirm set and of the report, if it is of a single policy."""
        tried, single = self._config.stop.ensembles, self._score(pods[0])
        sizes = [min(size, len(pods)) for size in tried.sizes for _ in tried.rules]
        if not sizes:
            return single
        return together([single, *(size * single for size in sizes)], [0.0] * slots) + single

    def _snapshots(self, seconds: float) -> float:
        """Seconds that scoring the snapshots takes when the run has its winner.

        Of those still to come as many are new policies as of those that were taken.

        Args:
            seconds: until its limit.
        """
        board, every = self._board, self._config.snapshots
        if every.seconds is None or self._others is None:
            return 0.0
        each = panel_seconds(self._others, every.episodes, self._config)
        times = sum(row.times for row in board.snapshots.values())
        new = len(policies(board)) / times if times else 1.0
        count = len(to_score(board)) + round(new * (seconds // every.seconds))
        factor = math.exp(self._way * FRESH)
        return factor * together([each] * count, [0.0] * max(1, len(self._seen.slots)))

    def _coming(self) -> Iterator[float]:
        """Seconds until each slot that is in the queue, or starts, is at work. A slot whose start
        is unknown comes at once if all goes well, and else never."""
        at_work = {element(slot) for slot in self._seen.slots}
        if self._local and self._seen.driven:
            yield from [START_SECONDS] * ((self._seen.wanted or 0) - len(at_work))
        for job in self._seen.cluster.jobs:
            if job.kind != "slots" or job.slot in at_work or job.reason == THROTTLED:
                continue
            if job.state == "running" or self._way < 0:
                yield START_SECONDS
            elif job.requeued:
                yield self._gap()
            elif job.starts is not None:
                yield START_SECONDS + max(0.0, job.starts - self._seen.now)

    def _gap(self) -> float:
        """Seconds from a slot's time limit to its work: as long as its requeues took so far."""
        again = [each for each in self._seen.restarts.values() if each.restarts]
        if not again:
            return GAP_SECONDS[1 + self._way]
        away = sum(max(0.0, self._seen.now - each.began - each.seconds) for each in again)
        return away / sum(each.restarts for each in again) * (0.5, 1.0, 2.0)[1 + self._way]
