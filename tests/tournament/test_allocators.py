"""Allocators: numbers by hand, the null, and what may not be decided."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.schema import PopulationConfig, StopConfig
from hpcpod.records.records import Board, Decision, Order, PodState, Verdict
from hpcpod.tournament.allocation import (
    Allocation,
    Candidate,
    Point,
    Prospects,
    carried_out,
    prospects,
    refusal,
)
from hpcpod.tournament.allocators.auto import Auto
from hpcpod.tournament.allocators.curves import Constants, Curves, forecast, kernel, predict
from hpcpod.tournament.allocators.halving import Halving
from hpcpod.tournament.allocators.ocba import Ocba, ratios
from hpcpod.tournament.allocators.thompson import Thompson
from hpcpod.tournament.budget import stage_count
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators.gentle_truncation import GentleTruncation
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.rulings import Rulings
from hpcpod.tournament.stopping import limit_met
from tests.tournament.world import report, rules

POPULATION = PopulationConfig()
STEPS = 20_000


def pod(name: str, *means: float, error: float = 1.0, **fields: object) -> Candidate:
    """A candidate with a panel's mean after each of its rounds, each with the same error."""
    if not means:
        return Candidate(name, "ppo", ())
    noise = np.random.default_rng([ord(letter) for letter in name]).standard_normal(16)
    noise = (noise - noise.mean()) / noise.std(ddof=1) * error * 4  # of 16 episodes
    curve = [
        Point(float(STEPS * r), r, tuple((mean + noise).tolist()))
        for r, mean in enumerate(means, start=1)
    ]
    found = Candidate(name, "ppo", tuple(curve), curve[-1].returns, means[-1])
    return replace(found, **fields)  # type: ignore[arg-type]


def seen(*pods: Candidate, spent: float | None = 0.0, **fields: object) -> Prospects:
    """Prospects of these pods."""
    left = None if spent is None else 1e6 * (1 - spent)
    found = Prospects(tuple(pods), "env_steps", spent, left, None, len(pods), key=1)
    return replace(found, **fields)  # type: ignore[arg-type]


EIGHT = [pod(f"p{score}", score - 20, score - 10, score) for score in range(8)]
"""Pods p0 to p7 with the scores 0 to 7 after three rounds; all of them gain."""


@pytest.mark.parametrize(("pods", "stages"), [(1, 1), (2, 2), (8, 4), (9, 5), (16, 5)])
def test_halving_has_a_stage_more_than_halvings(pods: int, stages: int) -> None:
    assert stage_count(pods) == stages


@pytest.mark.parametrize(("spent", "kept"), [(0.0, 8), (0.24, 8), (0.26, 4), (0.6, 2), (1, 1)])
def test_each_quarter_of_the_budget_trains_half_as_many_of_eight(spent: float, kept: int) -> None:
    found = Halving(POPULATION).allocate(seen(*EIGHT, spent=spent))
    assert set(found.order) == {f"p{score}" for score in range(8 - kept, 8)}
    assert set(found.resting) == {f"p{score}" for score in range(8 - kept)}


def test_one_that_rested_comes_back_when_those_before_it_collapse() -> None:
    fallen = pod("p7", 7, 7, 7, 7, 7, -50)
    found = Halving(POPULATION).allocate(seen(*EIGHT[:7], fallen, spent=0.9))
    assert found.order == ("p6",)


def test_protected_pods_and_new_ones_train() -> None:
    control, new = replace(EIGHT[0], protected=True), pod("new")
    born = pod("born", -9.0)
    found = Halving(POPULATION).allocate(seen(control, *EIGHT[1:], new, born, spent=0.9))
    assert found.order[0] == "new"
    assert set(found.order) == {"p0", "p7", "new", "born"}


def test_by_default_pods_rest_where_a_budget_is_limited_and_slots_are_few() -> None:
    auto, halving = Auto(POPULATION), Halving(POPULATION)
    few = seen(*EIGHT, spent=0.9)
    assert auto.allocate(few) == halving.allocate(few)
    assert auto.allocate(replace(few, slots=7)) == halving.allocate(few)
    assert auto.allocate(replace(few, slots=8)) == Allocation()  # idle slots would win nothing
    timed = replace(few, axis="seconds", slots=8)
    assert auto.allocate(timed) == halving.allocate(timed)
    assert auto.allocate(seen(*EIGHT, spent=None, rounds=16)) == Allocation()


