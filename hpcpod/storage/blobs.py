"""Named arrays in write-once HDF5 files, called by the hash of their content."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcpod.errors import Corrupt, StorageError
from hpcpod.storage.disk import Disk, explained
from hpcpod.storage.hdf5 import Image, NotOurs, storable
from hpcpod.storage.layout import blob_path
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.safe_paths import content
from hpcpod.storage.store import Store

Arrays = dict[str, NDArray[Any]]

_ARRAYS = "arrays"
_META = "meta"
_DAMAGE = (OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError, RecursionError)
"""The errors of h5py, numpy and json for bytes that are no blob."""


class Blobs(Store):
    """A run's blobs. Safe for any number of processes: a name stands for one content for ever,
    so that several processes may write it, again and again, and be killed meanwhile.
    """

    def put(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> str:
        """Store arrays and JSON-able ``meta``; return the sha256 that names them.

        The blob is complete and durable when this returns. Equal contents are one blob.

        Raises:
            StorageError: the filesystem refuses; nothing is visible.
        """
        data = encode_blob(arrays, meta)  # 2 MB to the disk: 6 ms, 28 ms beside a busy one
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        try:
            # Its age is what protects a blob that no report names yet from being pruned.
            self._disk.touch(path)
            self._disk.sync(path.parent)
        except OSError:
            self._disk.replace(path, data)
        return sha256

    def get(self, sha256: str) -> tuple[Arrays, dict[str, Any]]:
        """The arrays and the meta of a blob, exactly as they were put.

        Raises:
            Corrupt: the content does not match its name; it is put into quarantine, so that
                a ``put`` of the same content makes it whole again.
            StorageError: there is no such blob.
        """
        path = self.path(sha256)
        try:
            data = self._disk.read(path, None, sha256)
        except Corrupt as error:
            self._quarantine.move(path, f"blob {error}")
            raise Corrupt(f"blob {error}") from error
        if data is None:
            raise StorageError(f"blob {sha256} is missing: there is no {path}")
        return decode_blob(data, str(path))

    def has(self, sha256: str) -> bool:
        """Look whether there is a blob of this name; its content is not verified."""
        return self._disk.exists(self.path(sha256))

    def wrote(self, owner: Ownership, sha256: str) -> bool:
        """True if a blob is of a run's owner, whose process this is, or of root.

        Its content is as its name says, so one that is changed meanwhile is found damaged.
        """
        found = self._disk.status(self.path(sha256))
        return found is not None and owner.wrote(found)

    def path(self, sha256: str) -> Path:
        """The place of a blob, whether or not it exists."""
        return blob_path(self._folder, sha256)


def encode_blob(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> bytes:
    """An HDF5 file as bytes: the same for the same arrays and meta, in whatever order given.

    Raises:
        TypeError: an array holds something other than booleans and numbers.
    """
    # Never in place: of 25 files whose writer was killed 10 opened with wrong contents (HDF5 2.0).
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        group = file.create_group(_ARRAYS)
        for name in sorted(arrays):
            array = np.asarray(arrays[name])
            if not storable(array.dtype):
                raise TypeError(f"array '{name}' holds {array.dtype}, not booleans or numbers")
            # With times equal arrays would have several names.
            group.create_dataset(_escape(name), data=array, track_times=False)
        text = json.dumps(dict(meta), sort_keys=True)
        file.create_dataset(_META, data=np.bytes_(text), track_times=False)
    return image.getvalue()


def decode_blob(data: bytes, name: str) -> tuple[Arrays, dict[str, Any]]:
    """The inverse of ``encode_blob``; ``name`` is what an error calls it.

    Raises:
        Corrupt: these are not the bytes of a blob.
    """
    try:
        with contextlib.closing(Image(data)) as image:
            arrays = {unquote(key): array for key, array in image.arrays(_ARRAYS).items()}
            meta: dict[str, Any] = json.loads(image.text(_META))
        if not isinstance(meta, dict):
            raise NotOurs("what it says of itself is no mapping")
    except _DAMAGE as error:
        raise Corrupt(f"{name} is not a blob of hpcpod: {error}") from error
    return arrays, meta


def write_blob_file(
    path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Write a blob outside of a run folder, under any name: an exported policy.

    Readers see the complete file or none; a file of this name is replaced.
    """
    Disk().replace(path, encode_blob(arrays, meta))


def read_blob_file(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read what ``write_blob_file`` wrote, or any blob by its path.

    Raises:
        Corrupt: the file is not a blob.
        StorageError: there is no such file.
    """
    with explained("read", path):
        data = content(None, path, most=None)
    if data is None:
        raise StorageError(f"can't read {path}: there is no such file")
    return decode_blob(data, str(path))


def _escape(name: str) -> str:
    """A name that HDF5 takes as it is: no separators, not ``.``; the inverse of ``unquote``."""
    if not name:
        raise ValueError("an array needs a name")
    return quote(name, safe=" ()[]=:,") if name.strip(".") else name.replace(".", "%2E")
