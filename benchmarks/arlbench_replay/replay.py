"""A replay: hpcpod's own fold and allocators over trainings that are written down already.

A pod is a configuration with a training seed. A round is a tenth of its training, and reports what
the table says of it. Copies can't be replayed, so no pod is ever beaten. Of each configuration's
ten seeds six, in a random order, may be trained; the other four say what it is truly worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from selection_scenarios.world import Nobody, core_of, founded

from arlbench_replay.tables import Array, Table
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
from hpcpod.tournament.allocation import prospects
from hpcpod.tournament.allocators.replicates import ENDING, MOST, configurations
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules

TRAININGS = 96
"""The budget: as many whole trainings as 32 configurations with 3 seeds take."""
SLOTS = 8
ENV_STEPS = 1000


@dataclass(frozen=True)
class Outcome:
    """A configuration that was chosen."""

    true: float
    """Its mean return over seeds that were never trained."""
    shown: float
    """The mean return that is claimed for it."""
    cost: float
    """Trainings that were spent."""
    seeds: float = 3.0
    """Trainings of it."""


class Draw:
    """One replicate's configurations and the order of their seeds."""

    def __init__(self, table: Table, replicate: int) -> None:
        rng = np.random.default_rng([len(table.returns), replicate])
        returns = table.returns
        order = np.array([rng.permutation(returns.shape[1]) for _ in returns])
        shuffled = np.take_along_axis(returns, order[:, :, None], axis=1)
        self.curves: Array = shuffled[rng.permutation(len(returns))]
        """(configurations, seeds, budgets), both in the order in which they are trained."""
        self.truth: Array = self.curves[:, MOST:, -1].mean(axis=1)


def random_search(draw: Draw, seeds: int = 3) -> Outcome:
    """The best of as many configurations as are trained in full with so many seeds each."""
    return _best(draw.curves[: TRAININGS // seeds, :seeds, -1], draw)


def everything(draw: Draw) -> Outcome:
    """The best by the last scores of all six seeds of as many configurations as a run has: six
    times the budget, so that another choice among them is ahead by luck."""
    return _best(draw.curves[:TRAININGS, :MOST, -ENDING:].mean(axis=2), draw)


def _best(returns: Array, draw: Draw) -> Outcome:
    """The configuration of the best mean: ``returns`` are of configurations and seeds."""
    means = returns.mean(axis=1)
    best = int(means.argmax())
    cost, seeds = float(returns.size), float(returns.shape[1])
    return Outcome(float(draw.truth[best]), float(means[best]), cost, seeds)


def replayed(draw: Draw, allocator: str, pods: int, replicate: int) -> Outcome:
    """The configuration that a run with this allocator delivers."""
    rules = _rules(allocator, min(pods, len(draw.curves)), draw, replicate)
    board = first_board(rules, 0.0)
    places = enumerate(board.pods.items())
    board = replace(board, pods={n: founded(p, {"configuration": i}) for i, (n, p) in places})
    trained: dict[int, int] = {}
    seed_of: dict[str, int] = {}
    now = 0.0
    while board.phase == "running":
        now += 60.0
        resting = resting_pods(board)
        waiting = [each for each in orders(board) if each.pod not in resting][:SLOTS]
        reports = []
        for order in waiting:
            assert isinstance(order, Birth)
            configuration = order.hyperparameters["configuration"]
            assert isinstance(configuration, int)
            if order.pod not in seed_of:
                seed_of[order.pod] = trained.get(configuration, 0)
                trained[configuration] = seed_of[order.pod] + 1
            # one whose pods gave their places and that leads again has its seeds twice
            curve = draw.curves[configuration, seed_of[order.pod] % MOST]
            reports.append(_report(order, float(curve[order.round - 1])))
        board = fold(board, reports, rules, now=now)
    return _delivered(board, rules, draw, now)


def _delivered(board: Board, rules: Rules, draw: Draw, now: float) -> Outcome:
    """The configuration of the best estimate among those that were trained in full, which claims
    that estimate."""
    found = configurations(prospects(board, rules.config, now))
    ended = [each for each in found if each.trained]
    best = (ended or found)[0]
    which = board.pods[best.first].hyperparameters["configuration"]
    assert isinstance(which, int)
    cost = board.env_steps / ENV_STEPS / draw.curves.shape[2]
    return Outcome(float(draw.truth[which]), best.estimate, cost, float(best.trained))


def _rules(allocator: str, pods: int, draw: Draw, seed: int) -> Rules:
    configurations, _seeds, rounds = draw.curves.shape
    config = RunConfig(
        name="arlbench",
        env=EnvConfig("Table-v0"),
        seed=seed,
        population=PopulationConfig(
            pods=PodsConfig(min=1, max=pods), algorithms={"toy": 1.0}, controls=0,
            allocator=allocator,
        ),
        round=RoundConfig(env_steps=ENV_STEPS, episodes=2),
        stop=StopConfig(env_steps=TRAININGS * rounds * ENV_STEPS, rounds=rounds),
    )  # fmt: skip
    # founders have the first ones; an allocator's fresh draws are any of the table's
    drawn = {"configuration": Int(0, configurations - 1)}
    space = AlgorithmSpace("toy", drawn, {"configuration": 0})
    rules = Rules.of(config, {"toy": space})
    return replace(rules, updater=Nobody(rules.updater))


def _report(order: Birth, score: float) -> Report:
    """A good report; of a panel that is a single number all returns are alike."""
    return Report(
        order.id, order.pod, order.round, order.attempt, slot="s", returns=(score, score),
        checkpoint=Checkpoint(core_of(order), env_steps=ENV_STEPS * order.round),
        trained_steps=ENV_STEPS, wall_seconds=1.0, train_seconds=1.0,
    )  # fmt: skip
