"""A process is killed at every single change that it makes to the filesystem."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hpcpod.errors import RunExists, RunNotFound
from hpcpod.records.records import Checkpoint, Document, Intent, Owner, Report
from hpcpod.storage.disk import TEMPORARY, Disk
from hpcpod.storage.requests import Drain
from hpcpod.storage.run_folder import RunFolder
from tests.storage.conftest import contents
from tests.storage.faults import DEAD, MOMENTS, DyingDisk, DyingWithoutLinks, NoLinks, in_child

OWNER, OTHER = Owner("12_3", "12"), Owner("12_4", "12")
REPORT = Report("p1-00001-0", "p1", 1, 0, "12_3", (1.0, 2.0))
ARRAYS = {"weight": np.arange(6.0).reshape(2, 3)}
FIRST, SECOND = Checkpoint("a" * 64, 10), Checkpoint("b" * 64, 20)


@dataclass
class Story:
    """What a process does, what must hold wherever it dies, and after it was done again."""

    before: Callable[[RunFolder], None]
    work: Callable[[RunFolder], None]
    whenever: Callable[[RunFolder], bool]
    after: Callable[[RunFolder], bool]


def nothing(run: RunFolder) -> None:
    pass


def merge(run: RunFolder, order: str) -> None:
    """Read, modify, publish; idempotent by the order's name."""
    while True:
        number, old = run.board.read() or (-1, {})
        if order in old.get("orders", {}):
            return
        new: Document = {
            "orders": {**old.get("orders", {}), order: 1},
            "run": {"total": old.get("run", {}).get("total", 0) + 1},
        }
        if run.board.publish(number, old, new, "writer"):
            return


def merged(run: RunFolder) -> tuple[int, int]:
    _, document = run.board.read() or (-1, {})
    return len(document.get("orders", {})), document.get("run", {}).get("total", 0)


def grow(run: RunFolder, generations: int) -> None:
    for number in range(generations):
        merge(run, f"o{number:03d}")


def half_compacted(run: RunFolder) -> None:
    grow(run, 70)
    for number in range(29):
        run.disk.overwrite(run.board.path(number), b'{"emptied":true}\n')


def some_blobs(run: RunFolder) -> None:
    for sha256 in (FIRST.core, SECOND.core):
        run.disk.replace(run.blobs.path(sha256), b"a blob")
    run.checkpoints.save("p1", 1, 0, FIRST)


def withdraw(run: RunFolder) -> None:
    run.requests.withdraw(Drain)


STORIES = {
    "claim": Story(
        nothing,
        lambda run: print(run.claims.take("p1-00001-0", OWNER)),
        lambda run: run.claims.owner("p1-00001-0") in (None, OWNER),
        lambda run: (
            not run.claims.take("p1-00001-0", OTHER) and run.claims.take("p1-00001-0", OWNER)
        ),
    ),
    "blob": Story(
        nothing,
        lambda run: print(run.blobs.put(ARRAYS, {"k": 1})),
        lambda run: all(run.blobs.get(path.stem) for path in (run.path / "blobs").glob("*/*.h5")),
        lambda run: run.blobs.get(run.blobs.put(ARRAYS, {"k": 1}))[1] == {"k": 1},
    ),
    "report": Story(
        nothing,
        lambda run: print(run.reports.publish(REPORT)),
        lambda run: run.reports.read(REPORT.order) in (None, REPORT),
        lambda run: run.reports.read(REPORT.order) == REPORT,
    ),
    "first generation": Story(
        nothing,
        lambda run: merge(run, "x"),
        lambda run: merged(run) in ((0, 0), (1, 1)),
        lambda run: merged(run) == (1, 1),
    ),
    "delta": Story(
        lambda run: grow(run, 3),
        lambda run: merge(run, "x"),
        lambda run: merged(run) in ((3, 3), (4, 4)),
        lambda run: merged(run) == (4, 4),
    ),
    "anchor": Story(
        lambda run: grow(run, 32),
        lambda run: merge(run, "x"),
        lambda run: merged(run) in ((32, 32), (33, 33)),
        lambda run: merged(run) == (33, 33),
    ),
    "compaction": Story(
        half_compacted,
        lambda run: print(run.board.compact()),
        lambda run: merged(run) == (70, 70),
        lambda run: run.board.compact() == 0 and next(iter(contents(run))) == 32,
    ),
    "resume": Story(
        some_blobs,
        lambda run: run.checkpoints.save("p1", 1, 0, SECOND),
        lambda run: run.checkpoints.latest("p1", 1) in (FIRST, SECOND),
        lambda run: run.checkpoints.latest("p1", 1) == SECOND,
    ),
    "intent": Story(
        nothing,
        lambda run: print(run.intents.publish(Intent(0, "token", "slots", 4))),
        lambda run: run.intents.all() in ([], [Intent(0, "token", "slots", 4)]),
        lambda run: run.intents.all() == [Intent(0, "token", "slots", 4)],
    ),
    "submission": Story(
        nothing,
        lambda run: print(run.intents.record(0, "1234")),
        lambda run: run.intents.submission(0) in (None, "1234"),
        lambda run: run.intents.record(0, "9999") == "1234",
    ),
    "withdrawal": Story(
        lambda run: run.requests.publish(Drain(reason="me")),
        withdraw,
        lambda run: run.requests.read(Drain) in (None, Drain(reason="me")),
        lambda run: run.requests.read(Drain) is None,
    ),
}


