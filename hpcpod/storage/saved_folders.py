"""Folders that a training program has saved, as blobs: a core that lists the files, and parts.

A small folder lies in the core itself, as small files do. A large file lies in parts of equal
size, each a blob of its own, so that what did not change since the last save is not written again.
Nothing here is ever interpreted: a file of the program is bytes.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from hpcpod.errors import Corrupt, UserError
from hpcpod.records.codec import decode, encode
from hpcpod.records.records import Checkpoint, Segment
from hpcpod.storage.blobs import Blobs
from hpcpod.storage.disk import TEMPORARY, Disk, unique
from hpcpod.storage.layout import blob_name
from hpcpod.storage.ownership import Ownership

PART_BYTES = 16 * 2**20
"""Bytes of a part: what one process has in memory of a file."""

SMALL_BYTES = 64 * 2**10
"""Files up to this size lie in the core, together ``PART_BYTES`` at most."""

WHOLE_BYTES = 8 * 2**20
"""A folder of up to this size lies in the core whole: a second blob of 2 MB takes 10 ms more."""

MOST_FILES = 50_000
"""Files of one folder: a list of more takes seconds to write, at every save."""

KEY = "program"
"""Of the core's meta: the list of the files."""

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Unsavable(UserError):
    """A folder that can't be saved as it is; says why in one sentence."""


@dataclass(frozen=True)
class File:
    """One file of a saved folder."""

    path: str
    """Below the folder, with ``/``."""
    size: int
    executable: bool = False
    parts: tuple[str, ...] = ()
    """sha256 of each part, in order; none of a file in the core."""
    start: int = 0
    """Of a file in the core: its first byte there."""


@dataclass(frozen=True)
class Listing:
    """The files of a saved folder."""

    files: tuple[File, ...]
    folders: tuple[str, ...] = ()
    """Folders without files."""


def put_folder(
    blobs: Blobs, folder: Path, env_steps: int, about: Mapping[str, Any], most_bytes: int
) -> Checkpoint:
    """Store a folder's files; the checkpoint that names them.

    Args:
        blobs: of the run.
        folder: nothing in it changes meanwhile.
        env_steps: experience in it.
        about: further meta of the core, such as the pod's name.
        most_bytes: that the files may have together.

    Raises:
        Unsavable: it is empty or too large, or holds something other than files and folders.
        StorageError: the filesystem of the run refused.
    """
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise Unsavable(f"{folder} is a link or a file by now, not the folder that it was")
    found = sorted(_files(folder))
    if not any(not stat.S_ISDIR(each.st_mode) for _, each in found):
        raise Unsavable(f"there is no file in {folder}")
    total = sum(each.st_size for _, each in found if not stat.S_ISDIR(each.st_mode))
    if total > most_bytes:
        raise Unsavable(
            f"{folder} has {total:,} bytes, more than program.max_save_bytes ({most_bytes:,})"
        )
    small, files, folders = bytearray(), list[File](), list[str]()
    for path, status in found:
        if stat.S_ISDIR(status.st_mode):
            folders.append(path)
            continue
        executable = bool(status.st_mode & stat.S_IXUSR)
        with _opened(folder / path, path) as file:
            little = status.st_size <= SMALL_BYTES and len(small) + status.st_size <= PART_BYTES
            if little or total <= WHOLE_BYTES:
                data = file.read(status.st_size)
                files.append(File(path, len(data), executable, (), len(small)))
                small += data
                continue
            parts, size = list[str](), 0
            # No more than it had: a process that is kept may still append to it.
            while data := file.read(min(PART_BYTES, status.st_size - size)):
                size += len(data)
                array = np.frombuffer(data, np.uint8)
                parts.append(blobs.put({"bytes": array}, {"kind": "part"}))
            files.append(File(path, size, executable, tuple(parts)))
    listing = Listing(tuple(files), tuple(folders))
    meta = {**about, KEY: encode(listing), "env_steps": env_steps}
    core = blobs.put({"bytes": np.frombuffer(bytes(small), np.uint8)}, meta)
    every = dict.fromkeys(part for each in files for part in each.parts)
    segments = tuple(Segment(i, i + 1, part) for i, part in enumerate(every))
    return Checkpoint(core, env_steps, len(segments), segments)


def about_of(
    blobs: Blobs, checkpoint: Checkpoint, owner: Ownership | None = None
) -> dict[str, Any]:
    """Facts of a saved folder, as they were stored with it: its core's meta.

    Raises:
        Corrupt: the core is damaged or gone, or another user has written it than ``owner`` may.
    """
    return _core(blobs, checkpoint.core, owner)[1]


