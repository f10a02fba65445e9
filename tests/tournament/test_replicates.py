"""Replicates: the best configurations are trained again with other seeds, within the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from hpcpod.config.schema import PopulationConfig, StopConfig
from hpcpod.records.records import Board
from hpcpod.tournament.allocation import Allocation, Candidate, Point, Prospects, refusal
from hpcpod.tournament.allocators.halving import Halving
from hpcpod.tournament.allocators.replicates import (
    MOST,
    Replicates,
    _room,
    configurations,
    ending,
    ladder,
    over_seeds,
)
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


def test_rungs_halve_the_configurations_and_double_their_seeds() -> None:
    assert list(islice(ladder(96), 8)) == [
        (24, 1), (12, 2), (6, 4), (3, 6),
        (48, 1), (24, 2), (12, 4), (6, 6),
    ]  # fmt: skip
    assert list(islice(ladder(8), 4)) == [(2, 1), (2, 2), (2, 4), (2, 6)]  # one has no rival
    for places in (1, 2, 5, 96):
        assert list(ladder(places))[-1] == (places, MOST)


def test_half_of_the_budget_trains_all_as_much() -> None:
    pods = pod("p0", 1, 3), pod("p1", 9, 1), pod("p2", 3, 2), pod("p3", 9, ROUNDS)
    found = REPLICATES.allocate(seen(*pods, spent=0.49))
    assert (found.order, found.resting, found.again) == (("p1", "p2", "p0"), {}, {})
    assert REPLICATES.allocate(seen(*pods, spent=0.5)).order == ("p1",)


def test_screened_before_half_of_the_budget_the_best_have_other_seeds() -> None:
    best, other = pod("p3", 9, ROUNDS), pod("p2", 3, ROUNDS)
    found = REPLICATES.allocate(seen(best, other, pod("p0", 1, ROUNDS), spent=0.3))
    assert found.again == {"p0": "p3"}  # p2 is next, and is no place itself
    again = pod("p4", 0, 1, repeats="p3")
    found = REPLICATES.allocate(seen(best, other, again, spent=0.3, left=10.0))
    assert found.order == ("p4",)


def test_the_best_quarter_is_trained_to_the_end() -> None:
    pods = [pod(f"p{place}", place) for place in range(12)]
    found = REPLICATES.allocate(seen(*pods, spent=0.5, left=100.0))
    assert (set(found.order), found.again) == ({"p9", "p10", "p11"}, {})
    assert found.resting["p8"] == "3 of 12 are trained to the end; it is number 4"
    assert refusal(found, seen(*pods)) == ""


def test_one_that_ended_though_it_was_to_rest_takes_no_place_of_the_best() -> None:
    """Its last round was under way when the others were chosen."""
    pods = [pod(f"p{place}", place) for place in range(5)]
    stray = pod("p5", -9, ROUNDS)
    found = REPLICATES.allocate(seen(*pods, stray, spent=0.5, left=100.0))
    assert (set(found.order), found.again) == ({"p3", "p4"}, {})
    # one that was chosen, and is behind the others now, counts
    fallen = pod("p5", 2.5, ROUNDS)
    found = REPLICATES.allocate(seen(*pods, fallen, spent=0.5, left=100.0))
    assert (set(found.order), found.again) == ({"p4"}, {})


def test_the_best_that_are_done_are_trained_again_in_places_of_the_worst_that_rest() -> None:
    pods = (
        pod("p0", 1, rests=True), pod("p1", 0), pod("p2", 0, rests=True), pod("p3", 9, ROUNDS),
        pod("p4", 8, ROUNDS),
    )  # fmt: skip
    found = REPLICATES.allocate(seen(*pods))
    assert found.again == {"p2": "p3", "p0": "p4"}  # p1 is worse, but may be in a slot's hands
    assert set(found.resting) == {"p1"}
    assert refusal(found, seen(*pods)) == ""


def test_a_replicate_in_training_is_not_doubled() -> None:
    two = pod("p1", 8, ROUNDS), pod("p2", 8, ROUNDS, repeats="p1")
    again = pod("p4", -5, 1, repeats="p3")
    found = REPLICATES.allocate(seen(pod("p0", 1), pod("p3", 9, ROUNDS), again, *two))
    assert (found.again, found.order) == ({}, ("p4",))
    born = Candidate("p4", "ppo", (), repeats="p3")  # nothing is known of it yet
    found = REPLICATES.allocate(seen(pod("p0", 1), pod("p3", 9, ROUNDS), born, *two))
    assert (found.again, found.order) == ({}, ("p4",))


def test_all_seeds_of_a_rung_begin_together() -> None:
    best = [pod(f"p{i}", 9, ROUNDS, repeats="p0" if i else "") for i in range(2)]
    rival = [pod(f"q{i}", 7, ROUNDS, repeats="q0" if i else "") for i in range(4)]
    found = REPLICATES.allocate(seen(*best, *rival, pod("r0", 1, 4), pod("r1", 0), pod("r2", 0)))
    assert list(found.again.values()) == ["p0", "p0"]  # four, as q0 has them


def test_no_training_begins_that_the_budget_has_no_room_for() -> None:
    pods = pod("p0", 1), pod("p1", 0), pod("p2", 3, ROUNDS), pod("p3", 9, ROUNDS)
    assert REPLICATES.allocate(seen(*pods, left=3.9)).again == {}
    assert REPLICATES.allocate(seen(*pods, left=3.9)).order == ("p0", "p1")  # what is left is used
    assert REPLICATES.allocate(seen(*pods, left=4.0)).again == {"p1": "p3"}


def test_by_seconds_no_more_trainings_begin_than_the_slots_can_end() -> None:
    going, done = pod("p0", 1, 1), pod("p3", 9, ROUNDS)

    def room(left: float, slots: int, *kept: str) -> int:
        return _room(replace(seen(going, done, left=left), axis="seconds", slots=slots), {*kept})

    assert [room(3.9, 1), room(4.0, 1), room(7.9, 1), room(8.0, 1)] == [0, 1, 1, 2]
    assert [room(3.9, 2), room(4.0, 2), room(4.0, 4)] == [0, 2, 4]
    # what is kept has three rounds of four to train
    assert [room(4.0, 1, "p0"), room(7.0, 1, "p0"), room(4.0, 2, "p0")] == [0, 1, 1]


def test_configurations_with_enough_trainings_leave_the_budget_to_others() -> None:
    best = [pod(f"p{i}", 9, ROUNDS, repeats="p0" if i else "") for i in range(MOST)]
    rival = [pod(f"q{i}", 7, ROUNDS, repeats="q0" if i else "") for i in range(MOST)]
    found = REPLICATES.allocate(
        seen(*best, *rival, pod("p7", 5, ROUNDS), pod("p8", 4, ROUNDS), left=4.0)
    )
    assert found.again == {"p8": "p7"}


def test_a_rung_is_for_those_that_are_on_the_rung_before() -> None:
    two = [pod(f"{name}{i}", 6, ROUNDS, repeats=f"{name}0" if i else "")
           for name in "pq" for i in range(2)]  # fmt: skip
    lucky = pod("r0", 9, ROUNDS)  # by one training, and the rung of two is full
    others = [pod(f"s{i}", i) for i in range(4)]
    found = REPLICATES.allocate(seen(*two, lucky, *others, left=20.0))
    assert sorted(found.again.values()) == ["p0", "p0", "q0", "q0"]


def test_where_all_are_done_the_worst_of_them_gives_its_place() -> None:
    leads = pod("p3", 9, ROUNDS, protected=True)
    found = REPLICATES.allocate(seen(pod("p0", 1, ROUNDS), pod("p1", 0, ROUNDS), leads, left=4.0))
    assert found.again == {"p1": "p3"}


def test_a_training_counts_by_the_second_half_of_its_scores_and_five_at_most() -> None:
    def trained(*scores: float) -> Candidate:
        curve = tuple(Point(float(r), r, (s, s)) for r, s in enumerate(scores, start=1))
        return Candidate("p0", "ppo", curve, (), 0.0)

    assert ending(trained(7)) == 7
    assert ending(trained(100, 1, 3)) == 2
    assert ending(trained(100, 100, 1, 3)) == 2
    assert ending(trained(*[100] * 7, 1, 2, 3, 4, 5)) == 3


def test_without_an_end_of_training_it_is_halving() -> None:
    pods = [pod(f"p{score}", score) for score in range(8)]
    for asked in (replace(seen(*pods), rounds=None), replace(seen(*pods), spent=None)):
        assert REPLICATES.allocate(asked) == Halving(PopulationConfig()).allocate(asked)


def test_one_lucky_training_is_believed_less_than_six() -> None:
    means, errors = zip(*over_seeds([[3.0], [5.0]]), strict=True)
    assert means == pytest.approx((3, 5))  # their variance is unknown
    assert errors == (None, None)
    steady = [88.0, 90, 92, 90, 90, 90]
    found = over_seeds([[92.0], steady, [0.0], [10.0], [60.0, 100.0]])
    assert found[0][0] < 91
    assert found[1][0] == pytest.approx(90, abs=1)
    assert found[1][0] > found[4][0]


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
