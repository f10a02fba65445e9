"""A run as tables: numbers worked by hand, columns that are documented, files that do no harm."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.errors import ConfigError, RunNotFound, UserError
from hpcpod.records.records import Board
from hpcpod.run.data import TABLES, Look, as_dicts, columns_of
from hpcpod.run.run import Run
from hpcpod.storage.restarts import RestartRecord
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from tests.support.hand_played import START, answer, birth_of, end, fail, merged
from tests.support.small_runs import AGENTS, create

SEARCH = {"ppo": {**AGENTS["ppo"], "learning_rate": {"log_uniform": [1e-4, 1e-2]}}}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path, "ppo", "dqn", stop={"rounds": 9}, agents=SEARCH)


def rows(folder: RunFolder, name: str, board: Board | None = None) -> list[dict[str, Any]]:
    return as_dicts(columns_of(Look(folder, board), name))


def played(folder: RunFolder) -> Board:
    """Two rounds of p0001, the second after a failure; one of p0002; scored on fresh seeds."""
    answer(folder, birth_of(folder, "p0001"), (1.0, 3.0), 10.0, metrics={"loss": math.nan})
    answer(folder, birth_of(folder, "p0002"), (0.0, 1.0), 20.0, metrics={"q": 2.0})
    merged(folder)
    fail(folder, birth_of(folder, "p0001"), "=cmd|' /C calc'!A0", 30.0, wall_seconds=7.0)
    merged(folder)
    answer(folder, birth_of(folder, "p0001"), (5.0, 9.0), 40.0, wall_seconds=4.0)
    merged(folder)
    return end(folder)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_a_table_is_documented(name: str) -> None:
    columns = TABLES[name].columns
    assert columns and all(columns.values()), columns
    assert f"``{name}``" in (Run.table.__doc__ or "")


def test_pods_are_rows_with_what_became_of_them(folder: RunFolder) -> None:
    board = played(folder)
    first, second = rows(folder, "pods")
    assert (first["pod"], first["algorithm"], first["cause"], first["control"]) == (
        "p0001", "ppo", "fresh", True,
    )  # fmt: skip
    assert (first["rounds"], first["trained_steps"], first["env_steps"]) == (2, 1024, 1024)
    assert (first["failures"], first["lost"], first["last_mean"]) == (1, 7.0, 7.0)
    assert (second["rounds"], second["failures"], second["best_mean"]) == (1, 0, 0.5)
    assert {first["winner"], second["winner"]} == {True, False}
    winner = first if first["winner"] else second
    assert (winner["pod"], winner["score"], winner["score_episodes"]) == (board.winner, 101.0, 2)
    space = board.pods["p0001"].hyperparameters
    assert first["hyperparameters.learning_rate"] == space["learning_rate"]
    assert first["hyperparameters.epsilon_start"] is None, "DQN has it, PPO has not"


def test_rounds_have_means_and_a_column_for_each_metric(folder: RunFolder) -> None:
    played(folder)
    found = rows(folder, "rounds")
    assert [(row["order"], row["mean"], row["total_steps"]) for row in found][:4] == [
        ("p0001-00001-1", 2.0, 512), ("p0002-00001-1", 0.5, 1024), ("p0001-00002-1", None, 1024),
        ("p0001-00002-2", 7.0, 1536),
    ]  # fmt: skip
    assert "returns" not in found[0]
    assert math.isnan(found[0]["metrics.loss"]) and found[0]["metrics.q"] is None
    assert found[1]["metrics.q"] == 2.0


def test_a_score_without_an_error_has_no_interval_in_a_table(folder: RunFolder) -> None:
    one = {"score_error": 0.0, "score_episodes": 1.0}
    answer(folder, birth_of(folder, "p0001"), (3.0, 3.0), metrics=one)
    merged(folder)
    row = hpcpod.compare(folder.path).iloc[0]
    assert (row["mean"], row["episodes"]) == (3.0, 1)
    assert pandas.isna(row["low"]) and pandas.isna(row["high"])


def test_episodes_are_rows_in_the_order_of_their_seeds(folder: RunFolder) -> None:
    played(folder)
    found = [row for row in rows(folder, "episodes") if row["order"] == "p0001-00002-2"]
    assert [(row["episode"], row["episode_return"]) for row in found] == [(0, 5.0), (1, 9.0)]


def test_births_tell_when_and_founders_were_there_before_the_first_slot(folder: RunFolder) -> None:
    board = replace(played(folder), started=START, began=START + 60)
    first = rows(folder, "births", board)[0]
    assert (first["time"], first["seconds"], first["rounds"], first["parent"]) == (
        START, -60.0, 0, None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run in which a pod was beaten, so that a copy was born and tests were made."""
    folder = create(
        tmp_path_factory.mktemp("evolved"), "ppo", stop={"rounds": 9},
        population={"pods": {"min": 4, "max": 4}, "warmup_rounds": 1, "controls": 1}, agents=SEARCH,
    )  # fmt: skip
    for number in range(6):
        for pod in [pod for pod in read_board(folder).living if pod.birth is not None]:
            score = 100.0 if pod.id == "p0002" else 0.0
            assert pod.birth is not None
            returns = [score + number + place / 10 for place in range(8)]
            answer(folder, pod.birth, returns, 10.0 * number)
        merged(folder)
    return folder


