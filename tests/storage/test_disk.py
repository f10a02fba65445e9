"""Promises of the disk while the filesystem refuses, lies, or is full."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hpcpod.errors import RunExists, StorageError, UserError
from hpcpod.records.records import Owner, Report
from hpcpod.storage.disk import TEMPORARY, Disk, probe
from hpcpod.storage.requests import Stop
from hpcpod.storage.run_folder import RunFolder
from tests.storage.faults import LostReply, NoLinks, RefusingDisk, WatchedDisk
from tests.support.small_disks import filled


@pytest.fixture(params=["link", "directory"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def disk_of(scheme: str, disk: Disk | None = None) -> Disk:
    disk = disk or Disk()
    disk.scheme = "link" if scheme == "link" else "directory"
    return disk


def temporaries(path: Path) -> list[Path]:
    return list(path.rglob(TEMPORARY + "*"))


def test_a_name_is_published_once_and_keeps_its_content(tmp_path: Path, scheme: str) -> None:
    disk, path = disk_of(scheme), tmp_path / "deep" / "er" / "name"
    assert disk.read(path) is None
    assert disk.publish(path, b"first")
    assert not disk.publish(path, b"second")
    assert disk.read(path) == b"first"
    assert disk.size(path) == 5
    assert temporaries(tmp_path) == []


def test_either_scheme_reads_what_the_other_published(tmp_path: Path) -> None:
    for scheme, other in (("link", "directory"), ("directory", "link")):
        path = tmp_path / scheme
        assert disk_of(scheme).publish(path, b"x")
        assert disk_of(other).read(path) == b"x"
        assert not disk_of(other).publish(path, b"y")
        assert disk_of(other).remove(path)
        assert not disk_of(other).remove(path)


def test_overwriting_keeps_the_name_taken(tmp_path: Path, scheme: str) -> None:
    disk, path = disk_of(scheme), tmp_path / "name"
    disk.publish(path, b"long content")
    disk.overwrite(path, b"-")
    assert disk.read(path) == b"-"
    assert not disk.publish(path, b"again")


@pytest.mark.parametrize("code", [errno.EEXIST, errno.ENOENT, errno.EIO, errno.ESTALE])
def test_a_success_whose_reply_was_lost_is_a_success(
    tmp_path: Path, scheme: str, code: int
) -> None:
    operation = "link" if scheme == "link" else "rename"
    disk, path = disk_of(scheme, LostReply(code, operation)), tmp_path / "name"
    assert disk.publish(path, b"mine")
    assert not disk_of(scheme).publish(path, b"another's")
    assert not disk.publish(path, b"late")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("operation", ["write_new", "link", "rename", "mkdir"])
def test_a_refusal_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, scheme: str, code: int, operation: str
) -> None:
    refusing = RefusingDisk(code, operation)
    disk, path = disk_of(scheme, refusing), tmp_path / "new" / "name"
    used = {"write_new", "mkdir", "link" if scheme == "link" else "rename"}
    if operation in used:
        with pytest.raises(StorageError, match=r"can't (publish|create).*: \w") as caught:
            disk.publish(path, b"x")
        assert "\n" not in str(caught.value)
        assert str(tmp_path) in str(caught.value)
    assert disk.read(path) in (None, b"x")
    assert temporaries(tmp_path) == []
    refusing.code = 0
    assert disk.publish(path, b"x")


def test_a_temporary_file_swept_under_a_stopped_writer_is_written_anew(
    tmp_path: Path, scheme: str
) -> None:
    class Swept(WatchedDisk):
        swept = False

        def link(self, source: Path, target: Path) -> None:
            self.sweep(source)
            super().link(source, target)

        def rename(self, source: Path, target: Path) -> None:
            self.sweep(source)
            super().rename(source, target)

        def sweep(self, source: Path) -> None:
            if not self.swept:
                self.swept = True
                Disk().discard(source)

    disk = Swept()
    assert disk_of(scheme, disk).publish(tmp_path / "name", b"x")
    disk.swept = False
    disk.replace(tmp_path / "file", b"y")
    assert (disk.read(tmp_path / "name"), disk.read(tmp_path / "file")) == (b"x", b"y")


def test_the_probe_finds_what_the_filesystem_can_do(tmp_path: Path) -> None:
    class Symlinks(Disk):
        def link(self, source: Path, target: Path) -> None:
            target.symlink_to(source)

    class Careless(NoLinks):
        def rename(self, source: Path, target: Path) -> None:
            subprocess.run(["mv", "-T", "--exchange", source, target], check=False)

    assert probe(Disk(), tmp_path) == "link"
    assert probe(NoLinks(), tmp_path) == "directory"
    assert probe(Symlinks(), tmp_path) == "directory"
    with pytest.raises(StorageError, match="can't publish a file safely"):
        probe(Careless(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_content_is_on_the_disk_before_its_name_and_the_name_before_success(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(WatchedDisk):
        def operate(self, name: str, path: Path, operation: Callable[[], None]) -> None:
            operation()
            said.append(name)

    said: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: said.append("fsync"))
    disk = disk_of(scheme, Told())
    disk.publish(tmp_path / "name", b"x")
    named = said.index("link" if scheme == "link" else "rename")
    assert said[:named].count("fsync") == (1 if scheme == "link" else 2)
    assert said[-2:] == ["fsync", "sync"]
    said.clear()
    disk.replace(tmp_path / "file", b"x")
    assert said == ["fsync", "write_new", "rename", "fsync", "sync"]
    said.clear()
    disk.replace(tmp_path / "file", b"x", durable=False)
    assert said == ["write_new", "rename"]


def test_folders_that_cannot_be_synced_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(descriptor: int) -> None:
        raise OSError(errno.EINVAL, "not on this filesystem")

    monkeypatch.setattr(os, "fsync", sync)
    Disk().sync(tmp_path)
    with pytest.raises(StorageError, match="can't write"):
        Disk().replace(tmp_path / "file", b"x")


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_space(
    small: Path, report: Report, owner: Owner
) -> None:
    run = RunFolder.create(small / "run", {})
    assert run.board.publish(-1, {}, {"rows": {"a": 1}}, "w")
    failures: list[Callable[[], object]] = [
        lambda: run.reports.publish(report),
        lambda: run.claims.take("p-1-0", owner),
        lambda: run.board.publish(0, {"rows": {"a": 1}}, {"rows": {"a": 2}}, "w"),
        lambda: run.blobs.put({"x": np.zeros(10_000)}, {}),
        lambda: run.requests.publish(Stop()),
        lambda: RunFolder.create(small / "other", {}),
    ]
    with filled(small):
        for fail in failures:
            with pytest.raises(StorageError, match="is full; free some space"):
                fail()
        assert temporaries(small) == []
        assert run.reports.read(report.order) is None
        assert run.claims.owner("p-1-0") is None
        assert run.board.read() == (0, {"rows": {"a": 1}})
        assert not (small / "other").exists()
        with run.locks.merge(0.1):
            pass

    assert run.reports.publish(report)
    assert run.claims.take("p-1-0", owner)
    assert run.board.publish(0, {"rows": {"a": 1}}, {"rows": {"a": 2}}, "w")
    assert run.blobs.has(run.blobs.put({"x": np.zeros(10_000)}, {}))
    assert RunFolder.create(small / "other", {}).path.is_dir()


def test_a_read_only_filesystem_can_be_looked_at(small: Path, report: Report) -> None:
    run = RunFolder.create(small / "run", {})
    run.board.publish(-1, {}, {"rows": {"a": 1}}, "w")
    run.reports.publish(report)
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    reader = RunFolder.open(run.path)
    assert reader.board.read() == (0, {"rows": {"a": 1}})
    assert reader.reports.read(report.order) == report
    assert reader.slots.all() == {}
    with pytest.raises(StorageError, match="is mounted read-only"):
        reader.requests.publish(Stop())
    with pytest.raises(UserError, match=r"can't create .*: its filesystem is mounted read-only"):
        RunFolder.create(small / "other", {})
    with reader.locks.merge(0.1) as held:
        assert not held


def test_a_folder_without_permission_is_the_users_mistake(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    if os.geteuid() != 0:
        with pytest.raises(UserError, match="permission is denied"):
            RunFolder.create(tmp_path / "run", {})
        return
    for folder in tmp_path.parents[:-2]:  # pytest's own are private; nobody must get this far
        folder.chmod(folder.stat().st_mode | 0o011)
    pid = os.fork()
    if pid == 0:  # nothing is forbidden to root: ask as somebody else
        os.setuid(65534)
        try:
            RunFolder.create(tmp_path / "run", {})
        except UserError as error:
            os._exit(0 if "permission is denied" in str(error) else 3)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_run_below_a_file_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((UserError, RunExists), match="is a file"):
        RunFolder.create(tmp_path / "file" / "run", {})
