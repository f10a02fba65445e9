"""The fold: what any merge of any run keeps true."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth, Board, Report, Rescore
from hpcpod.tournament.cohorts import quotas
from hpcpod.tournament.leaderboard import (
    first_board,
    fold,
    lineage,
    needed_checkpoints,
    orders,
)
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.settle import HISTORY, rank
from tests.tournament.world import (
    Merge,
    by_number,
    failed,
    flat,
    order_of,
    play_round,
    random_run,
    report,
    rules,
)


@dataclass(frozen=True)
class Run:
    """A random run, from its seed on."""

    seed: int
    pods: int
    algorithms: tuple[str, ...]
    controls: int
    target: float | None
    scheme: Literal["tournament", "generational"]

    @property
    def rules(self) -> Rules:
        return rules(
            self.pods,
            {name: 1.0 + len(name) for name in self.algorithms},
            seed=self.seed,
            controls=self.controls,
            stop=StopConfig(target=self.target, rounds=6),
            scheme=self.scheme,
        )

    @property
    def merges(self) -> list[Merge]:
        return list(random_run(self.rules, self.seed, merges=25))


RUNS = st.builds(
    Run,
    seed=st.integers(0, 2**32),
    pods=st.integers(2, 12),
    algorithms=st.sampled_from([("ppo",), ("ppo", "dqn")]),
    controls=st.integers(0, 1),
    target=st.sampled_from([None, 40.0, 60.0]),
    scheme=st.sampled_from(["tournament", "generational"]),
)
every_run = settings(max_examples=min(40, settings().max_examples), deadline=None)


# --- the first board ---------------------------------------------------------------------


def test_the_first_slots_get_different_algorithms() -> None:
    board = first_board(rules(6, {"ppo": 1, "dqn": 1, "sac": 1}), 0.0)
    assert [order.algorithm for order in orders(board)] == ["ppo", "dqn", "sac"] * 2


def test_quotas_go_by_largest_remainder_with_at_least_one_each() -> None:
    # ideal 6.4, 1.4 and .2 of 8: the last is lifted to 1, so 6.4 -> 6
    game = rules(8, {"ppo": 32, "dqn": 7, "sac": 1})
    assert quotas(game.config.population) == {"ppo": 6, "dqn": 1, "sac": 1}
    board = first_board(game, 0.0)
    assert Counter(pod.algorithm for pod in board.living) == quotas(game.config.population)


def test_quotas_of_the_largest_shares_that_there_are() -> None:
    """Their sum is no number, and was a traceback at launch."""
    for shares in ({"ppo": 1e308, "dqn": 1e308}, {"ppo": 5e307, "dqn": 5e307}):
        population = rules(8, shares).config.population
        assert quotas(population) == {"ppo": 4, "dqn": 4}


def test_quotas_take_back_what_the_floor_gave_away() -> None:
    population = rules(4, {"a": 97, "b": 1, "c": 1, "d": 1}).config.population
    assert quotas(population) == dict.fromkeys("abcd", 1)


def test_one_control_of_each_algorithm_has_the_defaults() -> None:
    board = first_board(rules(6, {"ppo": 1, "dqn": 1}), 0.0)
    controls = [pod for pod in board.living if pod.control]
    assert [pod.id for pod in controls] == ["p0001", "p0002"]
    for pod in controls:
        # "clip" is a value in the configuration: it goes before the agent's default, 0.1
        assert pod.hyperparameters == {
            "learning_rate": 3e-4, "gamma": 0.99, "epochs": 4,
            "batch_size": 128, "width": 64, "clip": 0.2,
        }  # fmt: skip


def test_founders_differ_and_their_seeds_too() -> None:
    board = first_board(rules(8), 0.0)
    assert len({pod.seed for pod in board.living}) == 8
    assert len({pod.hyperparameters["learning_rate"] for pod in board.living}) == 8
    assert board == first_board(rules(8), 0.0)
    assert board != first_board(rules(8, seed=1), 0.0)


# --- orders ------------------------------------------------------------------------------


def test_pods_with_the_fewest_rounds_go_first() -> None:
    game = rules(4)
    board = first_board(game, 0.0)
    board = fold(board, [report(order_of(board, "p0002"))], game, now=1.0)
    assert [order.round for order in orders(board)] == [1, 1, 1, 2]
    assert orders(board)[-1].id == "p0002-00002-1"


@pytest.mark.parametrize("kind", ["diverged", "crash"])
def test_an_algorithm_that_fails_again_and_again_takes_no_more_than_its_share(kind: str) -> None:
    """Here on one slot: each new pod had cost nothing yet, and came before all others for ever."""
    game = rules(4, {"ppo": 1, "sac": 1})
    board, taken = first_board(game, 0.0), Counter[str]()
    for _ in range(100):
        order = next(each for each in orders(board) if isinstance(each, Birth))
        ends = order.algorithm == "sac" and order.round == 3
        answer = replace(failed(order, kind) if ends else report(order), wall_seconds=10.0)
        board = fold(board, [answer], game, now=1.0)
        taken[order.algorithm] += 1
    assert 50 <= taken["ppo"] <= 80  # three pods of four


def test_rescores_go_before_births() -> None:
    game = rules(4, stop=StopConfig(target=3.0))
    board = play_round(first_board(game, 0.0), game, by_number)
    assert isinstance(orders(board)[0], Rescore)


# --- the leaderboard ---------------------------------------------------------------------


def test_the_board_ranks_the_best_evaluation_of_each_pod() -> None:
    game = rules(3, controls=0)
    board = play_round(first_board(game, 0.0), game, by_number)
    assert [entry.pod for entry in board.entries] == ["p0003", "p0002", "p0001"]
    worse = report(order_of(board, "p0003"), flat(0.0))
    board = fold(board, [worse], game, now=2.0)
    assert (board.entries[0].pod, board.entries[0].round) == ("p0003", 1)
    better = report(order_of(board, "p0001"), flat(10.0))
    board = fold(board, [better], game, now=3.0)
    assert [(entry.pod, entry.round) for entry in board.entries] == [
        ("p0001", 2), ("p0003", 1), ("p0002", 1),
    ]  # fmt: skip


def test_capacity_evicts_the_worst() -> None:
    game = rules(5, capacity=2)
    board = play_round(first_board(game, 0.0), game, by_number)
    assert [entry.pod for entry in board.entries] == ["p0005", "p0004"]


# --- what every merge of every run keeps true ----------------------------------------------


@every_run
@given(RUNS)
def test_the_population_keeps_its_size_and_its_floors(run: Run) -> None:
    for merge in run.merges:
        board = merge.after
        assert len(board.living) == run.pods or board.stop_reason == "failed"
        if any(pod.trained_steps for pod in board.pods.values()):
            assert hopeful(board, run.algorithms) <= {pod.algorithm for pod in board.living}


@every_run
@given(RUNS)
def test_the_best_is_never_evicted(run: Run) -> None:
    for merge in run.merges:
        corrupt = any(r.failure_kind == "corrupt" for r in merge.reports)
        if merge.before.entries and not corrupt:
            assert merge.before.entries[0].pod in {entry.pod for entry in merge.after.entries}
            first = merge.after.entries[0]
            for pod in merge.after.pods.values():
                assert pod.best is None or rank(pod.best) <= (first.estimate, first.mean)


@every_run
@given(RUNS)
def test_any_permutation_of_the_reports_gives_the_same_board(run: Run) -> None:
    for number, merge in enumerate(run.merges, start=1):
        shuffled = list(merge.reports)
        Random(run.seed + number).shuffle(shuffled)
        again = fold(merge.before, shuffled, run.rules, now=float(number), lost=merge.lost[::-1])
        assert again == merge.after


@every_run
@given(RUNS)
def test_folding_the_same_reports_again_changes_nothing(run: Run) -> None:
    seen: list[Report] = []
    for number, merge in enumerate(run.merges, start=1):
        seen += merge.reports
        again = fold(merge.after, seen, run.rules, now=float(number), lost=merge.lost)
        assert again == merge.after
        assert fold(merge.after, [], run.rules, now=float(number)) == merge.after


@every_run
@given(RUNS)
def test_copies_cross_no_family_copy_no_self_and_spare_controls(run: Run) -> None:
    merges = run.merges
    last = merges[-1].after
    founders = merges[0].before.pods
    for pod in last.pods.values():
        if pod.control and pod.id in founders:
            assert pod.hyperparameters == founders[pod.id].hyperparameters
        assert not (pod.control and pod.fate == "replaced")
        if pod.cause == "copy":
            assert pod.parent is not None
            parent = last.pods[pod.parent]
            assert parent.family == pod.family
            assert pod.parent != pod.id
            # one that has failed, or fallen with all others, may go back to its own best round
            back = parent.fate == "failed" or "all are behind" in pod.evidence
            assert pod.parent != pod.replaces or back
            assert not pod.control
            assert pod.mutated
            differing = [
                name for name in pod.hyperparameters
                if pod.hyperparameters[name] != parent.hyperparameters[name]
            ]  # fmt: skip
            assert sorted(pod.mutated) == sorted(differing)


@every_run
@given(RUNS)
def test_no_order_is_ever_given_out_under_a_name_that_was_answered(run: Run) -> None:
    answered: set[str] = set()
    for merge in run.merges:
        open_ids = [order.id for order in orders(merge.before)]
        assert len(open_ids) == len(set(open_ids))
        assert not answered & set(open_ids)
        answered |= {r.order for r in merge.reports} | set(merge.lost)


@pytest.mark.long
@every_run
@given(RUNS)
def test_boards_stay_small_and_survive_json(run: Run) -> None:
    for merge in run.merges:
        board = merge.after
        text = json.dumps(board.document(), allow_nan=False)
        assert Board.from_document(json.loads(text)) == board
        entered = {entry.pod for entry in board.entries}
        for pod in board.pods.values():
            assert len(pod.history) <= HISTORY
            if pod.fate != "alive":
                assert (pod.history, pod.birth) == ((), None)
                assert pod.best is None or pod.id in entered


@every_run
@given(RUNS)
def test_what_an_order_starts_from_is_never_pruned(run: Run) -> None:
    for merge in run.merges:
        needed = needed_checkpoints(merge.after)
        for order in orders(merge.after):
            if order.checkpoint is not None:
                assert order.checkpoint.core in needed
        assert {entry.checkpoint.core for entry in merge.after.entries} <= needed


def test_merging_one_by_one_or_at_once_counts_the_same_reports() -> None:
    game = rules(8)
    board = first_board(game, 0.0)
    reports = [report(order, flat(by_number(order))) for order in orders(board)]
    at_once = fold(board, reports, game, now=1.0)
    for each in reports:
        board = fold(board, [each], game, now=1.0)
        board = fold(board, [each], game, now=1.0)
    # the first round is a warm-up: nobody is judged, so even the boards are equal
    assert board == at_once


def hopeful(board: Board, algorithms: tuple[str, ...]) -> set[str]:
    """Algorithms of which some pod has finished a round."""
    trained = {pod.algorithm for pod in board.pods.values() if pod.trained_steps > 0}
    return trained & set(algorithms)


# --- genealogy -----------------------------------------------------------------------------


def test_a_lineage_goes_from_the_founder_to_the_pod() -> None:
    game = rules(8)
    board = first_board(game, 0.0)
    for _ in range(8):
        board = play_round(board, game, by_number)
    grandchild = max(board.living, key=lambda pod: len(lineage(board, pod.id)))
    line = lineage(board, grandchild.id)
    assert len(line) > 2
    assert line[0].cause == "fresh"
    assert line[-1] == grandchild
    assert [pod.parent for pod in line[1:]] == [pod.id for pod in line[:-1]]


def test_a_finished_run_changes_no_more() -> None:
    game = rules(2)
    board = first_board(game, 0.0)
    ended = fold(board, [], game, now=5.0, stop="user")
    assert (ended.phase, ended.stop_reason, ended.stopped, ended.winner) == (
        "finished", "user", 5.0, None,
    )  # fmt: skip
    assert orders(ended) == []
    assert fold(ended, [report(orders(board)[0])], game, now=6.0, stop="user") is ended


@pytest.mark.parametrize("now", [0.0, 1e9])
def test_time_alone_changes_nothing_without_a_limit(now: float) -> None:
    game = rules(4)
    board = play_round(first_board(game, 0.0), game, by_number)
    assert fold(board, [], game, now=now) == board
