"""Cohorts: who is compared with whom, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Board
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.controls import RESTS, leading, measure, privileged
from hpcpod.tournament.leaderboard import first_board, fold, needed_checkpoints, orders
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.settle import HISTORY, as_dead, settle
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules

SECONDS = {"ppo": 6.0, "sac": 420.0}
"""Of a round: of 50,000 steps, as fast as they are on HalfCheetah."""


def cohorts(board: Board, game: Rules) -> Cohorts:
    return Cohorts(board, game.config, game.algorithms)


def answer(board: Board, game: Rules, *pods: str) -> Board:
    """These pods finish a round, one merge each."""
    for pod in pods:
        order = order_of(board, pod)
        board = fold(board, [report(order, flat(by_number(order)))], game, now=1.0)
    return board


def test_a_cohort_needs_more_than_half_of_the_living() -> None:
    game = rules(4, warmup_rounds=0)
    board = answer(first_board(game, 0.0), game, "p0001", "p0002")
    assert cohorts(board, game).due(board.pods["p0001"]) is None
    board = answer(board, game, "p0003")
    assert cohorts(board, game).due(board.pods["p0001"]) == 1


def test_nobody_is_compared_during_the_warm_up() -> None:
    game = rules(4, warmup_rounds=1)
    board = play_round(first_board(game, 0.0), game, by_number)
    assert cohorts(board, game).due(board.pods["p0001"]) is None
    assert cohorts(board, game).latest() is None


def test_who_reports_first_is_compared_one_report_later() -> None:
    """The known defect of asynchronous truncation: only a round's last reporters could lose."""
    game = rules(4, warmup_rounds=0)
    board = answer(first_board(game, 0.0), game, "p0002", "p0001", "p0003", "p0004")
    # p0002 and p0001 were too early; p0003 completed the quorum
    assert [board.pods[f"p000{i}"].judged for i in (1, 2, 3, 4)] == [0, 0, 1, 1]
    board = answer(board, game, "p0001")
    assert board.pods["p0001"].judged == 1
    board = answer(board, game, "p0002")
    # now the worst that may be replaced is p0002, for p0001 is the control
    assert (board.pods["p0002"].fate, board.pods["p0002"].judged) == ("replaced", 1)


def test_a_round_is_compared_only_once() -> None:
    game = rules(4, warmup_rounds=0)
    board = play_round(first_board(game, 0.0), game, lambda order: 0.0)
    assert all(cohorts(board, game).due(pod) is None for pod in board.living)


def test_the_best_are_30_percent_and_the_worst_an_eighth() -> None:
    game = rules(10, warmup_rounds=0)
    board = first_board(game, 0.0)
    for each in orders(board):
        board = settle(board, {each.id: report(each, flat(by_number(each)))}, (), game.config)
    cohort = cohorts(board, game).cohort("ppo", 1)
    assert cohort.best == ("p0010", "p0009", "p0008")
    # p0001 is the control: it is worse, but may not be replaced
    assert cohort.worst == {"p0002", "p0003"}
    assert cohort.places == 2


def test_the_last_of_an_algorithm_is_not_among_the_worst() -> None:
    game = rules(4, {"ppo": 3, "dqn": 1}, controls=0)
    board = play_round(first_board(game, 0.0), game, lambda order: order.algorithm == "ppo")
    (dqn,) = (pod for pod in board.living if pod.algorithm == "dqn")
    assert dqn.id not in cohorts(board, game).cohort("dqn", 1).worst


def test_the_dead_are_in_no_cohort() -> None:
    game = rules(4, warmup_rounds=0)
    board = play_round(first_board(game, 0.0), game, by_number)
    (replaced,) = (pod.id for pod in board.pods.values() if pod.fate == "replaced")
    assert replaced not in cohorts(board, game).cohort("ppo", 1).standings


# --- algorithms and nodes of unequal speed -------------------------------------------------


def play_for(game: Rules, minutes: float, seconds: Callable[[str, str], float]) -> Board:
    """A slot for each pod: whoever is done first reports first, and trains on. All are equal.

    Args:
        game: its rules.
        minutes: of virtual time.
        seconds: of a round of a pod by its algorithm.
    """
    board = first_board(game, 0.0)
    free = {pod.id: seconds(pod.id, pod.algorithm) for pod in board.living}
    while (now := min(free.values())) < 60 * minutes:
        pod = min(free, key=lambda name: (free[name], name))
        cost = seconds(pod, board.pods[pod].algorithm)
        answer = report(order_of(board, pod), flat(0.0), wall_seconds=cost)
        board = fold(board, [answer], game, now=now)
        free[pod] = now + cost
    return board


