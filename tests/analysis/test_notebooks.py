"""The notebook runs in a real kernel, where a user would open it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from hpcpod.run.run import open_run

NOTEBOOK = Path(__file__).parents[2] / "analysis" / "look_at_a_run.ipynb"


def executed(folder: Path) -> Any:
    """The notebook after its cells were run in a folder."""
    read: Any = nbformat.read
    notebook = read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=120, resources=where).execute()
    return notebook


def shown(notebook: Any) -> list[str]:
    """The output of each code cell: its text, and its table."""
    said = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            tables = [o.data["text/markdown"] for o in cell.outputs if "data" in o]
            said.append("".join([*(o.text for o in cell.outputs if "text" in o), *tables]))
    return said


@pytest.fixture
def project(tmp_path: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the notebook's, and with an old run and the latest one."""
    monkeypatch.delenv("HPCPOD_RUNS", raising=False)
    monkeypatch.delenv("HPCPOD_RUN", raising=False)
    (tmp_path / "analysis").mkdir()
    (tmp_path / "runs" / "old").mkdir(parents=True)
    shutil.copy(finished_run / "config.json", tmp_path / "runs" / "old")
    os.utime(tmp_path / "runs/old/config.json", (0, 0))
    (tmp_path / "runs" / "latest").symlink_to(finished_run)
    return tmp_path


@pytest.mark.parametrize("folder", ["", "analysis"])
def test_it_shows_the_latest_run(folder: str, project: Path, finished_run: Path) -> None:
    run = open_run(finished_run)
    first, leads, descent, copies = shown(executed(project / folder))
    assert first.startswith("looked-at: finished (rounds) | ")
    assert leads.startswith(run.ranking())
    rows = [line.split(" | ") for line in leads.splitlines() if line.startswith("| ")][2:]
    assert [(row[1], float(row[4])) for row in rows] == [
        (row.pod, round(row.estimate, 1)) for row in run.leaderboard()
    ]
    assert len(rows) > 1
    assert [pod.id for pod in run.lineage()] == [
        line.split()[1] for line in descent.splitlines()[2:]
    ]
    copied = [pod.id for pod in run.board().pods.values() if pod.cause == "copy"]
    assert [line.split()[1] for line in copies.splitlines()[2:]] == copied


def test_it_says_in_a_sentence_that_there_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HPCPOD_RUN", raising=False)
    monkeypatch.setenv("HPCPOD_RUNS", str(tmp_path / "none"))
    with pytest.raises(CellExecutionError) as raised:
        executed(tmp_path)
    assert f"RunNotFound: there is no run in {tmp_path}/none: launch one" in str(raised.value)
    assert "Traceback" not in str(raised.value).split("------------------")[-1]


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
