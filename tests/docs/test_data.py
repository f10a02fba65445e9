"""The page on a run's data: its code runs, and its columns are those that tables have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.run.data import TABLES, columns_of_kind
from hpcpod.run.data_rows import RunRow
from tests.docs.pages import block, page, run_script
from tests.support.hand_played import answer, birth_of, end, merged
from tests.support.small_runs import create

PAGE = page("data.md")


def listed(name: str, text: str, columns: Mapping[str, str]) -> Iterator[str]:
    """The part of the page about one table."""
    yield from ("", f"### {name}", "", f"A row is {text}.", "", "| column | meaning |", "|---|---|")
    for column, meaning in columns.items():
        said = " ".join(meaning.split()).replace("|", "\\|")
        yield f"| `{column}` | {said} |"


def columns_text() -> str:
    """The end of the page."""
    parts = [listed(name, table.text, table.columns) for name, table in TABLES.items()]
    parts.append(listed("`hpcpod.compare`", "a run", columns_of_kind(RunRow)))
    return "\n".join(line for part in parts for line in part) + "\n"


def test_the_columns_of_all_tables_are_on_the_page() -> None:
    written = PAGE.read_text(encoding="utf-8").partition("## Tables and columns\n")[2]
    assert written == columns_text(), "write columns_text() at the end of docs/data.md"


def test_its_code_runs_beside_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = create(tmp_path / "runs", "ppo", "dqn", name="cartpole")
    for pod in ("p0001", "p0002"):
        answer(folder, birth_of(folder, pod), (1.0, 2.0), 10.0)
    merged(folder)
    board = end(folder)
    printed = run_script(block(PAGE, "python", "import hpcpod"), tmp_path)
    assert "p0001" in printed and "training" in printed and "cartpole" in printed
    to = tmp_path / "cartpole.log"
    assert main(["results", str(folder.path), "--optuna", str(to)]) == 0
    printed = run_script(block(PAGE, "python", "load_study"), tmp_path)
    assert printed.split() == [board.winner, "101.0"]
