"""The barrier of scheme ``generational``: who waits for whom, for how long, and what it decides."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcpod.config.schema import StopConfig
from hpcpod.records.barrier import Barrier
from hpcpod.records.records import Birth, Board, Order, Report, stable_hash
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.barrier import awaited, deadline, goes_on
from hpcpod.tournament.leaderboard import begin, first_board, fold, orders
from hpcpod.tournament.merge import now_of, overdue
from hpcpod.tournament.priorities import resting_pods, sidelined
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, failed, flat, order_of, report, rules


def game(
    pods: int = 4,
    algorithms: dict[str, float] | None = None,
    stop: StopConfig | None = None,
    **population: Any,
) -> Rules:
    """The rules of a generational run: three of four are a quorum, and have twice their time."""
    made = rules(pods, algorithms, stop=stop, scheme="generational")
    population = {"quorum": 0.75, "deadline": 2.0, **population}
    config = replace(made.config, population=replace(made.config.population, **population))
    return Rules.of(config, made.algorithms)


def begun(the_rules: Rules) -> Board:
    """A run whose first slot began to work at second 0."""
    return begin(first_board(the_rules, 0.0), 0.0)


def equal(order: Order) -> float:
    """A score by which no pod is better than another."""
    return 5.0


def told(
    board: Board,
    the_rules: Rules,
    now: float,
    *pods: str,
    score: Callable[[Order], float] = by_number,
) -> Board:
    """These pods report their round, all at once."""
    done = [order_of(board, pod) for pod in pods]
    return fold(board, [report(o, flat(score(o))) for o in done], the_rules, now=now)


def a_round(
    board: Board, the_rules: Rules, now: float, score: Callable[[Order], float] = by_number
) -> Board:
    """All pods that don't wait report, one after another."""
    for pod in sorted(p.id for p in board.living if p.id not in resting_pods(board)):
        board = told(board, the_rules, now, pod, score=score)
    return board


def test_pods_wait_for_each_other_and_all_are_judged_at_once() -> None:
    the_rules = game(4)
    board = a_round(begun(the_rules), the_rules, 10.0)
    assert board.barrier == Barrier(round=2, since=10.0)  # the warm-up's round is judged by nobody
    before = told(board, the_rules, 20.0, "p0001", "p0002", "p0004")
    assert resting_pods(before) == {"p0001", "p0002", "p0004"}
    assert awaited(before) == ["p0003"]
    assert {pod.judged for pod in before.living} == {0}
    assert before.entries[0].pod == "p0004"  # the leaderboard waits for nobody
    after = told(before, the_rules, 21.0, "p0003")
    assert after.barrier == Barrier(round=3, since=21.0)
    assert resting_pods(after) == frozenset()
    # p0001 is the control, so p0002 is the worst: by pairs that differ by 2, always
    assert after.pods["p0002"].fate == "replaced"
    child = after.pods["p0005"]
    assert (child.parent, child.parent_round) == ("p0004", 2)
    assert child.birth is not None and child.birth.round == 3
    assert {after.pods[pod].judged for pod in ("p0001", "p0003", "p0004")} == {2}


def test_who_reports_in_whatever_order_before_the_barrier_opens_changes_nothing() -> None:
    the_rules = game(4)
    board = a_round(begun(the_rules), the_rules, 10.0)
    forth = told(told(board, the_rules, 20.0, "p0001", "p0002"), the_rules, 20.0, "p0003", "p0004")
    back = told(told(board, the_rules, 20.0, "p0004", "p0003"), the_rules, 20.0, "p0002", "p0001")
    at_once = told(board, the_rules, 20.0, "p0001", "p0002", "p0003", "p0004")
    assert forth == back == at_once


def test_after_the_deadline_the_quorum_is_enough_though_nobody_reports() -> None:
    the_rules = game(4)  # 0.75 of 4 are three; twice as long as they took
    board = told(begun(the_rules), the_rules, 8.0, "p0001")
    board = told(board, the_rules, 10.0, "p0002")
    assert deadline(board, the_rules.config) is None
    board = told(board, the_rules, 12.0, "p0003")
    assert (board.barrier.met, deadline(board, the_rules.config)) == (12.0, 24.0)
    assert fold(board, [], the_rules, now=23.9) == board
    after = fold(board, [], the_rules, now=24.0)
    assert after.barrier == Barrier(round=2, since=24.0)
    assert resting_pods(after) == frozenset()
    assert awaited(after) == ["p0001", "p0002", "p0003"]  # the fourth lacks two rounds
    (opening,) = (each for each in after.decisions.values() if each.kind == "barrier")
    assert opening.outcome == "the barrier of round 1 opens without p0004"
    assert opening.numbers == {"there": 3.0, "missing": 1.0, "seconds": 24.0}
    assert not set(after.decisions) & set(board.decisions)


