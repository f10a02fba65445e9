"""Bits rot and files are torn: every damage is found, none of it loses the run."""

from __future__ import annotations

import hashlib
import logging
import os
import random
from pathlib import Path

import numpy as np
import pytest

from hpcpod.errors import Corrupt, StorageError
from hpcpod.records.records import Checkpoint, Document, Intent, Owner, Report, encode
from hpcpod.storage import checksummed
from hpcpod.storage.disk import Disk
from hpcpod.storage.requests import Drain
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.safe_paths import MOST_BYTES
from tests.storage.faults import RefusingDisk, finish, start


def held(path: Path) -> Path:
    """The file behind a name published by either scheme."""
    return path / "content" if path.is_dir() else path


def flip(path: Path, bit: int | None = None) -> None:
    path = held(path)
    data = bytearray(path.read_bytes())
    bit = len(data) * 4 if bit is None else bit
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def tear(path: Path) -> None:
    path = held(path)
    os.truncate(path, path.stat().st_size // 2)


def test_a_report_torn_at_any_length_is_found(report: Report) -> None:
    whole = checksummed.pack(encode(report))
    assert checksummed.unpack(whole, "report") == encode(report)
    for length in range(len(whole)):
        with pytest.raises(Corrupt, match=r"torn|checksum"):
            checksummed.unpack(whole[:length], "report")
        with pytest.raises(Corrupt):
            checksummed.unpack(whole[:length] + bytes(len(whole) - length), "report")


def test_every_flipped_bit_is_found(report: Report) -> None:
    whole = checksummed.pack(encode(report))
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            checksummed.unpack(bytes(data), "report")


def test_a_damaged_report_is_the_same_answer_to_everyone(
    run: RunFolder, report: Report, caplog: pytest.LogCaptureFixture
) -> None:
    assert run.reports.publish(report)
    path = next((run.path / "reports").glob("*/p0001*"))
    flip(path)
    for _ in range(2):
        with caplog.at_level(logging.WARNING), pytest.raises(Corrupt, match="checksum"):
            RunFolder.open(run.path).reports.read(report.order)
    assert len(caplog.records) == 1
    assert run.reports.exists(report.order)
    assert not run.reports.publish(report), "its attempt is over: a number is never given twice"
    (found,) = run.quarantine.list()
    assert found.name.startswith("reports+")
    assert "checksum" in found.reason


def test_a_report_under_another_name_is_not_believed(run: RunFolder, report: Report) -> None:
    run.reports.publish(report)
    path = next((run.path / "reports").glob("*/p0001*"))
    shard = hashlib.sha256(b"p0002-00001-0").hexdigest()[:2]
    (run.path / "reports" / shard).mkdir(exist_ok=True)
    held(path).rename(run.path / "reports" / shard / "p0002-00001-0.json")
    with pytest.raises(Corrupt, match="is the report of p0001"):
        run.reports.read("p0002-00001-0")


def test_a_report_of_another_version_is_corrupt_not_a_traceback(run: RunFolder) -> None:
    data = checksummed.pack({"order": "p-1-0", "unknown": 1})
    shard = hashlib.sha256(b"p-1-0").hexdigest()[:2]
    run.disk.publish(run.path / "reports" / shard / "p-1-0.json", data)
    with pytest.raises(Corrupt, match="another version"):
        run.reports.read("p-1-0")


def test_a_damaged_claim_holds_nothing_and_can_be_taken_again(run: RunFolder, owner: Owner) -> None:
    assert run.claims.take("p-1-0", owner)
    tear(next((run.path / "claims").glob("*/p-1-0")))
    assert run.claims.take("p-1-0", Owner("13_0", "13"))
    assert run.claims.owner("p-1-0") == Owner("13_0", "13")
    assert not run.claims.take("p-1-0", owner)
    assert len(run.quarantine.list()) == 1


def test_a_damaged_intent_keeps_its_number(run: RunFolder) -> None:
    for number in range(3):
        assert run.intents.publish(Intent(number, f"t{number}", "slots"))
    tear(run.path / "intents" / "000001.json")
    fresh = RunFolder.open(run.path)
    assert [intent.number for intent in fresh.intents.all()] == [0, 2]
    assert not fresh.intents.publish(Intent(1, "again", "slots"))
    assert fresh.intents.count() == 3


def test_a_damaged_submission_and_a_damaged_request_are_as_though_never_made(
    run: RunFolder,
) -> None:
    run.intents.record(0, "11")
    run.requests.publish(Drain(reason="me"))
    flip(run.path / "intents" / "000000.job")
    flip(run.path / "control" / "drain.json")
    assert run.intents.submission(0) is None
    assert run.intents.record(0, "12") == "12"
    assert run.requests.read(Drain) is None
    run.requests.publish(Drain())
    assert run.requests.read(Drain) == Drain()


def test_the_next_best_resume_checkpoint_is_used(run: RunFolder) -> None:
    shas = [run.blobs.put({"x": np.full(3, i)}, {}) for i in range(4)]
    for attempt, sha256 in enumerate(shas):
        run.checkpoints.save("p1", 2, attempt, Checkpoint(sha256, 100 * (attempt + 1)))
    run.checkpoints.save("p1", 3, 0, Checkpoint(shas[0], 9999))
    assert run.checkpoints.latest("p1", 2) == Checkpoint(shas[3], 400)
    flip(run.path / "pods" / "p1" / "resume" / "00002-3.json")
    assert run.checkpoints.latest("p1", 2) == Checkpoint(shas[2], 300)
    run.blobs.path(shas[2]).unlink()
    assert run.checkpoints.latest("p1", 2) == Checkpoint(shas[1], 200)
    assert len(run.quarantine.list()) == 1
    run.checkpoints.drop("p1", 2)
    assert run.checkpoints.latest("p1", 2) is None
    assert run.checkpoints.latest("p1", 3) == Checkpoint(shas[0], 9999)


def test_a_damaged_blob_is_refused_and_can_be_put_again(run: RunFolder) -> None:
    sha256 = run.blobs.put({"x": np.arange(1000.0)}, {"k": 1})
    chance = random.Random(3)
    for _ in range(20):
        flip(run.blobs.path(sha256), chance.randrange(run.blobs.path(sha256).stat().st_size * 8))
        with pytest.raises(Corrupt, match=sha256):
            run.blobs.get(sha256)
        assert not run.blobs.has(sha256)
        assert run.blobs.put({"x": np.arange(1000.0)}, {"k": 1}) == sha256
        assert run.blobs.get(sha256)[1] == {"k": 1}
    with pytest.raises(StorageError, match="is missing"):
        run.blobs.get("0" * 64)


def test_a_damaged_configuration_is_named(run: RunFolder) -> None:
    flip(run.path / "config.json")
    with pytest.raises(Corrupt, match=r"config\.json does not match"):
        RunFolder.open(run.path)


# The board.


def grow(run: RunFolder, upto: int) -> None:
    """Publish generations up to this number: generation g has rows 0 to g."""
    number, old = run.board.read() or (-1, {})
    for generation in range(number + 1, upto + 1):
        new: Document = {"rows": {**old.get("rows", {}), f"{generation:03d}": generation}}
        assert run.board.publish(generation - 1, old, new, "w")
        old = new


def rows(run: RunFolder) -> tuple[int, list[int]]:
    number, document = run.board.read() or (-1, {})
    return number, list(document["rows"].values())


@pytest.mark.long
@pytest.mark.parametrize("damaged", [1, 2, 20, 31, 32, 33, 50, 63, 64, 65, 70])
@pytest.mark.parametrize("harm", [flip, tear])
def test_a_damaged_generation_costs_itself_and_its_chain_only(
    run: RunFolder, damaged: int, harm: object
) -> None:
    grow(run, damaged)
    assert callable(harm)
    harm(run.board.path(damaged))
    fresh = RunFolder.open(run.path)
    assert rows(fresh) == (damaged, list(range(damaged)))
    assert len(fresh.quarantine.list()) == 1

    # Whoever goes on publishes the whole, and the run goes on for everyone.
    grow(fresh, damaged + 5)
    expected = [n for n in range(damaged + 6) if n != damaged]
    assert rows(fresh) == rows(RunFolder.open(run.path)) == (damaged + 5, expected)
    assert rows(run) == rows(fresh), "one that had read the board before the damage agrees"


@pytest.mark.parametrize("damaged", [1, 2, 20, 32, 33])
def test_who_had_read_a_generation_before_it_was_torn_goes_on_for_everyone(
    run: RunFolder, damaged: int
) -> None:
    grow(run, damaged)
    tear(run.board.path(damaged))
    grow(run, damaged + 5)  # this one still knows what the torn one said
    assert rows(RunFolder.open(run.path)) == (damaged + 5, list(range(damaged + 6)))
    assert rows(run) == rows(RunFolder.open(run.path))


def test_readers_of_damage_far_behind_agree_with_those_who_saw_it_whole(run: RunFolder) -> None:
    grow(run, 40)
    flip(run.board.path(36))
    fresh = RunFolder.open(run.path)
    assert rows(fresh) == (40, list(range(36))), "what followed was made from what is lost"
    grow(fresh, 41)
    assert rows(run) == rows(fresh) == rows(RunFolder.open(run.path))
    grow(run, 70)
    flip(run.board.path(45))
    assert rows(RunFolder.open(run.path))[0] == 70, "older than the last anchor: never read"
    assert rows(RunFolder.open(run.path)) == rows(run)


def test_many_who_meet_the_damage_at_once_agree_and_go_on(run: RunFolder) -> None:
    grow(run, 10)
    tear(run.board.path(10))

    def go_on(me: int) -> None:
        mine = RunFolder.open(run.path)
        while True:
            number, old = mine.board.read() or (-1, {})
            new = {"rows": {**old["rows"], f"w{me:02d}": 1000 + me}}
            if mine.board.publish(number, old, new, f"w{me}"):
                return

    pids = [start(lambda me=me: go_on(me)) for me in range(8)]  # type: ignore[misc]
    assert [finish(pid) for pid in pids] == [0] * 8
    assert rows(run) == (18, [*range(10), *range(1000, 1008)])


def test_damage_that_only_one_look_sees_is_not_believed(run: RunFolder) -> None:
    class Flickering(Disk):
        reads = 0

        def read(
            self, path: Path, most: int | None = MOST_BYTES, sha256: str | None = None
        ) -> bytes | None:
            data = super().read(path, most, sha256)
            if path.name == "00000005.json" and data:
                self.reads += 1
                return data[:-1] if self.reads == 1 else data
            return data

    grow(run, 4)
    fresh, warm = (RunFolder.open(run.path, Flickering()) for _ in range(2))
    assert rows(warm) == (4, list(range(5)))
    grow(run, 5)
    assert rows(fresh) == rows(warm) == (5, list(range(6)))


def test_damage_is_read_around_where_nothing_may_be_written(run: RunFolder) -> None:
    grow(run, 33)
    flip(run.board.path(33))
    refusing = RefusingDisk(30, "write_new", "rename", "link", "mkdir", "sync")  # EROFS
    reader = RunFolder.open(run.path, refusing)
    assert rows(reader) == (33, list(range(33)))
    assert run.quarantine.list() == []


def test_the_first_snapshot_has_a_spare(run: RunFolder) -> None:
    grow(run, 5)
    flip(run.board.path(0))
    assert rows(RunFolder.open(run.path)) == (5, list(range(6)))
    flip(run.board.path(1))
    with pytest.raises(Corrupt, match="every snapshot of it is damaged"):
        RunFolder.open(run.path).board.read()


def test_compaction_leaves_two_sound_anchors(run: RunFolder) -> None:
    grow(run, 100)
    flip(run.board.path(64))
    fresh = RunFolder.open(run.path)
    assert fresh.board.compact() == 32, "96 and 32 are sound, 64 is not"
    flip(run.board.path(96))
    assert rows(RunFolder.open(run.path)) == (100, list(range(64)))


@pytest.mark.long
@pytest.mark.parametrize("hint", [None, b"nonsense", checksummed.pack({"anchor": 9600}), b""])
def test_the_hint_is_only_a_hint(run: RunFolder, hint: bytes | None) -> None:
    grow(run, 200)
    run.board.compact()
    if hint is None:
        (run.path / "board" / "LATEST").unlink()
    else:
        (run.path / "board" / "LATEST").write_bytes(hint)
    assert rows(RunFolder.open(run.path)) == (200, list(range(201)))
    run.disk.replace(run.path / "board" / "LATEST", checksummed.pack({"anchor": 32}))
    assert rows(RunFolder.open(run.path)) == (200, list(range(201)))
