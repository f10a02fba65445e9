"""Births: who is replaced, by whose child."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hpcpod.config.schema import PopulationConfig, StopConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.errors import UnknownPlugin
from hpcpod.records.records import Birth, Board, Order, stable_hash
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules


def exploited(board: Board) -> dict[str, str | None]:
    """Who was replaced because it was beaten, and the parent of what took its place."""
    return {
        str(pod.replaces): pod.parent
        for pod in board.pods.values()
        if pod.replaces is not None and board.pods[pod.replaces].fate == "replaced"
    }


def after_warmup(game: Rules) -> Board:
    board = first_board(game, 0.0)
    for _ in range(2):
        board = play_round(board, game, by_number)
    return board


def test_the_worst_eighth_gives_way_to_children_of_the_best_30_percent() -> None:
    board = after_warmup(rules(16))
    # 16 pods: ceil(16 / 8) = 2 places; p0001 is the control; the best 4 are p0013 ... p0016
    assert set(exploited(board)) == {"p0002", "p0003"}
    assert set(exploited(board).values()) <= {"p0013", "p0014", "p0015", "p0016"}
    assert len(board.living) == 16


def test_a_child_inherits_the_compared_round_and_trains_the_next() -> None:
    board = after_warmup(rules(8))
    (child,) = (pod for pod in board.living if pod.cause == "copy")
    assert child.parent is not None
    parent = board.pods[child.parent]
    assert (child.id, child.replaces, child.parent_round) == ("p0009", "p0002", 2)
    assert child.family == parent.family
    assert child.hyperparameters["width"] == parent.hyperparameters["width"]
    assert child.birth == Birth(
        child.id, 3, 1, "ppo", child.hyperparameters, stable_hash(0, "p0009"),
        parent.history[-1].checkpoint, inherited=True,
    )  # fmt: skip
    # the odd episodes, on which they are tested, all lie one above the mean
    better = int(parent.id[-1]) + 1
    assert child.evidence.startswith(f"{parent.id} {better} over p0002 3 at round 2 on 2 common")
    assert board.pods["p0002"].fate_reason == "p0009 took its place"


def test_a_parent_is_copied_at_the_compared_round_though_it_has_trained_on() -> None:
    game = rules(4, warmup_rounds=0, controls=0)
    board = first_board(game, 0.0)
    for pod in ("p0001", "p0002", "p0003", "p0004", "p0004"):  # p0001 is too early to lose
        order = order_of(board, pod)
        board = fold(board, [report(order, flat(by_number(order)))], game, now=1.0)
    board = fold(board, [report(order_of(board, "p0001"), flat(1.0))], game, now=2.0)
    child = board.pods["p0005"]
    assert (child.replaces, child.parent, child.parent_round) == ("p0001", "p0004", 1)
    assert child.birth is not None and child.birth.checkpoint is not None
    assert child.birth.checkpoint.core == "core of p0004-00001-1"


@pytest.mark.parametrize(("pods", "places"), [(8, 1), (9, 2), (16, 2), (17, 3)])
@pytest.mark.parametrize("at_once", [1, 3, 20])
def test_one_round_replaces_no_more_than_its_places_however_reports_come(
    pods: int, places: int, at_once: int
) -> None:
    game = rules(pods, warmup_rounds=0, controls=0)
    board = first_board(game, 0.0)
    # the best report first, so that each later reporter is the worst so far
    waiting = orders(board)[::-1]
    for start in range(0, pods, at_once):
        merged = [report(order, flat(by_number(order))) for order in waiting[start:][:at_once]]
        board = fold(board, merged, game, now=1.0)
    assert len(exploited(board)) == places


def test_the_last_two_of_an_algorithm_do_not_go_in_the_same_merge() -> None:
    game = rules(16, {"ppo": 7, "dqn": 1}, controls=0)
    board = first_board(game, 0.0)
    for _ in range(2):
        board = play_round(board, game, lambda order: 9.0 * (order.algorithm == "ppo"))
    assert Counter(pod.algorithm for pod in board.living) == {"ppo": 15, "dqn": 1}


@pytest.mark.parametrize("seed", range(8))
def test_a_parent_has_beaten_the_pod_beyond_doubt(seed: int) -> None:
    game = rules(8, seed=seed, controls=0, warmup_rounds=0)
    # p0007 and p0008 lead, but against p0001 only p0008 is sure
    level = {"p0008": (9.0, 9.0, 9.0, 9.0), "p0007": (90.0, -30.0, 90.0, -30.0)}
    board = first_board(game, 0.0)
    reports = [
        report(order, level.get(order.pod, (by_number(order) / 2,) * 4)) for order in orders(board)
    ]
    board = fold(board, reports, game, now=1.0)
    assert exploited(board) == {"p0001": "p0008"}


def test_families_never_mix_though_slots_may_cross() -> None:
    game = rules(8, {"ppo": 1, "dqn": 1})
    board = first_board(game, 0.0)

    def dqn_is_better(order: Order) -> float:
        return by_number(order) + 100 * (order.algorithm == "dqn")

    for _ in range(12):
        board = play_round(board, game, dqn_is_better)
    for pod in board.pods.values():
        if pod.parent is not None:
            assert pod.family == board.pods[pod.parent].family
    members = Counter(pod.algorithm for pod in board.living)
    # the last ppo stays, whatever it scores; the control was shown to be worse four times
    assert members == {"dqn": 7, "ppo": 1}
    assert board.pods["p0001"].fate == "replaced"


def test_without_controls_the_last_of_an_algorithm_stays() -> None:
    game = rules(4, {"ppo": 1, "dqn": 1}, controls=0)
    board = first_board(game, 0.0)
    for _ in range(10):
        board = play_round(board, game, lambda order: 100.0 * (order.algorithm == "dqn"))
    assert Counter(pod.algorithm for pod in board.living) == {"dqn": 3, "ppo": 1}


def test_a_control_may_be_a_parent() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    for _ in range(2):
        board = play_round(board, game, lambda order: -by_number(order))
    assert exploited(board) == {"p0004": "p0001"}
    child = board.pods["p0005"]
    assert not child.control
    assert len(child.mutated) == 2  # half of its ranges
    assert set(child.mutated) < {"batch_size", "epochs", "gamma", "learning_rate"}


def test_nobody_is_replaced_without_proof() -> None:
    game = rules(8)
    board = first_board(game, 0.0)
    for turn in range(6):
        reports = [
            report(order, (by_number(order), -500.0 * (int(order.pod[1:]) % 3 - 1), 30.0 * turn))
            for order in orders(board)
        ]
        board = fold(board, reports, game, now=1.0)
    assert exploited(board) == {}


def test_nobody_is_replaced_when_nothing_is_left_to_train() -> None:
    game = rules(8, stop=StopConfig(rounds=2))
    assert exploited(after_warmup(game)) == {}


def test_the_same_seed_makes_the_same_decisions_and_another_seed_others() -> None:
    assert after_warmup(rules(16, seed=3)) == after_warmup(rules(16, seed=3))
    ours, others = (
        {pod.hyperparameters["learning_rate"] for pod in after_warmup(rules(16, seed=s)).living}
        for s in (3, 4)
    )
    assert ours & others == {3e-4}  # the control's


# --- in place of the dead ----------------------------------------------------------------


def test_a_pod_that_dies_in_the_warm_up_is_replaced_by_a_fresh_one() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    board = fold(board, [failed(order_of(board, "p0002"), "diverged")], game, now=1.0)
    child = board.pods["p0005"]
    assert (child.cause, child.replaces, child.control) == ("fresh", "p0002", False)
    assert child.evidence == "in place of p0002, which failed: diverged: it broke"
    assert child.birth is not None
    assert (child.birth.round, child.birth.checkpoint) == (1, None)


def test_a_pod_that_dies_later_is_replaced_by_a_copy_of_a_leader() -> None:
    game = rules(4)
    board = after_warmup(game)
    board = fold(board, [failed(order_of(board, "p0003"), "diverged")], game, now=1.0)
    child = next(pod for pod in board.living if pod.replaces == "p0003")
    assert (child.cause, child.parent, child.parent_round) == ("copy", "p0004", 2)


def test_a_control_that_dies_in_the_warm_up_is_replaced_by_a_control() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    board = fold(board, [failed(order_of(board, "p0001"), "diverged")], game, now=1.0)
    child = next(pod for pod in board.living if pod.replaces == "p0001")
    assert (child.cause, child.control) == ("fresh", True)
    assert child.hyperparameters == board.pods["p0001"].hyperparameters


def test_a_control_that_dies_later_is_replaced_as_any_other_pod() -> None:
    # from scratch it would hold up the end of a run that waits for everybody's rounds
    game = rules(4)
    board = after_warmup(game)
    board = fold(board, [failed(order_of(board, "p0001"), "diverged")], game, now=1.0)
    child = next(pod for pod in board.living if pod.replaces == "p0001")
    assert (child.cause, child.control) == ("copy", False)


def test_a_pod_that_dies_in_the_last_round_is_replaced_by_a_copy_of_the_one_before() -> None:
    game = rules(4, stop=StopConfig(rounds=3))
    board = after_warmup(game)
    reports = [
        failed(order, "diverged") if order.pod == "p0003" else report(order, flat(1.0))
        for order in orders(board)
    ]
    board = fold(board, reports, game, now=1.0)
    child = next(pod for pod in board.living if pod.replaces == "p0003")
    assert (child.parent_round, [order.id for order in orders(board)]) == (
        2,
        [f"{child.id}-00003-1"],
    )


def test_when_all_of_an_algorithm_die_at_once_one_of_it_goes_back_to_its_best() -> None:
    game = rules(8, {"ppo": 3, "dqn": 1}, controls=0)
    board = after_warmup(game)
    both = [pod.id for pod in board.living if pod.algorithm == "dqn"]
    assert len(both) == 2
    board = fold(board, [failed(order_of(board, p), "diverged") for p in both], game, now=1.0)
    children = [pod for pod in board.living if pod.replaces in both]
    assert sorted((pod.cause, pod.algorithm) for pod in children) == [
        ("copy", "dqn"), ("copy", "ppo"),
    ]  # fmt: skip
    again = next(pod for pod in children if pod.algorithm == "dqn")
    assert again.parent in both


def test_defaults_that_always_diverge_lose_their_control() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    for _ in range(6):
        controls = [pod.id for pod in board.living if pod.control]
        board = fold(board, [failed(order_of(board, c), "diverged") for c in controls], game, now=1)
    assert not any(pod.control for pod in board.living)
    assert sum(pod.control for pod in board.pods.values()) == 3


def test_an_algorithm_that_only_ever_fails_gives_its_places_to_the_others() -> None:
    game = rules(4, {"ppo": 1, "dqn": 1})
    board = first_board(game, 0.0)
    for _ in range(12):
        reports = [
            failed(order, "diverged") if order.algorithm == "dqn" else report(order, flat(1.0))
            for order in orders(board)
        ]
        board = fold(board, reports, game, now=1.0)
    assert Counter(pod.algorithm for pod in board.living) == {"ppo": 4}
    deaths = [pod for pod in board.pods.values() if pod.fate == "failed"]
    assert 6 < len(deaths) <= 8  # more than 3 for each of its 2 places
    assert board.phase == "running"


# --- rules -------------------------------------------------------------------------------


def test_rules_name_an_unknown_generator() -> None:
    config = rules().config
    population = PopulationConfig(
        updater=config.population.updater,
        generator="hpcpod.tournament.generators.gentle_truncation:Rude",
    )
    with pytest.raises(UnknownPlugin, match="Rude"):
        Rules.of(replace(config, population=population), {})


def test_fixed_hyperparameters_are_copied_as_they_are() -> None:
    fixed = AlgorithmSpace("ppo", {"lr": 1e-3, "width": 64}, {"lr": 1.0, "width": 1}, ("width",))
    board = after_warmup(rules(8, space=fixed))
    (child,) = (pod for pod in board.living if pod.cause == "copy")
    assert (child.hyperparameters, child.mutated) == ({"lr": 1e-3, "width": 64}, ())