def leftovers(path: Path) -> list[Path]:
    return list(path.rglob(TEMPORARY + "*"))


@pytest.mark.parametrize("scheme", ["link", "directory"])
@pytest.mark.parametrize("name", list(STORIES))
def test_wherever_a_process_dies_another_one_finishes_its_work(
    name: str, scheme: str, tmp_path: Path
) -> None:
    story = STORIES[name]
    dying = DyingDisk if scheme == "link" else DyingWithoutLinks
    template = RunFolder.create(
        tmp_path / "template", {}, Disk() if scheme == "link" else NoLinks()
    )
    story.before(template)
    deaths = 0
    for moment in MOMENTS:
        for at in range(100):
            path = tmp_path / f"{moment}-{at}"
            shutil.copytree(template.path, path)

            def work(path: Path = path, at: int = at, moment: str = moment) -> None:
                story.work(RunFolder.open(path, dying(at, moment)))  # type: ignore[arg-type]

            code = in_child(work)
            fresh = RunFolder.open(path)
            assert story.whenever(fresh), (moment, at)
            story.work(RunFolder.open(path))
            assert story.after(RunFolder.open(path)), (moment, at)
            RunFolder.open(path).prune([FIRST.core, SECOND.core], -1)
            assert leftovers(path) == []
            assert fresh.quarantine.list() == []
            shutil.rmtree(path)
            if code == 0:
                break
            assert code == DEAD
            deaths += 1
        else:
            raise AssertionError("the work never ends")
    assert deaths >= 3


@pytest.mark.parametrize("scheme", ["link", "directory"])
def test_a_run_appears_complete_or_not_at_all(scheme: str, tmp_path: Path) -> None:
    dying = DyingDisk if scheme == "link" else DyingWithoutLinks
    for moment in MOMENTS:
        for at in range(100):
            path = tmp_path / f"{moment}-{at}" / "run"

            def work(path: Path = path, at: int = at, moment: str = moment) -> None:
                RunFolder.create(path, {"seed": 1}, dying(at, moment))  # type: ignore[arg-type]

            code = in_child(work)
            try:
                RunFolder.create(path, {"seed": 1}, Disk() if scheme == "link" else NoLinks())
            except RunExists:
                assert code in (DEAD, 0)
            else:
                assert code == DEAD
            run = RunFolder.open(path)
            assert (run.config["seed"], run.config["publish"]) == (1, scheme)
            assert run.claims.take("p1-00001-0", OWNER)
            if code == 0:
                break
        else:
            raise AssertionError("the work never ends")


def test_a_folder_without_a_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="there is no run at"):
        RunFolder.open(tmp_path)
