"""Curves of a population, by numbers worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from hpcpod.run.score_curves import MOST_POINTS, Curves, sparkline
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import BoardReader, read_board
from tests.support.watched import made, played


def test_a_sparkline_has_eight_levels_and_blanks() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0, None, 8.0, math.nan]) == "▁ █ "
    assert sparkline([5.0, 5.0]) == "▄▄"
    assert sparkline([]) == ""
    assert sparkline([4.0], [0.0, 8.0]) == "▅", "on a scale that others share"
    assert sparkline([-1e308, 1e308]) == "▁█", "a range that overflows"


def test_the_best_and_the_median_are_of_the_living_pods_by_round(tmp_path: Path) -> None:
    folder = made(tmp_path, pods=4, rounds=2)  # pods score 1, 2, 3 and 4
    curves = Curves()
    curves.add(read_board(folder))
    assert curves.rounds == 2
    assert curves.population(10) == ([4.0, 4.0], [2.5, 2.5])
    assert curves.pod("p0003", 5) == [3.0, 3.0]
    assert curves.pod("p0003", 1) == [3.0]
    assert curves.pod("p0099", 5) == []


def test_a_pod_behind_counts_with_its_last_mean(tmp_path: Path) -> None:
    board = read_board(made(tmp_path, pods=2, rounds=2))
    behind = board.pods["p0002"]
    one = behind.history[:1]
    curves = Curves()
    curves.add(replace(board, pods={**board.pods, "p0002": replace(behind, history=one)}))
    assert curves.population(2) == ([2.0, 2.0], [1.5, 1.5])


def test_what_was_seen_is_kept_when_the_board_forgets_it(tmp_path: Path) -> None:
    folder = made(tmp_path, pods=2, rounds=0)
    seen = Curves()
    for _ in range(9):
        board = played(folder)
        seen.add(board)
    late = Curves()
    late.add(board)
    assert len(seen.pod("p0001", 99)) == 9
    assert len(late.pod("p0001", 99)) == 7, "rounds 1, 2, 4 and 6 to 9"


def test_a_copy_has_the_past_of_its_parent_and_the_dead_are_forgotten(tmp_path: Path) -> None:
    folder = made(tmp_path, pods=3, rounds=0, copies=True)
    curves, seen = Curves(), set[str]()
    for _ in range(8):
        board = played(folder)
        curves.add(board)
        seen |= set(board.pods)
    copies = [pod for pod in board.living if pod.parent is not None]
    assert copies
    for pod in copies:
        rounds = pod.history[-1].round if pod.history else pod.parent_round
        assert len(curves.pod(pod.id, 99)) == rounds
    gone = seen - {pod.id for pod in board.living} - {entry.pod for entry in board.entries}
    assert all(curves.pod(name, 99) == [] for name in gone)


def test_of_many_rounds_every_other_one_is_dropped(tmp_path: Path) -> None:
    board = read_board(made(tmp_path, pods=1, rounds=1))
    pod = board.pods["p0001"]
    [last] = pod.history
    curves = Curves()
    for number in range(1, MOST_POINTS + 11):
        history = (replace(last, round=number, returns=(float(number),)),)
        curves.add(replace(board, pods={"p0001": replace(pod, history=history)}))
    kept = curves.pod("p0001", 10**6)
    assert len(kept) <= MOST_POINTS
    assert kept[0] == 1.0 and kept[-1] == MOST_POINTS + 10
    assert kept == sorted(kept)


def test_a_board_that_is_read_again_has_the_rows_that_did_not_change(tmp_path: Path) -> None:
    folder = made(tmp_path, pods=4, rounds=2, copies=True)
    reader = BoardReader(RunFolder.open(folder.path))
    first = reader.read()
    again = reader.read()
    assert again == first
    assert all(again.pods[name] is pod for name, pod in first.pods.items())
    assert first.decisions
    assert all(again.decisions[name] is kept for name, kept in first.decisions.items())
    played(folder)
    after = reader.read()
    assert after == read_board(RunFolder.open(folder.path))
    same = {name for name, pod in after.pods.items() if first.pods.get(name) is pod}
    dead = {name for name, pod in first.pods.items() if pod.fate != "alive"}
    assert same == dead, "each living pod has trained a round"
