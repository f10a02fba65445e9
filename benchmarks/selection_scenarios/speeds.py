"""Algorithms and nodes of unequal speed, slot by slot in virtual time.

PPO, SAC and TD3 at the speeds of ``configs/mujoco/halfcheetah.yaml`` on two cores, or one
algorithm with a node that is four times slower. A policy gets better by slot-hours, not by
steps, and the faster the nearer its ``step`` is to the best one; one algorithm's ceiling is higher
than the others'. Where all are equal nobody learns anything, and each algorithm should keep about
as many pods as it began with.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple, cast

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth, Board, Order, Owner, PodState
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.order_choice import take
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Settings, copies, delivered

MINUTES = 480.0
ENV_STEPS = 50_000
EVALUATE = 4.0
"""Seconds of a panel."""
SPEEDS = {"ppo": 8091.0, "sac": 120.0, "td3": 174.0}
"""Steps per second, of RESULTS.md."""
SPREAD = 25.0
CEILING, LOWER = 100.0, 70.0
RATE = 0.4
"""Of what is left to the ceiling, learned in an hour with the best step."""
BEST_STEP = 0.3
SLOW = "the slow node"
SELDOM = 10
"""Only each so many-th replicate is played: PPO reports 11,000 times in one."""


@dataclass(frozen=True)
class Site:
    """A population and its slots."""

    name: str
    speeds: Mapping[str, float]
    best: str
    """Algorithm; empty: all pods are equal, and stay so."""
    slots: tuple[float, ...] = (1.0,) * 12
    """Speed of each, relative."""
    pods: int = 12
    minutes: float = MINUTES
    never_copy: bool = False


SITES = (
    *(
        Site(
            f"{slots} slots, {best.upper()} better{', no copies' if never else ''}",
            SPEEDS,
            best,
            (1.0,) * slots,
            never_copy=never,
        )
        for slots in (12, 6)
        for best, never in (("sac", True), ("sac", False), ("ppo", False))
    ),
    *(
        Site(
            f"one node of 12 4x slower{', no copies' if never else ''}",
            {"ppo": 500.0},
            "ppo",
            (0.25, *[1.0] * 11),
            never_copy=never,
        )
        for never in (True, False)
    ),
    Site("12 slots, all equal", SPEEDS, ""),
)


class Hours(Agents):
    """Skill by hours of training."""

    def __init__(self, rules: Rules, replicate: int, site: Site) -> None:
        super().__init__(rules, replicate, SPREAD)
        self._site = site

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        if not self._site.best:
            return 0.0, 0.0
        step = birth.hyperparameters["step"]
        assert isinstance(step, float)
        quality = math.exp(-2 * math.log10(step / BEST_STEP) ** 2)
        hours = ENV_STEPS / self._site.speeds[birth.algorithm] / 3600
        ceiling = CEILING if birth.algorithm == self._site.best else LOWER
        skill += (1 - math.exp(-RATE * quality * hours)) * (ceiling - skill)
        return skill, skill


@dataclass
class Ledger:
    """Slots' hours and pods' fates, by group: an algorithm, or the pods of the slow node."""

    hours: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Slot-hours."""
    compared: Counter[str] = field(default_factory=Counter)
    """Comparisons of a pod with others."""
    children: Counter[str] = field(default_factory=Counter)
    """Copies, by the group whose place they took."""
    last: dict[str, float] = field(default_factory=dict)
    """Minute of the last comparison."""
    slow: set[str] = field(default_factory=set)
    """Pods that were last trained on the slow node."""
    living: Counter[str] = field(default_factory=Counter)
    """At the end of the run, before the finals."""

    def group(self, pod: PodState) -> str:
        return SLOW if pod.id in self.slow else pod.algorithm

    def merged(self, before: Board, after: Board, now: float) -> None:
        for name, pod in before.pods.items():
            if after.pods[name].judged > pod.judged:
                self.compared[self.group(pod)] += 1
                self.last[self.group(pod)] = now / 60
        for old, _ in copies(after, before):
            self.children[self.group(old)] += 1


class Claims:
    """The run folder's claims, in memory: all that ``take`` asks of a folder."""

    def __init__(self) -> None:
        self._owners: dict[str, Owner] = {}

    def owners(self, orders: Iterable[str]) -> dict[str, Owner]:
        return {order: self._owners[order] for order in orders if order in self._owners}

    def take(self, order: str, owner: Owner) -> bool:
        return self._owners.setdefault(order, owner) == owner


