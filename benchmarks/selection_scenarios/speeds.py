"""Algorithms and nodes of unequal speed, slot by slot in virtual time.

PPO, SAC and TD3 at the speeds of ``configs/mujoco/halfcheetah.yaml`` on two cores, or one
algorithm with a node that is four times slower. A policy gets better by slot-hours, not by
steps, and the faster the nearer its ``step`` is to the best one; one algorithm's ceiling is higher
than the others'.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from hpcpod.config.schema import StopConfig
from hpcpod.records import Birth, Board, Order, Owner
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.claims import take
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.prospects import asleep
from hpcpod.tournament.rules import Rules
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import Agents, Game, Settings, copied, delivered

MINUTES = 480.0
ENV_STEPS = 50_000
EVALUATE = 2.0
"""Seconds of a panel."""
SPEEDS = {"ppo": 8091.0, "sac": 120.0, "td3": 174.0}
"""Steps per second, of RESULTS.md."""
SPREAD = 25.0
CEILING, LOWER = 100.0, 70.0
RATE = 0.4
"""Of what is left to the ceiling, learned in an hour with the best step."""
BEST_STEP = 0.3


@dataclass(frozen=True)
class Site:
    """A population and its slots."""

    name: str
    speeds: Mapping[str, float]
    best: str
    slots: tuple[float, ...] = (1.0,) * 12
    """Speed of each, relative."""
    pods: int = 12
    never_copy: bool = False
    seldom: int = 1
    """Only each so many-th replicate is played: PPO reports 14,000 times."""


SITES = tuple(
    Site(
        f"PPO:SAC:TD3, {slots} slots, {best} better{', no copies' if never else ''}",
        SPEEDS,
        best,
        (1.0,) * slots,
        never_copy=never,
        seldom=10,
    )
    for slots in (12, 6)
    for best in ("sac", "ppo")
    for never in (True, False)
) + tuple(
    Site(
        f"PPO, one of 12 nodes 4x slower{', no copies' if never else ''}",
        {"ppo": 500.0},
        "ppo",
        (0.25,) + (1.0,) * 11,
        never_copy=never,
        seldom=4,
    )
    for never in (True, False)
)


class Hours(Agents):
    """Skill by hours of training."""

    def __init__(self, rules: Rules, replicate: int, site: Site) -> None:
        super().__init__(rules, replicate, SPREAD)
        self._site = site

    def trained(self, birth: Birth, skill: float) -> tuple[float, float]:
        step = birth.hyperparameters["step"]
        assert isinstance(step, float)
        quality = math.exp(-2 * math.log10(step / BEST_STEP) ** 2)
        hours = ENV_STEPS / self._site.speeds[birth.algorithm] / 3600
        ceiling = CEILING if birth.algorithm == self._site.best else LOWER
        skill += (1 - math.exp(-RATE * quality * hours)) * (ceiling - skill)
        return skill, skill


@dataclass
class Ledger:
    """What became of the slots."""

    hours: Counter[str] = field(default_factory=Counter)
    """Slot-hours, by algorithm."""
    compared: Counter[str] = field(default_factory=Counter)
    children: Counter[str] = field(default_factory=Counter)
    """Copies, by the child's algorithm."""
    last: dict[str, float] = field(default_factory=dict)
    """Minute of the last comparison."""

    def watch(self, before: Board, after: Board, now: float) -> None:
        for name, pod in before.pods.items():
            if after.pods[name].judged > pod.judged:
                self.compared[pod.algorithm] += 1
                self.last[pod.algorithm] = now / 60
        for _, child in copied(before, after):
            self.children[after.pods[child].algorithm] += 1


class Claims:
    """The run folder's claims, in memory: all that ``take`` asks of a folder."""

    def __init__(self) -> None:
        self._owners: dict[str, Owner] = {}

    def claim_owner(self, order: str) -> Owner | None:
        return self._owners.get(order)

    def claim(self, order: str, owner: Owner) -> bool:
        return self._owners.setdefault(order, owner) == owner


def rows(settings: Settings, sites: Sequence[Site] = SITES) -> Iterator[Row]:
    for site in sites:
        yield from site_rows(site, settings)


def site_rows(site: Site, settings: Settings, minutes: float = MINUTES) -> Iterator[Row]:
    ledgers, scores, winners = [], [], []
    for replicate in range(max(2, settings.replicates // site.seldom)):
        game = Game(
            site.pods,
            dict.fromkeys(site.speeds, 1.0),
            StopConfig(minutes=minutes),
            controls=1,
            env_steps=ENV_STEPS,
            never_copy=site.never_copy,
        )
        rules = game.rules(settings, replicate)
        agents, ledger = Hours(rules, replicate, site), Ledger()
        board = play(rules, agents, site, ledger)
        best = delivered(board)
        ledgers.append(ledger)
        scores.append(agents.truth[best.checkpoint.core])
        winners.append(board.pods[best.pod].algorithm == site.best)
    yield Row(
        "unequal speeds: what is delivered",
        site.name,
        {
            "true score delivered": mean(scores),
            "winner is of the better algorithm": mean(map(float, winners)),
        },
    )
    for algorithm in site.speeds:
        case = f"{site.name}: {algorithm}"
        yield Row("unequal speeds: by algorithm", case, by_algorithm(ledgers, algorithm))


def by_algorithm(ledgers: Sequence[Ledger], algorithm: str) -> dict[str, Number]:
    """Of all pods of an algorithm in a run."""
    return {
        "comparisons": mean(float(ledger.compared[algorithm]) for ledger in ledgers),
        "copies born": mean(float(ledger.children[algorithm]) for ledger in ledgers),
        "slot-hours": mean(float(ledger.hours[algorithm]) for ledger in ledgers),
        "minute of the last comparison": mean(
            ledger.last.get(algorithm, math.nan) for ledger in ledgers
        ),
    }


def play(rules: Rules, agents: Agents, site: Site, ledger: Ledger) -> Board:
    """A whole run. Whoever ends an order merges, and takes the next one as a real slot does."""
    board, now, number = first_board(rules, 0.0), 0.0, 0
    folder = cast(RunFolder, Claims())
    busy: list[tuple[float, int, int, Order, float]] = []
    idle = list(range(len(site.slots)))
    last: dict[int, str] = {}
    while board.phase != "finished":
        waiting, idle = idle, []
        for slot in waiting:
            owner = Owner(f"s{slot}", f"j{slot}")
            order = take(folder, owner, orders(board), last.get(slot), asleep(board))
            if order is None:
                idle.append(slot)
                continue
            train = _seconds(order, site, slot)
            number += 1
            heapq.heappush(busy, (now + train + EVALUATE, number, slot, order, train))
            last[slot] = order.pod
        now, _, slot, order, train = heapq.heappop(busy)
        ledger.hours[order.algorithm] += (train + EVALUATE) / 3600
        before = board
        board = fold(board, [agents.answer(order, train, EVALUATE)], rules, now=now)
        ledger.watch(before, board, now)
        idle.append(slot)
    return board


def _seconds(order: Order, site: Site, slot: int) -> float:
    if not isinstance(order, Birth):
        return 0.0
    return ENV_STEPS / site.speeds[order.algorithm] / site.slots[slot]
