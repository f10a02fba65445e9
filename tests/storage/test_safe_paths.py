"""Somebody else writes into the folder: nothing outside of it is read, written or removed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcpod.errors import Corrupt, StorageError
from hpcpod.records.records import Checkpoint, Owner, Report, encode
from hpcpod.storage.checksummed import pack, unpack_record
from hpcpod.storage.layout import sharded
from hpcpod.storage.requests import Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.safe_paths import MOST_BYTES
from hpcpod.storage.slots import OrderStatus, SlotStatus

SECRET = b"my private key"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    home = tmp_path / "elsewhere"
    home.mkdir()
    (home / "content").write_bytes(SECRET)
    return home


def claim_path(run: RunFolder, order: str) -> Path:
    path = sharded(run.path / "claims", order)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def everything(run: RunFolder) -> bytes:
    """All that lies in the run folder, links not followed."""
    files = [path for path in run.path.rglob("*") if path.is_file() and not path.is_symlink()]
    return b"\n".join(path.read_bytes() for path in files)


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_link_in_the_place_of_a_name_is_damage_and_shows_nothing(
    run: RunFolder, secret: Path, owner: Owner, place: str
) -> None:
    target = secret / "content" if place == "file" else secret
    claim_path(run, "o-1").symlink_to(target)
    assert run.claims.owner("o-1") is None
    assert run.claims.take("o-1", owner)
    report = sharded(run.path / "reports", "o-1", ".json")
    report.parent.mkdir(exist_ok=True)
    report.symlink_to(target)
    with pytest.raises(Corrupt, match="symbolic link"):
        run.reports.read("o-1")
    (run.path / "control" / "stop.json").symlink_to(target)
    assert run.requests.read(Stop) is None
    run.board.publish(-1, {}, {"run": {}}, "me")
    (run.board.path(1)).symlink_to(target)
    assert run.board.read() == (1, {"run": {}})
    resume = run.path / "pods" / "p1" / "resume" / "00001-1.json"
    resume.parent.mkdir(parents=True)
    resume.symlink_to(target)
    assert run.checkpoints.latest("p1", 1) is None
    assert SECRET not in everything(run)
    assert (secret / "content").read_bytes() == SECRET


def test_a_pipe_in_the_place_of_a_name_stops_nobody(run: RunFolder, owner: Owner) -> None:
    os.mkfifo(claim_path(run, "o-1"))
    assert run.claims.owner("o-1") is None
    assert run.claims.take("o-1", owner)
    os.mkfifo(run.path / "slots" / "s.json")
    assert run.slots.all() == {}
    os.mkfifo(run.path / "lease" / "local.lock")
    assert run.locks.driven() is not True


def test_a_link_in_the_place_of_a_folder_leads_nowhere(
    run: RunFolder, secret: Path, report: Report, owner: Owner
) -> None:
    sha256 = hashlib.sha256(b"").hexdigest()
    (run.path / "blobs" / sha256[:2]).symlink_to(secret)
    sharded(run.path / "reports", report.order).parent.symlink_to(secret)
    claims = sharded(run.path / "claims", report.order).parent
    claims.symlink_to(secret)
    (run.path / "pods" / "p0001").mkdir()
    (run.path / "pods" / "p0001" / "resume").symlink_to(secret)
    (secret / f"{sha256}.h5").write_bytes(b"")
    (secret / "00001-0.json").write_bytes(SECRET)
    (secret / ".tmp-old").write_bytes(SECRET)
    before = sorted(secret.iterdir())
    for attempt in (
        lambda: run.reports.publish(report),
        lambda: run.claims.take(report.order, owner),
        lambda: run.checkpoints.save("p0001", 1, 0, Checkpoint(sha256, 1)),
        lambda: run.checkpoints.drop("p0001", 1),
        lambda: run.blobs.get(sha256),
    ):
        with pytest.raises(StorageError, match="symbolic link, not a folder"):
            attempt()
    assert not run.blobs.has(sha256)
    run.prune([], -1.0)
    assert sorted(secret.iterdir()) == before


def test_the_owner_may_have_the_blobs_on_another_disk(run: RunFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "scratch"
    (run.path / "blobs").rename(elsewhere)
    (run.path / "blobs").symlink_to(elsewhere)
    sha256 = run.blobs.put({"x": np.arange(3)}, {})
    assert run.blobs.get(sha256)[0]["x"].tolist() == [0, 1, 2]
    other = run.blobs.put({"x": np.arange(4)}, {})
    assert run.prune([other], -1.0) == 1
    assert (run.blobs.has(sha256), run.blobs.has(other)) == (False, True)


@pytest.mark.long
def test_a_file_that_is_too_long_to_be_meant_takes_no_memory(run: RunFolder) -> None:
    path = claim_path(run, "o-1")
    path.touch()
    os.truncate(path, 2**42)
    assert run.claims.owner("o-1") is None
    assert not path.exists()
    sha256 = "ab" * 32
    blob = run.blobs.path(sha256)
    blob.parent.mkdir()
    blob.touch()
    os.truncate(blob, 4 * MOST_BYTES)
    with pytest.raises(Corrupt, match="does not match its checksum"):
        run.blobs.get(sha256)


def hostile(report: Report, **fields: Any) -> bytes:
    return pack({**encode(report), **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"returns": ["a"]}, {"returns": [None]}, {"returns": 3}, {"round": "1"}, {"round": 1.5},
        {"round": 10**30}, {"attempt": True}, {"checkpoint": []}, {"metrics": [1]}, {"pod": 3},
        {"checkpoint": {"core": "../../x", "env_steps": 1}},
        {"checkpoint": {"core": "ab" * 32, "env_steps": 1, "segments": [[0, 1, "x"]]}},
        {"checkpoint": {"core": "ab" * 32, "env_steps": 1, "segments": [{"sha256": "/etc"}]}},
        {"order": "../x"}, {"slot": "../../x"}, {"slot": ""}, {"failure_kind": "other"},
        {"unknown": 1}, {"trained_steps": [[[]]]},
    ],
)  # fmt: skip
def test_a_report_of_other_types_or_names_is_damage(report: Report, fields: Any) -> None:
    with pytest.raises(Corrupt):
        unpack_record(Report, hostile(report, **fields), Path("r"))


def test_what_json_can_say_too_much_of_is_damage(report: Report) -> None:
    assert unpack_record(Report, hostile(report), Path("r")) == report
    deep = json.loads("[" * 500 + "]" * 500)
    digits = '{"returns": [1' + "0" * 5000 + "]}"
    for body in (b"[" * 200_000, digits.encode(), b'{"round": NaN}', b"\xff", b"[]", b"null"):
        head = f'{{"sha256":"{hashlib.sha256(body).hexdigest()}","payload":'.encode()
        with pytest.raises(Corrupt):
            unpack_record(Report, head + body + b"}\n", Path("r"))
    with pytest.raises(Corrupt):
        unpack_record(Report, hostile(report, metrics=deep), Path("r"))


@pytest.mark.parametrize(
    "payload",
    [
        None, [], 3, {"generation": 0}, {"generation": 0, "writer": "w", "time": 1.0},
        {"generation": 0, "writer": "w", "time": 1.0, "snapshot": [1]},
        {"generation": 0, "writer": "w", "time": 1.0, "snapshot": {"pods": 3}},
    ],
)  # fmt: skip
def test_a_generation_of_another_form_is_damage(run: RunFolder, payload: Any) -> None:
    run.disk.replace(run.board.path(0), pack(payload))
    with pytest.raises(Corrupt, match="every snapshot of it is damaged"):
        run.board.read()


def test_a_slot_that_shows_something_else_is_not_shown(run: RunFolder) -> None:
    others: list[Any] = [
        None,
        [],
        {"state": 3},
        {"env_steps": "many"},
        {"scoring": 3},
        {"scoring": {}},
    ]
    for status in others:
        run.disk.replace(run.path / "slots" / "s.json", pack(status))
        assert run.slots.all() == {}
    run.slots.write("s", SlotStatus(state="training", env_steps=3, scoring=OrderStatus(order="o")))
    assert run.slots.all()["s"].env_steps == 3


def test_the_owner_of_a_claim_has_a_name(run: RunFolder, owner: Owner) -> None:
    run.disk.publish(claim_path(run, "o-1"), pack({**encode(owner), "slot": "hand-../../x"}))
    assert run.claims.owner("o-1") is None
    assert run.claims.take("o-1", owner)