def test_a_copy_has_its_parent_its_reason_and_its_decision(evolved: RunFolder) -> None:
    copies = [row for row in rows(evolved, "births") if row["cause"] == "copy"]
    assert copies and {row["parent"] for row in copies} == {"p0002"}
    one = copies[0]
    assert one["rule"] and one["evidence"] and one["time"] > 0 and one["rounds"] > 0
    [decision] = [
        row for row in rows(evolved, "decisions")
        if row["kind"] == "birth" and row["pod"] == one["pod"]
    ]  # fmt: skip
    assert decision["time"] == one["time"] and "p0002" in decision["others"].split(", ")
    tests = rows(evolved, "tests")
    assert tests[0]["rival"] == "p0002" and tests[0]["mean"] == 100.0 and tests[0]["paired"]


def test_numbers_of_decisions_are_columns(evolved: RunFolder) -> None:
    compared = [row for row in rows(evolved, "decisions") if row["kind"] == "comparison"]
    assert compared[0]["numbers.among"] >= 2
    assert "tests" not in compared[0]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_a_frame_also_where_it_has_no_rows(
    name: str, folder: RunFolder, evolved: RunFolder
) -> None:
    for each in (folder, evolved):
        frame = Run(each).table(name)
        assert isinstance(frame, pandas.DataFrame)
        named = {column.removesuffix(".*") for column in TABLES[name].columns}
        assert {str(column).partition(".")[0] for column in frame.columns} <= named
        plain = {column for column in TABLES[name].columns if not column.endswith(".*")}
        assert plain <= {*frame.columns}
        assert len(frame) == len(rows(each, name))


def test_a_column_without_a_number_is_one_of_numbers_all_the_same(folder: RunFolder) -> None:
    run = Run(folder)
    assert run.rounds()["mean"].dtype == float and run.rounds()["round"].dtype == int
    fail(folder, birth_of(folder, "p0001"), "it broke")
    merged(folder)
    assert run.rounds()["mean"].dtype == float and run.pods()["score"].dtype == float


def test_the_methods_of_a_run_are_its_tables(folder: RunFolder) -> None:
    played(folder)
    folder.restarts.save("s", RestartRecord(seconds=9.0, spent={"training": 9.0}))
    run = Run(folder)
    for name in ("pods", "births", "rounds", "episodes", "usage", "slots"):
        pandas.testing.assert_frame_equal(getattr(run, name)(), run.table(name))
        assert len(run.table(name)) > 0


