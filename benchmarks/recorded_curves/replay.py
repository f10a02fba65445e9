"""A replay: hpcpod's own fold, allocators and copies over curves that are recorded.

A pod is a recorded draw, and its rounds report what the curve says. Each slot takes the next order
when it has ended the last one, so that pods report one after the other as in a run. A copy goes on
as its parent would: hyperparameters that change can't be replayed, so nothing is won by copies here
but the parent's curve. After its last recorded round a curve stays where it is.

A run sees half of each panel, drawn for each replicate, and the other half scores what it delivers:
by the panels that have chosen it, the best of many would score too high.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np
from selection_scenarios.world import core_of, founded

from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.schema import (
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RoundConfig,
    RunConfig,
    StopConfig,
)
from hpcpod.config.space import AlgorithmSpace, Int
from hpcpod.records.records import Birth, Board, Checkpoint, Report
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.stopping import leader
from recorded_curves.recording import Array, Curves

STEPS = 1000
JITTER = 0.1
"""A round takes so much more or less time than when it was recorded."""


@dataclass(frozen=True)
class Budget:
    """A limit of a run: rounds of all pods, or seconds."""

    slots: int
    rounds: int | None = None
    seconds: float | None = None


def random_search(curves: Curves, budget: Budget, whole: int, replicate: int) -> float:
    """The score of the best round of as many trainings of ``whole`` rounds as the budget has, in a
    random order."""
    rng = np.random.default_rng([1, replicate])
    free, best, score = [0.0] * budget.slots, -np.inf, np.nan
    drawn = rng.permutation(len(curves.returns))
    if budget.rounds is not None:
        drawn = drawn[: budget.rounds // whole]
    for draw in drawn:
        slot = int(np.argmin(free))
        free[slot] += float(curves.seconds[draw, :whole].sum())
        if budget.seconds is not None and free[slot] > budget.seconds:
            break
        for number in range(1, whole + 1):
            seen, kept = halves(curves, int(draw), number, replicate)
            if seen.mean() > best:
                best, score = seen.mean(), float(kept.mean())
    return score


def halves(curves: Curves, draw: int, number: int, replicate: int) -> tuple[Array, Array]:
    """Half of a round's panel, which a run sees, and the half that scores what it delivers.

    The same episodes for all draws: their seeds are common.
    """
    panel = curves.returns[draw, number - 1]
    panel = np.random.default_rng([3, replicate, number]).permutation(panel)
    return panel[: len(panel) // 2], panel[len(panel) // 2 :]


def replayed(curves: Curves, budget: Budget, pods: int, allocator: str, replicate: int) -> float:
    """The score of the policy that a run delivers."""
    return _Replay(curves, _rules(curves, budget, pods, allocator, replicate)).played(budget.slots)


class _Replay:
    """One run."""

    def __init__(self, curves: Curves, rules: Rules) -> None:
        self._curves, self._rules = curves, rules
        self._seed = rules.config.seed
        self._rng = np.random.default_rng([2, self._seed])
        self._board = self._founded()
        self._draws: dict[str, int] = {}
        self._busy: list[tuple[float, int, Birth, float]] = []
        self._taken: set[str] = set()

    def played(self, slots: int) -> float:
        now = 0.0
        while self._board.phase == "running":
            while len(self._busy) < slots and (order := self._next()) is not None:
                self._begin(order, now)
            now, _, order, cost = heapq.heappop(self._busy)
            self._board = fold(self._board, [self._report(order, cost)], self._rules, now=now)
        best = leader(self._board)
        assert best is not None
        return float(self._halves(best.pod, best.round)[1].mean())

    def _next(self) -> Birth | None:
        """The next order, as a slot takes it; resting pods come last, and only by seconds."""
        resting, going = resting_pods(self._board), {each[2].pod for each in self._busy}
        for order in orders(self._board):
            if order.id not in self._taken and order.pod not in going | resting:
                assert isinstance(order, Birth)
                return order
        return None

    def _begin(self, order: Birth, now: float) -> None:
        recorded = self._curves.seconds[self._draw(order.pod), self._at(order.round) - 1]
        cost = float(recorded * self._rng.uniform(1 - JITTER, 1 + JITTER))
        self._taken.add(order.id)
        heapq.heappush(self._busy, (now + cost, len(self._taken), order, cost))

    def _report(self, order: Birth, cost: float) -> Report:
        panel = self._halves(order.pod, order.round)[0]
        return Report(
            order.id, order.pod, order.round, order.attempt, slot="s",
            returns=tuple(panel.tolist()),
            checkpoint=Checkpoint(core_of(order), env_steps=STEPS * order.round),
            trained_steps=STEPS, wall_seconds=cost, train_seconds=cost,
        )  # fmt: skip

    def _halves(self, pod: str, number: int) -> tuple[Array, Array]:
        return halves(self._curves, self._draw(pod), self._at(number), self._seed)

    def _at(self, number: int) -> int:
        """The round that was recorded for one of a run."""
        recorded: int = self._curves.returns.shape[1]
        return min(number, recorded)

    def _draw(self, pod: str) -> int:
        """The recorded draw that a pod is: a copy is its parent's."""
        if pod not in self._draws:
            found = self._board.pods[pod]
            own = found.hyperparameters["draw"]
            assert isinstance(own, int)
            parent = found.parent if found.cause == "copy" else None
            self._draws[pod] = own if parent is None else self._draw(parent)
        return self._draws[pod]

    def _founded(self) -> Board:
        """The first board; no draw founds two pods."""
        board = first_board(self._rules, 0.0)
        order = np.random.default_rng([4, self._seed]).permutation(len(self._curves.returns))
        pods = {
            name: founded(pod, {"draw": int(draw)})
            for (name, pod), draw in zip(board.pods.items(), order, strict=False)
        }
        return replace(board, pods=pods)


def _rules(curves: Curves, budget: Budget, pods: int, allocator: str, replicate: int) -> Rules:
    steps = None if budget.rounds is None else budget.rounds * STEPS
    minutes = None if budget.seconds is None else budget.seconds / 60
    stop = StopConfig(minutes=minutes, env_steps=steps, finalists=1)
    config = RunConfig(
        name="curves",
        env=EnvConfig("Curves-v0"),
        seed=replicate,
        population=PopulationConfig(
            pods=PodsConfig(min=1, max=pods), algorithms={"toy": 1.0}, controls=0,
            allocator=allocator,
        ),
        round=RoundConfig(env_steps=STEPS, episodes=curves.returns.shape[2] // 2),
        stop=replace(stop, ensembles=replace(stop.ensembles, rules=())),
        cluster=ClusterConfig(slots=budget.slots),
    )  # fmt: skip
    drawn = {"draw": Int(0, len(curves.returns) - 1)}
    return Rules.of(config, {"toy": AlgorithmSpace("toy", drawn, {"draw": 0})})
