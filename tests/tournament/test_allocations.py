"""Allocations that can't be carried out, pods that end by one, and halving by rungs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.records.records import Board, Decision
from hpcpod.tournament.allocation import Allocation, Prospects, prospects, refusal
from hpcpod.tournament.allocators.auto import Auto
from hpcpod.tournament.allocators.halving import Halving
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.priorities import resting_pods
from hpcpod.tournament.rulings import Rulings
from tests.tournament.test_allocators import (
    EIGHT,
    POPULATION,
    STEPS,
    Raising,
    boards,
    budgeted,
    played,
    pod,
    seen,
)
from tests.tournament.world import failed


def test_without_a_budget_the_better_half_goes_on_at_each_rung() -> None:
    # at rung 2 the better half of p0..p7 goes on: p4..p7; two of them have four rounds
    high = [pod(f"p{s}", s, s, s, s) for s in (6, 7)]
    found = Halving(POPULATION).allocate(seen(*EIGHT[:6], *high, spent=None, rounds=16))
    assert set(found.order) == {"p7", "p5", "p4"}  # at rung 4 one of p6, p7


def test_a_copy_that_remembers_no_rung_is_not_compared_there() -> None:
    """Its parent was dead, and only the best evaluation of that was kept."""
    late = pod("late", 0.0, 0.0, 0.0, -5.0)
    late = replace(late, curve=late.curve[3:])
    pods = [late, *(pod(f"p{i}", float(i), float(i)) for i in range(4))]
    found = Halving(POPULATION).allocate(seen(*pods, spent=None, rounds=16))
    assert set(found.order) == {"late", "p2", "p3"}  # of four at rung 1 and at rung 2


def test_where_pods_cross_between_rungs_the_best_goes_on() -> None:
    ahead = [pod("a", 3.0, 1.0), pod("b", 2.0, 0.0)]  # at rung 1
    behind = [pod("c", 1.0, 3.0), pod("d", 0.0, 2.0)]  # and at rung 2 these are
    crossed = seen(*ahead, *behind, spent=None, rounds=16)
    found = Halving(POPULATION).allocate(crossed)
    assert (found.order, refusal(found, crossed)) == (("c",), "")
    ended = replace(crossed, done=(pod("e", *[9.0] * 16),))  # with it the run may end
    assert Halving(POPULATION).allocate(ended).order == ()


def test_refusals() -> None:
    known = seen(replace(EIGHT[0], protected=True), EIGHT[1])
    assert refusal(Allocation(("p9",)), known) == (
        "it names 'p9', which is no pod that has a round to train"
    )
    assert refusal(Allocation(resting={"p0": "no"}), known) == (
        "it leaves p0 without a round, which leads or is a control"
    )
    assert refusal(Allocation(resting={"p1": "no"}), known) == ""
    assert refusal(Allocation(resting={"p1": ""}), known) == (
        "it leaves p1 without a round, and gives no reason"
    )
    assert refusal(None, known) == "it gives a NoneType, not an Allocation"
    cut = Allocation(given_up={"p1": "no"})
    assert refusal(cut, known) == "it gives up p1 before any pod has finished a round"
    assert refusal(cut, replace(known, counted=1)) == ""


def test_a_pod_that_is_given_up_before_any_round_is_done_does_not_end_the_run() -> None:
    class Cutting:
        def allocate(self, prospects: Prospects) -> Allocation:
            return Allocation(given_up={"p0003": "no"})

    game = budgeted("fair", steps=64 * STEPS)
    board = first_board(game, 0.0)
    # a round that has failed is merged before any other has ended
    done = [failed(order) for order in orders(board) if order.pod == "p0002"]
    after = fold(board, done, replace(game, allocator=Cutting()), now=1.0)
    assert (after.phase, len(after.living)) == ("running", 8)
    (refused,) = after.decisions.values()
    assert refused.kind == "refusal"


def test_a_pod_that_is_given_up_ends() -> None:
    class Cutting:
        def allocate(self, prospects: Prospects) -> Allocation:
            return Allocation(given_up={prospects.scored[-1].pod: "the last"})

    game = budgeted("fair", steps=64 * STEPS)
    board = played(game, 12)
    last = prospects(board, game.config, 0.0).scored[-1].pod
    after = Rulings(replace(game, allocator=Cutting()), board, 0.0).allocated(board)
    ended = after.pods[last]
    assert (ended.fate, ended.fate_reason, ended.birth) == ("given up", "the last", None)
    assert len(after.living) == 7
    assert Board.from_document(after.document()) == after


class Late(Auto):
    """An allocator that breaks in the second half of a budget."""

    def allocate(self, prospects: Prospects) -> Allocation:
        if (prospects.spent or 0.0) > 0.5:
            raise KeyError("p0009")
        return super().allocate(prospects)


def test_one_that_breaks_late_in_a_budget_does_not_wake_the_resting() -> None:
    game = budgeted("tests.tournament.test_allocations:Late", steps=64 * STEPS)
    usual, decided = replace(game, allocator=Auto(POPULATION)), list[Decision]()
    both = zip(boards(game, 30, gain=2.0), boards(usual, 30, gain=2.0), strict=True)
    for found, expected in both:
        assert replace(found, decisions={}) == replace(expected, decisions={})
        decided += found.decisions.values()
    assert len(resting_pods(found)) >= 6
    refused = [each for each in decided if each.kind == "refusal"]
    assert {each.outcome for each in refused} == {"KeyError: 'p0009'"}
    late = decided[decided.index(refused[0]) :]
    assert {each.rule for each in late if each.kind in ("rest", "train")} == {"auto"}


def test_a_default_that_decides_for_a_refused_one_ends_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = budgeted("fair", steps=64 * STEPS)
    board = played(game, 12)
    one, other = (each.pod for each in prospects(board, game.config, 0.0).scored[-2:])
    ended = Allocation(given_up={one: "worst"}, fresh={other: "idle"})
    monkeypatch.setattr(Auto, "allocate", lambda self, prospects: ended)
    after = Rulings(replace(game, allocator=Raising()), board, 0.0).allocated(board)
    assert resting_pods(after) == {one, other}
    assert [pod.id for pod in after.living] == [pod.id for pod in board.living]


def test_where_the_default_is_refused_too_every_pod_trains(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    game = budgeted("auto", steps=64 * STEPS)
    board = played(game, 25)
    assert resting_pods(board)
    monkeypatch.setattr(Auto, "allocate", Raising.allocate)
    rulings = Rulings(game, board, 60.0)
    assert resting_pods(rulings.allocated(board)) == frozenset()
    assert "the default's decision is refused, too: KeyError" in caplog.text
    assert {each.rule for each in rulings.made if each.kind == "train"} == {"fair"}