@pytest.mark.parametrize(
    ("launcher", "slots", "known"), [("local", None, None), ("local", 3, 3), ("slurm", None, 8)]
)
def test_slots_that_are_asked_for(launcher: str, slots: int | None, known: int | None) -> None:
    config = replace(rules(8).config, cluster=ClusterConfig(launcher=launcher, slots=slots))
    assert prospects(first_board(rules(8), 0.0), config, 0.0).slots == known


def test_ocba_s_ratios_by_hand() -> None:
    # means 10, 8, 6, each with a variance of 4, independent: of the differences 8. N2 / N3 =
    # (8 / 2^2) / (8 / 4^2) = 4, N1 = 2 sqrt((2^2 + 0.5^2) / 4) = 2.0616
    found = ratios(np.array([10.0, 8, 6]), np.eye(3) * 4, np.zeros(3))
    assert found == pytest.approx(np.array([2.0616, 2, 0.5]) / 4.5616, rel=1e-4)


def test_common_seeds_take_rounds_from_those_that_are_told_apart() -> None:
    alone = ratios(np.array([10.0, 8, 6]), np.eye(3) * 4, np.zeros(3))
    common = np.array([[4.0, 0, 3.9], [0, 4, 0], [3.9, 0, 4]])
    assert ratios(np.array([10.0, 8, 6]), common, np.zeros(3))[2] < alone[2] / 3


def test_ocba_rests_those_that_are_far_behind() -> None:
    found = Ocba(POPULATION).allocate(seen(*[pod(f"p{s}", s) for s in (0, 1, 99, 100)]))
    assert set(found.resting) == {"p0", "p1"}
    assert set(found.order) == {"p99", "p100"}


def test_thompson_trains_a_pod_as_often_as_it_may_be_the_best() -> None:
    pods = [pod("a", 0.0), pod("b", 0.0), pod("c", -1.5)]
    thompson = Thompson(POPULATION)
    first = Counter(thompson.allocate(seen(*pods, key=key)).order[0] for key in range(300))
    assert first["a"] == pytest.approx(first["b"], abs=60)
    assert 5 < first["c"] < min(first["a"], first["b"])


def test_who_is_out_of_contention_rests() -> None:
    found = Thompson(POPULATION).allocate(seen(*[pod(f"p{s}", s) for s in (0, 50, 100)]))
    assert found.order == ("p100",)
    assert set(found.resting) == {"p0", "p50"}


def test_a_curve_s_forecast_is_the_normal_one() -> None:
    """The conditional distribution of a normal vector, by its whole covariance matrix."""
    constants = Constants(*np.array([[1.0], [0.7], [0.5], [0.1]]))
    x, y, errors = np.array([0.1, 0.5, 1.0]), np.array([-1.0, 0.2, 0.6]), np.full(3, 0.3)
    points = np.append(x, 3.0)
    whole = kernel(points, points, constants)[0] + np.diag([*(errors**2), 0.0]) + np.eye(4) * 0.01
    inverse = np.linalg.inv(whole)  # of a normal vector: variance 1 / P_44, mean -P_4i y_i / P_44
    mean, sd = predict(x, y, errors, 3.0, np.zeros(1), constants)
    assert sd[0] ** 2 == pytest.approx(1 / inverse[3, 3])
    assert mean[0] == pytest.approx(-(inverse[3, :3] @ y) / inverse[3, 3])


@pytest.mark.long
@pytest.mark.parametrize("between", [10.0, 30.0])
def test_forecasts_hold_the_end_of_curves_that_approach_their_asymptotes(between: float) -> None:
    rng, held, runs = np.random.default_rng(3), 0, 60
    for _ in range(runs):
        ends, pods = [], []
        for place in range(8):
            ceiling, rate = rng.normal(60, between), rng.uniform(0.05, 0.3)
            curve = [ceiling * (1 - np.exp(-rate * r)) + rng.normal(0, 2) for r in range(1, 9)]
            pods.append(pod(f"p{place}", *curve, error=2.0))
            ends.append(ceiling * (1 - np.exp(-rate * 24)))
        means, errors = forecast(pods, seen(*pods, left=16.0 * STEPS))
        held += int((abs(means - np.array(ends)) < 1.96 * errors).sum())
    assert held / runs / 8 > 0.85


def test_curves_believe_in_one_that_still_grows() -> None:
    done = pod("done", 40, 50, 52, 52.5, 52.5, 52.5, error=0.5)
    grows = pod("grows", 5, 13, 21, 29, 37, 45, error=0.5)
    behind = pod("behind", 2, 3, 3.5, 3.5, 3.5, 3.5, error=0.5)
    found = Curves(POPULATION).allocate(seen(done, grows, behind))
    assert "grows" in found.order
    assert "behind" in found.resting