def test_a_late_report_counts_and_its_pod_is_judged_late() -> None:
    the_rules = game(4)
    board = a_round(begun(the_rules), the_rules, 10.0)
    board = told(board, the_rules, 20.0, "p0001", "p0003", "p0004", score=equal)
    late = fold(board, [], the_rules, now=30.0)
    assert late.barrier.round == 3
    assert {pod.judged for pod in late.living} == {0, 2}
    after = told(late, the_rules, 35.0, "p0002")  # 2 where the others have 5
    assert after.reports == late.reports + 1
    assert after.pods["p0002"].fate == "replaced"
    assert order_of(after, "p0005").round == 3
    good = fold(late, [report(order_of(late, "p0002"), flat(9.0))], the_rules, now=35.0)
    assert good.pods["p0002"].judged == 2
    assert "p0002" in awaited(good)  # it has caught up


def test_without_the_quorum_it_never_opens() -> None:
    the_rules = game(4)
    board = told(begun(the_rules), the_rules, 10.0, "p0001", "p0002")
    assert fold(board, [], the_rules, now=1e9) == board
    everyone = game(4, quorum=1.0)
    board = told(begun(everyone), everyone, 10.0, "p0001", "p0002", "p0003")
    assert fold(board, [], everyone, now=1e9) == board


def test_the_quorum_is_of_whole_pods() -> None:
    the_rules = game(20, quorum=0.55)  # 0.55 * 20 is a little above 11
    board = told(begun(the_rules), the_rules, 10.0, *(f"p{n:04d}" for n in range(1, 12)))
    assert board.barrier.met == 10.0


def test_the_dead_hold_no_barrier() -> None:
    the_rules = game(4, quorum=1.0)
    board = a_round(begun(the_rules), the_rules, 10.0)
    board = told(board, the_rules, 20.0, "p0001", "p0003", "p0004")
    dead = failed(order_of(board, "p0002"), "diverged")
    after = fold(board, [dead], the_rules, now=25.0)
    assert after.barrier.round == 3
    successor = after.pods["p0005"]
    assert successor.replaces == "p0002"
    assert "p0005" not in resting_pods(after)


def test_a_pod_from_scratch_is_not_awaited_and_waits_for_no_other() -> None:
    the_rules = game(3, {"ppo": 2, "dqn": 1}, quorum=1.0, generator="random_search")
    board = begun(the_rules)
    for number in range(1, 4):
        board = a_round(board, the_rules, 10.0 * number, equal)
    (dqn,) = (pod.id for pod in board.living if pod.algorithm == "dqn")
    board = fold(board, [failed(order_of(board, dqn), "diverged")], the_rules, now=35.0)
    assert (board.pods["p0004"].replaces, board.pods["p0004"].cause) == (dqn, "fresh")
    others = [pod.id for pod in board.living if pod.id != "p0004"]
    assert awaited(board) == others
    board = told(board, the_rules, 40.0, "p0004")
    assert "p0004" not in resting_pods(board)
    board = told(board, the_rules, 40.0, *others, score=equal)
    assert board.barrier.round == 5


def test_pods_that_rest_are_not_awaited_and_those_that_come_back_catch_up() -> None:
    the_rules = game(4, quorum=1.0)
    board = a_round(begun(the_rules), the_rules, 10.0, equal)
    board = fold(board, [], the_rules, now=11.0, size=3)
    assert sidelined(board) == {"p0004"}
    board = told(board, the_rules, 20.0, "p0001", score=equal)
    # who waits keeps its place: the one that rests does not take it
    assert resting_pods(board) == {"p0001", "p0004"}
    board = told(board, the_rules, 20.0, "p0002", "p0003", score=equal)
    assert board.barrier.round == 3
    board = a_round(board, the_rules, 30.0, equal)
    board = fold(board, [], the_rules, now=31.0, size=4)
    assert board.barrier.round == 4
    assert awaited(board) == ["p0001", "p0002", "p0003"]
    assert order_of(board, "p0004").round == 2
    assert "p0004" not in resting_pods(board)


def test_a_shortage_of_room_that_leaves_only_those_that_wait_opens_it() -> None:
    the_rules = game(4, quorum=1.0)
    board = told(begun(the_rules), the_rules, 10.0, "p0001", "p0003", "p0004")
    after = fold(board, [], the_rules, now=11.0, size=3)
    assert after.barrier.round == 2


