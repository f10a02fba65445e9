"""The page on sweeps: its commands, and its sweep as real runs here, killed in the middle."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcpod._process import PYTHON
from hpcpod.cli.parser import main
from hpcpod.run.run import open_run
from hpcpod.run.sweeps.cells import read_plan
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.run.sweeps.launch import check, make
from tests.docs.pages import fences, page
from tests.docs.test_blocks import lines
from tests.support.watched import watching

PAGE = page("sweep.md")
FILES = {"ablation.yaml"}
SMALL = [
    "population.pods.max=1", "round.env_steps=256", "round.episodes=4", "stop.env_steps=512",
    "stop.finalists=1", "stop.confirm_episodes=4", "cluster.tick_seconds=0.2",
    "agents.ppo.horizon=16", "agents.ppo.hidden=16",
]  # fmt: skip
"""Makes runs of a second of the page's."""

PATIENCE = 300.0
"""Seconds that three runs may take on a busy machine."""

pytestmark = pytest.mark.long


def processes(sweep: Sweep) -> list[int]:
    """Process ids of all that works on a sweep's cells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word.startswith(str(sweep.path / "cells")) for word in words):
            found.append(int(path.parent.name))
    return found


@pytest.fixture(scope="module")
def gone_on(home: Path) -> tuple[Sweep, str]:
    """The page's sweep, finished, whose first process was killed without a warning in its second
    run, and all that a terminal got in which it was resumed."""
    plan = read_plan(home / "ablation.yaml", overrides=SMALL)
    assert plan is not None
    sweep = make(plan, check(plan, probe=False), home / "runs")
    first = subprocess.Popen([*PYTHON, "-m", "hpcpod.run.sweeps", str(sweep.path)])
    end = time.monotonic() + 120
    try:
        while not (sweep.kept() and processes(sweep)):
            assert first.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        assert sweep.kept() == {"001-1"}
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    with watching(["sweep", "resume", str(sweep.path)], size=(120, 30)) as screen:
        assert screen.wait(PATIENCE) == 0, screen.sent
    return sweep, screen.sent


@pytest.fixture(scope="module")
def swept(gone_on: tuple[Sweep, str]) -> Sweep:
    return gone_on[0]


def test_a_terminal_sees_how_far_it_is_each_run_that_ends_and_the_table(
    gone_on: tuple[Sweep, str],
) -> None:
    shown, *drawn = gone_on[1].split("\r\x1b[2K")  # each time the line is drawn anew
    assert "ablation: 1 of 4 runs ended, " in shown
    assert " at work (" in shown and "002-1" in shown
    assert any(line.startswith("ablation: 3 of 4 runs ended, 1 at work (") for line in drawn)
    lasting = [line for line in drawn if not line.startswith("ablation: ")]
    for name in ("001-2", "002-1", "002-2"):
        [told] = [line for line in lasting if line.startswith(f"{name} (agents.ppo.learning_rate=")]
        assert ", finished (env_steps); " in " ".join(told.split())  # in one row or in two
    assert "as CSV: hpcpod sweep results" in drawn[-1]


def test_what_was_killed_goes_on_and_each_cell_is_run_once(swept: Sweep) -> None:
    outcomes = [outcome for _, outcome in swept.rows()]
    assert {outcome.fate for outcome in outcomes} == {"finished"}
    assert {outcome.env_steps for outcome in outcomes} == {512}
    assert all(outcome.fresh and outcome.episodes == 4 for outcome in outcomes)
    assert processes(swept) == []
    for cell in swept.cells:
        run = open_run(swept.folder(cell))
        assert run.name == f"ablation-{cell.name}" and run.status().state == "finished"
        assert run.best() is not None and (run.path / "best.h5").exists()


def test_the_page_s_commands_tell_of_it(
    swept: Sweep, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("HPCPOD_RUNS", str(swept.path.parent))
    said: dict[str, str] = {}
    for words in lines(PAGE):
        if words[1] not in ("launch",) and words[2] not in ("stop", "resume"):
            assert main(words[1:]) == 0, capsys.readouterr().err
            said[" ".join(words[1:])] = capsys.readouterr().out
    assert len(said) == 5
    assert "ablation: 4 runs: 4 finished" in said["sweep status ablation"]
    rows = list(csv.DictReader(io.StringIO(said["sweep results ablation --csv"])))
    assert [row["run"] for row in rows] == ["001-1", "002-1", "001-2", "002-2"]
    assert [row["agents.ppo.learning_rate"] for row in rows] == ["0.0003", "0.003"] * 2
    scores = [swept.outcome(cell).score for cell in swept.cells]
    assert [float(row["score"]) for row in rows] == scores
    table = said["sweep results ablation"]
    assert re.search(r"^002-1 +0\.003 .* finished *$", table, re.MULTILINE)
    assert re.search(r"^  agents\.ppo\.learning_rate=0\.003: [-+]", table, re.MULTILINE)
    assert "ablation-001-1: finished (env_steps)" in said["status ablation/cells/001-1"]
    for code in (text for language, _, text in fences(PAGE) if language == "python"):
        exec(code, {})
    printed = capsys.readouterr().out
    assert printed.startswith(
        f"{dict(zip(['001-1', '002-1', '001-2', '002-2'], scores, strict=True))}\n"
    )
    assert "(('agents.ppo.learning_rate',), ('0.0003',), " in printed
    text = (home / "ablation.html").read_text()
    assert "<h1>ablation</h1>" in text and "Written by hpcpod report" in text
    assert "4 runs of 1 factor, a design factorial, 2 seeds each, with equal budgets" in text
    assert "agents.ppo.learning_rate" in text and "<figure" in text


def test_what_it_says_as_json_is_what_it_keeps(
    swept: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "results", str(swept.path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["score"] for row in told["rows"]] == [o.score for _, o in swept.rows()]
    [analysis] = told["analyses"]
    assert [effect["levels"] for effect in analysis["effects"]] == [["0.0003"], ["0.003"]]
    low, high = (effect["value"] for effect in analysis["effects"])
    assert low == pytest.approx(-high)
    # A result that is damaged is told from its run, which has the truth.
    kept = swept.path / "results" / "001-1.json"
    before = swept.outcome(swept.cells[0])
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-9])
    try:
        assert swept.outcome(swept.cells[0]) == before
    finally:
        kept.write_bytes(whole)


def test_there_is_nothing_to_resume_and_no_picture_of_it(
    swept: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "resume", str(swept.path)]) == 2
    assert "all its runs have ended" in capsys.readouterr().err
    assert main(["report", str(swept.path), "-o", "report.svg"]) == 2
    assert "the report of a sweep is a page (.html)" in capsys.readouterr().err