def uncompared(board: Board) -> dict[str, int]:
    """Rounds of each pod since it was last compared."""
    return {pod.id: pod.history[-1].round - pod.judged for pod in board.living}


@pytest.mark.long
def test_algorithms_of_unequal_speed_go_on_being_compared() -> None:
    game = rules(8, {"ppo": 1, "sac": 1})
    board = play_for(game, 60, lambda pod, algorithm: SECONDS[algorithm])
    rounds = {pod.algorithm: pod.history[-1].round for pod in board.living}
    assert rounds["ppo"] > 50 * rounds["sac"]
    assert max(uncompared(board).values()) <= 2
    assert board.rounds - board.compared < 4


@pytest.mark.long
def test_a_slow_node_beside_fast_ones_does_not_end_comparisons() -> None:
    game = rules(8)
    slow = {"p0003", "p0004", "p0005", "p0006"}
    board = play_for(game, 60, lambda pod, _: 24.0 if pod in slow else 6.0)
    assert board.pods["p0001"].history[-1].round > 3.9 * board.pods["p0003"].history[-1].round
    assert max(uncompared(board).values()) <= HISTORY


@pytest.mark.long
@pytest.mark.parametrize("ratio", [1.5, 2.5, 4.0, 10.0])
def test_a_fast_node_beside_slow_ones_goes_on_being_compared(ratio: float) -> None:
    game = rules(8)
    board = play_for(game, 60, lambda pod, _: 6.0 if pod == "p0008" else 6.0 * ratio)
    rounds = {pod.id: pod.history[-1].round for pod in board.living}
    assert rounds["p0008"] >= ratio * rounds["p0001"]
    assert max(uncompared(board).values()) <= HISTORY


def test_kin_on_far_slower_nodes_stand_in_for_what_they_have_cost() -> None:
    game = rules(3, controls=0)
    board = first_board(game, 0.0)
    fast, *slow = [pod.id for pod in board.living]
    for pod, rounds, seconds in ((fast, 12, 10.0), *((each, 3, 40.0) for each in slow)):
        for _ in range(rounds):
            answer = report(order_of(board, pod), flat(1.0), wall_seconds=seconds)
            board = fold(board, [answer], game, now=1.0)
    # The fast pod's ninth round cost 90 s. The others have not come to half of the nine, but they
    # have spent more than half of the seconds: what they have learned last stands in.
    cohort = cohorts(board, game).cohort("ppo", 9)
    assert {pod: each.round for pod, each in cohort.standings.items()} == {
        fast: 9, **dict.fromkeys(slow, 3),
    }  # fmt: skip
    # The slow ones are compared at their own rounds with what the fast one had learned by then.
    cohort = cohorts(board, game).cohort("ppo", 2)
    assert {each.round for each in cohort.standings.values()} == {2}


def test_another_algorithm_is_compared_at_equal_cost() -> None:
    game = rules(4, {"ppo": 1, "sac": 1}, controls=0)
    board = first_board(game, 0.0)
    ppo = [pod.id for pod in board.living if pod.algorithm == "ppo"]
    sac = [pod.id for pod in board.living if pod.algorithm == "sac"]
    for _ in range(9):
        for pod in ppo:
            answer = report(order_of(board, pod), flat(1.0), wall_seconds=10.0)
            board = fold(board, [answer], game, now=1.0)
    for _ in range(2):
        for pod in sac:
            answer = report(order_of(board, pod), flat(1.0), wall_seconds=25.0)
            board = fold(board, [answer], game, now=1.0)
    cohort = cohorts(board, game).cohort("sac", 2)
    # 50 s: PPO's fifth round, of which nothing is kept (6 to 9, and 1, 2, 4); the fourth took 40 s
    assert (cohort.cost, {cohort.standings[pod].round for pod in ppo}) == (50.0, {4})
    assert {cohort.standings[pod].round for pod in sac} == {2}
    # at 90 s SAC has been at 50 s at last, which is more than half; at 20 s it has nothing
    assert cohorts(board, game).cohort("ppo", 9).standings.keys() == {*ppo, *sac}
    assert cohorts(board, game).cohort("ppo", 2).standings.keys() == set(ppo)


