"""A toy task on which evolution helps, and it is easy to be too greedy.

An agent's skill grows with its step size, but step size costs score now, as a high learning
rate does. Where it costs nothing, copying the leaders should pay. Where it costs a lot, the
leaders of today are those that will be overtaken, and a population that copies them all the
time stands still: the trap. Everything but the agents is real: board, fold, gate, births,
finals. It is a regression test of the decisions, no proof that they win on any other task.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.config.space import AlgorithmSpace, LogUniform
from hpcpod.records.records import Birth, Board, Order, PodState, Report, Verdict, stable_hash
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.mutation import mutate
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.stopping import leader
from tests.tournament.world import report, rules

PODS, SLOTS, ROUNDS, EPISODES, SEEDS = 16, 8, 30, 8, 8
SPACE = AlgorithmSpace("toy", {"step": LogUniform(0.01, 1.0)}, {"step": 0.1})


class NoCopies(GentleTruncation):
    """Everyone trains on, whoever leads."""

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        return None


class Greedy(GentleTruncation):
    """Whoever is not among the best copies one of them, every round, without a test."""

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> Copy | None:
        if not 0 < verdict.round < ROUNDS or not cohorts.spare(pod):
            return None
        cohort = cohorts.cohort(pod.algorithm, verdict.round)
        donors = [
            (donor, source.round)
            for donor in cohort.best
            if donor in cohorts.living
            and (source := cohorts.source(donor, cohort.standings[donor])) is not None
        ]
        if pod.id in cohort.best or not donors:
            return None
        rng = Random(key)
        donor, source_round = rng.choice(donors)
        child, mutated = mutate(SPACE, cohorts.living[donor].hyperparameters, rng)
        return Copy(donor, source_round, child, mutated, "")


class Toy:
    """Agents that are one number, their skill; noise is shared by episodes of equal seed."""

    def __init__(self, cost: float, seed: int) -> None:
        self.cost = cost
        self.seed = seed
        self.skill: dict[str, float] = {}
        self.score: dict[str, float] = {}
        """True scores, by checkpoint."""

    def answer(self, order: Order) -> Report:
        own = Random(stable_hash(self.seed, order.id))
        if not isinstance(order, Birth):
            truth = self.score[order.checkpoint.core]
            return report(order, [truth + own.gauss(0, 25) for _ in range(64)], checkpoint=None)
        step = order.hyperparameters["step"]
        assert isinstance(step, float)
        skill = self.skill[order.checkpoint.core] if order.checkpoint else 0.0
        skill += 0.06 * step * (100 - skill)
        panel = Random(stable_hash(self.seed, "panel", order.round))
        score = skill - self.cost * step
        done = report(
            order, [score + panel.gauss(0, 18) + own.gauss(0, 17) for _ in range(EPISODES)]
        )
        assert done.checkpoint is not None
        self.skill[done.checkpoint.core], self.score[done.checkpoint.core] = skill, score
        return done


def delivered(generator: type[GentleTruncation], cost: float, seed: int) -> float:
    """The true score of the policy that a run hands over."""
    plain = rules(PODS, {"toy": 1.0}, seed=seed, space=SPACE, stop=StopConfig(rounds=ROUNDS))
    game = replace(plain, generator=generator(plain.config.population))
    toy = Toy(cost, seed)
    board: Board = first_board(game, 0.0)
    while board.phase != "finished":
        reports = [toy.answer(order) for order in orders(board)[:SLOTS]]
        board = fold(board, reports, game, now=1.0)
    champion = leader(board)
    assert champion is not None
    return toy.score[champion.checkpoint.core]


@pytest.fixture(scope="module", params=[0.0, 20.0], ids=["benign", "trap"])
def outcome(request: pytest.FixtureRequest) -> dict[str, float]:
    """Mean score that each generator delivers, over the same seeds."""
    schemes = {"none": NoCopies, "gentle": GentleTruncation, "greedy": Greedy}
    return {"cost": request.param} | {
        name: fmean(delivered(scheme, request.param, seed) for seed in range(SEEDS))
        for name, scheme in schemes.items()
    }


@pytest.mark.long
def test_gentle_copies_beat_no_copies(outcome: dict[str, float]) -> None:
    assert outcome["gentle"] > outcome["none"] + 1


@pytest.mark.long
def test_gentle_copies_do_not_fall_into_the_trap(outcome: dict[str, float]) -> None:
    margin = 20 if outcome["cost"] else -5
    assert outcome["gentle"] > outcome["greedy"] + margin
