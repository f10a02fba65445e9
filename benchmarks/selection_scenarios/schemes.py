"""The price of a barrier: both schemes on pods of unequal speed, slot by slot in virtual time.

8 pods have 480 minutes on 8 slots or on 3. A round takes the median pod 10 minutes. How fast a pod
is follows from its name: log-normal, with a sigma of 0, 0.3 or 0.8 (then the slowest of 8 takes
three times as long as the median); each round varies by 10 % more. Pods learn as those of scenario
``budget`` do: in ``open`` who is fast goes far, in ``late`` who starts slowly goes farther. ``all
awaited`` is a barrier without a deadline, ``patient`` one with a late one and a larger quorum.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Literal, cast

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Board, Order, Owner, stable_hash
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.barrier import deadline
from hpcpod.tournament.leaderboard import begin, first_board, fold, orders
from hpcpod.tournament.order_choice import take
from hpcpod.tournament.rules import Rules
from selection_scenarios.budget import WORLDS, Pupils
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.speeds import Claims
from selection_scenarios.world import Game, Settings, copies, delivered

PODS, MINUTES = 8, 480.0
ROUND, EVALUATE = 600.0, 10.0
"""Seconds."""
NOISE = 0.1
SPREADS = (0.0, 0.3, 0.8)
SCHEMES: dict[str, tuple[Literal["tournament", "generational"], float, float]] = {
    "tournament": ("tournament", 1.0, 1.0),
    "generational": ("generational", 0.6, 1.25),
    "generational, patient": ("generational", 0.75, 2.0),
    "generational, all awaited": ("generational", 1.0, 1.0),
}
"""Each with its quorum and deadline."""


@dataclass
class Site:
    """Slots, and how unequal the pods are."""

    slots: int
    spread: float
    rng: Random

    def seconds(self, order: Order) -> float:
        """The time that an order takes."""
        own = Random(stable_hash(order.pod, "speed")).gauss(0.0, 1.0)
        return EVALUATE + ROUND * math.exp(self.spread * own + NOISE * self.rng.gauss(0.0, 1.0))


def rows(settings: Settings) -> Iterator[Row]:
    for world in ("open", "late"):
        for slots in (8, 3):
            for spread in SPREADS:
                for scheme in SCHEMES:
                    case = f"{world}, {slots} slots, spread {spread:g}, {scheme}"
                    yield Row("schemes", case, outcome(world, slots, spread, scheme, settings))


def outcome(
    world: str, slots: int, spread: float, scheme: str, settings: Settings
) -> dict[str, Number]:
    """The use of the slots until the finals, and the policy that is delivered."""
    at_work, rounds, born, scores = [], [], [], []
    kind, quorum, most = SCHEMES[scheme]
    game = Game(PODS, stop=StopConfig(minutes=MINUTES))
    for replicate in range(settings.replicates):
        plain = game.rules(settings, replicate)
        population = replace(plain.config.population, scheme=kind, quorum=quorum, deadline=most)
        rules = Rules.of(replace(plain.config, population=population), plain.algorithms)
        agents = Pupils(rules, replicate, WORLDS[world])
        board, worked = play(rules, agents, Site(slots, spread, Random(replicate)))
        at_work.append(worked / (slots * 60 * MINUTES))
        rounds.append(float(board.rounds))
        born.append(float(len(copies(board))))
        scores.append(agents.truth[delivered(board).checkpoint.core])
    return {
        "slots at work": mean(at_work),
        "rounds": mean(rounds),
        "copies": mean(born),
        "true score delivered": mean(scores),
    }


def play(rules: Rules, agents: Pupils, site: Site) -> tuple[Board, float]:
    """A whole run, and the seconds for which slots trained before its finals."""
    board, now, number, worked = begin(first_board(rules, 0.0), 0.0), 0.0, 0, 0.0
    folder = cast(RunFolder, SimpleNamespace(claims=Claims()))
    busy: list[tuple[float, int, int, Order]] = []
    idle, last = list(range(site.slots)), dict[int, str]()
    while board.phase != "finished":
        for slot in list(idle):
            owner = Owner(f"s{slot}", f"j{slot}")
            order = take(folder, owner, orders(board), last.get(slot), board)
            if order is not None:
                number += 1
                idle.remove(slot)
                last[slot] = order.pod
                heapq.heappush(busy, (now + site.seconds(order), number, slot, order))
        due = deadline(board, rules.config)
        if due is not None and (not busy or due < busy[0][0]) and due > now:
            end, reports = due, []
        else:
            end, _, slot, order = heapq.heappop(busy)
            idle.append(slot)
            reports = [agents.answer(order, site.seconds(order), EVALUATE)]
        if board.phase == "running":
            most = 60 * MINUTES
            worked += (min(end, most) - now) * (len(busy) + len(reports))
        now = end
        board = fold(board, reports, rules, now=now)
        if board.phase == "finals":  # what was in hand counts for nothing
            idle += [slot for _, _, slot, order in busy if order.pod in board.pods]
            busy = []
    return board, worked
