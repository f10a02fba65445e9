"""The small part of HDF5 that a blob is written in, read without HDF5's own library.

A blob may come from another user. The library believes what a file says of itself: it opens
other files that are named in it, allocates what is declared, and has crashed on crafted ones.
Here every number is held against the file's end before it is used, nothing is read twice, and
whatever a blob has no need of (links, chunks, filters, attributes, other files) is refused.

What is understood: a superblock of version 0, groups as symbol tables, object headers of version
1, and datasets that lie in the file in one piece.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_ROOT_ENTRY = 56
_ENTRY_BYTES = 40
_NOWHERE = 2**64 - 1
_HARD_LINKS = (0, 1)
"""Kinds of a symbol table's entry: 2 would be a symbolic link."""

_NIL, _DATASPACE, _DATATYPE, _FILL_VALUE, _LAYOUT = 0x0, 0x1, 0x3, 0x5, 0x8
_CONTINUATION, _SYMBOL_TABLE, _MODIFIED = 0x10, 0x11, 0x12
_OLD_FILL_VALUE = 0x4
_HARMLESS = {_NIL, _FILL_VALUE, _OLD_FILL_VALUE, _MODIFIED}
_WORDS = {
    0x2: "links", 0x6: "links", 0x7: "data in another file", 0xB: "compression or other filters",
    0xC: "attributes", 0x15: "attributes",
}  # fmt: skip


class NotOurs(ValueError):
    """The bytes are not HDF5 as a blob is written; says why."""


@dataclass(frozen=True)
class _Dataset:
    shape: tuple[int, ...]
    datatype: bytes
    begin: int
    size: int