def test_without_pandas_tables_are_lists_of_mappings(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(folder)
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = Run(folder).pods()
    assert [row["pod"] for row in found] == ["p0001", "p0002"]
    assert found == rows(folder, "pods")


def test_a_table_that_is_none_is_named(folder: RunFolder) -> None:
    with pytest.raises(UserError, match="no table 'pod'; did you mean 'pods'"):
        Run(folder).table("pod")
    with pytest.raises(ConfigError, match="name: expected str, got 3"):
        Run(folder).table(3)  # type: ignore[arg-type]


def test_a_copied_folder_gives_the_same_tables(folder: RunFolder, tmp_path: Path) -> None:
    played(folder)
    copied = shutil.copytree(folder.path, tmp_path / "elsewhere" / "copied")
    run = hpcpod.open_run(copied)
    for name in TABLES:
        pandas.testing.assert_frame_equal(run.table(name), Run(folder).table(name))


def test_looking_at_tables_writes_nothing(
    evolved: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **fields: object) -> None:
        raise AssertionError("a look has written")

    for operation in ("write_new", "link", "rename", "unlink", "mkdir"):
        monkeypatch.setattr(f"hpcpod.storage.disk.Disk.{operation}", refuse)
    for name in TABLES:
        Run(RunFolder.open(evolved.path)).table(name)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["results", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["results", *words]) == 2
    return capsys.readouterr().err


def test_csv_files_are_read_back(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(folder)
    to = tmp_path / "tables"
    printed = said(capsys, str(folder.path), "--csv", str(to)).splitlines()
    assert printed == [str(to / f"{name}.csv") for name in TABLES]
    back = pandas.read_csv(to / "rounds.csv")
    mine = Run(folder).rounds()
    assert back["mean"].equals(mine["mean"]) and list(back.columns) == list(mine.columns)
    assert "already; take another name, or say --overwrite" in refused(
        capsys, str(folder.path), "--csv", str(to)
    )
    said(capsys, str(folder.path), "--csv", str(to), "--overwrite")


def test_a_text_that_a_spreadsheet_would_run_is_made_harmless(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    played(folder)
    printed = said(capsys, str(folder.path), "--table", "rounds")
    found = list(csv.DictReader(printed.splitlines()))
    assert found[2]["failure"] == "'=cmd|' /C calc'!A0"
    assert found[2]["mean"] == "" and found[3]["mean"] == "7.0"


def test_negative_numbers_stay_numbers(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(folder, birth_of(folder, "p0001"), (-3.0, -1.0))
    [row] = csv.DictReader(said(capsys, str(folder.path), "--table", "rounds").splitlines())
    assert row["mean"] == "-2.0"


def test_json_is_strict_and_has_the_tables_that_are_asked_for(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    played(folder)
    printed = said(capsys, str(folder.path), "--json", "--table", "rounds", "--table", "usage")
    found = json.loads(printed, parse_constant=lambda word: pytest.fail(word))
    assert list(found) == ["rounds", "usage"]
    assert found["rounds"][0]["metrics.loss"] is None
    assert list(json.loads(said(capsys, str(folder.path), "--json"))) == list(TABLES)
    meanings = json.loads(said(capsys, str(folder.path), "--json", "--columns"))
    assert meanings["usage"]["purpose"] == TABLES["usage"].columns["purpose"]


def test_the_verb_tells_what_tables_there_are_and_what_columns_mean(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    played(folder)
    printed = said(capsys, str(folder.path))
    assert "rounds             5 rows" in printed and "--csv DIR" in printed
    columns = said(capsys, str(folder.path), "--columns")
    for table in TABLES.values():
        for name in table.columns:
            assert f"  {name}: " in columns


def test_a_mistake_is_a_sentence(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(folder.path)
    assert "no table 'rond'; did you mean 'rounds'?" in refused(capsys, run, "--table", "rond")
    assert "there is no folder" in refused(capsys, run, "--csv", str(tmp_path / "a" / "b"))
    (tmp_path / "file").write_text("")
    assert "can't make the folder" in refused(capsys, run, "--csv", str(tmp_path / "file"))
    assert "take one of them" in refused(capsys, run, "--json", "--csv", str(tmp_path / "c"))


def test_runs_are_compared_in_the_order_given(folder: RunFolder, evolved: RunFolder) -> None:
    played(folder)
    frame = hpcpod.compare([evolved.path, Run(folder)])
    assert list(frame["phase"]) == ["running", "finished"]
    assert list(frame["fresh_seeds"]) == [False, True]
    assert frame["mean"][1] == 101.0 and frame["winner"][0] == "p0002"
    assert list(frame["places"]) == [4, 2] and frame["copies"][0] >= 1
    assert frame["env_steps"][1] == 3 * 512 and frame["env"][0] == "CartPole-v1"
    assert frame["version"][0] == hpcpod.__version__


def test_runs_without_a_report_are_compared_and_a_run_that_is_none_is_named(
    folder: RunFolder, tmp_path: Path
) -> None:
    frame = hpcpod.compare([str(folder.path)])
    assert frame["winner"][0] is None and frame["episodes"][0] == 0
    assert math.isnan(frame["mean"][0]) and math.isnan(frame["hours"][0])
    with pytest.raises(RunNotFound):
        hpcpod.compare([tmp_path / "none"])
    assert len(hpcpod.compare([])) == 0 and len(hpcpod.compare(str(folder.path))) == 1
