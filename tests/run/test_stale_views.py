"""Runs on a filesystem that shows what was: a login node that believes old answers, by FUSE."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpcpod.cli.parser import main
from hpcpod.errors import StorageError, UserError
from hpcpod.records.records import Board, Checkpoint
from hpcpod.run import requests, status
from hpcpod.run.run import Run
from hpcpod.storage.board import writer_id
from hpcpod.storage.freshness import refresh_run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.chaos.views import Bad, Views, require_views
from tests.chaos.world import Disk
from tests.support.slots import SlotProcess
from tests.support.small_runs import SLOW, create
from tests.tournament.world import report

FOR_EVER = 1e6
"""Seconds that no test lasts: what is believed is believed to its end."""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """What the server has: it is seen here as it is."""
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.fixture
def login(disk: Path, tmp_path: Path) -> Iterator[Path]:
    """The same folder as a login node sees it."""
    require_views()
    bad = Bad(attributes=FOR_EVER, names=FOR_EVER)
    with Views.mounted(disk, tmp_path / "views", ["login"], bad) as views:
        yield views.place("login")


def begun_long_ago(folder: RunFolder) -> RunFolder:
    """The run, as if it had been launched an hour ago."""
    found = folder.board.read()
    assert found is not None
    generation, old = found
    board = Board.from_document(old)
    new = replace(board, started=board.started - 3600.0).document()
    assert folder.board.publish(generation, old, new, writer_id())
    return folder


def finish(folder: RunFolder) -> None:
    """What its last slot does."""
    merge(folder, Rules.of_run(folder), stop="user")


def test_the_view_is_as_old_as_it_should_be(disk: Path, login: Path) -> None:
    (disk / "file").write_text("old")
    assert (login / "file").stat().st_size == 3
    assert [path.name for path in login.iterdir()] == ["file"]
    assert not (login / "later").exists()
    (disk / "later").write_text("")
    (disk / "file").write_text("new one")
    assert (login / "file").stat().st_size == 3
    assert [path.name for path in login.iterdir()] == ["file"]
    assert not (login / "later").exists()
    assert (login / "file").read_text() == "new one", "to open is to ask"
    (login / "own").write_text("")
    assert {path.name for path in login.iterdir()} == {"file", "later", "own"}
    assert (login / "later").exists(), "a folder with a change of its own is read anew"


def test_a_run_that_has_just_ended_is_not_called_interrupted(
    disk: Path, login: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = begun_long_ago(create(disk))
    folder.slots.write("s", SlotStatus(host="elsewhere", pid=1, state="training"))
    seen = str(login / "small")
    assert main(["status", seen]) == 0
    assert "small: running" in capsys.readouterr().out
    finish(folder)
    folder.slots.drop("s")
    assert read_board(RunFolder.open(seen)).phase == "running", "the view is not old"
    assert main(["status", seen]) == 0
    said = capsys.readouterr().out
    assert "small: finished (user)" in said
    assert "resume" not in said
    assert main(["why", seen]) == 0
    assert capsys.readouterr().out == "the run is finished (user)\n"


def test_a_slot_that_a_listing_does_not_show_yet_is_at_work(disk: Path, login: Path) -> None:
    folder = begun_long_ago(create(disk))
    run = Run(RunFolder.open(login / "small"))
    assert run.status().state == "interrupted"
    folder.slots.write("s", SlotStatus(host="elsewhere", pid=1, state="training"))
    assert run.folder.slots.all() == {}, "the view is not old"
    assert run.status().state == "running"


def test_a_run_that_has_just_ended_is_not_resumed(disk: Path, login: Path) -> None:
    folder = begun_long_ago(create(disk))
    run = Run(RunFolder.open(login / "small"))
    assert run.status().state == "interrupted"
    finish(folder)
    assert read_board(run.folder).phase == "running", "the view is not old"
    with pytest.raises(UserError, match="small is finished: there is nothing to resume"):
        requests.require_resumable(run.folder)


def test_a_run_that_nobody_runs_is_interrupted_for_certain(disk: Path, login: Path) -> None:
    begun_long_ago(create(disk))
    status = Run(RunFolder.open(login / "small")).status()
    assert (status.state, status.doubt) == ("interrupted", "")
    left = [path for path in disk.rglob(".tmp-*") if "merge.lock" not in path.name]
    assert left == [], "to look leaves nothing"


def test_generations_in_a_folder_that_was_missing_are_found(disk: Path, login: Path) -> None:
    folder = create(disk)
    run = RunFolder.open(login / "small")
    assert not run.disk.exists(run.board.path(256))
    for _ in range(256):
        begun_long_ago(folder)
    assert refresh_run(run)
    found = run.board.read()
    assert found is not None and found[0] == 256


def test_what_may_be_old_is_said_and_nobody_is_told_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Disk.mounted(tmp_path / "disk") as disk:
        if not disk.own:
            pytest.skip("mounting is not permitted here")
        run = str(begun_long_ago(create(disk.home)).path)
        assert main(["status", run]) == 0
        assert "no process runs it; go on with: hpcpod resume" in capsys.readouterr().out
        assert disk.remount("ro")
        for verb in ("status", "why"):
            assert main([verb, run]) == 0
            said = capsys.readouterr().out
            assert (
                "no process is seen to run it, but what is seen from here may be a minute" in said
            )
            assert "resume" not in said
        states = (status.state for status in Run(RunFolder.open(run)).looks(0.0))
        assert [next(states), next(states)] == ["waiting"] * 2, "who follows it looks on"
        monkeypatch.setattr(status, "BELIEVED_SECONDS", 0.0)
        assert next(states) == "interrupted", "and is certain once old answers are forgotten"


def test_stop_minutes_are_measured_by_one_clock(disk: Path, tmp_path: Path) -> None:
    """One machine sees the times of the disk as they are, another one 45 s ahead."""
    require_views()
    right = Views.mounted(disk, tmp_path / "right", ["node"])
    wrong = Views.mounted(disk, tmp_path / "wrong", ["node"], Bad(skew=45.0))
    with right as here, wrong as there:
        create(here.place("node"), stop={"minutes": 0.5})
        first, second = (RunFolder.open(each.place("node") / "small") for each in (here, there))
        board = merge(first, Rules.of_run(first), at_work=True)
        assert board.began is not None and board.began - board.started < 20.0
        assert merge(second, Rules.of_run(second)).phase == "running"
        assert 0.0 <= Run(second).status().minutes < 0.3
        assert second.age() - first.age() < 20.0


def test_a_clock_that_can_not_be_read_is_not_replaced_by_another(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"minutes": 10})
    (folder.path / "lease").rmdir()
    with pytest.raises(StorageError, match="can't touch"):
        merge(folder, Rules.of_run(folder), at_work=True)
    assert read_board(folder).began is None


def test_a_report_of_a_slot_that_is_gone_counts_though_it_was_not_seen(
    disk: Path, login: Path
) -> None:
    folder = create(disk)
    (order,) = orders(read_board(folder))
    seen = RunFolder.open(login / "small")
    assert seen.reports.read(order.id) is None
    core = folder.blobs.put({"weights": np.ones(3)}, {"of": order.id})
    folder.reports.publish(report(order, checkpoint=Checkpoint(core, 512)))
    assert seen.reports.read(order.id) is None, "the view is not old"
    board = merge(seen, Rules.of_run(seen), lost=[order.id])
    assert board.reports == 1


def test_a_slot_that_is_signalled_and_told_to_leave_does_not_come_back(
    disk: Path, login: Path, tmp_path: Path
) -> None:
    """It has looked for such a request before there was one; requeued it would find out."""
    create(disk, **SLOW)
    slot = SlotProcess(RunFolder.open(disk / "small"), "7_0", logs=tmp_path, seen=login / "small")
    slot.until_in_mid_round()
    slot.folder.slots.retire("7_0", "now", "no more than 1 are wanted now")
    slot.process.send_signal(signal.SIGUSR2)
    assert slot.end() == 0, slot.log
