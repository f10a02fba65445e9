"""Checksummed JSON: one changed bit anywhere in the file is found.

A checksummed file is ``{"sha256":"<of the payload's bytes>","payload":<payload>}`` and a newline:
plain JSON to any other program.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from hpcpod.errors import Corrupt
from hpcpod.records.records import Checkpoint, Json, Report, decode
from hpcpod.storage.layout import blob_name, plain

MOST = 2**53  # forged ones above it were a traceback for all who looked at the run
"""Limit of the numbers in a slot's files, which another user may have written."""

_T = TypeVar("_T")

_HEAD = b'{"sha256":"'
_MIDDLE = b'","payload":'
_TAIL = b"}\n"
_CHECKSUM = slice(len(_HEAD), len(_HEAD) + 64)
_PAYLOAD = slice(_CHECKSUM.stop + len(_MIDDLE), -len(_TAIL))


def pack(payload: Json, *, indent: int | None = None) -> bytes:
    """The bytes of a checksummed file; equal payloads give equal bytes."""
    separators = (",", ":") if indent is None else (",", ": ")
    body = json.dumps(payload, separators=separators, indent=indent).encode()
    return b"".join((_HEAD, hashlib.sha256(body).hexdigest().encode(), _MIDDLE, body, _TAIL))


def checksum_of(data: bytes) -> str:
    """The checksum that a checksummed file carries: its identity."""
    return data[_CHECKSUM].decode("ascii", "replace")


def unpack(data: bytes, name: str) -> Json:
    """The payload of a checksummed file; ``name`` is what an error calls it.

    Raises:
        Corrupt: the bytes are not what was written.
    """
    whole = data.startswith(_HEAD) and data.endswith(_TAIL) and len(data) > _PAYLOAD.start
    if not whole or data[_CHECKSUM.stop : _PAYLOAD.start] != _MIDDLE:
        raise Corrupt(f"{name} is torn or is not a checksummed file ({len(data)} bytes)")
    body = data[_PAYLOAD]
    if hashlib.sha256(body).hexdigest() != checksum_of(data):
        raise Corrupt(f"{name} does not match its checksum")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{name} is not JSON: {error}") from error


def unpack_record(kind: type[_T], data: bytes, path: Path) -> _T:
    """The record in a checksummed file's bytes.

    Raises:
        Corrupt: the bytes are not what was written, or are no such record, or a name in it could
            lead out of the run folder.
    """
    payload = unpack(data, str(path))
    try:
        record = decode(kind, payload)
        _check_names(record)
    except Corrupt as error:
        raise Corrupt(f"{path}: {error}") from error
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise Corrupt(f"{path} was written by another version of hpcpod: {error}") from error
    return record


def _check_names(record: object) -> None:
    """See that what a record calls others by, and files are called by, are names."""
    for name in ("slot", "pod", "order"):
        value = getattr(record, name, "-")
        plain(value if isinstance(value, str) else "")
    checkpoint, trained = getattr(record, "checkpoint", None), getattr(record, "trained", None)
    if isinstance(checkpoint, Checkpoint):
        for sha256 in checkpoint.blobs():
            blob_name(sha256)
    if isinstance(trained, Report):
        _check_names(trained)
