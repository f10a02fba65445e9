"""Mirrors: a logger gets the rows, and a bad one costs nothing but its mirror."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from hpcpod.metrics import mirrors
from hpcpod.metrics.logger import Logged
from hpcpod.metrics.mirrors import Mirrors

LOGGERS = "tests.metrics.loggers:"


def logged(home: Path, pod: str = "p0001") -> Logged:
    return Logged("run", pod, "ppo", {}, home)


def lines(home: Path, logger: str = "Lines", pod: str = "p0001") -> list[dict[str, Any]]:
    path = home / f"tests.metrics.loggers.{logger}" / f"{pod}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def row(step: int) -> dict[str, float]:
    return {"env_steps": float(step), "loss": 0.5}


def test_a_logger_gets_every_row_and_is_closed_when_another_pod_s_come(tmp_path: Path) -> None:
    some = Mirrors([LOGGERS + "Lines"])
    for step in (10, 20):
        some.log(logged(tmp_path), row(step))
    some.log(logged(tmp_path, "p0002"), row(5))
    some.close()
    assert lines(tmp_path) == [{"step": n, **row(n)} for n in (10, 20)] + [{"closed": True}]
    assert lines(tmp_path, pod="p0002") == [{"step": 5, **row(5)}, {"closed": True}]


@pytest.mark.parametrize(
    ("logger", "why"),
    [("Raises", "SystemExit: enough"), ("Unmade", "OSError: no such server"),
     ("Missing", "has no 'Missing'")],
)  # fmt: skip
def test_a_logger_that_fails_is_dropped_with_one_warning_and_others_go_on(
    logger: str, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = Mirrors([LOGGERS + logger, LOGGERS + "Lines"])
    for step in range(50):
        both.log(logged(tmp_path), row(step))
    both.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert why in warning and "`hpcpod sync` can send them later" in warning
    assert [each.get("step") for each in lines(tmp_path)] == [*range(50), None]


def test_a_logger_that_hangs_takes_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirrors, "CLOSE_SECONDS", 0.05)
    waiting = Mirrors([LOGGERS + "Hangs"])
    waiting.log(logged(tmp_path), row(0))
    waiting.close()  # it comes back
    monkeypatch.setattr(mirrors, "WAITING", 3)
    full = Mirrors([LOGGERS + "Hangs"])
    for step in range(20):
        full.log(logged(tmp_path), row(step))
    full.close()
    (warning,) = [r.getMessage() for r in caplog.records]
    assert "it has not taken a row while 3 came" in warning


def test_without_a_name_there_is_no_thread() -> None:
    none = Mirrors(())
    assert not none
    none.close()
