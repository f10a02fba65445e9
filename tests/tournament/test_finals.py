"""The three sets of seeds of a final evaluation: who plays which, and what is delivered."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from hpcpod.config.schema import EnsemblesConfig, StopConfig
from hpcpod.records.records import Board, Checkpoint, Confirmed, Finals, Report, Rescore
from hpcpod.tournament.finals import opened
from hpcpod.tournament.leaderboard import first_board, fold, needed_checkpoints, orders
from hpcpod.tournament.merge import _check_names
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.statistics import chosen_interval, interval, mean, t_quantile
from hpcpod.tournament.stopping import allowed, leader
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules

PAIR = EnsemblesConfig(rules=("mean",), sizes=(2,))


def rescores(board: Board) -> list[Rescore]:
    return [order for order in orders(board) if isinstance(order, Rescore)]


def in_finals(stop: StopConfig) -> tuple[Rules, Board]:
    """Four pods whose one round is over: p0004 leads with 4, then p0003 with 3 and so on."""
    game = rules(4, stop=stop)
    return game, play_round(first_board(game, 0.0), game, by_number)


def answered(board: Board, game: Rules, score: dict[str, float], now: float = 2.0) -> Board:
    """The board when all open orders have returns of a spread of 1 around a score, by pod."""
    return fold(
        board, [report(o, flat(score[o.pod], 8)) for o in rescores(board)], game, now=now
    )  # fmt: skip


def in_confirm(ensembles: EnsemblesConfig = PAIR, finalists: int = 2) -> tuple[Rules, Board]:
    """Finals in which p0003 is the best on the select set, and p0004 the next."""
    stop = StopConfig(rounds=1, finalists=finalists, confirm_episodes=8, ensembles=ensembles)
    game, board = in_finals(stop)
    return game, answered(board, game, {"p0004": 4.0, "p0003": 5.0, "p0002": 1.0})


def of(board: Board, name: str) -> Rescore:
    return next(order for order in rescores(board) if order.id.startswith(name))


# --- select --------------------------------------------------------------------------------


def test_each_finalist_plays_one_batch_and_a_clear_best_ends_it() -> None:
    stop = StopConfig(rounds=1, finalists=3, confirm_episodes=32, ensembles=PAIR)
    game, board = in_finals(stop)
    found = rescores(board)
    assert [(o.id, o.episodes, o.set) for o in found] == [
        ("p0002-final0-1", 8, 0), ("p0003-final0-1", 8, 0), ("p0004-final0-1", 8, 0),
    ]  # fmt: skip
    board = answered(board, game, {"p0004": 4.0, "p0003": 5.0, "p0002": 1.0})
    assert board.finals.stage == "confirm"
    assert {(s.pod, s.mean, s.episodes) for s in board.confirmed} == {
        ("p0004", 4.0, 8), ("p0003", 5.0, 8), ("p0002", 1.0, 8),
    }  # fmt: skip


def test_batches_go_to_those_in_doubt_until_the_budget_is_spent() -> None:
    stop = StopConfig(rounds=1, finalists=3, confirm_episodes=32, final_episodes=56, ensembles=PAIR)
    game, board = in_finals(stop)
    random = Random(1)

    def noise(order: Rescore) -> Report:
        level = -50.0 if order.pod == "p0002" else 0.0
        return report(order, [random.gauss(level, 1.0) for _ in range(order.episodes)])

    played: list[str] = []
    while board.finals.stage == "select":
        played += [order.id for order in rescores(board)]
        board = fold(board, [noise(order) for order in rescores(board)], game, now=2.0)
    assert len(played) == 7, "56 episodes are seven batches of 8"
    assert sum(name.startswith("p0002") for name in played) == 1, "it is far behind"
    assert played[3:5] in (["p0003-final1-1", "p0004-final1-1"], ["p0004-final1-1"] * 2)
    assert board.finals.batches == tuple(range(board.finals.sets["final"]))


def test_a_program_that_gives_scores_plays_one_batch() -> None:
    # Its score may be of the same data each time: a second one adds nothing.
    single = EnsemblesConfig(rules=())
    stop = StopConfig(rounds=1, finalists=3, confirm_episodes=32, ensembles=single)
    game = rules(4, stop=stop)
    board = first_board(game, 0.0)
    error = {"score_error": 0.5}
    scores = [report(o, flat(by_number(o)), metrics=error) for o in orders(board)]
    board = fold(board, scores, game, now=1.0)
    assert len(rescores(board)) == 3 and board.finals.stage == "select"
    unclear = {"p0004": 4.0, "p0003": 4.01, "p0002": 1.0}
    random = Random(2)
    returns = {pod: [random.gauss(at, 5.0) for _ in range(8)] for pod, at in unclear.items()}
    best = max(returns, key=lambda pod: mean(returns[pod]))
    board = fold(board, [report(o, returns[o.pod]) for o in rescores(board)], game, now=2.0)
    assert [(o.id, o.purpose) for o in rescores(board)] == [(f"{best}-report0-1", "report")]


def test_a_batch_that_is_lost_or_fails_is_given_out_again_and_a_finalist_given_up() -> None:
    stop = StopConfig(rounds=1, finalists=2, confirm_episodes=8, ensembles=PAIR)
    game, board = in_finals(stop)
    board = fold(board, [], game, now=2.0, lost=["p0004-final0-1"])
    assert order_of(board, "p0004").id == "p0004-final0-2"
    board = fold(board, [failed(order_of(board, "p0003"))], game, now=2.0)
    assert order_of(board, "p0003").id == "p0003-final0-2", "max_restarts is 1: tried twice"
    board = fold(board, [failed(order_of(board, "p0003"))], game, now=2.0)
    board = answered(board, game, {"p0004": 4.0, "p0003": 5.0})
    assert board.finals.given_up == {"p0003": "it broke"}
    assert [(order.id, order.rule) for order in rescores(board)] == [("p0004-report0-1", "")]
    assert {(s.pod, s.episodes) for s in board.confirmed} == {("p0003", 0), ("p0004", 8)}


def test_after_its_minutes_a_final_evaluation_begins_nothing_but_the_report() -> None:
    stop = StopConfig(rounds=1, finalists=2, confirm_episodes=8, final_minutes=2.0, ensembles=PAIR)
    game, board = in_finals(stop)
    assert board.stopped == 1.0
    uncertain = {"p0003": (5.0, 1.0, 4.0, 3.0), "p0004": (1.0, 5.0, 3.0, 4.1)}
    reports = [report(order, uncertain[order.pod]) for order in rescores(board)]
    early = fold(board, reports, game, now=120.9)
    assert early.finals.stage == "select"
    late = fold(board, reports, game, now=121.0)
    assert [order.id for order in rescores(late)] == ["p0004-report0-1"]


# --- confirm -------------------------------------------------------------------------------


def test_the_best_single_policy_and_the_ensembles_play_the_same_seeds() -> None:
    two = EnsemblesConfig(rules=("mean", "q_weighted"), sizes=(2, 3))
    _, board = in_confirm(two, finalists=3)
    found = rescores(board)
    assert [(o.id, o.rule, [m.pod for m in o.members]) for o in found] == [
        ("p0003-candidate0-1", "", []),
        ("p0003-candidate1-1", "mean", ["p0003", "p0004"]),
        ("p0003-candidate2-1", "q_weighted", ["p0003", "p0004"]),
        ("p0003-candidate3-1", "mean", ["p0003", "p0004", "p0002"]),
        ("p0003-candidate4-1", "q_weighted", ["p0003", "p0004", "p0002"]),
    ]
    assert {order.set for order in found} == {0}
    assert needed_checkpoints(board) >= {f"core of p000{n}-00001-1" for n in (2, 3, 4)}


def test_an_ensemble_that_is_shown_better_is_delivered_and_reported() -> None:
    game, board = in_confirm()
    single, both = of(board, "p0003-candidate0"), of(board, "p0003-candidate1")
    better = (6.0, 8.0, 6.0, 8.0, 6.0, 8.0, 6.0, 9.0)
    made = Checkpoint("the ensemble", 100)
    board = fold(
        board,
        [report(single, flat(5.0, 8)), report(both, better, checkpoint=made, rule="mean")],
        game, now=3.0,
    )  # fmt: skip
    # differences: seven of 2 and one of 3, mean 2.125, sd sqrt(0.125): error 0.125
    (trial,) = board.finals.trials
    assert (trial.candidate, trial.episodes, trial.level) == (1, 8, 0.05)
    assert trial.mean == pytest.approx(2.125)
    assert trial.low == pytest.approx(2.125 - t_quantile(0.95, 7) * 0.125)
    assert board.finals.verdict == (
        "the ensemble (mean) of p0003, p0004 is shown to be better than p0003: +2.125, at least"
        " +1.888 with 0.95 certainty, on 8 common episodes"
    )
    (order,) = rescores(board)
    assert (order.id, order.rule, order.checkpoint) == ("p0003-report0-1", "mean", made)
    board = fold(board, [report(order, flat(7.0, 8), rule="mean")], game, now=4.0)
    best = leader(board)
    assert isinstance(best, Confirmed)
    assert (board.phase, board.winner) == ("finished", "p0003")
    assert (best.mean, best.checkpoint, board.confirmed[-1]) == (7.0, made, best)
    assert board.confirmed[-1].members == ("p0003", "p0004")
    assert "the ensemble" in needed_checkpoints(board)
    # of one policy, not of several: 95 % by itself
    low, high, among = allowed(board, best)
    assert (low, high) == chosen_interval(7.0, interval(flat(7.0, 8))[0], 8, 1, 0.0)
    assert among == 1


def test_an_ensemble_that_is_only_higher_is_not_delivered() -> None:
    game, board = in_confirm()
    single, both = of(board, "p0003-candidate0"), of(board, "p0003-candidate1")
    higher = (9.0, 3.0, 7.0, 4.0, 8.0, 5.0, 9.0, 4.0)  # 6.125 to 5
    board = fold(board, [report(single, flat(5.0, 8)), report(both, higher)], game, now=3.0)
    assert board.finals.trials[0].low < 0 < board.finals.trials[0].mean
    assert board.finals.verdict.startswith("no ensemble is shown to be better than p0003: the best")
    assert [(o.id, o.rule, o.members) for o in rescores(board)] == [("p0003-report0-1", "", ())]


def test_the_level_is_shared_out_among_the_ensembles() -> None:
    three = EnsemblesConfig(rules=("mean", "vote", "product"), sizes=(2,))
    game, board = in_confirm(three)
    reports = [report(o, flat(5.0 + o.number, 8), rule=o.rule) for o in rescores(board)]
    board = fold(board, reports, game, now=3.0)
    assert [trial.level for trial in board.finals.trials] == pytest.approx([0.05 / 3] * 3)
    assert board.finals.delivered == 3, "of those that are shown better the highest"


def test_members_that_do_not_fit_are_left_out_at_once_and_the_run_says_why() -> None:
    game, board = in_confirm()
    single, both = of(board, "p0003-candidate0"), of(board, "p0003-candidate1")
    misfit = failed(both, "raised", "rule mean is not for discrete actions")
    misfit = replace(misfit, rule="mean")  # as Pod reports what joined refuses
    board = fold(board, [report(single, flat(5.0, 8)), misfit], game, now=3.0)
    assert board.finals.verdict == (
        "no ensemble could be compared with p0003: rule mean is not for discrete actions"
    )
    assert [order.id for order in rescores(board)] == ["p0003-report0-1"]
    again = fold(in_confirm()[1], [failed(both, "crash")], game, now=3.0)
    assert "p0003-candidate1-2" in [order.id for order in rescores(again)], "a node's fault is not"


def test_an_ensemble_whose_simulator_raised_is_tried_again() -> None:
    game, board = in_confirm()
    single, both = of(board, "p0003-candidate0"), of(board, "p0003-candidate1")
    again = fold(board, [failed(both, "raised", "the simulator fell over")], game, now=3.0)
    assert of(again, "p0003-candidate1").attempt == 2
    reports = [report(single, flat(5.0, 8)), report(both, flat(9.0, 8), rule="mean")]
    board = fold(board, reports, game, now=3.0)
    (order,) = rescores(board)
    assert (order.id, order.rule) == ("p0003-report0-1", "mean")
    board = fold(board, [failed(order, "raised", "the simulator fell over")], game, now=4.0)
    (order,) = rescores(board)
    assert (board.phase, order.id) == ("finals", "p0003-report0-2")
    board = fold(board, [report(order, flat(7.0, 8), rule="mean")], game, now=5.0)
    best = leader(board)
    assert isinstance(best, Confirmed)
    assert (board.phase, best.purpose, best.mean) == ("finished", "report", 7.0)


def test_reports_of_a_stage_count_in_any_order_and_in_any_number_of_merges() -> None:
    game, board = in_confirm()
    reports = [report(o, flat(5.0 + 3 * o.number, 8), rule=o.rule) for o in rescores(board)]
    at_once = fold(board, reports, game, now=3.0)
    one = fold(board, reports[1:], game, now=3.0)
    in_turn = fold(one, [*reports[:1], *reports[1:]], game, now=3.0)
    assert at_once.finals == in_turn.finals
    assert Board.from_document(at_once.document()) == at_once


def test_a_user_ends_a_confirm_set_with_the_best_single_policy() -> None:
    game, board = in_confirm()
    board = fold(board, [report(of(board, "p0003-candidate1"), flat(99.0, 8))], game, now=3.0)
    board = fold(board, [], game, now=4.0, stop="user")
    best = leader(board)
    assert isinstance(best, Confirmed)
    assert (board.phase, best.pod, best.purpose, best.mean) == ("finished", "p0003", "final", 5.0)


def test_a_report_that_fails_leaves_the_confirm_set_s_score() -> None:
    game, board = in_confirm()
    reports = [report(o, flat(5.0, 8), rule=o.rule) for o in rescores(board)]
    board = fold(board, reports, game, now=3.0)
    board = fold(board, [failed(rescores(board)[0], "diverged")], game, now=4.0)
    best = leader(board)
    assert isinstance(best, Confirmed)
    assert (board.phase, best.purpose, best.number) == ("finished", "candidate", 0)
    assert allowed(board, best)[2] == 2


def test_one_finalist_goes_straight_to_the_report() -> None:
    game, board = in_finals(StopConfig(rounds=1, finalists=1))
    assert [order.id for order in rescores(board)] == ["p0004-report0-1"]
    board = answered(board, game, {"p0004": 3.0})
    best = leader(board)
    assert isinstance(best, Confirmed)
    assert (board.phase, best.purpose, best.mean) == ("finished", "report", 3.0)


def test_finals_that_an_older_version_began_are_finished_with_a_report() -> None:
    game, board = in_finals(StopConfig(rounds=1, finalists=2, ensembles=PAIR))
    old = replace(board, finals=Finals())  # it knew one set, with an order for each finalist
    old = answered(old, game, {"p0004": 4.0, "p0003": 5.0})
    assert [(s.pod, s.mean) for s in old.confirmed] == [("p0003", 5.0), ("p0004", 4.0)]
    assert [order.id for order in rescores(old)] == ["p0003-report0-1"]
    old = answered(old, game, {"p0003": 6.0})
    best = leader(old)
    assert isinstance(best, Confirmed)
    assert (old.phase, old.winner, best.purpose, best.mean) == ("finished", "p0003", "report", 6.0)


def test_a_later_end_of_the_same_run_uses_no_order_and_no_seed_again() -> None:
    stop = StopConfig(rounds=1, finalists=2, confirm_episodes=8, ensembles=PAIR)
    game, board = in_finals(stop)
    used: list[set[str]] = []
    seeds: list[set[tuple[str, int]]] = []
    for _ in range(2):
        used.append(set())
        seeds.append(set())
        while board.phase == "finals":
            used[-1] |= {order.id for order in rescores(board)}
            seeds[-1] |= {(order.purpose, order.set) for order in rescores(board)}
            board = answered(board, game, {"p0004": 4.0, "p0003": 5.0})
        board = opened(replace(board, phase="finals", confirmed=()), game.config)
    assert [len(each) for each in used] == [5, 5]
    assert not used[0] & used[1] and not seeds[0] & seeds[1]


@pytest.mark.parametrize("change", [{"delivered": 7}, {"delivered": -1}, {"first": 5}])
def test_a_board_that_names_a_candidate_that_is_not_there_is_refused(change: object) -> None:
    _, board = in_confirm()
    assert isinstance(change, dict)
    broken = replace(board, finals=replace(board.finals, **change))
    with pytest.raises(ValueError, match="names a candidate that is not there"):
        _check_names(broken)
    _check_names(board)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"returns": {"p0001": (1.0, 2.0)}}, "a finalist that is not there"),
        ({"played": {"p0001": 1}}, "a finalist that is not there"),
        ({"given_up": {"p0001": "it broke"}}, "a finalist that is not there"),
        ({"finalists": ()}, "a finalist that is not there"),
        ({"returns": {}}, "other batches than returns"),
        ({"returns": {"p0003": (1.0,)}, "played": {"p0003": 1}}, "other batches than returns"),
        ({"played": {"p0003": 9, "p0004": 1}}, "other batches than returns"),
        ({"batches": ()}, "other batches than returns"),
    ],
)
def test_a_board_whose_select_set_contradicts_itself_is_refused(
    change: dict[str, Any], wrong: str
) -> None:
    stop = StopConfig(rounds=1, finalists=2, confirm_episodes=8, ensembles=PAIR)
    game, board = in_finals(stop)
    doubt = {"p0003": (5.0, 1.0), "p0004": (1.0, 5.1)}
    board = fold(board, [report(o, doubt[o.pod]) for o in rescores(board)], game, now=2.0)
    assert board.finals.stage == "select" and set(board.finals.played) == set(doubt)
    _check_names(board)
    with pytest.raises(ValueError, match=wrong):
        _check_names(replace(board, finals=replace(board.finals, **change)))


def test_a_board_whose_confirm_set_has_one_candidate_is_refused() -> None:
    _, board = in_confirm()
    alone = replace(board.finals, candidates=board.finals.candidates[:1])
    with pytest.raises(ValueError, match="a candidate that is not there"):
        _check_names(replace(board, rescores={}, finals=alone))


# --- what the numbers are worth ------------------------------------------------------------


def whole_finals(random: Random, levels: dict[str, float], gain: float) -> Board:
    """Finals of three policies of these true means, their ensemble better by ``gain``; a seed is
    easy or hard for all of them, so that they are correlated."""
    stop = StopConfig(rounds=1, finalists=3, confirm_episodes=24, ensembles=EnsemblesConfig())
    game, board = in_finals(stop)
    easy: dict[tuple[str, int, int], float] = {}

    def play(order: Rescore) -> Report:
        level = levels[order.pod] + (gain if order.rule else 0.0)
        returns = []
        for place in range(order.episodes or 24):
            seed = easy.setdefault((order.purpose, order.set, place), random.gauss(0.0, 1.0))
            returns.append(level + seed + random.gauss(0.0, 1.0))
        return report(order, returns, rule="mean" if order.rule else "")

    while board.phase == "finals":
        board = fold(board, [play(order) for order in rescores(board)], game, now=2.0)
    return board


EQUAL = dict.fromkeys(("p0002", "p0003", "p0004"), 0.0)


@pytest.fixture(scope="module")
def equal() -> list[Board]:
    """Finals in which all candidates are equal, many times."""
    return [whole_finals(Random(seed), EQUAL, 0.0) for seed in range(300)]


@pytest.mark.long
def test_where_all_candidates_are_equal_an_ensemble_is_delivered_in_5_percent_at_most(
    equal: list[Board],
) -> None:
    delivered = sum(board.finals.delivered != 0 for board in equal) / len(equal)
    assert delivered <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / len(equal)), delivered
    better = [whole_finals(Random(seed), EQUAL, 1.5) for seed in range(30)]
    assert sum(board.finals.delivered == 1 for board in better) >= 28, "and a real gain is seen"


@pytest.mark.long
def test_the_reported_mean_is_unbiased_and_the_selecting_one_is_not(equal: list[Board]) -> None:
    rows = [[s.mean for s in board.confirmed if s.purpose == "final"] for board in equal]
    told = [board.confirmed[-1] for board in equal]
    assert {score.purpose for score in told} == {"report"}
    error = math.sqrt(2 / 24 / len(equal))  # of a mean of 24 returns of variance 2, over all runs
    assert abs(mean([score.mean for score in told])) < 3 * error
    assert mean([max(each) for each in rows]) > 6 * error
    # 95 % intervals of the reported mean hold the truth, 0, in 95 % of runs
    held = sum(score.low <= 0.0 <= score.high for score in told) / len(told)
    assert held >= 0.95 - 2 * math.sqrt(0.05 * 0.95 / len(told)), held
