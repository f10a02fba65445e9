"""Random search: draws alone."""

from __future__ import annotations

from dataclasses import replace

from hpcpod.config.schema import StopConfig
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from tests.tournament.generators.play import born, by_place, game, played
from tests.tournament.world import failed, order_of, report


def test_nobody_is_copied_or_replaced_while_it_trains() -> None:
    board = played(game("random_search"), 6, by_place)
    assert born(board) == []


def test_a_pod_that_is_done_gives_its_place_to_a_draw_while_the_budget_lasts() -> None:
    # a round trains 100 steps: 8 pods are done after 2 rounds and 1,600 steps
    rules = game("random_search", stop=StopConfig(rounds=2, env_steps=2500))
    board = played(rules, 2, by_place)
    late = born(board)
    assert [pod.replaces for pod in late] == [f"p000{n}" for n in range(2, 9)]
    assert {(pod.cause, pod.control, pod.born) for pod in late} == {("fresh", False, 16)}
    assert len({pod.hyperparameters["learning_rate"] for pod in late}) == 7
    assert (board.pods["p0001"].fate, board.pods["p0001"].birth) == ("alive", None)  # the control
    assert all(pod.birth is not None and pod.birth.round == 1 for pod in late)
    assert [entry.pod for entry in board.entries] == [f"p000{n}" for n in range(8, 0, -1)]
    assert played(rules, 2, by_place, board).stop_reason == "env_steps"


def test_with_replicates_a_pod_that_is_done_is_followed_by_another_seed_of_the_best() -> None:
    rules = game("random_search", stop=StopConfig(rounds=2, env_steps=500_000))
    population = replace(rules.config.population, allocator="replicates")
    rules = Rules.of(replace(rules.config, population=population), rules.algorithms)
    board = first_board(rules, 0.0)
    for _ in range(2):
        reports = [
            report(order, (by_place(board, order),) * 16, trained_steps=20_000)
            for order in orders(board)
        ]
        board = fold(board, reports, rules, now=1.0)
    assert [(pod.repeats, pod.cause) for pod in born(board)] == [
        ("p0008", "fresh"),
        ("p0007", "fresh"),
    ]
    assert board.stop_reason is None


def test_by_rounds_alone_each_place_has_one_draw() -> None:
    board = played(game("random_search", stop=StopConfig(rounds=2)), 2, by_place)
    assert (board.stop_reason, born(board)) == ("rounds", [])


def test_a_pod_that_fails_is_followed_by_a_draw() -> None:
    rules = game("random_search")
    board = played(rules, 3, by_place)
    board = fold(board, [failed(order_of(board, "p0003"), "diverged")], rules, now=2.0)
    (child,) = born(board)
    assert (child.cause, child.replaces) == ("fresh", "p0003")
    assert child.evidence == "in place of p0003, which failed: diverged: it broke"


def test_the_only_pod_of_an_algorithm_is_followed_by_another_of_it() -> None:
    stop = StopConfig(rounds=2, env_steps=2500)
    rules = game("random_search", 4, algorithms={"ppo": 3, "dqn": 1}, controls=0, stop=stop)
    board = played(rules, 2, by_place)
    assert sorted(pod.algorithm for pod in born(board)) == ["dqn", "ppo", "ppo", "ppo"]
    assert sorted(pod.algorithm for pod in board.living) == ["dqn", "ppo", "ppo", "ppo"]
