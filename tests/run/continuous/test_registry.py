"""The registry: one decision of two at once, a link that follows, rollback, full disks."""

from __future__ import annotations

import errno
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.errors import Corrupt, StorageError, UserError
from hpcpod.run.continuous.entries import named
from hpcpod.run.continuous.registry import Registry, open_registry
from hpcpod.run.continuous.rollback import number_of, rolled_back
from hpcpod.storage.disk import Disk
from tests.run.continuous.worlds import empty, fill
from tests.storage.faults import DEAD, MOMENTS, DyingDisk, RefusingDisk, in_child
from tests.support.small_disks import filled, small_disk


def deployed(registry: Registry) -> str:
    """The policy that those who follow the link get."""
    return (registry.path / "current" / "policy.h5").read_text()


def test_what_is_better_is_deployed_and_what_is_not_is_kept_out(tmp_path: Path) -> None:
    registry = empty(tmp_path)
    assert registry.decisions() == []
    assert fill(registry, 1).kind == "promoted"
    assert fill(registry, 2, promotes=False).kind == "kept"
    assert (registry.current, deployed(registry)) == (1, "policy 1")
    assert fill(registry, 3).current == 3
    assert deployed(registry) == "policy 3"
    assert [line.kind for line in registry.decisions()] == ["promoted", "kept", "promoted"]
    assert [each.number for each in registry.versions()] == [1, 2, 3]


def test_a_version_is_written_once(tmp_path: Path) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    version = registry.version(1)
    assert version is not None
    kept = registry.add(version, {"policy.h5": b"another"})
    assert kept == version and registry.policy(1).read_bytes() == b"policy 1"
    assert not list((registry.path / "versions").glob(".tmp-*"))


def test_of_two_decisions_under_one_number_one_counts(tmp_path: Path) -> None:
    registry, other = empty(tmp_path), open_registry(tmp_path / "mine.ct")
    fill(registry, 1)
    fill(registry, 2)
    assert registry.decide("rolled back", 1, 1, "one", number=3)
    assert not other.decide("rolled back", 2, 2, "another", number=3)
    assert (registry.current, deployed(registry)) == (1, "policy 1")


def test_what_was_judged_against_another_version_than_the_deployed_one_is_kept_out(
    tmp_path: Path,
) -> None:
    from hpcpod.run.continuous.cycle import Cycle

    registry = empty(tmp_path)
    for cycle in (1, 2, 3):
        fill(registry, cycle)
    plan = registry.plan(3)
    assert plan is not None
    rolled_back(registry)
    # As though the third cycle had been about to decide when a person went back.
    (registry.path / "decisions" / "000003.json").rename(tmp_path / "gone")
    (registry.path / "decisions" / "000004.json").rename(
        registry.path / "decisions" / "000003.json"
    )
    registry.decide("rolled back", 1, 1, "by hand")
    done = Cycle(registry, lambda text: None)._decided(plan, "promoted", "ahead")
    assert (done.kind, done.current) == ("kept", 1)
    assert "another version is deployed now" in done.words


def test_a_rollback_goes_back_to_what_was_deployed_before_and_further(tmp_path: Path) -> None:
    registry = empty(tmp_path)
    for cycle in (1, 2, 3):
        fill(registry, cycle)
    assert (rolled_back(registry).current, deployed(registry)) == (2, "policy 2")
    assert (rolled_back(registry).current, deployed(registry)) == (1, "policy 1")
    with pytest.raises(UserError, match="v0001 was the first"):
        rolled_back(registry)
    assert rolled_back(registry, number_of("v0003")).current == 3
    assert deployed(registry) == "policy 3"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [(2, "v0002 was never deployed"), (7, "no version v0007"), (1, "v0001 is deployed already")],
)
def test_a_rollback_to_what_can_not_be_gone_back_to_is_a_sentence(
    tmp_path: Path, wanted: int, said: str
) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    fill(registry, 2, promotes=False)
    with pytest.raises(UserError, match=said):
        rolled_back(registry, wanted)
    assert len(registry.decisions()) == 2


@pytest.mark.parametrize("word", ["v", "0", "latest", "-1", "v0001x"])
def test_a_version_that_is_none_is_a_sentence(word: str) -> None:
    with pytest.raises(UserError, match="expected a version such as v0003"):
        number_of(word)


def test_a_damaged_version_is_not_gone_back_to(tmp_path: Path) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    fill(registry, 2)
    registry.policy(1).write_bytes(b"something else")
    with pytest.raises(Corrupt, match="not what was registered"):
        rolled_back(registry)
    assert (registry.current, deployed(registry)) == (2, "policy 2")


def test_the_status_of_a_damaged_version_says_what_can_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    fill(registry, 2)
    registry.policy(2).write_bytes(b"something else")
    assert main(["ct", "status", str(registry.path)]) == 1
    said = capsys.readouterr().err
    assert "is not what was registered: it is damaged; put that file back, or go back by" in said
    assert f"`hpcpod ct rollback {registry.name} VERSION`" in said