@pytest.mark.long
@pytest.mark.parametrize("allocator", [Halving, Ocba, Thompson, Curves])
def test_equal_pods_train_equally_often(allocator: type[Thompson]) -> None:
    rng, trained = np.random.default_rng(1), Counter[str]()
    for key in range(100):
        # all have learnt as much: before any has, halving goes by what they have spent
        pods = [pod(f"p{i}", -50.0, *rng.normal(0, 1, 2)) for i in range(4)]
        trained.update(allocator(POPULATION).allocate(seen(*pods, spent=0.7, key=key)).order[:1])
    assert sum(trained.values()) == 100
    # 25 each are expected, with a standard deviation of 4.3
    assert all(12 <= trained[f"p{i}"] <= 38 for i in range(4))


@pytest.mark.parametrize("allocator", [Ocba, Thompson, Curves])
def test_pods_whose_every_episode_returns_the_same_all_train(allocator: type[Thompson]) -> None:
    flat = [pod(f"p{i}", *[-200.0] * (4 - i), error=0.0) for i in range(4)]
    found = allocator(POPULATION).allocate(seen(*flat, spent=0.7))
    assert sorted(found.order) == ["p0", "p1", "p2", "p3"] and not found.resting
    if allocator is Thompson:  # what is known of their future differs, for the others
        assert found.order == ("p3", "p2", "p1", "p0")


def budgeted(
    allocator: str, *, minutes: float | None = None, steps: int | None = None, pods: int = 8
) -> Rules:
    game = rules(pods, stop=StopConfig(minutes=minutes, env_steps=steps), controls=1)
    config = replace(game.config, population=replace(game.config.population, allocator=allocator))
    return Rules.of(config, game.algorithms)


def played(game: Rules, merges: int, slots: int = 2, gain: float = 0.0) -> Board:
    """The last of ``boards``."""
    return deque(boards(game, merges, slots, gain), maxlen=1)[0]


def boards(game: Rules, merges: int, slots: int = 2, gain: float = 0.0) -> Iterator[Board]:
    """The board after each of some merges of ``slots`` rounds; pod number k plays around 10 k, and
    all from the eighth on around 80; each round brings a ``gain``."""
    board, rng, now = first_board(game, 0.0), Random(4), 0.0

    def score(order: Order) -> float:
        return 10 * min(8, int(order.pod[1:])) + gain * order.round

    for _ in range(merges):
        now += 60.0
        waiting = [o for o in orders(board) if o.pod not in resting_pods(board)][:slots]
        done = [
            report(order, [score(order) + rng.gauss(0, 1) for _ in range(16)]) for order in waiting
        ]
        board = fold(
            board,
            [replace(each, trained_steps=STEPS, wall_seconds=60.0) for each in done],
            game,
            now=now,
        )
        yield board


def test_a_budget_of_steps_is_spent_on_the_best() -> None:
    board = played(budgeted("halving", steps=64 * STEPS), 30, gain=2.0)
    training = {pod.id for pod in board.living} - resting_pods(board)
    assert len(training) <= 2
    assert board.entries[0].pod in training
    assert board.entries[0].round > 10  # of 60 rounds by 8 pods


def test_a_control_that_was_shown_to_be_worse_ends_its_privilege() -> None:
    game = budgeted("halving", steps=64 * STEPS)
    board = played(game, 14)
    control = board.pods["p0001"]  # plays the worst
    assert control.control and control.fate == "replaced"
    # none gains, and no pod that rests would be ahead: a fresh draw came
    assert board.pods["p0009"].replaces == "p0001" and board.pods["p0009"].cause == "fresh"


def test_in_a_budget_of_minutes_no_pod_rests_while_a_slot_is_free() -> None:
    board = played(budgeted("halving", minutes=60), 40)
    assert resting_pods(board) == frozenset()
    first = [order.pod for order in orders(board)][:2]
    assert board.entries[0].pod in first


def test_in_a_budget_of_minutes_who_rests_is_recorded_when_that_changes() -> None:
    recorded: dict[str, Decision] = {}
    for board in boards(budgeted("halving", minutes=60), 40, gain=2.0):
        recorded |= board.decisions
        reasons: dict[str, str] = {}
        for _, each in sorted(recorded.items()):
            if each.kind == "rest":
                assert reasons.setdefault(each.pod, each.outcome) is each.outcome
            elif each.kind == "train":
                del reasons[each.pod]
        rests = {pod.id: pod.rests for pod in board.living if pod.rests}
        assert rests == {k: why for k, why in reasons.items() if board.pods[k].fate == "alive"}
    told = ("stage ", "no pod has learnt anything yet")
    assert len(rests) > 3 and all(why.startswith(told) for why in rests.values())


