"""Tables of a run for a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hpcpod.cli.parser import main
from hpcpod.run.forecast import Forecast
from hpcpod.run.leaderboard import ranking, rows
from hpcpod.run.run import open_run
from hpcpod.run.tables import LONG_UNCOMPARED, leaderboard_table, progress_lines, visible
from hpcpod.tournament.settle import ranked
from hpcpod.tournament.statistics import mean


def test_a_row_of_the_leaderboard_is_one_line_of_80_columns(finished_run: Path) -> None:
    board = open_run(finished_run).board()
    long = replace(board.entries[0], algorithm="my_pkg.agents:MyOwnAgent", mean=-1234.5)
    board = replace(board, entries=(long, *board.entries[1:]), winner=long.pod)
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        console.print(leaderboard_table(board))
    _title, head, _rule, *rest = capture.get().splitlines()
    rows, below = rest[: len(board.entries)], rest[len(board.entries) :]
    assert " ".join(" ".join(below).split()) == ranking(board)
    assert [row.split()[1] for row in rows] == [entry.pod for entry in board.entries]
    assert head.rstrip().endswith("fate")
    assert rows[0].rstrip().endswith("winner")
    assert "…" in rows[0]


def test_it_is_said_by_what_a_leaderboard_ranks(finished_run: Path) -> None:
    board = open_run(finished_run).board()
    first, second = board.entries[:2]
    first = replace(first, mean=9.0, estimate=5.0)  # lucky once
    second = replace(second, mean=8.0, estimate=6.0)
    board = replace(board, entries=ranked([first, second]))
    assert [(row.mean, row.estimate) for row in rows(board)] == [(8.0, 6.0), (9.0, 5.0)]
    said = ranking(board)
    assert said.startswith("Ranked by an estimate of the mean return: that of the panel in the row")
    assert f"the choice among {board.rounds} evaluations." in said
    assert said.endswith(" The winner is so by fresh episodes.")
    assert "winner" not in ranking(replace(board, winner=None))
    assert ranking(replace(board, entries=())) == "Nobody ranks yet: no round was reported."
    assert "winner" not in ranking(replace(board, confirmed=()))  # stopped at once: the first row


def test_what_others_have_written_does_not_steer_the_terminal_and_can_be_shown() -> None:
    assert visible("a\x1b[2J\x9b\ud800\tb\n").encode() == "a\ufffd[2J\ufffd\ufffd\tb\n".encode()


def test_a_target_that_cannot_be_shown_is_said_with_one_that_can(finished_run: Path) -> None:
    status = replace(open_run(finished_run).status(), state="running", target=500.0, showable=497.2)
    said = "\n".join(progress_lines(status))
    assert "not at the target of 500: returns that are hardly above it can't show" in said
    assert "497.2 could be shown" in said
    near = replace(status, target=1.0, showable=0.987)  # no rounding up to the target
    assert "0.987 could be shown" in "\n".join(progress_lines(near))


def test_the_end_is_a_range_while_little_is_known_and_then_a_time(finished_run: Path) -> None:
    status = replace(open_run(finished_run).status(), state="running")

    def said(*forecast: Any, **changes: Any) -> str:
        return "\n".join(progress_lines(replace(status, forecast=Forecast(*forecast), **changes)))

    assert "ends in 3 to 6 min (stop.rounds)" in said("rounds", 240, 180, 360)
    assert "ends in about 4 min (stop.env_steps)" in said("env_steps", 240, 210, 260)
    assert "ends at the latest in about 4 min (stop.minutes)" in said("minutes", 240, 230, 250)
    assert "ends in about 9 s (finals)" in said("rounds", 9, 8, 10, state="finals")
    assert "slot b has no order" in said("rounds", 9, 8, 10, idling="slot b has no order")


def test_a_run_in_its_finals_waits_for_no_target(finished_run: Path) -> None:
    status = replace(open_run(finished_run).status(), state="running", target=500.0)
    assert "at the target of 500" in "\n".join(progress_lines(status))
    assert "target" not in "\n".join(progress_lines(replace(status, state="finals")))


def test_rounds_without_a_comparison_by_hand(finished_run: Path) -> None:
    run = open_run(finished_run)
    board = run.board()
    for rounds, compared, expected in ((50, 12, 38), (50, 0, 50), (50, 50, 0)):
        now = run.status(replace(board, rounds=rounds, compared=compared))
        assert now.uncompared == expected


def test_pods_that_were_not_compared_for_long_are_said(finished_run: Path) -> None:
    status = replace(open_run(finished_run).status(), state="running", pods=4)
    silent, said = (
        "\n".join(progress_lines(replace(status, uncompared=LONG_UNCOMPARED * 4 + more)))
        for more in (0, 1)
    )
    assert "compared" not in silent
    assert f"no pod was compared with others in the last {LONG_UNCOMPARED * 4 + 1} rounds" in said


def test_leaderboard_shows_rows_and_lineage(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", str(finished_run)]) == 0
    said = capsys.readouterr().out
    assert " winner" in said
    assert ranking(open_run(finished_run).board()) in " ".join(said.split())
    assert "lineage of p0" in said
    assert main(["leaderboard", str(finished_run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["winner"] == found["lineage"][-1]["id"]
    # As in the table, intervals allow for the choice among all evaluations.
    board = open_run(finished_run).board()
    first, row = board.entries[0], found["entries"][0]
    assert row["candidates"] == board.rounds > 1
    assert row["low"] < first.low and row["high"] >= first.high
    assert row["last"] == mean(board.pods[first.pod].history[-1].returns)