def test_the_link_is_mended_by_whoever_looks(tmp_path: Path) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    fill(registry, 2)
    link = registry.path / "current"
    link.unlink()
    registry.follow()
    assert deployed(registry) == "policy 2"
    link.unlink()
    link.symlink_to("versions/v0001")
    registry.follow()
    assert deployed(registry) == "policy 2"


def test_what_a_killed_process_has_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    old, new = registry.path / "versions/.tmp-old", registry.path / "versions/.tmp-new"
    for path in (old, new):
        path.mkdir()
        (path / "policy.h5").write_bytes(b"")
    os.utime(old, (0, 0))
    registry.tidy()
    assert (old.exists(), new.exists(), deployed(registry)) == (False, True, "policy 1")


def promoted_by(disk: DyingDisk, home: Path) -> None:
    registry = open_registry(home / "mine.ct")
    registry.disk = disk
    disk.scheme = registry.document["publish"]
    fill(registry, 2)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_promotion_that_is_killed_at_any_operation_goes_on(tmp_path: Path, moment: str) -> None:
    """Whoever follows the link has a whole policy all the time, and the next call ends it."""
    first = tmp_path / "first"
    first.mkdir()
    fill(empty(first), 1)
    counting = DyingDisk(10**6, "before")
    shutil.copytree(first, tmp_path / "counted", symlinks=True)
    promoted_by(counting, tmp_path / "counted")
    assert counting.count == 19
    for at in range(counting.count):
        home = tmp_path / f"{moment}-{at}"
        shutil.copytree(first, home, symlinks=True)
        disk = DyingDisk(at, moment)  # type: ignore[arg-type]
        # 0: an operation that failed, since a folder was missing, and was tried again
        assert in_child(partial(promoted_by, disk, home)) in (DEAD, 0)
        registry = open_registry(home / "mine.ct")
        assert deployed(registry) in ("policy 1", "policy 2")
        fill(registry, 2)
        assert (registry.current, deployed(registry)) == (2, "policy 2")
        assert [line.kind for line in registry.decisions()] == ["promoted", "promoted"]


@pytest.mark.parametrize("operation", ["write_new", "rename", "mkdir"])
def test_a_disk_that_refuses_leaves_what_is_deployed(tmp_path: Path, operation: str) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    scheme = registry.disk.scheme
    registry.disk = RefusingDisk(errno.ENOSPC, operation)
    registry.disk.scheme = scheme
    with pytest.raises(StorageError, match="filesystem is full"):
        fill(registry, 2)
    again = open_registry(registry.path)
    assert (again.current, deployed(again)) == (1, "policy 1")
    assert fill(again, 2).current == 2


class LaggingDisk(Disk):
    """Refuses to change the link."""

    def rename(self, source: Path, target: Path) -> None:
        if target.name == "current":
            raise OSError(errno.EIO, "no")
        super().rename(source, target)


def test_a_link_that_can_t_follow_is_told_and_follows_at_the_next_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = empty(tmp_path)
    fill(registry, 1)
    registry.disk = LaggingDisk(registry.disk.scheme)
    assert fill(registry, 2).kind == "promoted"
    assert "current does not follow the ledger yet" in caplog.text
    assert (registry.current, deployed(registry)) == (2, "policy 1")
    open_registry(registry.path).follow()
    assert deployed(registry) == "policy 2"


def test_a_filesystem_without_symbolic_links_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    with pytest.raises(UserError, match="mine can't have a registry: can't make a symbolic link"):
        empty(tmp_path)


def test_a_disk_that_is_full_leaves_what_is_deployed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 1024) as home:
        registry = empty(home)
        fill(registry, 1)
        with filled(home), pytest.raises(StorageError, match="filesystem is full"):
            fill(registry, 2)
        assert (registry.current, deployed(registry)) == (1, "policy 1")
        assert fill(registry, 2).current == 2


def test_many_at_once_come_to_one_ledger(tmp_path: Path) -> None:
    from tests.storage.faults import finish, start

    registry = empty(tmp_path)
    for cycle in (1, 2, 3):
        fill(registry, cycle)

    def go_back_and_forth() -> None:
        mine = open_registry(registry.path)
        for wanted in (1, 2, 3, 1, 2):
            if mine.current != wanted:
                try:
                    rolled_back(mine, wanted)
                except UserError as error:
                    assert "deployed already" in str(error)  # another was first

    assert [finish(each) for each in [start(go_back_and_forth) for _ in range(4)]] == [0] * 4
    ledger = registry.decisions()
    assert [line.number for line in ledger] == [*range(1, len(ledger) + 1)]
    assert len(ledger) >= 3 + 5
    registry.follow()
    assert deployed(registry) == f"policy {ledger[-1].current}"
    assert (registry.path / "current").readlink() == Path(
        f"versions/{named(ledger[-1].current or 0)}"
    )