def test_where_the_budget_is_in_seconds_who_rests_trains_last() -> None:
    game = rules(4, stop=StopConfig(rounds=9, minutes=60))
    found = Allocation(("p0003",), {"p0001": "it is slow"})
    timed, stepped = (
        carried_out(first_board(game, 0.0), found, "seconds"),
        carried_out(first_board(game, 0.0), found, "env_steps"),
    )
    assert [order.pod for order in orders(timed)] == ["p0003", "p0002", "p0004", "p0001"]
    assert timed.pods["p0001"].rests == stepped.pods["p0001"].rests == "it is slow"
    assert not resting_pods(timed) and resting_pods(stepped) == {"p0001"}
    for board, limit in ((timed, None), (stepped, "rounds")):
        done = {k: replace(pod, birth=None) for k, pod in board.pods.items() if k != "p0001"}
        ended = replace(board, pods={**board.pods, **done})
        assert limit_met(ended, game.config, 1.0) == limit


class Childless(GentleTruncation):
    """A generator that makes no copies: with fair shares each pod trains all its rounds."""

    def challenge(self, cohorts: Cohorts, pod: PodState, verdict: Verdict, key: int) -> None:
        return None


@pytest.mark.parametrize("allocator", ["fair", "halving", "thompson", "ocba", "curves"])
def test_where_rounds_end_a_run_pods_that_fall_behind_save_theirs(allocator: str) -> None:
    game = rules(8, stop=StopConfig(rounds=8))
    population = replace(game.config.population, allocator=allocator)
    game = Rules.of(replace(game.config, population=population), game.algorithms)
    game = replace(game, generator=Childless(population))
    for board in boards(game, 40):
        if board.phase != "running":
            break
    assert (board.stop_reason, board.entries[0].pod) == ("rounds", "p0008")
    assert board.pods["p0008"].history[-1].round == 8
    assert (board.rounds == 64) if allocator == "fair" else (board.rounds < 48)


def test_where_rounds_end_a_run_pods_that_are_done_are_rivals() -> None:
    ended = tuple(pod(f"d{s}", s, s, s, s) for s in (50, 60, 70, 80))
    late = [pod("late", 1, 1)]
    for rule in (Halving(POPULATION), Thompson(POPULATION), Ocba(POPULATION), Curves(POPULATION)):
        alone = seen(*late, spent=None, rounds=4, done=ended)
        found = rule.allocate(alone)
        assert (set(found.resting), found.order) == ({"late"}, ())
        assert refusal(found, alone) == ""
        # where a budget is left somebody spends it
        left = replace(alone, spent=0.9, left=1e5)
        assert rule.allocate(left).resting == {}
        assert refusal(found, left) == "it leaves every pod without a round"


def test_a_fair_run_has_no_turns() -> None:
    board = played(budgeted("fair", steps=64 * STEPS), 10)
    assert (board.turns, resting_pods(board)) == ((), frozenset())


class Starving:
    """An allocator that trains nobody."""

    def allocate(self, prospects: Prospects) -> Allocation:
        return Allocation(resting={each.pod: "no" for each in prospects.candidates})


class Scoring:
    """An allocator whose reasons are numbers."""

    def allocate(self, prospects: Prospects) -> Allocation:
        last = prospects.scored[-1]
        return Allocation(resting={last.pod: last.score})  # type: ignore[dict-item]


class Raising:
    """An allocator that is broken."""

    def allocate(self, prospects: Prospects) -> Allocation:
        raise KeyError("p0009")


@pytest.mark.parametrize("allocator", [Starving(), Scoring(), Raising()])
def test_what_can_t_be_carried_out_is_refused(
    allocator: Starving, caplog: pytest.LogCaptureFixture
) -> None:
    game = budgeted("halving", steps=64 * STEPS)
    board = played(game, 25)
    assert resting_pods(board)
    with caplog.at_level(logging.WARNING):
        after = Rulings(replace(game, allocator=allocator), board, 60.0).allocated(board)
    assert resting_pods(after)
    usual = replace(game, allocator=Auto(game.config.population))
    assert after == Rulings(usual, board, 60.0).allocated(board)
    assert "population.allocator: its decision is refused" in caplog.text
