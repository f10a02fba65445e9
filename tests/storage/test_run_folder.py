"""A run folder as one process sees it, wherever the folder is."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcpod.errors import Corrupt, RunExists, RunNotFound
from hpcpod.records.records import Checkpoint, Owner, Report
from hpcpod.storage import checksummed
from hpcpod.storage.disk import Disk
from hpcpod.storage.layout import plain
from hpcpod.storage.requests import Drain, Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus


def test_any_path_is_a_good_path(weird_path: Path, report: Report, owner: Owner) -> None:
    run = RunFolder.create(weird_path, {"name": "größe"})
    assert RunFolder.open(str(weird_path)).config == run.config
    assert run.config["name"] == "größe"
    assert run.board.publish(-1, {}, {"rows": {"a": 1}}, "w")
    assert run.reports.publish(report)
    assert run.reports.read(report.order) == report
    assert run.claims.take(report.order, owner)
    sha256 = run.blobs.put({"x": np.ones(3)}, {})
    run.checkpoints.save("p1", 1, 0, Checkpoint(sha256, 5))
    assert run.checkpoints.latest("p1", 1) == Checkpoint(sha256, 5)
    with run.locks.merge(1) as held, run.locks.coordinator() as leading:
        assert held
        assert leading
    assert [path.name for path in weird_path.parent.iterdir()] == ["run"]


def test_a_relative_path_stays_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunFolder.create("runs/a", {})
    monkeypatch.chdir("/")
    run.requests.publish(Stop())
    assert RunFolder.open(tmp_path / "runs" / "a").requests.read(Stop) == Stop()


def test_a_server_that_shows_another_number_for_all_of_a_user_s_takes_no_run_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS does that squashes root, or knows no names: here it is the user's own that differs."""
    RunFolder.create(tmp_path / "run", {})
    monkeypatch.setattr(os, "geteuid", lambda: 65521)
    run = RunFolder.open(tmp_path / "run")
    assert (run.owner.mine, run.owner.trusted) == (True, True)
    run.requests.publish(Stop())
    assert not list(run.path.glob(".tmp-*"))
    (run.path / "config.json").chmod(0o664)
    assert not RunFolder.open(run.path).owner.trusted


def test_a_run_is_created_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", {"seed": 1})
    for _ in range(2):
        with pytest.raises(RunExists, match=r"there is a run at .*run already: `hpcpod resume"):
            RunFolder.create(tmp_path / "run", {"seed": 2})
    assert RunFolder.open(tmp_path / "run").config["seed"] == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(RunExists):
        RunFolder.create(tmp_path / "mine", {})
    (tmp_path / "empty").mkdir()
    assert RunFolder.create(tmp_path / "empty", {}).path.is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(RunExists):
        RunFolder.create(tmp_path / "file", {})


def test_what_a_killed_creation_left_is_removed_an_hour_later(tmp_path: Path) -> None:
    for name, age in ((".tmp-run-old", 7200), (".tmp-run-new", 0), ("other", 7200)):
        (tmp_path / name / "board").mkdir(parents=True)
        stamp = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (stamp, stamp))
    RunFolder.create(tmp_path / "run", {})
    assert sorted(p.name for p in tmp_path.iterdir()) == [".tmp-run-new", "other", "run"]


def test_a_folder_of_another_layout_is_refused(tmp_path: Path) -> None:
    Disk().replace(tmp_path / "config.json", checksummed.pack({"format": 99, "publish": "link"}))
    with pytest.raises(RunNotFound, match="has layout 99"):
        RunFolder.open(tmp_path)


def test_only_the_same_slot_of_the_same_job_enters_a_claim_again(run: RunFolder) -> None:
    assert run.claims.owner("p-1-0") is None
    assert run.claims.take("p-1-0", Owner("12_3", "12", "node1", 1))
    assert run.claims.take("p-1-0", Owner("12_3", "12", "node9", 2)), "requeued to another node"
    assert not run.claims.take("p-1-0", Owner("12_4", "12", "node1", 1))
    assert not run.claims.take("p-1-0", Owner("12_3", "13", "node1", 1))
    assert run.claims.owner("p-1-0") == Owner("12_3", "12", "node1", 1)


def test_a_claim_is_read_once_and_a_free_order_at_every_look(run: RunFolder) -> None:
    other = RunFolder.open(run.path)
    first, second = Owner("12_3", "12"), Owner("12_4", "12")
    assert other.claims.take("p-1-0", first)
    assert run.claims.owners(["p-1-0", "p-2-0"]) == {"p-1-0": first}
    run.disk.remove(next((run.path / "claims").glob("*/p-1-0")))
    assert other.claims.take("p-2-0", second)
    assert run.claims.owners(["p-1-0", "p-2-0"]) == {"p-1-0": first, "p-2-0": second}
    assert run.claims.owners(["p-2-0"]) == {"p-2-0": second}
    assert run.claims.owners(["p-1-0"]) == {}, "of orders that are closed nothing is kept"


def test_the_first_report_of_an_order_stands(run: RunFolder, report: Report) -> None:
    assert not run.reports.exists(report.order)
    assert run.reports.read(report.order) is None
    assert run.reports.publish(report)
    assert run.reports.publish(report), "saying it again is no contradiction"
    assert not run.reports.publish(replace(report, returns=(9.0,)))
    assert run.reports.read(report.order) == report
    assert run.reports.exists(report.order)


def test_asking_twice_is_asking_once(run: RunFolder) -> None:
    assert run.requests.read(Stop) is None
    run.requests.publish(Stop(reason="user"))
    run.requests.publish(Stop(reason="again"))
    assert run.requests.read(Stop) == Stop(reason="user")
    run.requests.withdraw(Stop)
    run.requests.withdraw(Stop)
    assert run.requests.read(Stop) is None


