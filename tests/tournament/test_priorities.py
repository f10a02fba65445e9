"""Pods that rest while there is no room for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcpod.records.records import Board, Owner, Rescore
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.barrier import awaited
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.order_choice import take
from hpcpod.tournament.priorities import by_priority, protected, resting_pods, sidelined, unawaited
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, flat, order_of, play_round, report, rules


def played(game: Rules, rounds: int = 1) -> Board:
    """p0004 leads, and p0001 is the control."""
    board = first_board(game, 0.0)
    for _ in range(rounds):
        board = play_round(board, game, by_number)
    return board


def test_controls_and_the_leader_come_first_then_the_means() -> None:
    board = played(rules(4))
    assert protected(board) == {"p0001", "p0004"}
    assert by_priority(board) == ["p0004", "p0001", "p0003", "p0002"]


def test_who_has_never_reported_comes_last() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0003"), flat(-9.0))], game, now=1.0)
    assert by_priority(board) == ["p0003", "p0001", "p0002", "p0004"]


def test_those_with_the_worst_prospects_rest_and_wake_when_there_is_room() -> None:
    game = rules(4)
    board = fold(played(game), [], game, now=2.0, size=3)
    assert board.size == 3 and resting_pods(board) == {"p0002"}
    assert resting_pods(fold(board, [], game, now=2.0)) == {"p0002"}  # it stays so
    smaller = fold(board, [], game, now=2.0, size=1)
    assert resting_pods(smaller) == {"p0002", "p0003"}  # never the leader
    awake = fold(board, [], game, now=2.0, size=4)
    assert awake.size is None and resting_pods(awake) == frozenset()


def test_a_pod_that_has_trained_all_its_rounds_takes_no_place() -> None:
    board = replace(played(rules(4)), size=2)
    pods = {name: replace(pod, birth=None) for name, pod in board.pods.items() if name != "p0002"}
    board = replace(board, pods={**board.pods, **pods})
    assert resting_pods(board) == frozenset()


def test_what_a_pod_reports_that_fell_asleep_meanwhile_counts() -> None:
    game = rules(4)
    board = fold(played(game), [], game, now=2.0, size=3)
    order = order_of(board, "p0002")
    assert order in orders(board)
    after = fold(board, [report(order, flat(99.0))], game, now=3.0)
    assert after.reports == board.reports + 1
    assert resting_pods(after) == {"p0003"}  # it has caught up, and another one rests


def test_pods_that_rest_do_not_hold_up_the_comparison_of_the_others() -> None:
    game = rules(8, warmup_rounds=1)
    board = fold(played(game), [], game, now=2.0, size=3)
    resting = resting_pods(board)
    assert len(resting) == 5
    for pod in sorted(set(board.pods) - resting):
        order = order_of(board, pod)
        board = fold(board, [report(order, flat(by_number(order)))], game, now=3.0)
    leading = board.pods["p0008"]
    assert leading.history[-1].round == 2
    assert Cohorts(board, game.config, game.algorithms).cohort("ppo", 2).standings.keys() >= {
        "p0008"
    }
    assert leading.judged == 2


def test_no_slot_begins_what_rests_but_goes_on_with_its_own(tmp_path: Path) -> None:
    game = rules(4)
    board = replace(played(game), size=3)
    folder = RunFolder.create(tmp_path / "run", {})
    (sleeper,) = resting_pods(board)
    mine, other = Owner("s1", "j"), Owner("s2", "j")
    assert folder.claims.take(order_of(board, sleeper).id, mine)
    open_orders = orders(board)
    taken = take(folder, mine, open_orders, None, board)
    assert taken is not None and taken.pod == sleeper
    for _ in range(3):
        got = take(folder, Owner(f"s{_ + 3}", "j"), open_orders, None, board)
        assert got is not None and got.pod != sleeper
    assert take(folder, other, open_orders, None, board) is None
    rescore = Rescore(
        "confirm", 1, sleeper, 1, "ppo", {}, board.pods[sleeper].history[-1].checkpoint, 1
    )
    assert take(folder, other, [rescore], None, board) == rescore


def test_a_slot_goes_on_with_its_own_pod_unless_the_allocator_wants_another(tmp_path: Path) -> None:
    game = rules(4)
    board = played(game)

    def taken(*turns: str) -> str:
        folder, now = RunFolder.create(tmp_path / "-".join(turns), {}), replace(board, turns=turns)
        order = take(folder, Owner("s1", "j"), orders(now), "p0002", now)
        assert order is not None
        return order.pod

    assert order_of(board, "p0003").round == order_of(board, "p0002").round == 2
    assert taken("p0003", "p0001") == "p0002", "it is as urgent, and its buffer is in memory"
    board = fold(board, [report(order_of(board, "p0003"), flat(3.0))], game, now=3.0)
    assert taken("p0003", "p0002") == "p0003", "it is a round ahead, and still wanted first"
    assert taken("p0002", "p0003") == "p0002"


def idle(board: Board, *pods: str) -> Board:
    """The board whose allocator, by a budget in seconds, gives these the last turns."""
    at_rest = {name: replace(board.pods[name], rests="others are ahead") for name in pods}
    others = [name for name in sorted(board.pods) if name not in pods]
    return replace(board, pods={**board.pods, **at_rest}, turns=(*others, *pods))


def test_a_slot_takes_its_own_pod_last_if_that_rests(tmp_path: Path) -> None:
    board = idle(played(rules(4)), "p0002", "p0003")
    assert resting_pods(board) == frozenset()
    folder, mine = RunFolder.create(tmp_path / "run", {}), Owner("s1", "j")
    taken = [take(folder, replace(mine, slot=f"s{i}"), orders(board), "p0002", board)
             for i in range(4)]  # fmt: skip
    pods = [order.pod for order in taken if order is not None]
    assert sorted(pods[:2]) == ["p0001", "p0004"] and pods[2:] == ["p0002", "p0003"]


def test_no_barrier_waits_for_pods_that_have_the_last_turns() -> None:
    resting = [f"p000{number}" for number in range(2, 7)]
    board = idle(played(rules(8)), *resting)
    assert sidelined(board) == frozenset() and unawaited(board) == set(resting)
    at = replace(board, barrier=replace(board.barrier, round=2))
    assert awaited(at) == ["p0001", "p0007", "p0008"]