def rows(settings: Settings, sites: Sequence[Site] = SITES) -> Iterator[Row]:
    for site in sites:
        yield from site_rows(site, settings)


def site_rows(site: Site, settings: Settings) -> Iterator[Row]:
    ledgers, scores, winners = [], [], []
    for replicate in range(max(2, settings.replicates // SELDOM)):
        game = Game(
            site.pods,
            dict.fromkeys(site.speeds, 1.0),
            StopConfig(minutes=site.minutes),
            controls=1,
            env_steps=ENV_STEPS,
            never_copy=site.never_copy,
        )
        rules = game.rules(settings, replicate)
        agents, ledger = Hours(rules, replicate, site), Ledger()
        board = play(rules, agents, site, ledger)
        best = delivered(board)
        ledgers.append(ledger)
        ledger.living.update(ledger.group(pod) for pod in board.living)
        scores.append(agents.truth[best.checkpoint.core])
        winners.append(board.pods[best.pod].algorithm == site.best)
    if site.best:
        yield Row(
            "unequal speeds: what is delivered",
            site.name,
            {
                "true score delivered": mean(scores),
                "winner is of the better algorithm": mean(map(float, winners)),
            },
        )
    for group in [*site.speeds, *([SLOW] if min(site.slots) < 1 else [])]:
        yield Row("unequal speeds: by group", f"{site.name}: {group}", of_group(ledgers, group))


def of_group(ledgers: Sequence[Ledger], group: str) -> dict[str, Number]:
    """Of all pods of an algorithm, or of the slow node, in a run."""
    return {
        "comparisons": mean(float(ledger.compared[group]) for ledger in ledgers),
        "replaced by a copy": mean(float(ledger.children[group]) for ledger in ledgers),
        "living at the end": mean(float(ledger.living[group]) for ledger in ledgers),
        "slot-hours": mean(ledger.hours[group] for ledger in ledgers),
        "minute of the last comparison": mean(
            ledger.last.get(group, math.nan) for ledger in ledgers
        ),
    }


class Job(NamedTuple):
    """An order in a slot's hands."""

    end: float
    number: int
    slot: int
    order: Order
    begin: float


def play(rules: Rules, agents: Agents, site: Site, ledger: Ledger) -> Board:
    """A whole run. Whoever ends an order merges, and takes the next one as a real slot does."""
    board, now, number = first_board(rules, 0.0), 0.0, 0
    folder = cast(RunFolder, SimpleNamespace(claims=Claims()))
    busy: list[Job] = []
    idle = list(range(len(site.slots)))
    last: dict[int, str] = {}
    while board.phase != "finished":
        waiting, idle = idle, []
        for slot in waiting:
            owner = Owner(f"s{slot}", f"j{slot}")
            order = take(folder, owner, orders(board), last.get(slot), board)
            if order is None:
                idle.append(slot)
                continue
            number += 1
            end = now + _training(order, site, slot) + EVALUATE
            heapq.heappush(busy, Job(end, number, slot, order, now))
            last[slot] = order.pod
            (ledger.slow.add if site.slots[slot] < 1 else ledger.slow.discard)(order.pod)
        job = heapq.heappop(busy)
        now, before = job.end, board
        report = agents.answer(job.order, _training(job.order, site, job.slot), EVALUATE)
        board = fold(board, [report], rules, now=now)
        ledger.merged(before, board, now)
        done = [job, *_void(busy, before, board)]
        for each in done:
            ledger.hours[ledger.group(before.pods[each.order.pod])] += (now - each.begin) / 3600
        if len(done) > 1:
            gone = {each.number for each in done}
            busy = sorted(each for each in busy if each.number not in gone)
        idle += [each.slot for each in done]
    return board


def _void(busy: Sequence[Job], before: Board, after: Board) -> list[Job]:
    """Jobs whose order is open no more: a real slot drops it when it is told so."""
    if (before.phase, before.next_pod) == (after.phase, after.next_pod):
        return []
    opened = {order.id for order in orders(after)}
    return [job for job in busy if job.order.id not in opened]


def _training(order: Order, site: Site, slot: int) -> float:
    """Seconds of an order without its evaluation."""
    if not isinstance(order, Birth):
        return 0.0
    return ENV_STEPS / site.speeds[order.algorithm] / site.slots[slot]