def test_evaluations_of_powers_of_two_are_kept_without_their_checkpoints() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    for value in range(1, 21):
        answer = report(order_of(board, "p0001"), flat(value), wall_seconds=1.0)
        board = fold(board, [answer], game, now=1.0)
    pod = board.pods["p0001"]
    assert [(m.round, m.cost) for m in pod.milestones] == [(1, 1.0), (2, 2.0), (4, 4.0), (8, 8.0),
                                                           (16, 16.0)]  # fmt: skip
    assert [e.round for e in pod.history] == [17, 18, 19, 20]
    assert needed_checkpoints(board) == {f"core of p0001-{r:05d}-1" for r in (17, 18, 19, 20)}


def test_a_leader_far_ahead_is_copied_as_it_is_now() -> None:
    game = rules(3, controls=0)
    board = answer(first_board(game, 0.0), game, *["p0003"] * 9)
    for value in (1.0, 2.0):
        for pod in ("p0001", "p0002"):
            board = fold(board, [report(order_of(board, pod), flat(value))], game, now=2.0)
    (child,) = (pod for pod in board.living if pod.cause == "copy")
    # compared at round 2, of which the leader's checkpoint is not kept any more
    assert (child.parent, child.parent_round) == ("p0003", 9)
    assert "at round 2 on 2 common seeds" in child.evidence
    # Once it can be copied it stands with its ancestors' past where others come late.
    assert [milestone.round for milestone in child.milestones] == [1, 2, 4, 8]
    assert child.motion.panels == 9
    assert child.id not in cohorts(board, game).cohort("ppo", 2).standings
    board = fold(board, [report(order_of(board, child.id), flat(3.0))], game, now=3.0)
    standing = cohorts(board, game).cohort("ppo", 2).standings[child.id]
    assert (standing.round, board.pods[child.id].history[0].round) == (2, 10)


def test_a_pod_whose_checkpoints_are_all_damaged_stands_nowhere() -> None:
    game = rules(4, {"ppo": 1, "sac": 1}, controls=0, stop=StopConfig(target=100.0))
    board = first_board(game, 0.0)
    for value in range(200, 209):
        birth = board.pods["p0003"].birth
        assert birth is not None
        board = fold(board, [report(birth, flat(value, 32))], game, now=1.0)
    while board.rescores:  # each that is tried for the target
        (rescore,) = board.rescores.values()
        board = fold(board, [failed(rescore, "corrupt")], game, now=2.0)
    assert board.pods["p0003"].milestones and not board.pods["p0003"].history
    for value in range(1, 5):
        for pod in [pod.id for pod in board.living if pod.id != "p0003"]:
            if board.pods[pod].fate == "alive":
                done = report(order_of(board, pod), flat(value * float(pod[1:]), 32))
                board = fold(board, [done], game, now=2.0)
    assert "p0003" not in cohorts(board, game).cohort("ppo", 2).standings


@pytest.mark.parametrize(("cause", "copies"), [("copy", 1), ("fresh", 0)])
def test_places_that_an_allocator_gives_away_are_no_copies(cause: Any, copies: int) -> None:
    game = rules(8)
    board = play_round(first_board(game, 0.0), game, by_number)
    gone = replace(board.pods["p0002"], fate="replaced", judged=2)
    heir = replace(board.pods["p0003"], id="p0009", replaces="p0002", cause=cause)
    board = replace(board, pods={**board.pods, "p0002": gone, "p0009": heir})
    assert Cohorts(board, game.config, game.algorithms).copies["ppo", 2] == copies


def test_controls_are_held_against_the_best_that_lives_once_the_leader_is_dead() -> None:
    game = rules(8, warmup_rounds=9)
    board = first_board(game, 0.0)
    for _ in range(4):
        board = play_round(board, game, lambda order: 10.0 * by_number(order))
    control, first = board.pods["p0001"], leading(board)
    assert control.control and first is not None
    assert not privileged(control, measure(board), RESTS)
    dead = replace(board, pods={**board.pods, first.id: as_dead(first, "it diverged", "failed")})
    assert leading(dead) == dead.pods[first.id]
    best = measure(dead)
    assert best is not None and best.fate == "alive" and best.id != "p0001"
    assert not privileged(control, best, RESTS)
