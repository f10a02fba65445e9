"""Arrays come back exactly, and a content has one name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from hpcpod.errors import Corrupt, StorageError
from hpcpod.storage.blobs import decode_blob, encode_blob, read_blob_file, write_blob_file
from hpcpod.storage.run_folder import RunFolder
from tests.storage.faults import in_child

ARRAYS: dict[str, NDArray[np.generic]] = {
    "actor.0.weight": np.random.default_rng(0).normal(size=(64, 17)).astype(np.float32),
    "a/b": np.arange(5),
    "a": np.arange(3, dtype=np.int32),
    ".": np.zeros((0, 3), np.float32),
    "..": np.zeros(0),
    "100 %": np.array(True),
    "größe": np.array([True, False]),
    "zero-d": np.array(3.5, np.float32),
    "bytes": np.arange(256, dtype=np.uint8).reshape(2, 128),
    "counter": np.array(2**62 + 1),
    "nan": np.array([np.nan, np.inf, -0.0]),
    "half": np.ones((1, 1, 1), np.float16),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10)[::3],
    "complex": np.array(1 + 2j),
}
META = {"steps": 10, "mean": 0.1, "nested": {"list": [1, None, "ü"]}, "text": "x" * 100_000}


def test_arrays_and_meta_come_back_exactly(run: RunFolder) -> None:
    arrays, meta = run.blobs.get(run.blobs.put(ARRAYS, META))
    assert meta == META
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        found = arrays[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape), name
        assert found.tobytes() == array.tobytes(), name


def test_nothing_at_all_is_a_blob_too(run: RunFolder) -> None:
    assert run.blobs.get(run.blobs.put({}, {})) == ({}, {})


def test_equal_contents_are_one_blob_whoever_writes_them(run: RunFolder) -> None:
    turned = dict(reversed(list(ARRAYS.items())))
    sha256 = run.blobs.put(ARRAYS, META)
    path = run.blobs.path(sha256)
    inode = path.stat().st_ino
    assert run.blobs.put(turned, dict(reversed(list(META.items())))) == sha256
    assert path.stat().st_ino == inode, "written once"

    def elsewhere() -> None:
        assert RunFolder.open(run.path).blobs.put(turned, META) == sha256

    assert in_child(elsewhere) == 0
    assert run.blobs.put({**ARRAYS, "half": np.zeros((1, 1, 1), np.float16)}, META) != sha256
    assert run.blobs.put(ARRAYS, {}) != sha256


def test_what_is_no_number_is_refused() -> None:
    for array in (np.array(["text"]), np.array([object()]), np.array([b"x"])):
        with pytest.raises(TypeError, match="array 'x' holds"):
            encode_blob({"x": array}, {})
    with pytest.raises(ValueError, match="needs a name"):
        encode_blob({"": np.zeros(1)}, {})


def test_a_policy_is_exported_to_any_place(weird_path: Path) -> None:
    path = weird_path / "best.h5"
    write_blob_file(path, {"w": np.eye(3)}, {"agent": "ppo"})
    arrays, meta = read_blob_file(path)
    assert meta == {"agent": "ppo"}
    assert np.array_equal(arrays["w"], np.eye(3))
    write_blob_file(path, {}, {})
    assert read_blob_file(path) == ({}, {})
    assert [p.name for p in weird_path.iterdir()] == ["best.h5"]


def test_what_is_no_blob_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("not HDF5")
    with pytest.raises(Corrupt, match=r"text\.h5 is not a blob"):
        read_blob_file(tmp_path / "text.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(Corrupt, match=r"other\.h5 is not a blob"):
        read_blob_file(tmp_path / "other.h5")
    whole = encode_blob({"x": np.arange(100)}, {})
    for length in range(0, len(whole) - 1, 97):
        with pytest.raises(Corrupt):
            decode_blob(whole[:length], "torn")
    with pytest.raises(StorageError, match="can't read"):
        read_blob_file(tmp_path / "none.h5")


def test_pruning_takes_what_is_old_and_not_needed_only(run: RunFolder) -> None:
    names = [run.blobs.put({"x": np.full(4, i)}, {}) for i in range(4)]
    for name in names[:3]:
        os.utime(run.blobs.path(name), (1, 1))
    assert run.blobs.put({"x": np.full(4, 2)}, {}) == names[2], "put again: young again"
    leftover = run.path / "reports" / ".tmp-somebody"
    leftover.write_text("half")
    os.utime(leftover, (1, 1))
    assert run.prune({names[0]}, 3600) == 2
    assert [run.blobs.has(name) for name in names] == [True, False, True, True]
    assert not leftover.exists()
    assert run.prune(set(), 3600) == 1
    assert time.time() - run.blobs.path(names[3]).stat().st_mtime < 3600
