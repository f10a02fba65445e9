"""``hpcpod evaluate RUN --holdout`` of runs that have none, or that are still at work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command_line import refusal
from tests.support.small_runs import create

TRADING = {
    "id": "trading", "backend": "trading",
    "kwargs": {"market": {"stocks": 2, "days": 100, "minutes": 13}, "features": ["signal"]},
}  # fmt: skip


def trading(home: Path) -> Path:
    return create(
        home, name="trades", env=TRADING, pod={"evaluator": "trading"}, stop={"rounds": 1}
    ).path


def test_a_run_without_a_holdout_is_not_told_to_finish_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cartpole, said = str(create(tmp_path).path), "small has no holdout: its env.backend is"
    assert said in refusal(capsys, "evaluate", cartpole, "--holdout")


def test_only_its_owner_is_told_to_stop_a_run_that_has_not_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, said = trading(tmp_path), "trades has not finished, and a holdout is opened once: let it"
    told = refusal(capsys, "evaluate", str(run), "--holdout")
    assert f"{said} finish, or end it by `hpcpod stop " in told
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    for path in (run, run / "config.json"):
        os.chown(path, 65521, 65500)
    assert refusal(capsys, "evaluate", str(run), "--holdout").endswith(f"{said} finish\n")