class Image:
    """An HDF5 file in memory. Every method raises ``NotOurs``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._seen: set[int] = set()
        self._given = 0
        if data[:8] != _SIGNATURE:
            raise NotOurs("it is no HDF5 file")
        if data[8:11] != b"\0\0\0" or data[13:15] != b"\x08\x08":
            raise NotOurs("its superblock is of another version")
        base, _, end = struct.unpack("<QQQ", self._bytes(24, 24))
        if base != 0 or end != len(data):
            raise NotOurs(f"it says that it ends at byte {end} of {len(data)}")
        self._root = self._group(*struct.unpack("<Q", self._bytes(_ROOT_ENTRY + 8, 8)))

    def array(self, name: str) -> NDArray[Any]:
        """The dataset of this name in the root."""
        return self._array(self._at(self._root, name))

    def arrays(self, group: str) -> dict[str, NDArray[Any]]:
        """All datasets of a group in the root, which has nothing else in it."""
        inside = self._group(self._at(self._root, group))
        return {name: self._array(address) for name, address in inside.items()}

    def text(self, name: str) -> bytes:
        """The dataset of this name in the root: one string of a fixed length."""
        dataset = self._dataset(self._at(self._root, name))
        if dataset.shape or dataset.datatype[0] & 0xF != 3:
            raise NotOurs(f"'{name}' is no text")
        return self._bytes(dataset.begin, dataset.size)

    @staticmethod
    def _at(group: dict[str, int], name: str) -> int:
        if name not in group:
            raise NotOurs(f"there is no '{name}' in it")
        return group[name]

    def _bytes(self, begin: int, size: int) -> bytes:
        if begin + size > len(self._data):
            raise NotOurs("it points beyond its end")
        return self._data[begin : begin + size]

    def _once(self, address: int) -> int:
        """The address of a structure; what is met twice might be met without an end."""
        if address in self._seen:
            raise NotOurs("something in it has two names, or refers to itself")
        self._seen.add(address)
        return address

    # Groups: a tree of names, which lie in a heap.

    def _group(self, header: int) -> dict[str, int]:
        """What is in a group: by name, the place of its object header."""
        tables = [body for kind, body in self._messages(header) if kind == _SYMBOL_TABLE]
        if len(tables) != 1 or len(tables[0]) < 16:
            raise NotOurs("a group in it is no symbol table")
        tree, heap = struct.unpack("<QQ", tables[0][:16])
        signature, size, _, segment = struct.unpack("<4s4xQQQ", self._bytes(self._once(heap), 32))
        if signature != b"HEAP":
            raise NotOurs("a heap of names is damaged")
        names = self._bytes(segment, size)
        members: dict[str, int] = {}
        for name, place in self._leaves(tree, None):
            end = names.find(b"\0", name)
            if name >= size or end < 0:
                raise NotOurs("a name in it has no end")
            members[names[name:end].decode()] = place
        return members

    def _leaves(self, node: int, level: int | None) -> Iterator[tuple[int, int]]:
        """Each member's name, as a place in the heap, and its object header's place."""
        head = self._bytes(self._once(node), 24)
        signature, kind, depth, used = struct.unpack("<4sBBH", head[:8])
        if signature != b"TREE" or kind != 0 or (level is not None and depth != level - 1):
            raise NotOurs("a tree of names is damaged")
        # Between two children is a key, and one before and after all of them.
        body = struct.unpack(f"<{2 * used + 1}Q", self._bytes(node + 24, 8 * (2 * used + 1)))
        for child in body[1::2]:
            if depth:
                yield from self._leaves(child, depth)
            else:
                yield from self._entries(child)

    def _entries(self, node: int) -> Iterator[tuple[int, int]]:
        signature, used = struct.unpack("<4sxxH", self._bytes(self._once(node), 8))
        if signature != b"SNOD":
            raise NotOurs("a table of names is damaged")
        for entry in range(node + 8, node + 8 + used * _ENTRY_BYTES, _ENTRY_BYTES):
            name, header, kind = struct.unpack("<QQI", self._bytes(entry, 20))
            if kind not in _HARD_LINKS:
                raise NotOurs("it has symbolic links")
            yield name, header

    def _messages(self, header: int) -> Iterator[tuple[int, bytes]]:
        """The messages of an object header that are not harmless."""
        version, count, size = struct.unpack("<BxHxxxxI", self._bytes(self._once(header), 12))
        if version != 1:
            raise NotOurs("an object in it is of another version")
        blocks = [(header + 16, size)]
        for begin, room in blocks:
            place, end = begin, begin + room
            while place + 8 <= end and count > 0:
                kind, length = struct.unpack("<HH", self._bytes(place, 4))
                body = self._bytes(place + 8, length)
                place, count = place + 8 + length, count - 1
                if kind == _CONTINUATION and length >= 16:
                    further, room = struct.unpack("<QQ", body[:16])
                    blocks.append((self._once(further), room))
                elif kind not in _HARMLESS:
                    yield kind, body

    # Datasets.

    def _dataset(self, header: int) -> _Dataset:
        found: dict[int, bytes] = {}
        for kind, body in self._messages(header):
            if kind not in (_DATASPACE, _DATATYPE, _LAYOUT) or kind in found:
                raise NotOurs(f"it has {_WORDS.get(kind, 'parts')} that a blob does not")
            found[kind] = body
        if len(found) != 3:
            raise NotOurs("an array in it lacks its shape, its type or its data")
        layout = found[_LAYOUT]
        if layout[:2] != b"\x03\x01" or len(layout) < 18:
            raise NotOurs("an array in it does not lie in one piece")
        begin, size = struct.unpack("<QQ", layout[2:18])
        if begin == _NOWHERE and size == 0:
            begin = 0
        self._bytes(begin, size)
        # Several arrays may claim the same bytes, and each gets a copy.
        self._given += size
        if self._given > len(self._data):
            raise NotOurs("its arrays are larger than the file")
        return _Dataset(_shape(found[_DATASPACE]), found[_DATATYPE], begin, size)

    def _array(self, header: int) -> NDArray[Any]:
        dataset = self._dataset(header)
        dtype, count = _dtype(dataset.datatype), math.prod(dataset.shape)
        if count * dtype.itemsize != dataset.size:
            raise NotOurs(f"an array of shape {dataset.shape} has {dataset.size} bytes")
        flat = np.frombuffer(self._data, dtype, count, dataset.begin if count else 0)
        own: NDArray[Any] = flat.reshape(dataset.shape).copy()
        return own


def _shape(dataspace: bytes) -> tuple[int, ...]:
    version, rank = dataspace[0], dataspace[1]
    if version != 1 or rank > 32 or len(dataspace) < 8 + 8 * rank:
        raise NotOurs("the shape of an array is damaged")
    return struct.unpack(f"<{rank}Q", dataspace[8 : 8 + 8 * rank])


def _message(dtype: np.dtype[Any]) -> bytes:
    """How a file says that its numbers are of this type."""
    size, big = dtype.itemsize, dtype.byteorder == ">"
    if dtype.kind == "b":
        of = _message(np.dtype(np.int8))
        return struct.pack("<BHBI12s8s8s2s", 0x18, 2, 0, 1, of, b"FALSE", b"TRUE", b"\0\1")
    if dtype.kind in "iu":
        return struct.pack("<BBHIHH", 0x10, big | 8 * (dtype.kind == "i"), 0, size, 0, 8 * size)
    if dtype.kind == "c":
        part = np.dtype(f"{'>' if big else '<'}f{size // 2}")
        members = [
            struct.pack("<8sI28x20s", name, place, _message(part))
            for name, place in ((b"r", 0), (b"i", part.itemsize))
        ]
        return struct.pack("<BHBI", 0x16, 2, 0, size) + b"".join(members)
    mantissa = {2: 10, 4: 23, 8: 52}[size]
    exponent = 8 * size - 1 - mantissa
    return struct.pack(
        "<BBBBIHHBBBBI", 0x11, 0x20 | big, 8 * size - 1, 0, size,
        0, 8 * size, mantissa, exponent, 0, mantissa, 2 ** (exponent - 1) - 1,
    )  # fmt: skip


_NAMES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
_DTYPES = [np.dtype(bool), *(np.dtype(order + name) for order in "<>" for name in _NAMES)]
_TYPES = {_message(dtype): dtype for dtype in _DTYPES}
"""HDF5 has no word for some; they are as h5py writes them: a boolean as an enumeration, a complex
number as a pair."""


def storable(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this type can be read again."""
    return dtype in _TYPES.values()


def _dtype(message: bytes) -> np.dtype[Any]:
    for known, dtype in _TYPES.items():
        if message.startswith(known):
            return dtype
    raise NotOurs("an array in it holds something other than booleans and numbers")
