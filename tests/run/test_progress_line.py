"""A line that shows whoever waits how far a training or a run is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.slots import ROOT
from tests.test_api import TINY

TRAINING = "hpcpod.train(env_steps=5_000, progress=WANTED, epochs=1, horizon=16)"
RUN = f"hpcpod.launch({TINY}, runs='runs', detach=False, progress=WANTED).wait()"
SHOWN = {TRAINING: " of 5,000 env steps, ", RUN: " rounds, "}
BEGINS = "tiny: its environment and its agents are made once"


def seen_in_a_terminal(code: str, home: Path) -> str:
    """What a program writes on a terminal that is its standard error."""
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", f"import hpcpod; {code}"], cwd=home, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    said = bytearray()
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait(120) == 0, said.decode()
    return said.decode()


@pytest.mark.parametrize("code", SHOWN)
def test_a_terminal_sees_how_far_it_is(code: str, tmp_path: Path) -> None:
    said = seen_in_a_terminal(code.replace("WANTED", "None"), tmp_path)
    assert SHOWN[code] in said
    assert (BEGINS in said) == (code == RUN)


@pytest.mark.parametrize("code", SHOWN)
def test_a_terminal_sees_nothing_of_it_if_it_is_not_wanted(code: str, tmp_path: Path) -> None:
    said = seen_in_a_terminal(code.replace("WANTED", "False"), tmp_path)
    assert SHOWN[code] not in said and BEGINS not in said


@pytest.mark.parametrize("code", SHOWN)
def test_nothing_is_shown_where_nobody_looks(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import hpcpod; " + code.replace("WANTED", "None")], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == b""
    assert SHOWN[code].encode() not in done.stderr and BEGINS.encode() not in done.stderr


def test_without_a_terminal_lines_come_now_and_then_if_they_are_wanted(tmp_path: Path) -> None:
    often = "import hpcpod.run.progress_line; hpcpod.run.progress_line.PLAIN_SECONDS = 0.0; "
    often += RUN.replace("WANTED", "True")
    done = subprocess.run(
        [sys.executable, "-c", f"import hpcpod; {often}"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert BEGINS.encode() in done.stderr and b" rounds, " in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("code", SHOWN)
def test_a_notebook_sees_how_far_it_is(code: str, tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [
        f"import hpcpod; done = {code.replace('WANTED', wanted)}" for wanted in ("None", "False")
    ]
    cells[1] = cells[1].replace("runs='runs'", "runs='other'")
    v4 = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    shown, silent = (
        [out["data"]["text/plain"] for out in cell["outputs"] if "data" in out]
        for cell in notebook["cells"]
    )
    assert SHOWN[code] in shown[-1]
    assert silent == []
