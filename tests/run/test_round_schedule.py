"""Rounds that are played ahead of time: by hand, and in the order in which slots take orders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.records.records import Board
from hpcpod.run.round_schedule import Gate, Hand, Task, play, together
from hpcpod.tournament.leaderboard import first_board, orders
from tests.tournament.world import by_number, play_round, rules

GAME = rules(6, {"ppo": 1.0, "sac": 1.0})


def two_algorithms(rounds: int) -> Board:
    """Six pods that have finished some rounds, of which a round of sac's costs more."""
    board = first_board(GAME, 0.0)
    for _ in range(rounds):
        board = play_round(board, GAME, by_number)
    pods = {
        name: replace(pod, cost=rounds * (2.0 if pod.algorithm == "ppo" else 5.0))
        for name, pod in board.pods.items()
    }
    return replace(board, pods=pods)


@pytest.mark.parametrize("rounds", [0, 2])
def test_rounds_are_taken_in_the_order_of_the_leaderboard_s_orders(rounds: int) -> None:
    board = two_algorithms(rounds)
    tasks = []
    for pod in board.living:
        assert pod.birth is not None
        tasks.append(Task(pod.id, pod.algorithm, pod.birth.round, 1, 10.0, cost=pod.cost))
    # What the first round of one pod costs is not known before it has ended: one slot for each.
    urgent = [order.pod for order in orders(board)]
    hands = [Hand(free=0.001 * n) for n in range(len(tasks))]
    ended = play(tasks, hands).pods
    assert sorted(ended, key=lambda pod: ended[pod]) == urgent


def test_a_slot_goes_on_with_its_pod_where_that_is_as_urgent() -> None:
    first, second = Task("p1", "ppo", 2, 2, 10.0), Task("p2", "ppo", 3, 1, 10.0)
    played = play([first, second], [Hand(10.0, first), Hand(10.0, second)])
    # Both have ended a round at 10; of p1 rounds 2 and 3 follow each other.
    assert played.seconds == 30.0
    assert played.pods == {"p1": 30.0, "p2": 20.0}


def test_slots_that_are_more_than_the_pods_help_nobody() -> None:
    alone = play([Task("p1", "ppo", 1, 5, 10.0)], [Hand()])
    assert play([Task("p1", "ppo", 1, 5, 10.0)], [Hand() for _ in range(4)]) == alone
    assert alone.seconds == 50.0


def test_scores_come_before_rounds_and_time_limits_between_them() -> None:
    played = play([Task("p1", "ppo", 2, 2, 10.0)], [Hand()], scores=[7.0])
    assert played.seconds == 27.0
    limited = play([Task("p1", "ppo", 2, 2, 10.0)], [Hand(ends=5.0)], gap=3.0, lifetime=8.0)
    # Work until 5, from 8 to 16, and from 19 on.
    assert limited.seconds == 26.0


def test_rounds_that_are_enough_end_it() -> None:
    played = play([Task("p1", "ppo", 1, 100, 10.0), Task("p2", "ppo", 1, 100, 15.0)],
                  [Hand(), Hand()], rounds=4)  # fmt: skip
    assert (played.seconds, played.limited) == (30.0, True)


def test_each_is_done_by_the_slot_that_is_free_first() -> None:
    assert together([4.0, 4.0, 4.0], [0.0, 0.0]) == 8.0
    assert together([4.0, 4.0], [0.0, 9.0]) == 8.0
    assert together([], [0.0]) == 0.0


def unequal(*seconds: float, rounds: int = 3) -> list[Task]:
    return [Task(f"p{n}", "ppo", 1, rounds, each) for n, each in enumerate(seconds, start=1)]


def test_pods_wait_for_each_other_at_a_gate() -> None:
    tasks = unequal(10.0, 20.0)
    assert play(tasks, [Hand(), Hand()]).pods == {"p1": 30.0, "p2": 60.0}
    held = play(unequal(10.0, 20.0), [Hand(), Hand()], gate=Gate(1, 1.0, 2.0))
    assert held.pods == {"p1": 50.0, "p2": 60.0}  # rounds begin at 0, 20 and 40
    # reports at 10, 20, 30 and 40, where without a gate the fourth comes at 30
    four = play(unequal(10.0, 20.0), [Hand(), Hand()], rounds=4, gate=Gate(1, 1.0, 2.0))
    assert four.seconds == 40.0


def test_a_gate_opens_after_its_deadline_and_who_is_late_holds_up_no_other() -> None:
    hands = [Hand(), Hand(), Hand()]
    played = play(unequal(10.0, 10.0, 40.0), hands, gate=Gate(1, 0.6, 2.0))
    # two of three at 10, so it opens at 20, and then at 30: the third lacks two rounds
    assert played.pods == {"p1": 40.0, "p2": 40.0, "p3": 120.0}


def test_a_gate_that_waits_already_keeps_its_deadline() -> None:
    slow, waits = Task("p1", "ppo", 2, 1, 100.0), Task("p2", "ppo", 2, 1, 10.0)
    gate = Gate(1, 0.5, 2.0, since=-30.0, met=-10.0)
    played = play([slow, waits], [Hand(90.0, slow), Hand()], gate=gate)
    assert played.pods["p2"] == 20.0  # it opens at -30 + 2 * 20
