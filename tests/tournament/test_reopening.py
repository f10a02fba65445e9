"""A finished run that is extended: the fold goes on from its end, and decides nothing anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import (
    Birth,
    Board,
    Document,
    Extension,
    Finals,
    PodState,
    Rescore,
)
from hpcpod.tournament.barrier import deadline
from hpcpod.tournament.leaderboard import begin, fold, needed_checkpoints, orders
from hpcpod.tournament.reopening import reopened
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.stopping import leader, limit_met
from tests.tournament.test_stopping import play
from tests.tournament.world import by_number, flat, order_of, play_round, report, rules


def extended(game: Rules, board: Board, **limits: Any) -> tuple[Rules, Board]:
    """The rules and the board after an extension at second 1,000."""
    stop = replace(game.config.stop, **limits)
    before = {name: getattr(game.config.stop, name) for name in limits}
    config = replace(game.config, stop=stop)
    extension = Extension(len(board.endings) + 1, 1000.0, limits, before)
    return replace(game, config=config), reopened(board, config, extension)


def scored(board: Board, game: Rules, now: float = 20.0) -> Board:
    """The board once its finalists have their scores."""
    while finals := fresh(board):
        found = [report(order, flat(by_number(order))) for order in finals]
        board = fold(board, found, game, now=now)
    return board


def fresh(board: Board) -> list[Rescore]:
    return [order for order in orders(board) if isinstance(order, Rescore)]


def finished(stop: StopConfig, rounds: int = 2) -> tuple[Rules, Board]:
    game = rules(4, stop=stop)
    return game, scored(play(game, rounds), game)


def births(board: Board) -> dict[str, Birth]:
    return {pod.id: pod.birth for pod in board.living if pod.birth is not None}


def test_an_extended_run_gives_out_the_orders_that_its_end_took_back() -> None:
    game, board = finished(StopConfig(env_steps=800))
    assert (board.phase, board.stop_reason, births(board)) == ("finished", "env_steps", {})
    _, after = extended(game, board, env_steps=1600)
    assert (after.phase, after.stop_reason, after.winner, after.stopped) == (
        "running", None, None, None,
    )  # fmt: skip
    assert len(births(after)) == 4
    for name, birth in births(after).items():
        back = board.pods[name].withdrawn
        assert back is not None and birth.begins == 0.5  # 800 of 1,600 steps
        assert birth == replace(back, attempt=2, begins=birth.begins, ends=birth.ends)


def test_what_was_decided_stays_as_it_was() -> None:
    game, board = finished(StopConfig(env_steps=800))
    _, after = extended(game, board, env_steps=1600)
    assert after.entries == board.entries
    for name in ("env_steps", "rounds", "reports", "decisions", "worst", "next_pod", "began"):
        assert getattr(after, name) == getattr(board, name), name

    def decided(pod: PodState) -> PodState:
        return replace(pod, birth=None, withdrawn=None)

    assert {n: decided(p) for n, p in after.pods.items()} == {
        n: decided(p) for n, p in board.pods.items()
    }
    (ending,) = after.endings
    assert (ending.reason, ending.winner, ending.env_steps, ending.rounds) == (
        "env_steps", "p0004", 800, 8,
    )  # fmt: skip
    assert ending.confirmed == board.confirmed
    document: Document = after.document()
    assert Board.from_document(document) == after


def test_an_extended_run_ends_again_on_other_seeds_and_by_new_scores() -> None:
    game, board = finished(StopConfig(env_steps=800, finalists=1))
    game, board = extended(game, board, env_steps=1600)
    assert leader(board) == board.entries[0]
    board = play_round(play_round(board, game, by_number), game, by_number)
    (order,) = fresh(board)
    earlier = [(score.purpose, score.number) for score in board.endings[0].confirmed]
    assert earlier and (order.purpose, order.number) not in earlier
    board = scored(board, game, now=2000.0)
    assert (board.phase, board.stop_reason, board.env_steps) == ("finished", "env_steps", 1600)
    (score,) = board.confirmed
    assert (score.purpose, score.number) == (order.purpose, order.number)
    assert leader(board) == score


def test_an_old_run_that_is_extended_does_not_take_its_old_scores_for_new_ones() -> None:
    """An older version scored each finalist once, on set 0 of 128 seeds, and counted no sets."""
    game, board = finished(StopConfig(env_steps=800, finalists=2))
    old = replace(board, finals=Finals())
    game, board = extended(game, old, env_steps=1600)
    board = play_round(play_round(board, game, by_number), game, by_number)
    orders_now = fresh(board)
    assert {order.purpose for order in orders_now} == {"final"} and len(orders_now) == 2
    assert not {"p0004-final0-1", "p0003-final0-1"} & {order.id for order in orders_now}
    assert {order.set for order in orders_now} == {1}


def test_pods_that_have_trained_all_their_rounds_train_on() -> None:
    game, board = finished(StopConfig(rounds=2))
    assert board.stop_reason == "rounds"
    _, after = extended(game, board, rounds=5)
    assert {birth.round for birth in births(after).values()} == {3}
    assert len(births(after)) == len(after.living) == 4


def test_a_slot_of_before_the_extension_answers_no_order() -> None:
    game = rules(4, stop=StopConfig(env_steps=400))
    stale = report(order_of(play(rules(4), 1), "p0001"), flat(99.0))
    board = scored(play(game, 1), game)
    game, board = extended(game, board, env_steps=4000)
    assert stale.round == births(board)["p0001"].round
    assert fold(board, [stale], game, now=1001.0) == board


def test_a_run_keeps_the_checkpoints_that_an_extension_needs() -> None:
    game, board = finished(StopConfig(env_steps=800))
    child = board.pods["p0001"]
    assert child.withdrawn is not None
    start = replace(child.withdrawn, checkpoint=replace(
        board.pods["p0004"].history[-1].checkpoint, core="a parent's, whose row is gone"
    ), inherited=True)  # fmt: skip
    board = replace(board, pods={**board.pods, "p0001": replace(child, withdrawn=start)})
    assert "a parent's, whose row is gone" in needed_checkpoints(board)
    birth = births(extended(game, board, env_steps=1600)[1])["p0001"]
    assert (birth.inherited, birth.checkpoint) == (True, start.checkpoint)


def test_time_between_the_end_and_the_next_slot_costs_no_minutes() -> None:
    game = rules(4, stop=StopConfig(minutes=1.0))
    board = play_round(begin(play(game, 0), 100.0), game, by_number, now=130.0)
    board = scored(fold(board, [], game, now=160.0), game, now=165.0)  # 60 s after it began
    assert (board.stop_reason, board.stopped) == ("minutes", 160.0)
    game, board = extended(game, board, minutes=2.0)
    assert board.elapsed(9000.0) == 60.0  # still none at work
    board = begin(board, 10_000.0)
    assert (board.began, board.elapsed(10_030.0)) == (100.0, 90.0)
    assert limit_met(board, game.config, 10_059.0) is None
    assert limit_met(board, game.config, 10_060.0) == "minutes"


def test_a_barrier_does_not_wait_for_the_time_between_the_end_and_the_next_slot() -> None:
    game = rules(4, stop=StopConfig(minutes=1.0), scheme="generational")
    board = begin(play(game, 0), 100.0)
    board = scored(fold(board, [], game, now=160.0), game, now=165.0)
    game, board = extended(game, board, minutes=5.0)
    board = begin(board, 10_000.0)  # a day later, or so
    three = [report(order, flat(1.0)) for order in orders(board)[:3]]
    board = fold(board, three, game, now=10_040.0)  # a quorum, 100 s after the first slot began
    assert deadline(board, game.config) == 10_040.0 + 0.25 * 100.0


@pytest.mark.parametrize(("target", "kept"), [(None, 1), (6.0, 0)])
def test_a_checkpoint_that_failed_a_target_is_tried_again_only_at_another(
    target: float | None, kept: int
) -> None:
    game = rules(4, stop=StopConfig(target=3.5, rounds=1))
    board = play(game, 1)
    (order,) = (order for order in orders(board) if isinstance(order, Rescore))
    board = fold(board, [report(order, flat(0.0))], game, now=1.0)  # fails its target
    board = scored(board, game)
    assert [s.purpose for s in board.confirmed].count("confirm") == 1
    limits: dict[str, Any] = {"rounds": 2} if target is None else {"rounds": 2, "target": target}
    _, after = extended(game, board, **limits)
    assert len(after.confirmed) == kept
    assert after.attempts == board.attempts == 1  # the next one spends less, in either case


def test_a_raised_target_is_not_taken_for_reached() -> None:
    game = rules(4, stop=StopConfig(target=3.0))
    board = play(game, 1)
    board = fold(board, [report(orders(board)[0], (3.9,) * 128)], game, now=7.0)
    assert board.stop_reason == "target"
    game, board = extended(game, board, target=50.0)
    board = play_round(board, game, by_number)
    assert (board.phase, board.stop_reason) == ("running", None)


def test_a_run_of_a_version_that_kept_no_orders_goes_on_from_its_last_rounds() -> None:
    game, board = finished(StopConfig(env_steps=800))
    pods = {name: replace(pod, withdrawn=None) for name, pod in board.pods.items()}
    pods["p0001"] = replace(pods["p0001"], history=(), best=None, cause="copy", parent="p0004")
    pods["p0003"] = replace(pods["p0003"], history=(), best=None)
    _, after = extended(game, replace(board, pods=pods), env_steps=1600)
    assert after.pods["p0001"].fate == "given up"
    found = {name: (birth.round, birth.checkpoint is None) for name, birth in births(after).items()}
    assert found == {"p0003": (1, True), "p0004": (3, False)}


def test_a_run_whose_end_was_damaged_goes_on_by_the_larger_limits() -> None:
    game = rules(4, stop=StopConfig(env_steps=800))
    board = play(game, 1)
    _, after = extended(game, board, env_steps=1600)
    assert (after.phase, births(after)) == ("running", births(board))
    assert [ending.reason for ending in after.endings] == [None]
