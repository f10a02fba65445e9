"""The driver of a sweep and its claims; tests/docs/test_sweep.py has real runs."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.errors import RunNotFound, StorageError, UserError
from hpcpod.run.run import open_run
from hpcpod.run.sweeps import driver
from hpcpod.run.sweeps.cells import read_plan
from hpcpod.run.sweeps.design import Cell
from hpcpod.run.sweeps.driver import Driver
from hpcpod.run.sweeps.folder import Sweep, open_sweep
from hpcpod.run.sweeps.launch import check, make
from hpcpod.run.sweeps.python import progress_words
from hpcpod.storage.ownership import Ownership, read_config
from hpcpod.storage.requests import Drain
from tests.support.command_line import refusal

SWEPT = """\
name: swept
env: {id: CartPole-v1, num_envs: 4}
population: {pods: {min: 1, max: 1}}
round: {env_steps: 256, episodes: 4}
agents: {ppo: {horizon: 16, hidden: 16}}
stop: {env_steps: 512, finalists: 1, confirm_episodes: 4}
cluster: {tick_seconds: 0.2}
sweep:
  seeds: 2
  over: {agents.ppo.learning_rate: [1.0e-4, 1.0e-2]}
"""


def made(home: Path, text: str = SWEPT) -> Sweep:
    path = home / "swept.yaml"
    path.write_text(text)
    plan = read_plan(path)
    assert plan is not None
    return make(plan, check(plan, probe=False), home / "runs")


@pytest.mark.parametrize("option", [("--from", "other"), ("--distill", "100")])
@pytest.mark.parametrize("verb", ["launch", "validate"])
def test_options_that_no_run_of_a_sweep_would_have_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str], verb: str, option: tuple[str, str]
) -> None:
    (home / "swept.yaml").write_text(SWEPT)
    said = refusal(capsys, verb, "swept.yaml", *option)
    assert "swept.yaml is a sweep: give population.start_from there" in said
    assert not (home / "runs").exists()


def test_a_sweep_that_is_asked_to_stop_begins_nothing_and_a_paused_cell_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = made(home)
    word = str(sweep.path)
    assert main(["sweep", "stop", word]) == 0
    assert f"go on with: hpcpod sweep resume {word}" in capsys.readouterr().out
    assert Driver(sweep, 1, lambda: False).run() == 0
    assert {outcome.fate for _, outcome in sweep.rows()} == {"waiting"}
    sweep.take_stop_back()
    for cell in sweep.cells:
        sweep.run(cell).folder.requests.publish(Drain())
    assert Driver(sweep, 1, lambda: False).run() == 0
    assert {outcome.fate for _, outcome in sweep.rows()} == {"paused"}
    with pytest.raises(RunNotFound, match="is a sweep, of the runs in its cells/"):
        open_run(sweep.path)
    with pytest.raises(RunNotFound, match="is a run, no sweep"):
        open_sweep(sweep.folder(sweep.cells[0]))


def test_a_cell_has_one_process_at_a_time_and_a_dead_one_s_claim_is_free(home: Path) -> None:
    sweep, other = made(home), open_sweep(home / "runs" / "swept")
    cell = sweep.cells[0]
    with sweep.claimed(cell) as mine, other.claimed(cell) as theirs:
        assert (mine, theirs) == (True, False)
    child = os.fork()
    if child == 0:  # dies with the claim in its hands
        with open_sweep(sweep.path).claimed(cell):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with other.claimed(cell) as theirs:
        assert theirs


def test_a_cell_that_a_person_ends_has_failed_and_one_that_is_damaged_is_lost(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = made(home)
    first, second, *others = sweep.cells
    sweep.run(first).stop(now=True)
    (sweep.folder(second) / "config.json").write_text("{}")
    for cell in others:
        sweep.run(cell).folder.requests.publish(Drain())
    assert Driver(sweep, 1, lambda: False).run() == 1
    assert sweep.kept() == {first.name}
    assert [outcome.fate for _, outcome in sweep.rows()] == ["failed", "lost", "paused", "paused"]
    assert main(["sweep", "results", str(sweep.path)]) == 0
    said = capsys.readouterr().out
    assert "no effects can be told: 0 of 4 runs have finished with a score" in said
    assert main(["report", str(sweep.path)]) == 0


def test_a_refusal_of_the_filesystem_that_passes_gives_no_cell_up(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = made(home)
    for cell in sweep.cells:
        sweep.run(cell).stop(now=True)
    first = sweep.folder(sweep.cells[0])
    tries, looks = iter(range(2)), iter(range(100))

    def read(path: Path) -> tuple[bytes, Ownership]:
        if path == first and next(tries, None) is not None:
            raise StorageError("can't read it: the filesystem reports an input/output error")
        return read_config(path)

    results, aside = sweep.path / "results", sweep.path / "aside"
    results.rename(aside)

    def stop() -> bool:
        if next(looks) == 2:
            aside.rename(results)
        return False

    monkeypatch.setattr("hpcpod.storage.run_folder.read_config", read)
    monkeypatch.setattr(driver, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(driver, "GLANCE_SECONDS", 0.0)
    assert Driver(sweep, 1, stop).run() == 0
    assert sweep.kept() == {cell.name for cell in sweep.cells}
    assert next(tries, None) is None
    assert [record.levelname for record in caplog.records].count("WARNING") == 2


def test_a_refusal_that_lasts_ends_with_the_cell_given_up(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = made(home)
    for cell in sweep.cells[1:]:
        sweep.run(cell).stop(now=True)
    logs = sweep.folder(sweep.cells[0]) / "logs"
    logs.rmdir()
    logs.write_text("in the way")
    monkeypatch.setattr(driver, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(driver, "GLANCE_SECONDS", 0.0)
    monkeypatch.setattr(driver, "PATIENCE_SECONDS", 0.05)
    assert Driver(sweep, 1, lambda: False).run() == 1
    assert sweep.kept() == {cell.name for cell in sweep.cells[1:]}
    assert "can't start the process of" in caplog.text and "File exists" in caplog.text


def test_a_process_that_can_not_be_watched_is_not_left_behind(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = made(home)
    for cell in sweep.cells[1:]:
        sweep.run(cell).folder.requests.publish(Drain())
    begun: list[int] = []

    def refused(process: int) -> int:
        begun.append(process)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refused)
    monkeypatch.setattr(driver, "PATIENCE_SECONDS", 0.0)
    assert Driver(sweep, 1, lambda: False).run() == 1
    assert "Too many open files" in caplog.text
    [process] = begun
    assert not Path(f"/proc/{process}").exists()
    with open_sweep(sweep.path).claimed(sweep.cells[0]) as free:
        assert free


def test_a_cell_that_ends_as_its_claim_becomes_free_is_not_begun_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = made(home)
    for cell in sweep.cells[1:]:
        sweep.run(cell).stop(now=True)
    claimed = sweep.claimed

    @contextlib.contextmanager
    def late(cell: Cell) -> Iterator[bool]:
        if cell == sweep.cells[0]:
            sweep.run(cell).stop(now=True)
        with claimed(cell) as mine:
            yield mine

    monkeypatch.setattr(sweep, "claimed", late)
    monkeypatch.setattr(driver, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(Driver, "_start", lambda *_: pytest.fail("it was begun again"))
    ended: list[str] = []
    assert Driver(sweep, 1, lambda: False, lambda cell, _: ended.append(cell.name)).run() == 0
    assert ended == [cell.name for cell in sweep.cells]


def test_a_launch_where_something_is_says_what_it_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = made(home)
    assert main(["launch", "swept.yaml", "--no-probe"]) == 2
    assert "there is a sweep at" in capsys.readouterr().err
    (sweep.path / "sweep.json").unlink()
    assert main(["launch", "swept.yaml", "--no-probe"]) == 2
    assert "is a sweep whose launch was cut off: remove it" in capsys.readouterr().err


def test_a_sweep_s_standing_is_a_line() -> None:
    cells = [Cell(f"{number:03}-1", number, 1, {}) for number in range(1, 9)]
    assert progress_words("swept", cells[:2], 3, 12, 80.0, 2) == (
        "swept: 3 of 12 runs ended, 2 at work (001-1 and 002-1); some 6 min to go"
    )
    said = progress_words("swept", cells, 0, 12, 60.0, 0)
    assert said.endswith("8 at work (001-1, 002-1, 003-1, 004-1, 005-1, 006-1 and 2 more)")


@pytest.mark.long
def test_python_runs_a_sweep_and_reads_what_came_of_it(home: Path) -> None:
    (home / "swept.yaml").write_text(SWEPT.replace("seeds: 2", "seeds: 1"))
    (home / "run.yaml").write_text(SWEPT.partition("sweep:")[0])
    with pytest.raises(UserError, match=r"run.yaml has no sweep: section; hpcpod\.launch"):
        hpcpod.sweep("run.yaml")
    done = hpcpod.sweep("swept.yaml", overrides=["stop.env_steps=256"], progress=False)
    table = hpcpod.open_sweep("swept").table()
    assert table["run"] == ["001", "002"] and table["fate"] == ["finished"] * 2
    assert table["agents.ppo.learning_rate"] == [1e-4, 1e-2]
    assert table["env_steps"] == [256, 256]
    [analysis] = done.analyses()
    assert analysis.mean == pytest.approx(sum(table["score"]) / 2)
    assert not analysis.effects and analysis.remarks  # one run of each level tells no chance