def test_what_is_begun_ahead_of_a_barrier_is_what_can_go_on() -> None:
    the_rules = game(4)
    board = begun(the_rules)
    first = order_of(board, "p0001")
    assert isinstance(first, Birth)
    assert not goes_on(board, first)
    board = told(board, the_rules, 10.0, "p0002", "p0003", "p0004")
    assert goes_on(board, first)  # it is the last
    board = fold(board, [], the_rules, now=20.0)
    assert goes_on(board, first)  # it is late, and does not wait
    assert goes_on(first_board(rules(4), 0.0), first)


def test_the_last_round_is_judged_too_and_ends_the_run() -> None:
    the_rules = game(4, stop=StopConfig(rounds=2, finalists=1))
    board = a_round(begun(the_rules), the_rules, 10.0)
    board = a_round(board, the_rules, 20.0)
    assert (board.phase, board.stop_reason) == ("finals", "rounds")
    assert {pod.judged for pod in board.living} == {2}


def test_a_node_s_clock_opens_no_barrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose clock is an hour ahead asks the disk."""
    folder = RunFolder.create(tmp_path / "run", {})
    board = told(begun(game(4)), game(4), 10.0, "p0001", "p0002", "p0003")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600.0)
    monkeypatch.setattr(RunFolder, "resolved", _Resolved("tournament"))
    assert now_of(folder, replace(board, started=real())) > real() + 1800.0
    monkeypatch.setattr(RunFolder, "resolved", _Resolved("generational"))
    assert now_of(folder, replace(board, started=real())) < real() + 1800.0
    assert not overdue(folder, replace(board, started=0.0))  # 10 s have not passed on the disk
    assert overdue(folder, replace(board, started=100.0))


class _Resolved:
    """The part of a resolved configuration that tells the clock."""

    def __init__(self, scheme: str) -> None:
        made = game(4).config
        population = replace(made.population, scheme=scheme)  # type: ignore[arg-type]
        self.config = replace(made, population=population)


# --- runs with slots -------------------------------------------------------------------------


def run(the_rules: Rules, slots: int, seed: int, minutes: float = 1e4) -> tuple[Board, float]:
    """Play a run whose slots are lost and whose pods fail now and then; the board and the share
    of the slots' time that was at work."""
    rng, board, now = Random(seed), begun(the_rules), 0.0
    busy: list[tuple[float, int, Order]] = []
    number, worked = 0, 0.0
    while board.phase != "finished" and now < 60 * minutes:
        held = {order.id for _, _, order in busy}
        free = [
            order
            for order in orders(board)
            if order.id not in held
            and not (isinstance(order, Birth) and order.pod in resting_pods(board))
        ]
        for order in free[: slots - len(busy)]:
            number += 1
            speed = 1 + stable_hash(order.pod) % 4
            heapq.heappush(busy, (now + 60.0 * speed * rng.uniform(0.8, 1.2), number, order))
        if not busy:
            now += 60.0  # only a tick may help
            board = fold(board, [], the_rules, now=now)
            continue
        step = min(busy[0][0], now + 60.0)
        worked += len(busy) * (step - now)
        now, lost, done = step, [], list[Report]()
        while busy and busy[0][0] <= now:
            order = heapq.heappop(busy)[2]
            fate = rng.random() if isinstance(order, Birth) else 1.0
            if fate < 0.05:
                lost.append(order.id)
            elif fate < 0.1:
                done.append(failed(order, rng.choice(["crash", "diverged", "corrupt"])))
            else:
                level = 10.0 * (stable_hash(order.pod) % 7)
                done.append(report(order, [rng.gauss(level, 3) for _ in range(8)]))
        board = fold(board, done, the_rules, now=now, lost=lost)
        assert fold(board, [], the_rules, now=now) == board
    return board, worked / (slots * now)


@pytest.mark.long
@pytest.mark.parametrize("allocator", ["fair", "halving", "ocba", "thompson", "curves"])
@given(st.integers(0, 2**32), st.integers(1, 8), st.sampled_from([0.1, 0.75, 1.0]))
@settings(max_examples=10, deadline=None)
def test_every_run_comes_to_its_end(allocator: str, seed: int, slots: int, quorum: float) -> None:
    stop = StopConfig(env_steps=6000, rounds=12, finalists=1)
    the_rules = game(6, stop=stop, allocator=allocator, quorum=quorum)
    board, _ = run(the_rules, slots, seed)
    assert board.stop_reason in ("env_steps", "rounds", "failed")
    assert board.phase == "finished"
