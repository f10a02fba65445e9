"""Halving where the best have stopped gaining, and the first share of each pod."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.schema import PodsConfig, StopConfig
from hpcpod.records.records import Checkpoint, Evaluation
from hpcpod.tournament.allocation import Allocation, Candidate, Prospects, prospects, refusal
from hpcpod.tournament.allocators.halving import Halving, gain, gaining
from hpcpod.tournament.budget import (
    due,
    first_share,
    later_share,
    slots_at_work,
    young,
)
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from tests.tournament.test_allocators import POPULATION, STEPS, budgeted, pod, seen
from tests.tournament.world import play_round, report, rules

WHY = ("the best have stopped gaining", "no pod has learnt anything yet")
IDLE = [pod(f"idle{n}", 5.0, 5.0, 5.0, 5.0) for n in range(4)]
SLOW = [pod(f"slow{n}", -40.0, -40.0) for n in range(4)]
"""Each has had its share, and stands still."""


@pytest.mark.parametrize(
    ("stop", "slots", "pods", "share", "later"),
    [  # 8 pods pass through 4 stages, 16 through 5, 4 through 3
        (StopConfig(env_steps=640_000), None, 8, 640_000 / 4 / 8, 20_000.0),
        (StopConfig(env_steps=640_000), 4, 16, 640_000 / 5 / 16, 20_000.0),
        (StopConfig(env_steps=640_000), 4, 4, 640_000 / 3 / 4, 640_000 / 3 / 4),
        (StopConfig(minutes=40), 4, 8, 4 * 40 * 60 / 4 / 8, 300.0),
        (StopConfig(minutes=40), 4, 32, 4 * 40 * 60 / 6 / 32, 300.0),
        (StopConfig(minutes=40), None, 8, 40 * 60 / 4 / 8, 75.0),
        # a 32nd of 64 slots' time is 2 hours of one: a quarter of the run is enough
        (StopConfig(minutes=60), 64, 64, 3600 / 7, 900.0),
        (StopConfig(rounds=10), 4, 8, 0.0, 0.0),
    ],
)
def test_founders_have_equal_parts_of_the_first_stage_and_later_draws_a_32nd(
    stop: StopConfig, slots: int | None, pods: int, share: float, later: float
) -> None:
    config = replace(rules(pods, stop=stop).config, cluster=ClusterConfig(slots=slots))
    assert (first_share(config), later_share(config)) == pytest.approx((share, later))


def test_founders_have_the_share_unless_a_target_may_end_the_run_long_before() -> None:
    def shares(stop: StopConfig) -> set[float]:
        return {pod.share for pod in first_board(rules(8, stop=stop), 0.0).pods.values()}

    assert shares(StopConfig(env_steps=640_000)) == {20_000.0}
    assert shares(StopConfig(env_steps=640_000, target=1.0)) == {0.0}


def test_no_copy_takes_the_place_of_a_pod_before_its_share() -> None:
    # a share is 300 s of 8 pods in 4 stages of 160 minutes of a slot
    game = rules(8, stop=StopConfig(minutes=160), controls=0)
    board, replaced = replace(first_board(game, 0.0), began=0.0), []
    for turn in range(1, 9):
        board = play_round(
            board, game, lambda order: float(order.pod[1:]), now=500.0 * turn, seconds=60.0
        )
        replaced += [turn for pod in board.pods.values() if pod.born == 8 * turn]
    assert min(replaced) == 5
    cohorts = Cohorts(board, game.config, game.algorithms)
    [last, *_] = sorted(board.living, key=lambda pod: pod.cost)
    assert not cohorts.spare(replace(last, share=last.cost + 1))
    assert cohorts.spare(replace(last, share=last.cost))


@pytest.mark.parametrize(
    ("stop", "share", "last"),
    [  # of 8 pods, a quarter of the whole by each limit; a round has 20,000 steps and 60 s
        (StopConfig(minutes=10**4, rounds=12), 18_750.0, 3),
        (StopConfig(minutes=10**4, env_steps=2_560_000), 18_750.0, 4),
        (StopConfig(minutes=160), 300.0, 5),
        (StopConfig(env_steps=10**9, rounds=8), 31_250_000.0, 2),
    ],
)
def test_a_share_is_over_by_the_limit_that_ends_the_run(
    stop: StopConfig, share: float, last: int
) -> None:
    config = replace(rules(8, stop=stop).config, cluster=ClusterConfig(slots=1))
    assert config.round.env_steps == 20_000 and first_share(config) == share
    seen = [Evaluation(n, (0.0, 1.0), Checkpoint("c", 1), cost=60.0 * n) for n in range(1, 9)]
    assert next(each.round for each in seen if not young(each, share, config)) == last
    assert young(None, share, config) and not young(None, 0.0, config)


def test_slots_at_work_are_counted_by_their_seconds() -> None:
    game = rules(4, stop=StopConfig(minutes=160), controls=0)
    board, counts = first_board(game, 0.0), []
    board = replace(board, began=0.0)
    for minute in range(1, 5):  # two slots: a pair of rounds of 60 s in each minute
        for order in orders(board)[:2]:
            board = fold(
                board, [report(order, [1.0, 2.0], wall_seconds=60.0)], game, now=60.0 * minute
            )
        counts.append(slots_at_work(board, game.config, 60.0 * minute))
    # 60 s of the last round of each are in hand on average by half: 480 / (240 - 30)
    assert counts == [None, 240 / 90, 360 / 150, 480 / 210]
    asked = replace(game.config, cluster=ClusterConfig(slots=3))
    assert slots_at_work(first_board(game, 0.0), asked, 60.0) == 3
    assert slots_at_work(board, asked, 240.0) == 480 / 210
    assert prospects(board, game.config, 240.0).slots == 2
    assert prospects(board, asked, 240.0).slots == 3
    pair = replace(game.config.population, pods=PodsConfig(min=1, max=2))
    assert prospects(board, replace(game.config, population=pair), 240.0).slots == 1


def test_a_share_is_of_the_seconds_that_slots_have_which_are_at_work() -> None:
    config = replace(rules(8, stop=StopConfig(minutes=160)).config, cluster=ClusterConfig(slots=8))
    share = first_share(config)
    assert share == 2400.0 and due(share, config, 2.0) == 600.0
    had = Evaluation(1, (0.0, 1.0), Checkpoint("c", 1), cost=601.0)
    assert young(had, share, config) and not young(had, share, config, 2.0)
    unasked = replace(config, cluster=ClusterConfig())
    assert due(first_share(unasked), unasked, 8.0) == share
    # of 16 slots a later draw has a quarter of the run's length, not a 32nd of all seconds
    assert due(later_share(unasked, 16.0), unasked, 16.0) == max(160 * 60 / 4, 16 * 300.0)


def test_minutes_as_a_precaution_do_not_keep_pods_from_being_copied() -> None:
    for minutes in (None, 10_000):
        game = rules(8, stop=StopConfig(minutes=minutes, rounds=12), controls=0)
        board = first_board(game, 0.0)
        for merge in range(1, 9):
            board = play_round(
                board, game, lambda order: float(order.pod[1:]), now=60.0 * merge, seconds=60.0
            )
        assert any(pod.cause == "copy" for pod in board.pods.values())


def test_the_gain_is_that_of_the_second_half() -> None:
    found = gain(pod("p", 0.0, 10.0, 12.0, 13.0, error=3.0))
    assert found == pytest.approx((13 - 10, np.hypot(3, 3)))
    assert gain(pod("p", 0.0, 10.0, 12.0))[0] == 12  # round 1 of 3 is the last in the first half
    assert gain(pod("p", 1.0))[0] == np.inf


@pytest.mark.long
def test_where_nothing_gains_any_is_said_to_in_a_sixth_of_cases() -> None:
    rng = np.random.default_rng(0)
    for pods in (1, 4, 16):
        said = 0
        for _ in range(1000):
            panels = rng.normal(0, 1, (pods, 4))
            said += bool(gaining([pod(f"p{n}", *panel) for n, panel in enumerate(panels)]))
        assert said == pytest.approx(160, abs=40)  # the standard error is 12


def test_a_gain_that_is_small_beside_the_task_s_returns_is_none() -> None:
    # 4 of the 1000 between the worst return and the best score, with an error of 0.14
    pods = [pod(f"p{n}", -8.0, -4.0, -2.0, 0.0, error=0.1) for n in range(4)]
    found = seen(*pods, *SLOW, spent=0.3, counted=1)
    assert not Halving(POPULATION).allocate(found).fresh
    assert not Halving(POPULATION).allocate(replace(found, worst=-500.0)).fresh
    assert list(Halving(POPULATION).allocate(replace(found, worst=-1000.0)).fresh) == ["slow3"]


def test_one_strange_episode_does_not_make_all_gains_small() -> None:
    pods = [pod(f"p{n}", -8.0, -4.0, -2.0, 0.0, error=0.1) for n in range(4)]
    found = seen(*pods, *SLOW, spent=0.3, counted=1, worst=-1e6)
    # ten times as far as the lowest median: of 80 returns 4 are something, of 1,000 they are not
    assert not Halving(POPULATION).allocate(replace(found, floor=-8.0)).fresh
    assert list(Halving(POPULATION).allocate(replace(found, floor=-100.0)).fresh) == ["slow3"]
    board = first_board(rules(4), 0.0)
    for lowest in (0.0, 7.0):  # of the second round no panel is as low
        panels = {"p0001": (1.0, -1e6, lowest, 2.0), "p0002": (9.0, lowest, lowest, 9.0)}
        done = [report(order, panels.get(order.pod, (9.0,) * 4)) for order in orders(board)]
        board = fold(board, done, rules(4), now=1.0)
    assert (board.worst, board.floor) == (-1e6, 0.5)  # of -1e6, 0, 1 and 2
    assert prospects(board, rules(4).config, 1.0).floor == 0.5


def stuck(*more: Candidate, **fields: object) -> Prospects:
    """Prospects in the second stage: the best four of eight stand still."""
    return seen(*IDLE, *SLOW[len(more) :], *more, spent=0.3, pods=8, **fields)


def test_where_the_best_stand_still_a_fresh_draw_takes_the_worst_place() -> None:
    found = Halving(POPULATION).allocate(stuck())
    assert list(found.fresh) == ["slow3"]
    assert "slow3" not in found.resting and len(found.resting) == 3
    several = Halving(POPULATION).allocate(stuck(slots=6))
    assert sorted(several.fresh) == ["slow1", "slow2", "slow3"]  # half of the slots
    gains = [pod(f"idle{n}", 0.0, 0.0, 5.0, 50.0) for n in range(4)]
    assert not Halving(POPULATION).allocate(seen(*gains, *SLOW, spent=0.3)).fresh


def test_one_that_rests_and_would_be_ahead_in_the_end_trains_instead() -> None:
    # 10 more in 20,000 steps; half of the 700,000 that are left would give it 175 more
    found = Halving(POPULATION).allocate(stuck(pod("rises", -40.0, -30.0), counted=1))
    assert found.order[0] == "rises" and not found.fresh
    late = seen(*IDLE, *SLOW[1:], pod("rises", -40.0, -30.0), spent=0.95, left=40_000.0)
    assert "rises" in Halving(POPULATION).allocate(late).resting


def test_a_single_slot_takes_turns_between_them_and_the_best() -> None:
    new = pod("new", -60.0, share=4.0 * STEPS)
    turns = [
        Halving(POPULATION).allocate(stuck(new, slots=1, counted=counted)).order[0]
        for counted in range(10, 15)
    ]
    assert turns == ["new", "new", "idle0", "new", "new"]
    # it has not had its share: no other draw comes
    assert not Halving(POPULATION).allocate(stuck(new, slots=1)).fresh


@pytest.mark.parametrize(
    ("dearer", "turns"),
    [  # costs of a period: 6 x 0.5 to 1, 2 x 1.5 to 1, 6 to 2 and 12 to 4, each three to one
        (0.5, "nnnnnnb"), (1.5, "nnbnnbn"), (6.0, "bbnbbnb"), (12.0, "bbbbnbb"),
    ],
)  # fmt: skip
def test_the_turns_of_a_single_slot_are_by_what_a_round_costs(dearer: float, turns: str) -> None:
    dear = pod("new", -60.0, algorithm="sac", share=1e9)
    dear = replace(dear, curve=(replace(dear.curve[0], spent=dearer * STEPS),))
    found = [
        Halving(POPULATION).allocate(stuck(dear, slots=1, counted=counted)).order[0]
        for counted in range(1, 8)
    ]
    assert "".join("n" if pod == "new" else "b" for pod in found) == turns


def test_no_draw_is_begun_that_the_budget_has_no_room_for() -> None:
    few = replace(seen(*IDLE, *SLOW, spent=0.9), share=float(STEPS), slots=6)
    for left, drawn in ((3.0 * STEPS, 3), (2.0 * STEPS, 2), (0.9 * STEPS, 0)):
        assert len(Halving(POPULATION).allocate(replace(few, left=left)).fresh) == drawn
    # of seconds each slot has as many
    for left, drawn in ((1.5 * STEPS, 3), (0.9 * STEPS, 0)):
        found = Halving(POPULATION).allocate(replace(few, left=left, axis="seconds"))
        assert len(found.fresh) == drawn


@pytest.mark.parametrize("pods", [8, 16])
def test_draws_have_a_32nd_of_the_budget_and_are_recorded(pods: int) -> None:
    # a founder's share is 16 rounds of 8, and 6.4 of 16
    game = budgeted("halving", pods=pods, steps=512 * STEPS)
    board, rng, told = first_board(game, 0.0), Random(3), dict[str, str]()
    for merge in range(1, 500):
        order = next(each for each in orders(board) if each.pod not in resting_pods(board))
        returns = [rng.gauss(0, 1) for _ in range(8)]  # of all pods, and for ever
        done = report(order, returns, trained_steps=STEPS, wall_seconds=60.0)
        board = fold(board, [done], game, now=60.0 * merge)
        births = (made for made in board.decisions.values() if made.kind == "birth")
        told |= {made.pod: made.outcome for made in births if any(w in made.outcome for w in WHY)}
    drawn = [pod for pod in board.pods.values() if pod.replaces and pod.cause == "fresh"]
    assert len(drawn) > 4 and {pod.share / STEPS for pod in drawn} == {16.0}
    assert all(pod.evidence.startswith(WHY) for pod in drawn)
    assert list(told) == [pod.id for pod in drawn]
    assert all(said.startswith("ppo, new, in place of") for said in told.values())


def test_a_leader_s_place_is_not_given_to_a_draw() -> None:
    led = stuck()
    leading = replace(led, candidates=tuple(replace(e, protected=True) for e in led.candidates))
    wrong = Allocation(order=("idle0",), fresh={"slow3": "no"})
    assert refusal(wrong, leading) == (
        "it leaves slow3 without a round, which leads or is a control"
    )
    assert refusal(replace(wrong, fresh={"p9": "no"}), led).startswith("it has 'p9' trained again")
    assert refusal(wrong, led) == ""
