"""Saved folders as blobs: parts, and lists of files that another user may have written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcpod.errors import Corrupt
from hpcpod.storage import saved_folders
from hpcpod.storage.blobs import Blobs
from hpcpod.storage.disk import Disk
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.saved_folders import put_folder, replace_folder, write_folder
from tests.program.programs import ADDS, birth_of, create, execute


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return create(ADDS, tmp_path).blobs


def test_a_large_file_lies_in_parts_of_which_only_new_ones_are_written(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_folders, "PART_BYTES", 100_000)
    monkeypatch.setattr(saved_folders, "WHOLE_BYTES", 0)
    folder = tmp_path / "saved"
    folder.mkdir()
    content = bytes(range(256)) * 1000  # 256,000 bytes: parts of 100,000, 100,000, 56,000
    (folder / "replay").write_bytes(content)
    first = put_folder(blobs, folder, 1, {}, 10**9)
    (folder / "replay").write_bytes(content + b"more")
    second = put_folder(blobs, folder, 2, {}, 10**9)
    one, other = ([s.sha256 for s in made.segments] for made in (first, second))
    assert len(one) == len(other) == 3 and one[:2] == other[:2] and one[2] != other[2]
    write_folder(blobs, second.core, tmp_path / "out")
    assert (tmp_path / "out" / "replay").read_bytes() == content + b"more"


def test_a_folder_of_a_few_megabytes_is_one_blob(blobs: Blobs, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    for name in ("model", "optimizer"):
        (folder / name).write_bytes(name[:1].encode() * 2_000_000)
    made = put_folder(blobs, folder, 1, {}, 10**9)
    assert not made.segments
    write_folder(blobs, made.core, tmp_path / "out")
    assert (tmp_path / "out" / "optimizer").read_bytes() == b"o" * 2_000_000


def test_a_part_that_is_gone_leaves_no_folder_behind(blobs: Blobs, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "replay").write_bytes(b"r" * 9_000_000)
    made = put_folder(blobs, folder, 1, {}, 10**9)
    blobs.path(made.segments[0].sha256).unlink()
    with pytest.raises(Corrupt, match="is missing"):
        write_folder(blobs, made.core, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".tmp-*"))


class Recording(Disk):
    """A disk that notes what it does to names, and refuses one rename to ``refused``."""

    def __init__(self, refused: str = "") -> None:
        super().__init__()
        self.refused, self.done = refused, list[str]()

    def rename(self, source: Path, target: Path) -> None:
        self.done.append(f"rename to {target.name[:5]}")
        if target.name == self.refused:
            self.refused = ""
            raise OSError(28, "No space left on device")
        super().rename(source, target)

    def sync(self, folder: Path) -> None:
        self.done.append("sync")
        super().sync(folder)


def test_a_folder_is_replaced_in_one_step_that_lasts_and_stands_if_that_is_refused(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, best = tmp_path / "saved", tmp_path / "best"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "weight").write_text("1")
    made = put_folder(blobs, folder, 1, {}, 10**9)
    synced, fsync = list[int](), os.fsync

    def noted(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    best.mkdir()
    (best / "old").write_text("0")
    disk, owner = Recording("best"), Ownership(tmp_path, os.geteuid())
    with pytest.raises(OSError, match="No space left"):
        replace_folder(disk, blobs, made.core, best, owner)
    assert [path.name for path in best.iterdir()] == ["old"]
    synced.clear()
    disk = Recording()
    replace_folder(disk, blobs, made.core, best, owner)
    assert (best / "deep" / "weight").read_text() == "1" and not (best / "old").exists()
    assert disk.done == ["rename to .tmp-", "rename to best", "sync"]
    assert len(synced) == 4  # the file, its two folders, and the one above them
    assert not list(tmp_path.glob(".tmp-*"))


def _listed(**file: Any) -> dict[str, Any]:
    whole = {"path": "x", "size": 1, "executable": False, "parts": [], "start": 0, **file}
    return {"files": [whole], "folders": []}


@pytest.mark.parametrize(
    "listing",
    [
        _listed(path="../x"), _listed(path="/etc/x"), _listed(path="a/../../x"), _listed(path=""),
        _listed(path="a\0b"), _listed(size=7), _listed(size="1"), _listed(parts=["../../etc"]),
        {"files": 3, "folders": []}, {"files": [], "folders": ["../y"]}, {},
        {"files": [*_listed()["files"], *_listed()["files"]], "folders": ["x"]},
    ],
)  # fmt: skip
def test_a_hostile_list_of_files_writes_nothing_outside(
    listing: dict[str, Any], blobs: Blobs, tmp_path: Path
) -> None:
    core = blobs.put({"bytes": np.frombuffer(b"1", np.uint8)}, {"program": listing})
    before = sorted(str(p) for p in tmp_path.rglob("*") if "blobs" not in str(p))
    with pytest.raises((Corrupt, OSError)):
        write_folder(blobs, core, tmp_path / "out")
    assert sorted(str(p) for p in tmp_path.rglob("*") if "blobs" not in str(p)) == before


def test_a_policys_blob_is_no_saved_folder(blobs: Blobs, tmp_path: Path) -> None:
    core = blobs.put({"agent/weight": np.zeros(3, np.float32)}, {"format": 2})
    with pytest.raises(Corrupt, match="holds no bytes of a saved folder"):
        write_folder(blobs, core, tmp_path / "out")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("which", ["core", "part"])
def test_a_checkpoint_that_another_user_wrote_is_not_given_to_the_program(
    which: str, tmp_path: Path
) -> None:
    script = ADDS.replace(
        "if save:\n", 'if save:\n    (save / "big").write_bytes(b"r" * 9_000_000)\n'
    )
    folder = create(script, tmp_path)
    birth = birth_of(folder)
    made = execute(folder, birth).checkpoint
    assert made is not None
    blob = folder.blobs.path(made.core if which == "core" else made.segments[0].sha256)
    later = replace(birth, round=2, checkpoint=made)
    os.chown(blob, 65521, -1)
    with pytest.raises(Corrupt, match=f"blob {blob.stem} was written by another user than"):
        execute(folder, later)
    os.chown(blob, 0, -1)
    assert execute(folder, later).trained_steps == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_save_inside_a_round_that_another_user_wrote_is_passed_over(tmp_path: Path) -> None:
    folder = create(ADDS, tmp_path)
    birth = birth_of(folder)
    first = execute(folder, birth)
    assert first.checkpoint is not None
    folder.checkpoints.save(birth.pod, birth.round, 1, replace(first.checkpoint, env_steps=2))
    assert execute(folder, birth).returns != first.returns  # it goes on there
    os.chown(folder.blobs.path(first.checkpoint.core), 65521, -1)
    assert execute(folder, birth).returns == first.returns
