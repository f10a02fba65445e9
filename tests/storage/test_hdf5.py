"""A blob that somebody else has made: read if it is one, refused in a sentence if it is not."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcpod.errors import Corrupt, UserError
from hpcpod.pod.policy import load_policy_file
from hpcpod.storage.blobs import decode_blob, encode_blob, read_blob_file
from hpcpod.storage.run_folder import RunFolder

Fill = Callable[[h5py.File, h5py.Group], None]

SOUND = encode_blob(
    {f"w{i}": np.arange(i, dtype=np.float32) for i in range(12)}
    | {"flag": np.array(True), "none": np.zeros((0, 4)), "pair": np.ones(3, np.complex64)},
    {"kind": "segment", "start": 0},
)


def written(fill: Fill, **options: Any) -> bytes:
    """A file with something in it that a blob does not have."""
    image = io.BytesIO()
    with h5py.File(image, "w", **options) as file:
        group = file.create_group("arrays")
        file.create_dataset("meta", data=np.bytes_("{}"), track_times=False)
        fill(file, group)
    return image.getvalue()


def virtual(file: h5py.File, group: h5py.Group) -> None:
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,))
    group.create_virtual_dataset("x", layout)


def beside(file: h5py.File, group: h5py.Group) -> None:
    group.create_dataset("x", (64,), "u1", external=[("/etc/passwd", 0, 64)])


def many_names(file: h5py.File, group: h5py.Group) -> None:
    """The same megabyte, eight times over."""
    group["x0"] = np.zeros(2**20, np.uint8)
    for name in range(1, 8):
        group[f"x{name}"] = group["x0"]


def link(target: object) -> Fill:
    def fill(file: h5py.File, group: h5py.Group) -> None:
        group["x"] = target

    return fill


def array(data: object = None, **options: Any) -> Fill:
    return lambda file, group: group.create_dataset("x", data=data, **options)


def group_in_group(file: h5py.File, group: h5py.Group) -> None:
    for _ in range(50):
        group = group.create_group("deeper")


BOMBS: dict[str, tuple[Fill, str]] = {
    "external link": (link(h5py.ExternalLink("/etc/passwd", "x")), "links to other"),
    "symbolic link": (link(h5py.SoftLink("/meta")), "links to other places"),
    "data in another file": (beside, "data in another file"),
    "virtual dataset": (virtual, "does not lie in one piece"),
    "chunks of nothing": (array(shape=(2**40,), dtype="f8", chunks=(2**16,)), "in one piece"),
    "huge and never written": (array(shape=(2**40,), dtype="f8"), "larger than the file"),
    "compressed": (array(np.zeros(2**22), compression="gzip"), "filters"),
    "without room for more": (array(np.zeros(4), maxshape=(None,)), ""),
    "text": (array(np.array(["a"], h5py.string_dtype())), "booleans and numbers"),
    "references": (array(shape=(2,), dtype=h5py.ref_dtype), ""),
    "lists": (array(shape=(2,), dtype=h5py.vlen_dtype(np.int32)), ""),
    "records": (array(np.zeros(2, [("a", "i4"), ("b", "f4")])), "booleans and numbers"),
    "many names of one array": (many_names, "larger than the file"),
    "groups in groups": (group_in_group, ""),
    "no shape": (array(h5py.Empty("f4")), ""),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_a_blob_has_no_need_of_is_refused_before_memory_is_taken(bomb: str) -> None:
    fill, reason = BOMBS[bomb]
    data = written(fill)
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match=f"^x is not a blob of hpcpod: .*{reason}") as refusal:
            decode_blob(data, "x")
        assert "\n" not in str(refusal.value)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 2**20
    finally:
        tracemalloc.stop()


def patched(place: int, what: bytes) -> bytes:
    return SOUND[:place] + what + SOUND[place + len(what) :]


@given(edits=st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=8))
@settings(max_examples=500)
def test_flipped_bytes_are_a_blob_or_corrupt(edits: list[tuple[int, int]]) -> None:
    data = bytearray(SOUND)
    for place, byte in edits:
        data[place] = byte
    try:
        arrays, _ = decode_blob(bytes(data), "x")
    except Corrupt:
        return
    assert sum(array.nbytes for array in arrays.values()) <= len(data)


def test_a_byte_of_the_structure_may_be_anything() -> None:
    """Every 31st of all: nothing but ``Corrupt`` comes of it."""
    refused = 0
    for place in range(0, len(SOUND), 31):
        for byte in (0x01, 0xFF, SOUND[place] ^ 0x80):
            try:
                decode_blob(patched(place, bytes([byte])), "x")
            except Corrupt:
                refused += 1
    assert refused > 100


@given(data=st.binary(max_size=300))
def test_any_bytes_behind_a_head_are_a_blob_or_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_blob(SOUND[:96] + data, "x")


@pytest.mark.parametrize("meta", ["[" * 100_000, "[]", "3", "{", '{"a": 1e', "\0"])
def test_what_a_blob_says_of_itself_is_a_mapping(meta: str) -> None:
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        file.create_group("arrays")
        file.create_dataset("meta", data=np.bytes_(meta + " "), track_times=False)
    with pytest.raises(Corrupt, match="is not a blob"):
        decode_blob(image.getvalue(), "x")


def test_a_file_that_a_virtual_array_names_is_not_opened(tmp_path: Path) -> None:
    """A pipe without a writer: whoever opened it would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def fill(file: h5py.File, group: h5py.Group) -> None:
        layout = h5py.VirtualLayout((4,), "f4", maxshape=(None,))
        source = h5py.VirtualSource(str(pipe), "x", (4,), "f4", maxshape=(None,))
        layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
        group.create_virtual_dataset("x", layout)

    # In a process of its own: inside of HDF5's library no signal and no timeout is heard.
    bomb = tmp_path / "bomb.h5"
    bomb.write_bytes(written(fill, libver="latest"))
    program = (
        "import sys; from pathlib import Path; from hpcpod.storage.blobs import read_blob_file;"
        " read_blob_file(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, str(bomb)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert "does not lie in one piece" in said.stderr


def test_a_type_that_can_t_be_read_again_is_not_written() -> None:
    for array in (np.zeros(2, np.longdouble), np.zeros(2, "M8[s]"), np.array(["a"])):
        with pytest.raises(TypeError, match="'x' holds"):
            encode_blob({"x": array}, {})


def test_a_bomb_is_refused_wherever_it_is_met(run: RunFolder, tmp_path: Path) -> None:
    bomb = written(beside)
    sha256 = hashlib.sha256(bomb).hexdigest()
    run.disk.replace(run.blobs.path(sha256), bomb)
    with pytest.raises(Corrupt, match="data in another file"):
        run.blobs.get(sha256)
    exported = tmp_path / "policy.h5"
    exported.write_bytes(bomb)
    with pytest.raises(Corrupt, match="data in another file"):
        read_blob_file(exported)
    with pytest.raises(UserError, match="is damaged, or is no policy"):
        load_policy_file(exported)
