"""Whole runs that are played in a second: scores are numbers, tournament and files are real."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore
from hpcpod.storage.restarts import RestartRecord, Span
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import fold, orders
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.rules import Rules
from tests.support.hand_played import START, publish
from tests.support.small_runs import AGENTS, create

RATES = {"log_uniform": [1e-5, 1e-2]}
STEPS = 512
"""Environment steps of a round."""


def played(
    home: Path, *algorithms: str, pods: int = 6, rounds: int = 8, slots: int = 3, seed: int = 0,
    failing: float = 0.03, matters: float = 1.0, **sections: Any,
) -> RunFolder:  # fmt: skip
    """A finished run of ``rounds`` rounds for each pod, with copies, failures and finals.

    A pod's return rises towards 500, the faster the nearer its learning rate is to 1e-3 (not at all
    so if ``matters`` is 0), and the panel adds noise.
    """
    names = algorithms or ("ppo", "dqn")
    agents = {name: {**AGENTS.get(name, {}), "learning_rate": RATES} for name in names}
    folder = create(
        home, *names, seed=seed, population={"pods": {"min": 2, "max": pods}}, agents=agents,
        stop={"rounds": rounds, "finalists": 2, "confirm_episodes": 16}, **sections,
    )  # fmt: skip
    rules = Rules.of_run(folder)
    first = board = replace(read_board(folder), started=START - 5, began=START)
    clocks = {f"local-0-{i}": 5.0 for i in range(slots)}  # s: until then they start
    busy = dict.fromkeys(clocks, 0.0)
    while board.phase != "finished":
        reports = []
        for order in orders(board)[:slots]:
            slot = min(clocks, key=lambda name: clocks[name])
            report = _report(order, slot, Random(f"{seed} {order.id}"), failing, matters)
            clocks[slot] += report.wall_seconds
            busy[slot] += report.wall_seconds
            publish(folder, report, START + clocks[slot])
            reports.append(report)
        later = max(clocks.values())
        clocks = dict.fromkeys(clocks, later)
        folder.decisions.publish(board.decisions)
        board = fold(board, reports, rules, now=START + later)
    folder.board.publish(0, read_board(folder).document(), board.document(), "player")
    for slot in clocks:
        _account(folder, slot, clocks[slot], busy[slot])
    assert board.rounds > first.rounds
    return folder


def _report(order: Order, slot: str, rng: Random, failing: float, matters: float) -> Report:
    """The answer to an order."""
    seconds = {"ppo": 4.0, "dqn": 9.0}.get(order.algorithm, 6.0) * rng.uniform(0.8, 1.2)
    done = Report(
        order.id, order.pod, order.round, order.attempt, slot, wall_seconds=seconds,
        train_seconds=0.8 * seconds, evaluate_seconds=0.2 * seconds,
    )  # fmt: skip
    if isinstance(order, Birth) and rng.random() < failing:
        return replace(done, failure="loss is nan", failure_kind="crash", train_seconds=seconds)
    rate = float(order.hyperparameters["learning_rate"])
    speed = 0.4 * math.exp(-matters * abs(math.log10(rate / 1e-3)))
    centre = 500 * (1 - math.exp(-speed * order.round)) + rng.gauss(0, 8)
    episodes = order.episodes if isinstance(order, Rescore) and order.episodes else 16
    returns = tuple(min(500.0, centre + rng.gauss(0, 40)) for _ in range(episodes))
    if not isinstance(order, Birth):
        return replace(done, returns=returns, train_seconds=0.0, evaluate_seconds=seconds)
    core = hashlib.sha256(order.id.encode()).hexdigest()
    return replace(
        done, returns=returns, checkpoint=Checkpoint(core, STEPS * order.round),
        trained_steps=STEPS, metrics={"loss": 1 / order.round},
    )  # fmt: skip


def _account(folder: RunFolder, slot: str, until: float, busy: float) -> None:
    spent = {"training": 0.8 * busy, "scoring": 0.2 * busy, "starting": 5.0,
             "waiting": until - busy - 5.0}  # fmt: skip
    span = Span(START, until, 5.0, "waiting", since=START + until)
    record = RestartRecord(
        seconds=until, gpus=0.0, cpus=1, began=START, progress=True, spent=spent, spans=(span,)
    )
    folder.restarts.save(slot, record)
