"""JSON that knows its own checksum: one changed bit anywhere in the file is found.

A sealed file is ``{"sha256":"<of the payload's bytes>","payload":<payload>}`` and a newline:
plain JSON to any other program.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from hpcpod.errors import Corrupt
from hpcpod.records import decode

Json = Any
_T = TypeVar("_T")

_HEAD = b'{"sha256":"'
_MIDDLE = b'","payload":'
_TAIL = b"}\n"
_SEAL = slice(len(_HEAD), len(_HEAD) + 64)
_PAYLOAD = slice(_SEAL.stop + len(_MIDDLE), -len(_TAIL))


def seal(payload: Json, *, indent: int | None = None) -> bytes:
    """The bytes of a sealed file; equal payloads give equal bytes."""
    separators = (",", ":") if indent is None else (",", ": ")
    body = json.dumps(payload, separators=separators, indent=indent).encode()
    return b"".join((_HEAD, hashlib.sha256(body).hexdigest().encode(), _MIDDLE, body, _TAIL))


def seal_of(data: bytes) -> str:
    """The checksum that a sealed file carries: its identity."""
    return data[_SEAL].decode("ascii", "replace")


def unseal(data: bytes, name: str) -> Json:
    """The payload of a sealed file; ``name`` is what an error calls it.

    Raises:
        Corrupt: the bytes are not what was sealed.
    """
    whole = data.startswith(_HEAD) and data.endswith(_TAIL) and len(data) > _PAYLOAD.start
    if not whole or data[_SEAL.stop : _PAYLOAD.start] != _MIDDLE:
        raise Corrupt(f"{name} is torn or is not a sealed file ({len(data)} bytes)")
    body = data[_PAYLOAD]
    if hashlib.sha256(body).hexdigest() != seal_of(data):
        raise Corrupt(f"{name} does not match its checksum")
    try:
        return json.loads(body)
    except ValueError as error:
        raise Corrupt(f"{name} is not JSON: {error}") from error


def unsealed(kind: type[_T], data: bytes, path: Path) -> _T:
    """The record in a sealed file's bytes.

    Raises:
        Corrupt: the bytes are not what was sealed, or are no such record.
    """
    payload = unseal(data, str(path))
    try:
        return decode(kind, payload)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise Corrupt(f"{path} was written by another version of hpcpod: {error}") from error
