"""The list of runs: sorted, filtered, whole names, and no run that hides the others."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.orchestrator.snapshot import RunState
from hpcpod.run.run import open_run
from hpcpod.run.run_list import chosen, in_order
from hpcpod.run.status import Status


@pytest.fixture(scope="module")
def runs(finished_run: Path) -> list[Status]:
    """A run of each kind, by name, environment, state, time of launch and score."""
    seen = open_run(finished_run).status()
    assert seen.best is not None
    best = seen.best

    def run(name: str, env: str, state: RunState, started: float, mean: float | None) -> Status:
        score = None if mean is None else replace(best, mean=mean)
        return replace(seen, run=name, env=env, state=state, started=started, best=score)

    return [
        run("b", "Ant-v5", "finished", 3.0, 10.0),
        run("C", "Ant-v5", "running", 2.0, None),
        run("a", "CartPole-v1", "paused", 1.0, 20.0),
        run("d", "AntMaze-v5", "running", 4.0, 10.0),
    ]


@pytest.mark.parametrize(
    ("by", "names", "reversed_names"),
    [
        ("name", "abCd", "dCba"),
        ("started", "dbCa", "aCbd"),
        ("score", "abdC", "bdaC"),  # without a score last, either way
        ("state", "Cdab", "baCd"),
    ],
)
def test_runs_are_sorted_and_equal_ones_by_name(
    runs: list[Status], by: str, names: str, reversed_names: str
) -> None:
    assert "".join(run.run for run in in_order(runs, by)) == names
    assert "".join(run.run for run in in_order(runs, by, reverse=True)) == reversed_names


def test_runs_are_chosen_by_state_and_by_a_pattern_of_their_environment(runs: list[Status]) -> None:
    assert [run.run for run in chosen(runs, ["running", "paused"])] == ["C", "a", "d"]
    assert [run.run for run in chosen(runs, env="Ant-*")] == ["b", "C"]
    assert [run.run for run in chosen(runs, ["running"], "AntMaze-v5")] == ["d"]
    assert [run.run for run in chosen(runs)] == ["b", "C", "a", "d"]


@pytest.fixture
def folder(home: Path, finished_run: Path) -> Path:
    """A folder with a run, one that was renamed, and one that is damaged."""
    shutil.copytree(finished_run, home / "runs" / "looked-at")
    long = "renamed-to-what-is-longer-than-a-terminal-is-wide-" + 90 * "x"
    shutil.copytree(finished_run, home / "runs" / long)
    (home / "runs" / "red\x1b[31m").mkdir()
    (home / "runs" / "red\x1b[31m" / "config.json").write_text("{")
    return home


def ageless(said: str) -> list[str]:
    """The lines of a list but for the runs' ages: a second may go by between two of them."""
    masked = re.sub("─+", "─", re.sub(r" [\d.]+ (s|min) ", " ", said))  # it may be wider, too
    return [" ".join(line.split()) for line in masked.splitlines()]


def test_a_line_has_what_tells_runs_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = open_run("looked-at").status()
    assert now.best is not None
    assert main(["list"]) == 0
    said = capsys.readouterr()
    head, _, first, second = said.out.splitlines()
    assert head.split() == [
        "run", "state", "environment", "best", "steps", "age", "hours", "used"
    ]  # fmt: skip
    line = f"looked-at finished CartPole-v1 {now.best.mean:.1f} [{now.best.low:.1f}, "
    assert " ".join(first.split()).startswith(line)
    assert " looked-at (renamed-to-" in f" {second}" and 90 * "x" + ")" in second
    assert "config.json is torn" in said.err and "\x1b" not in said.err
    assert main(["status"]) == 0
    assert ageless(capsys.readouterr().out) == ageless(said.out)


def test_json_is_what_status_has_of_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json", "--state", "finished", "--env", "CartPole-*"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert main(["status", "looked-at", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert [Path(each["path"]).name for each in listed] == [
        path.name for path in sorted((folder / "runs").glob("[lr]*d-*"))
    ]  # fmt: skip
    assert (one["env"], one["started"]) == ("CartPole-v1", open_run("looked-at").board().started)
    assert {**listed[0], "path": ""} == {**one, "path": ""}


def test_none_of_them_is_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--state", "paused"]) == 0
    assert capsys.readouterr().out == "no such runs in runs/, 2 others\n"
    assert main(["list", "--runs", "nowhere"]) == 2
    assert "there is no folder nowhere: --runs names the folder" in capsys.readouterr().err
    (folder / "empty").mkdir()
    assert main(["list", "--runs", "empty"]) == 0
    assert capsys.readouterr().out == "no runs in empty/\n"
    damaged = folder / "torn" / "one"
    damaged.mkdir(parents=True)
    (damaged / "config.json").write_text("{")
    assert main(["list", "--runs", "torn"]) == 1
    assert "no run in torn/ can be read: 1 damaged" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["list", "--state", "finished,dead"])
    assert ended.value.code == 2
    assert "there is no state 'dead', only running, " in capsys.readouterr().err
