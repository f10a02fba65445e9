"""Multiple frequencies: who selects when, and what crosses over."""

from __future__ import annotations

import pytest

from hpcpod.records.records import Board, Order, PodState
from tests.tournament.generators.play import births, born, by_place, game, played
from tests.tournament.world import SPACE


def hyperparameters(board: Board, pod: str) -> dict[str, object]:
    return dict(board.pods[pod].hyperparameters)


def test_only_the_first_of_two_sub_populations_selects_every_round() -> None:
    # 8 places: p0001, 3, 5, 7 select every round, p0002, 4, 6, 8 every tenth
    board = played(game("multi_frequency", controls=0, warmup_rounds=0), 1, by_place)
    assert births(board) == {"p0001": ("p0007", 1), "p0003": ("p0008", 1)}
    inside, migrant = born(board)
    assert set(inside.mutated) <= {"batch_size", "epochs", "gamma", "learning_rate"}
    assert inside.mutated
    # from one that selects less often, hyperparameters and all
    assert hyperparameters(board, migrant.id) == hyperparameters(board, "p0008")
    assert migrant.mutated == ()


def test_the_other_one_selects_at_round_ten_and_keeps_its_hyperparameters() -> None:
    def score(board: Board, order: Order) -> float:
        place = by_place(board, order)
        return place + 100 * (place % 2)  # those that select often lead

    rules = game("multi_frequency", controls=0, warmup_rounds=0)
    board = played(rules, 9, score)
    assert all(board.pods[name].fate == "alive" for name in ("p0002", "p0004", "p0006", "p0008"))
    leader = max(
        (pod for pod in board.living if pod.history), key=lambda pod: pod.history[-1].returns
    )
    board = played(rules, 1, score, board)
    inside, migrant = (
        next(pod for pod in board.living if pod.replaces == name) for name in ("p0002", "p0004")
    )
    assert (inside.parent, inside.parent_round) == ("p0008", 10)
    assert (migrant.parent, migrant.parent_round) == (leader.id, 10)
    own, weights = (hyperparameters(board, name) for name in ("p0008", leader.id))
    assert hyperparameters(board, migrant.id) == {
        name: (own if name in SPACE.mutable else weights)[name] for name in own
    }
    assert migrant.evidence.endswith("hyperparameters of p0008")


def test_a_round_that_was_passed_over_is_no_turn_lost() -> None:
    rules = game("multi_frequency", controls=0, warmup_rounds=11)
    # first compared at round 12, after the turn at round 10
    board = played(rules, 12, by_place)
    assert {"p0002", "p0004"} <= births(board).keys()


@pytest.mark.parametrize(("pods", "replaced"), [(4, 1), (7, 1), (12, 2), (16, 2)])
def test_few_pods_are_one_population(pods: int, replaced: int) -> None:
    # of 4 and of 7 one is in the worst quarter, and nobody is outside to come; 12 are three
    # populations of 4, and 16 are four, of which the first alone selects
    board = played(game("multi_frequency", pods, controls=0, warmup_rounds=0), 1, by_place)
    assert len(births(board)) == replaced


def test_equals_stay() -> None:
    assert births(played(game("multi_frequency"), 12, lambda board, order: 3.0)) == {}


def test_families_never_mix() -> None:
    board = played(game("multi_frequency", 16, algorithms={"ppo": 1, "dqn": 1}), 24, by_place)
    copies: list[PodState] = [pod for pod in born(board) if pod.parent is not None]
    assert copies
    for pod in copies:
        assert pod.parent is not None and pod.family == board.pods[pod.parent].family


def test_a_copy_of_the_slow_ones_is_selected_as_seldom_as_they_are() -> None:
    rules = game("multi_frequency", controls=0, warmup_rounds=0)
    board = played(rules, 10, by_place)
    slow = {pod.id for pod in born(board) if pod.parent_round == 10 and pod.replaces == "p0002"}
    assert slow
    board = played(rules, 3, by_place, board)
    assert {board.pods[name].fate for name in slow} == {"alive"}
