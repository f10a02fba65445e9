"""The page on going on: its commands run, in their order, and do what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpcpod.run.run import open_run
from tests.docs.pages import block, commands_of, page, run_script, said_here, write_files
from tests.run.test_extend import everything

PAGE = page("go-on.md")


def test_its_commands_train_extend_and_start_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    launch, extend, launch_from = commands_of(PAGE)
    said_here(capsys, *launch)
    mine = tmp_path / "runs" / "mine"
    before, first = everything(mine), open_run(mine).best()
    assert first is not None and first.fresh
    assert "stop.rounds 2 -> 3" in said_here(capsys, *extend)
    after, run = everything(mine), open_run(mine)
    assert {name: after[name] for name in before} == before  # to the byte
    board = run.board()
    assert (board.phase, board.stop_reason, board.rounds) == ("finished", "rounds", 6)
    assert {pod.history[-1].round for pod in board.living} == {3}
    ended = run.best()
    assert ended is not None and ended.fresh and (mine / "best.h5").is_file()
    said_here(capsys, *launch_from)
    shutil.move(mine, tmp_path / "elsewhere")
    heir = open_run(tmp_path / "runs" / "harder")
    pods = heir.board().pods
    assert [pods[name].cause for name in ("p0001", "p0002")] == ["inherited", "fresh"]
    assert pods["p0001"].origin is not None and pods["p0001"].origin.pod == ended.pod
    assert heir.status().env_steps == 2 * 512  # what the parent learned is not counted
    shutil.move(tmp_path / "elsewhere", mine)
    printed = run_script(block(PAGE, "python", "import hpcpod"), tmp_path)
    assert "stop.rounds 2 -> 3" in printed and f"goes on from {ended.pod} of mine" in printed