def write_folder(
    blobs: Blobs, core: str, to: Path, *, durable: bool = False, owner: Ownership | None = None
) -> None:
    """Write the files of a saved folder into a new folder, which must not be there.

    Args:
        blobs: of the run.
        core: sha256 of the core.
        to: the folder to make; it is there whole, or not at all.
        durable: its files survive a crash of the machine.
        owner: of the run, for a program may load the folder; None: nobody does.

    Raises:
        Corrupt: a blob is damaged or gone, or is none of a saved folder, or names a path that
            leads out of it, or another user than ``owner`` has written it.
        OSError: ``to`` can't be written.
    """
    small, meta = _core(blobs, core, owner)
    listing = _listing(meta, core)
    made = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=to.parent))
    try:
        for name in listing.folders:
            _below(made, name).mkdir(parents=True, exist_ok=True)
        for file in listing.files:
            path = _below(made, file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = 0o777 if file.executable else 0o666
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, mode), "wb") as written:
                for data in _content(blobs, small, file, owner):
                    written.write(data)
                if written.tell() != file.size:
                    raise Corrupt(f"blob {core}: {file.path} has not the size that it says")
                if durable:
                    written.flush()
                    os.fsync(written.fileno())
        made.chmod(0o755)
        for folder, _, _ in os.walk(made) if durable else ():
            Disk().sync(Path(folder))
        made.rename(to)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def replace_folder(
    disk: Disk,
    blobs: Blobs,
    core: str,
    to: Path,
    owner: Ownership,
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Write a saved folder under a name, in the place of the folder that has it, if one has.

    What is there is touched only when all that replaces it is written, and survives a crash of
    the machine.

    Args:
        disk: through which the name changes.
        blobs: of the run.
        core: sha256 of the core.
        to: the name.
        owner: of the run.
        more: further files, by name.

    Raises:
        Corrupt: as ``write_folder``; what was there stands.
        OSError: the filesystem refuses; what was there stands.
    """
    made, old = (to.parent / f"{TEMPORARY}{unique()}" for _ in range(2))
    try:
        write_folder(blobs, core, made, durable=True, owner=owner)
        for name, data in (more or {}).items():
            disk.replace(made / name, data)
        replaces = os.path.lexists(to)
        if replaces:
            disk.rename(to, old)
        try:
            disk.rename(made, to)
        except OSError:
            if replaces:
                disk.rename(old, to)
            raise
        disk.sync(to.parent)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def is_saved_folder(meta: Mapping[str, Any]) -> bool:
    """True for the meta of a saved folder's core, by what it says of itself."""
    return isinstance(meta.get(KEY), Mapping)


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The path below a folder of each file and each empty folder in it, with its status."""
    waiting, count = [""], 0
    while waiting:
        below = waiting.pop()
        entries = list(os.scandir(folder / below))
        if not entries and below:
            yield below, os.lstat(folder / below)
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            status, count = entry.stat(follow_symlinks=False), count + 1
            if count > MOST_FILES:
                raise Unsavable(f"{folder} has more than {MOST_FILES:,} files: save fewer")
            _refuse(path, status)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)
            else:
                yield path, status


def _refuse(path: str, status: os.stat_result) -> None:
    """Refuse what is neither a file nor a folder, and what JSON can't name."""
    if stat.S_ISLNK(status.st_mode):
        raise Unsavable(f"{path!r} in the saved folder is a link: save the file itself")
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise Unsavable(f"{path!r} in the saved folder is a device, a pipe or a socket, not a file")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Unsavable(f"the name {path!r} in the saved folder is not UTF-8") from None


def _opened(path: Path, name: str) -> Any:
    try:
        return os.fdopen(os.open(path, _OPEN), "rb")
    except OSError as error:
        raise Unsavable(f"{name!r} in the saved folder can't be read: {error.strerror}") from error


def _core(blobs: Blobs, core: str, owner: Ownership | None = None) -> tuple[bytes, dict[str, Any]]:
    _require(blobs, core, owner)
    arrays, meta = blobs.get(core)
    return _bytes(arrays, core), meta


def _require(blobs: Blobs, sha256: str, owner: Ownership | None) -> None:
    """See that a blob is there, and that it is the owner's, for a program that loads it may run
    what it says."""
    if not blobs.has(blob_name(sha256)):
        raise Corrupt(f"blob {sha256} is missing: there is no {blobs.path(sha256)}")
    if owner is not None and not blobs.wrote(owner, sha256):
        raise Corrupt(
            f"blob {sha256} was written by another user than {owner.name}, whose program would load"
            " it: it is not used"
        )


def _bytes(arrays: Mapping[str, Any], name: str) -> bytes:
    array = arrays.get("bytes")
    if array is None or array.dtype != np.uint8 or array.ndim != 1:
        raise Corrupt(f"blob {name} holds no bytes of a saved folder")
    return bytes(array.tobytes())


def _listing(meta: Mapping[str, Any], core: str) -> Listing:
    try:
        listing: Listing = decode(Listing, meta[KEY])
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise Corrupt(f"blob {core} is no saved folder of a program") from error
    return listing


def _below(root: Path, name: str) -> Path:
    """A path below a folder; another user may have written it."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in name:
        raise Corrupt(f"a saved folder names the path {name[:200]!r}, which leads out of it")
    return root.joinpath(*pure.parts)


def _content(blobs: Blobs, small: bytes, file: File, owner: Ownership | None) -> Iterator[bytes]:
    if not file.parts:
        yield small[file.start : file.start + file.size]
    for part in file.parts:
        _require(blobs, part, owner)
        yield _bytes(blobs.get(part)[0], part)
