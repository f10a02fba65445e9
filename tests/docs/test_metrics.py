"""The page on curves: its logger runs in a tournament, its reading code reads that."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.run.curves import FIRST, curves_of
from hpcpod.run.run import open_run
from tests.docs.conftest import verbs_in
from tests.docs.pages import block, commands_of, files_of, page, run_script, said

PAGE = page("metrics.md")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's files are, and its commands were run."""
    folder = tmp_path_factory.mktemp("metrics")
    files = files_of(PAGE)
    assert files.keys() == {"my_logger.py", "mine.yaml"}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    launch, sync = commands_of(PAGE)
    assert launch[0] == "hpcpod"
    with verbs_in(folder):
        assert main(launch[1:]) == 0
    (folder / "launched").mkdir()
    for path in written(folder / "runs" / "mine"):
        (folder / "launched" / path.name).write_bytes(path.read_bytes())
    assert "rows sent" in said(folder, *sync)
    return folder


def written(run: Path) -> list[Path]:
    return sorted((run / "mirrors" / "my_logger.CsvLogger").iterdir())


def test_its_logger_has_ten_lines_at_most() -> None:
    lines = files_of(PAGE)["my_logger.py"].splitlines()
    assert len([line for line in lines if line.strip()]) <= 10


def test_its_logger_gets_the_ends_of_rounds_while_pods_train(home: Path) -> None:
    rows = curves_of(open_run(home / "runs" / "mine").folder)
    for path in (home / "launched").iterdir():
        with path.open(newline="") as file:
            steps = [int(line[0]) for line in csv.reader(file)]
        ends = {2: 0.0, 1: 0.0} | {
            int(row["round"]): row["env_steps"] for row in rows if row["pod"] == path.stem
        }
        assert {ends[1], ends[2]} <= set(steps) and steps == sorted(set(steps))
    assert {path.stem for path in (home / "launched").iterdir()} == {"p0001"}


def test_sync_sends_every_row_to_it(home: Path) -> None:
    rows = curves_of(open_run(home / "runs" / "mine").folder)
    for path in written(home / "runs" / "mine"):
        before = len((home / "launched" / path.name).read_text().splitlines())
        sent = path.read_text().splitlines()[before:]
        own = [row for row in rows if row["pod"] == path.stem]
        assert [int(line.partition(",")[0]) for line in sent] == [row["env_steps"] for row in own]


def test_its_reading_code_reads_them(home: Path) -> None:
    table = block(PAGE, "python", "open_run").replace('"cartpole"', '"mine"')
    table, _, plot = table.partition("table.pivot")
    assert "training_return" in run_script(table, home) and plot
    first = sorted((home / "runs" / "mine" / "curves" / "p0001").iterdir())[0]
    plain = block(PAGE, "python", "h5py").replace(
        "runs/cartpole/curves/p0001/00003-1.h5", str(first)
    )
    assert "learning_rate" in run_script(plain, home)


def test_its_table_names_the_columns_that_every_pod_has(home: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = curves_of(open_run(home / "runs" / "mine").folder)
    assert [name for name in FIRST if f"`{name}`" not in text] == []
    named = [name for name in rows[0] if not name.startswith(("clip", "stopped", "value"))]
    assert [name for name in named if f"`{name}`" not in text] == []
