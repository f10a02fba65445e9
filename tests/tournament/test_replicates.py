"""Replicates: the best configurations are trained again with other seeds, within the budget."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from hpcpod.config.schema import PopulationConfig, StopConfig
from hpcpod.records.records import Board
from hpcpod.tournament.allocation import Allocation, Candidate, Point, Prospects, refusal
from hpcpod.tournament.allocators.halving import Halving
from hpcpod.tournament.allocators.replicates import MOST, Replicates, configurations, over_seeds
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules
from tests.tournament.world import report, rules

REPLICATES = Replicates(PopulationConfig())
STEPS = 20_000
ROUNDS = 4


def pod(name: str, score: float, rounds: int = 2, **fields: object) -> Candidate:
    """A candidate that has trained so many rounds, and plays so well."""
    curve = tuple(Point(float(STEPS * r), r, (score, score)) for r in range(1, rounds + 1))
    found = Candidate(name, "ppo", curve, (score, score), score)
    return replace(found, **fields)  # type: ignore[arg-type]


def seen(*pods: Candidate, spent: float = 0.9, left: float = 10.0) -> Prospects:
    """Prospects of these pods, of which those with all rounds are done; ``left`` in rounds."""
    going = tuple(each for each in pods if each.rounds < ROUNDS)
    done = tuple(each for each in pods if each.rounds == ROUNDS)
    return Prospects(going, "env_steps", spent, left * STEPS, ROUNDS, len(pods), 1, done=done)


def test_the_best_that_is_done_is_trained_again_in_the_place_of_the_worst_that_rests() -> None:
    pods = pod("p0", 1, rests=True), pod("p1", 0), pod("p2", 3, rests=True), pod("p3", 9, ROUNDS)
    found = REPLICATES.allocate(seen(*pods))
    assert found.again == {"p0": "p3"}  # p1 is worse, but may be in a slot's hands
    assert set(found.resting) == {"p1", "p2"}
    assert refusal(found, seen(*pods)) == ""


def test_a_replicate_in_training_is_not_doubled() -> None:
    again = pod("p4", -5, 1, repeats="p3")
    found = REPLICATES.allocate(seen(pod("p0", 1), pod("p3", 9, ROUNDS), again))
    assert (found.again, found.order) == ({}, ("p4",))


def test_no_training_begins_that_the_budget_has_no_room_for() -> None:
    pods = pod("p0", 1), pod("p2", 3), pod("p3", 9, ROUNDS)
    assert REPLICATES.allocate(seen(*pods, left=3.9)).again == {}
    assert REPLICATES.allocate(seen(*pods, left=3.9)).order == ("p2",)  # what is left is used
    assert REPLICATES.allocate(seen(*pods, left=4.0)).again == {"p0": "p3"}


def test_configurations_with_enough_trainings_leave_the_budget_to_others() -> None:
    best = [pod(f"p{i}", 9, ROUNDS, repeats="p0" if i else "") for i in range(MOST)]
    found = REPLICATES.allocate(seen(*best, pod("p7", 5, ROUNDS), pod("p8", 1, rests=True)))
    assert found.again == {"p8": "p7"}


def test_where_all_are_done_the_worst_of_them_gives_its_place() -> None:
    leads = pod("p3", 9, ROUNDS, protected=True)
    found = REPLICATES.allocate(seen(pod("p0", 1, ROUNDS), pod("p1", 0, ROUNDS), leads))
    assert found.again == {"p1": "p3"}


def test_without_an_end_of_training_it_is_halving() -> None:
    pods = [pod(f"p{score}", score) for score in range(8)]
    for asked in (replace(seen(*pods), rounds=None), replace(seen(*pods), spent=None)):
        assert REPLICATES.allocate(asked) == Halving(PopulationConfig()).allocate(asked)


def test_one_lucky_training_is_believed_less_than_six() -> None:
    assert over_seeds([[3.0], [5.0]]) == pytest.approx([3, 5])  # their variance is unknown
    steady = [88.0, 90, 92, 90, 90, 90]
    found = over_seeds([[92.0], steady, [0.0], [10.0], [60.0, 100.0]])
    assert found[0] < 91
    assert found[1] == pytest.approx(90, abs=1)
    assert found[1] > found[4]


def test_a_configuration_is_worth_the_mean_of_trainings_that_are_done() -> None:
    pods = pod("p0", 8, ROUNDS), pod("p1", 4, ROUNDS, repeats="p0"), pod("p2", 1, 1, repeats="p0")
    (found,) = configurations(seen(*pods))
    assert (found.first, found.trained, found.mean) == ("p0", 2, 6.0)
    assert [each.pod for each in found.going] == ["p2"]


def played(merges: int) -> tuple[Rules, Board]:
    """A run of 8 pods with a budget of 10 whole trainings; pod number k of the first plays k."""
    stop = StopConfig(rounds=ROUNDS, env_steps=10 * ROUNDS * STEPS)
    game = rules(8, stop=stop, controls=0)
    population = replace(game.config.population, allocator="replicates")
    game = Rules.of(replace(game.config, population=population), game.algorithms)
    board, rng, now = first_board(game, 0.0), Random(4), 0.0
    for _ in range(merges):
        now += 60.0
        waiting = [o for o in orders(board) if o.pod not in resting_pods(board)][:2]
        if board.phase != "running":
            break
        done = []
        for order in waiting:
            first = board.pods[order.pod].repeats or order.pod
            level = 10 * int(first[1:]) + rng.gauss(0, 1)
            done.append(report(order, (level, level), trained_steps=STEPS))
        board = fold(board, done, game, now=now)
    return game, board


def test_a_run_spends_its_budget_on_seeds_of_the_best() -> None:
    _, board = played(100)
    again = [each for each in board.pods.values() if each.repeats is not None]
    assert {each.repeats for each in again} <= {"p0006", "p0007", "p0008"}
    assert len(again) >= 2
    for each in again:
        first = board.pods[each.repeats or ""]
        assert each.hyperparameters == first.hyperparameters
        assert each.seed != first.seed
        assert (each.cause, each.parent) == ("fresh", None)
    assert board.stop_reason == "env_steps"
    assert Board.from_document(board.document()) == board


def test_an_impossible_training_again_is_refused() -> None:
    known = seen(pod("p0", 1), pod("p1", 2))
    assert refusal(Allocation(again={"p0": "p7"}), known) == (
        "it has 'p7' trained again, or replaced, which is no living pod"
    )
