"""How a run looks in a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from hpcpod.display import leaderboard_table, visible
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
