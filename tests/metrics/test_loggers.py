"""Loggers of hpcpod's: what each library gets, and what is there afterwards."""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcpod.errors import UserError
from hpcpod.metrics.logger import Logged
from hpcpod.metrics.mirrors import make_logger
from hpcpod.metrics.wandb_shape import Wandb, WandbShape
from tests.metrics import loggers

ROWS = [
    {"env_steps": 100.0, "time": 1_700_000_000.0, "training_return": 1.5},
    {"env_steps": 200.0, "time": 1_700_000_001.5, "training_return": -2.0, "alpha": 0.25},
]


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    return Logged("cartpole", "p0001", "ppo", {"gamma": 0.99}, tmp_path, "0123456789abcdef-p0001")


def send(name: str, logged: Logged, rows: list[dict[str, float]] = ROWS) -> None:
    logger = make_logger(name, logged)
    for row in rows:
        logger.log(row, int(row["env_steps"]))
    logger.close()


def scalars(folder: Path, tag: str) -> list[tuple[int, float, float]]:
    """Step, value and time of each point that TensorBoard draws."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return [(event.step, event.value, event.wall_time) for event in found.Scalars(tag)]


def test_tensorboard_draws_each_number_by_steps_and_by_time(logged: Logged) -> None:
    send("tensorboard", logged)
    folder = logged.folder / "tensorboard" / "p0001"
    assert scalars(folder, "training_return") == [
        (100, 1.5, 1_700_000_000.0), (200, -2.0, 1_700_000_001.5)
    ]  # fmt: skip
    assert scalars(folder, "alpha") == [(200, 0.25, 1_700_000_001.5)]


def test_tensorboard_draws_what_was_trained_again_once(logged: Logged) -> None:
    send("tensorboard", logged)
    again = Logged(**{**vars(logged), "first_step": 151})  # the checkpoint was at 150
    send("tensorboard", again, [{"env_steps": 210.0, "time": 1_700_000_100.0, "alpha": 0.5}])
    folder = logged.folder / "tensorboard" / "p0001"
    assert scalars(folder, "training_return") == [(100, 1.5, 1_700_000_000.0)]
    assert scalars(folder, "alpha") == [(210, 0.5, 1_700_000_100.0)]


def test_a_library_of_wandb_s_shape_gets_a_run_for_each_pod(logged: Logged) -> None:
    loggers.RUNS.clear()
    logger = WandbShape(loggers.__name__, logged, mode="offline")
    for row in ROWS:
        logger.log(row, int(row["env_steps"]))
    (run,) = loggers.RUNS
    finished = [run.finished]
    logger.close()
    assert [*finished, run.finished] == [False, True]
    assert run.arguments == {
        "project": "cartpole", "name": "p0001", "group": "ppo", "config": {"gamma": 0.99},
        "resume": "allow", "mode": "offline",
    }  # fmt: skip
    assert run.rows == [
        ({"env_steps": 100.0, "training_return": 1.5}, 100),
        ({"env_steps": 200.0, "training_return": -2.0, "alpha": 0.25}, 200),
    ]


@pytest.mark.parametrize(
    ("given", "online", "mode"),
    [(None, False, "offline"), (None, True, "online"), ("disabled", True, "disabled")],
)
def test_wandb_is_offline_but_in_a_sync_unless_the_user_says_otherwise(
    given: str | None, online: bool, mode: str, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(WandbShape, "__init__", lambda *_, **more: seen.update(more))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if given is not None:
        monkeypatch.setenv("WANDB_MODE", given)
    Wandb(Logged(**{**vars(logged), "online": online}))
    assert (seen["mode"], seen["id"]) == (mode, "0123456789abcdef-p0001")


@pytest.mark.parametrize("name", ["wandb", "trackio", "mlflow"])
def test_a_logger_whose_package_is_missing_says_how_to_install_it(
    name: str, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"{name} is not installed here: .* 'hpcpod\[{name}\]'"):
        make_logger(name, logged)


def library(name: str) -> Any:
    """A library that CI has for Python 3.11 and newer: see .ci/loggers.txt."""
    if os.environ.get("HPCPOD_REQUIRE_ALL") and sys.version_info >= (3, 11):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"pip install 'hpcpod[{name}]'")


@pytest.mark.long
def test_wandb_itself_keeps_the_rows_offline(
    logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = library("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    send("wandb", logged)
    wandb.teardown()  # waits for W&B's own process
    (file,) = (logged.folder / "wandb").glob("wandb/offline-run-*/*.wandb")
    assert b"training_return" in file.read_bytes()


@pytest.mark.long
def test_trackio_itself_has_the_rows_in_its_database(
    logged: Logged, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read when it is imported
    library("trackio")
    send("trackio", logged)
    with sqlite3.connect(tmp_path / "trackio" / "cartpole.db") as database:
        found = database.execute("select run_name, step, metrics from metrics order by step")
        rows = [(name, step, json.loads(text)) for name, step, text in found]
    assert [row[:2] for row in rows] == [("p0001-012345", 100), ("p0001-012345", 200)]
    assert [row[2]["training_return"] for row in rows] == [1.5, -2.0]


@pytest.mark.long
def test_mlflow_itself_has_the_rows_in_files(
    logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
    mlflow = library("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    send("mlflow", logged, ROWS[:1])
    send("mlflow", logged, ROWS[1:])  # by another process, in the same run
    assert os.environ["MLFLOW_ALLOW_FILE_STORE"] == "true"
    client = mlflow.MlflowClient((logged.folder / "mlflow").as_uri())
    experiment = client.get_experiment_by_name("cartpole")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params == {"algorithm": "ppo", "gamma": "0.99"}
    history = client.get_metric_history(run.info.run_id, "training_return")
    assert [(m.step, m.value) for m in history] == [(100, 1.5), (200, -2.0)]
