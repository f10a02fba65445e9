"""A line that shows whoever waits how far a training or a run is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.slots import ROOT
from tests.test_api import TINY

TRAINING = "hpcpod.train(env_steps=1_000, progress=WANTED, epochs=1, horizon=16)"
ONE = {"pods": {"min": 1, "max": 1}}
RUN = f"hpcpod.launch({TINY}, runs='runs', detach=False, progress=WANTED, population={ONE}).wait()"
SHOWN = {TRAINING: " of 1,000 env steps, ", RUN: " rounds, "}
BEGINS = "tiny: its environment and its agents are made once"

IMPORTS = (
    "import hpcpod, sys, time; from hpcpod.pod.trial import supervisor;"
    " supervisor.known_here_alone = lambda *given: time.sleep(0.6) or True"
)
"""As in the other tests, an environment is tried in this process: see ``tried_here``. That is soon
done: without a pause the line of before was never drawn, which is four times a second."""

THEN = "-- and now --"
"""What a program writes between two of its parts, on standard error."""


def program(*parts: str) -> str:
    """One process for several trainings and runs: each begins with torch's second."""
    return f"\nprint('{THEN}', file=sys.stderr, flush=True)\n".join([IMPORTS, *parts])


def seen_in_a_terminal(code: str, home: Path) -> list[str]:
    """What the parts of a program write on a terminal that is its standard error."""
    ours, theirs = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=home, stderr=theirs,
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
    assert child.wait(600) == 0, said.decode()
    return said.decode().split(THEN)


def unseen(code: str, home: Path) -> list[str]:
    """What the parts of a program write where standard error is no terminal."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, timeout=300, check=True, text=True,
    )  # fmt: skip
    assert done.stdout == ""
    return done.stderr.split(THEN)


def of(code: str, wanted: bool | None) -> str:
    """A training, or a run in a folder of its own."""
    return code.replace("WANTED", str(wanted)).replace("'runs'", f"'runs-{wanted}'")


def test_a_terminal_sees_how_far_it_is_and_nothing_of_it_if_it_is_not_wanted(
    tmp_path: Path,
) -> None:
    asked = [(code, wanted) for code in SHOWN for wanted in (None, False)]
    parts = seen_in_a_terminal(program(*(of(*each) for each in asked)), tmp_path)
    for (code, wanted), said in zip(asked, parts[1:], strict=True):
        assert (SHOWN[code] in said) == (wanted is None)
        assert (BEGINS in said) == (wanted is None and code == RUN)


def test_nothing_is_shown_where_nobody_looks_but_lines_now_and_then_if_they_are_wanted(
    tmp_path: Path,
) -> None:
    often = "import hpcpod.run.progress_line; hpcpod.run.progress_line.PLAIN_SECONDS = 0.0"
    silent = [of(code, None) for code in SHOWN]
    _, *nothing, lines = unseen(program(*silent, f"{often}; {of(RUN, True)}"), tmp_path)
    assert len(nothing) == len(SHOWN)
    for code, said in zip(SHOWN, nothing, strict=True):
        assert SHOWN[code] not in said and BEGINS not in said
    assert BEGINS in lines and SHOWN[RUN] in lines


def test_a_notebook_sees_how_far_it_is(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    v4 = nbformat.v4
    asked = [(code, wanted) for code in SHOWN for wanted in (None, False)]
    cells = [v4.new_code_cell(f"{IMPORTS}; done = {of(*each)}") for each in asked]
    notebook = v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    for (code, wanted), cell in zip(asked, notebook["cells"], strict=True):
        shown = [out["data"]["text/plain"] for out in cell["outputs"] if "data" in out]
        if wanted is None:
            assert SHOWN[code] in shown[-1]
        else:
            assert shown == []


def test_what_is_printed_meanwhile_goes_where_it_should_though_the_line_is_on_a_terminal(
    tmp_path: Path,
) -> None:
    code = """
from hpcpod.run.progress_line import progress_text
with open("log.txt", "w") as sys.stdout, progress_text(None) as show:
    show("a line")
    print("a result")
"""
    [said] = seen_in_a_terminal("import sys" + code, tmp_path)
    assert "a line" in said and "a result" not in said
    assert (tmp_path / "log.txt").read_text() == "a result\n"