def test_slots_show_what_they_do(run: RunFolder) -> None:
    run.slots.write("12_3", SlotStatus(state="training"))
    run.slots.write("12_3", SlotStatus(state="evaluating"))
    run.slots.write("12_4", SlotStatus(state="waiting"))
    (run.path / "slots" / "12_5.json").write_bytes(b"torn by a crash")
    shown = run.slots.all()
    assert {name: status.state for name, status in shown.items()} == {
        "12_3": "evaluating",
        "12_4": "waiting",
    }
    assert shown["12_3"].mtime == (run.path / "slots" / "12_3.json").stat().st_mtime
    run.slots.drop("12_3")
    run.slots.drop("12_3")
    assert list(run.slots.all()) == ["12_4"]
    assert run.quarantine.list() == []


def test_a_slot_s_silence_is_the_age_of_its_last_word(run: RunFolder) -> None:
    assert run.slots.silence("12_3") == math.inf
    run.slots.write("12_3", SlotStatus(state="training"))
    assert abs(run.slots.silence("12_3")) < 60
    long_ago = (run.path / "slots" / "12_3.json").stat().st_mtime - 1000
    os.utime(run.path / "slots" / "12_3.json", (long_ago, long_ago))
    assert run.slots.silence("12_3") > 900
    run.slots.drop("12_3")
    assert run.slots.silence("12_3") == math.inf


def test_a_run_that_was_deleted_does_not_come_back(
    run: RunFolder, report: Report, owner: Owner
) -> None:
    run.board.publish(-1, {}, {"rows": {"a": 1}}, "w")
    shutil.rmtree(run.path)
    writes: list[Callable[[], Any]] = [
        lambda: run.reports.publish(report),
        lambda: run.claims.take(report.order, owner),
        lambda: run.blobs.put({"x": np.ones(3)}, {}),
        lambda: run.checkpoints.save("p1", 1, 0, Checkpoint("ab" * 32, 5)),
        lambda: run.slots.write("12_3", SlotStatus()),
        lambda: run.requests.publish(Stop()),
        lambda: run.board.publish(0, {"rows": {"a": 1}}, {"rows": {"a": 2}}, "w"),
        lambda: run.disk.replace(run.path / "best.h5", b""),
    ]
    for write in writes:
        with pytest.raises(RunNotFound, match=r"the run folder .* is gone"):
            write()
    run.slots.drop("12_3")
    with contextlib.ExitStack() as locks:
        locks.enter_context(run.locks.merge(0.1))
        locks.enter_context(run.locks.driver())
        locks.enter_context(run.locks.coordinator())
    assert not run.path.exists()


def test_a_folder_has_at_most_twelve_methods_and_a_store_in_a_module_of_its_own_for_the_rest(
    run: RunFolder,
) -> None:
    assert len([name for name in vars(RunFolder) if not name.startswith("_")]) <= 12
    stores = (run.reports, run.claims, run.requests, run.checkpoints, run.slots, run.intents)
    modules = [type(store).__module__ for store in (*stores, run.engines, run.restarts, run.board)]
    assert len({RunFolder.__module__, *modules}) == 10


def test_thousands_of_reports_stay_a_few_hundred_per_folder(run: RunFolder) -> None:
    orders = (f"p{n % 997:04d}-{n // 997:05d}-0" for n in range(50_000))
    folders = Counter(run.reports._path(order).parent for order in orders)
    assert max(folders.values()) < 300


def test_names_that_are_no_file_names_are_refused(run: RunFolder) -> None:
    long, half = ("x" * 300, "\u00e4" * 101), "\ud800"
    for name in ("", ".", "..", ".hidden", "a/b", "/etc/passwd", "nul\0", *long, half):
        with pytest.raises(Corrupt, match="can't be the name"):
            plain(name)


def test_a_file_put_into_quarantine_is_listed_with_its_reason(run: RunFolder) -> None:
    path = run.path / "pods" / "strange"
    path.write_text("?")
    run.quarantine.move(path, "it is strange")
    run.quarantine.move(path, "it is gone already")
    assert not path.exists()
    (found,) = run.quarantine.list()
    assert found.name.startswith("pods+strange.")
    assert found.reason == "it is strange"


def test_looking_at_a_run_loads_neither_numpy_nor_h5py(run: RunFolder) -> None:
    run.board.publish(-1, {}, {"rows": {"a": 1}}, "w")
    code = (
        "import sys; from hpcpod.storage.run_folder import RunFolder;"
        "from hpcpod.storage.requests import Stop;"
        "run = RunFolder.open(sys.argv[1]); run.board.read(); run.slots.all();"
        "run.requests.read(Stop); run.intents.all(); run.checkpoints.latest('p', 1);"
        "print({'numpy', 'h5py', 'torch', 'filelock'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, run.path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_a_run_may_have_its_first_board_from_the_start(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {}, board={"rows": {"a": 1}})
    assert RunFolder.open(run.path).board.read() == (0, {"rows": {"a": 1}})


def test_what_was_asked_for_once_may_be_asked_for_in_other_words(run: RunFolder) -> None:
    run.requests.publish(Drain())
    before = run.requests.changed()
    run.requests.publish(Drain(now=True))  # asking again changes nothing
    assert run.requests.read(Drain) == Drain()
    for request in (Drain(now=True), Drain(now=False)):
        run.requests.replace(request)
        assert run.requests.read(Drain) == request
    assert run.requests.changed() != before
    run.requests.withdraw(Drain)
    assert run.requests.read(Drain) is None
