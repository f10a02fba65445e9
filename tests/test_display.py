"""How a run looks in a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from hpcpod.display import LONG_UNCOMPARED, leaderboard_table, progress_lines, visible
from hpcpod.results import open_run


def test_a_row_of_the_leaderboard_is_one_line_of_80_columns(finished_run: Path) -> None:
    board = open_run(finished_run).board()
    long = replace(board.entries[0], algorithm="my_pkg.agents:MyOwnAgent", mean=-1234.5)
    board = replace(board, entries=(long, *board.entries[1:]), winner=long.pod)
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        console.print(leaderboard_table(board))
    _title, head, _rule, *rows = capture.get().splitlines()
    assert len(rows) == len(board.entries)
    assert [row.split()[1] for row in rows] == [entry.pod for entry in board.entries]
    assert head.rstrip().endswith("fate")
    assert rows[0].rstrip().endswith("winner")
    assert "…" in rows[0]


def test_what_others_have_written_does_not_steer_the_terminal_and_can_be_shown() -> None:
    assert visible("a\x1b[2J\x9b\ud800\tb\n").encode() == "a\ufffd[2J\ufffd\ufffd\tb\n".encode()


def test_a_target_that_cannot_be_shown_is_said_with_one_that_can(finished_run: Path) -> None:
    status = replace(open_run(finished_run).status(), state="running", target=500.0, showable=497.2)
    said = "\n".join(progress_lines(status))
    assert "not at the target of 500: returns that are hardly above it can't show" in said
    assert "497.2 could be shown" in said
    near = replace(status, target=1.0, showable=0.987)  # no rounding up to the target
    assert "0.987 could be shown" in "\n".join(progress_lines(near))


def test_pods_that_were_not_compared_for_long_are_said(finished_run: Path) -> None:
    status = replace(open_run(finished_run).status(), state="running", pods=4)
    silent, said = (
        "\n".join(progress_lines(replace(status, uncompared=LONG_UNCOMPARED * 4 + more)))
        for more in (0, 1)
    )
    assert "compared" not in silent
    assert f"no pod was compared with others in the last {LONG_UNCOMPARED * 4 + 1} rounds" in said
