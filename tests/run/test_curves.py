"""Curves of a run as a table, and their way to loggers later on."""

from __future__ import annotations

import json
import math
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hpcpod.cli.parser import main
from hpcpod.errors import UserError
from hpcpod.records.records import Owner
from hpcpod.run.curves import curves_of
from hpcpod.run.run import Run, open_run
from hpcpod.run.sync import sync
from hpcpod.storage.curves import Curve
from hpcpod.storage.run_folder import RunFolder
from tests.support.small_runs import create

LINES = "tests.metrics.loggers:Lines"


def train(folder: RunFolder, pod: str, round: int, *steps: float, sealed: bool = True) -> None:
    """Write a curve as a slot would that has claimed the round."""
    columns = {
        "env_steps": steps, "time": tuple(1e9 + step for step in steps),
        f"loss of {pod}": (0.5,) * len(steps),
    }  # fmt: skip
    curve = Curve(pod, round, 1, "ppo", {"gamma": 0.9}, 0.1, columns)
    folder.claims.take(curve.order, Owner("slot", "job"))
    folder.curves.seal(curve, ordered=True) if sealed else folder.curves.write(curve)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = create(tmp_path, metrics=[LINES])
    train(folder, "p0002", 1, 10.0)
    train(folder, "p0001", 1, 10.0, 20.0)
    train(folder, "p0001", 2, 30.0, sealed=False)
    return folder


def test_a_row_for_each_look_at_a_pod_with_the_same_names_in_all(folder: RunFolder) -> None:
    rows = curves_of(folder)
    assert [(row["pod"], row["round"], row["env_steps"]) for row in rows] == [
        ("p0001", 1, 10.0), ("p0001", 1, 20.0), ("p0001", 2, 30.0), ("p0002", 1, 10.0)
    ]  # fmt: skip
    names = ["pod", "algorithm", "round", "attempt", "env_steps", "time", "train_seconds",
             "training_return", "episode_length", "loss of p0001", "loss of p0002"]  # fmt: skip
    assert all(list(row) == names for row in rows)
    assert rows[0]["loss of p0001"] == 0.5 and math.isnan(rows[0]["loss of p0002"])


def test_a_table_is_pandas_and_without_it_plain_dicts(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Run(folder).curves("p0001")
    assert table.env_steps.tolist() == [10.0, 20.0, 30.0]
    assert str(table.dtypes["time"]) == "float64"
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = Run(folder).curves("p0001")
    assert isinstance(rows, list) and [row["env_steps"] for row in rows] == [10.0, 20.0, 30.0]
    assert repr(rows) == repr(curves_of(folder, "p0001"))  # NaN is not equal to itself


def test_a_run_without_a_row_has_an_empty_table(tmp_path: Path) -> None:
    table = Run(create(tmp_path)).curves()
    assert len(table) == 0 and list(table.columns)[:5] == [
        "pod", "algorithm", "round", "attempt", "env_steps"
    ]  # fmt: skip


def test_a_pod_that_is_not_there_is_refused(folder: RunFolder) -> None:
    with pytest.raises(UserError, match="small has no pod p0099"):
        Run(folder).curves("p0099")


def test_curves_of_a_whole_run_grow_by_steps_and_are_there_in_a_copy(
    finished_run: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished_run, copy)
    (torn, *_) = sorted((copy / "curves").glob("*/*.h5"))
    torn.write_bytes(torn.read_bytes()[:100])
    table, less = open_run(finished_run).curves(), open_run(copy).curves()
    board = open_run(finished_run).board()
    for pod, rows in table.groupby("pod"):
        assert all(one < next for one, next in pairwise(rows.env_steps)), pod
        # The run may have ended while the last one was scored.
        assert set(rows["round"]) >= {each.round for each in board.pods[str(pod)].history}
    assert set(table.pod) >= {name for name, pod in board.pods.items() if pod.history}
    assert {"entropy", "grad_norm", "training_return", "env_steps_per_second"} <= set(table.columns)
    assert len(less) < len(table) and len(less) > 0


def lines(folder: RunFolder, pod: str) -> list[Any]:
    path = folder.path / "mirrors" / "tests.metrics.loggers.Lines" / f"{pod}.jsonl"
    return [json.loads(line).get("step", "closed") for line in path.read_text().splitlines()]


def test_sync_sends_what_it_has_not_sent(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sync", str(folder.path)]) == 0
    assert lines(folder, "p0001") == [10, 20, 30, "closed"]
    assert lines(folder, "p0002") == [10, "closed"]
    assert f"{LINES}: 4 rows sent" in capsys.readouterr().out
    assert main(["sync", str(folder.path)]) == 0
    assert f"{LINES}: nothing new" in capsys.readouterr().out
    train(folder, "p0001", 2, 30.0, 40.0)
    assert sync(folder, [LINES]) == {LINES: 1}
    assert lines(folder, "p0001") == [10, 20, 30, "closed", 40, "closed"]


def test_a_damaged_memory_of_what_was_sent_costs_a_repetition(folder: RunFolder) -> None:
    sync(folder, [LINES])
    (folder.path / "mirrors" / "tests.metrics.loggers.Lines.synced.json").write_text("torn")
    assert sync(folder, [LINES]) == {LINES: 4}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "tensorbord"], "unknown logger 'tensorbord'; did you mean 'tensorboard'?"),
        (["--to", "tests.metrics.loggers:Raises"], "Raises did not take the rows of p0001"),
        (["--to", "tests.metrics.loggers:Unmade"], "can't be made: OSError: no such server"),
    ],
)
def test_a_logger_that_can_t_be_used_is_one_sentence(
    arguments: list[str], said: str, folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sync", str(folder.path), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_run_without_loggers_asks_where_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = create(tmp_path)
    assert main(["sync", str(folder.path)]) == 2
    assert "say where to, as by --to wandb" in capsys.readouterr().err
