"""The owner of a run: the user whose code it may run, and who submits, retires and cancels.

A run's configuration names code: plugins, folders of modules, lines of shell. In a folder that a
group shares it is believed where only its owner can have written it, and only its owner's
processes run what it names. Other users look, and merge what is built in.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcpod.errors import RunNotFound, UserError
from hpcpod.storage.os_errors import explained
from hpcpod.storage.safe_paths import OTHERS_WRITE, read_open

CONFIG = "config.json"


@dataclass(frozen=True)
class Ownership:
    """The owner of a run, and whether another user could have written its configuration."""

    path: Path
    """The run folder."""
    uid: int
    """Of the owner."""
    loose: str = ""
    """A path that other users may write and that decides which code runs; empty if none."""

    @property
    def mine(self) -> bool:
        """True if the run is of the user whose process this is.

        ``squeue --me`` shows the run's jobs to no other user, so no other can say which are lost.
        """
        return self.uid == os.geteuid()

    @property
    def trusted(self) -> bool:
        """True if this process may run code that the configuration names."""
        return self.uid in (os.geteuid(), 0) and not self.loose

    @property
    def name(self) -> str:
        """The owner's name."""
        return user_name(self.uid)

    def wrote(self, file: os.stat_result) -> bool:
        """True if a file of the run is this process's user's, the owner's or root's."""
        known = os.geteuid(), self.uid, 0
        return file.st_uid in known or _owner(self.path, file.st_uid) in known

    def require_mine(self, what: str = "submits, steers, retires and cancels") -> None:
        """See that this is the owner's process.

        Args:
            what: only the owner does, in words.

        Raises:
            UserError: it is not.
        """
        if not self.mine:
            raise UserError(
                f"the run at {self.path} belongs to {self.name}, and only {self.name} {what};"
                " you may look at it, and merge its reports by `hpcpod tick`"
            )

    def require_code(self, named: Sequence[str], what: str) -> None:
        """See that this process may do what needs the code that the configuration names.

        Args:
            named: which of it is not built in, field by field.
            what: is to be done, as ``merge`` or ``train``.

        Raises:
            UserError: it is another user's code, or others than its owner could have named it.
        """
        if self.trusted:
            return
        if self.mine:
            raise UserError(
                f"{self.loose} can be written by others than you, and what code the run has your"
                f" processes execute is written there: look whether it is yours still, then"
                f" `chmod go-w {self.path} {self.path / CONFIG}`"
            )
        if named:
            raise UserError(
                f"the run at {self.path} has code of {self.name}'s own ({', '.join(named)}), and"
                f" to {what} you would run it as you: leave that to {self.name}"
            )


def require_own(folder: Path) -> None:
    """See that nobody but this user, or root, can have put anything into a folder.

    Raises:
        UserError: somebody can.
        StorageError: the filesystem refuses.
    """
    with explained("look at", folder):
        found = folder.stat()
        uid = _owner(folder, found.st_uid)
        loose = found.st_mode & OTHERS_WRITE and _keeps_modes(folder)
    if uid not in (os.geteuid(), 0):
        raise UserError(
            f"{folder} belongs to {user_name(uid)}, and what lies in it would run as you: name a"
            " folder of your own"
        )
    if loose:
        raise UserError(
            f"{folder} can be written by others than you, and what lies in it would run as you:"
            " name another folder, or look whether all in it is yours, then"
            f" `chmod -R go-w {folder}`"
        )


def read_config(path: Path, name: str = CONFIG) -> tuple[bytes, Ownership]:
    """The content of a run's ``config.json``, and its owner: of one and the same file.

    Args:
        path: the run's folder.
        name: of the file, where it is another one that decides which code runs.

    Raises:
        RunNotFound: there is none.
        UserError: this user may not look into the folder.
        Corrupt: it is no file.
        StorageError: the filesystem refuses.
    """
    with explained("read", path / name):
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise _not_found(path, name) from None
        except PermissionError:
            raise UserError(f"you may not look into {path}: ask whose run it is") from None
        try:
            found = read_open(name, folder, path / name)
            if found is None:
                raise _not_found(path, name)
            data, config = found
            loose = _loose(path / name, os.fstat(folder), config)
            return data, Ownership(path, _owner(path, config.st_uid), loose)
        finally:
            os.close(folder)


def user_name(uid: int) -> str:
    """A user's name, where the machine knows it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # many compute nodes know no names
        return f"user {uid}"


def _not_found(path: Path, name: str) -> RunNotFound:
    return RunNotFound(f"there is no run at {path}: it has no {name}")


def _loose(file: Path, folder: os.stat_result, config: os.stat_result) -> str:
    named = ""
    if folder.st_mode & OTHERS_WRITE or folder.st_uid not in (config.st_uid, 0):
        named = str(file.parent)
    elif config.st_mode & OTHERS_WRITE:
        named = str(file)
    return named if named and _keeps_modes(file.parent) else ""


def _owner(path: Path, uid: int) -> int:
    """The user of a file. All that this process makes may have another number than its user's: a
    server that squashes root, or maps no names, shows the user ``nobody``."""
    if uid == os.geteuid():
        return uid
    # Without this no user could steer a run on NFS with squashed root or unknown names.
    made = _made_in(path)
    return os.geteuid() if made is not None and made.st_uid == uid else uid


def _keeps_modes(path: Path) -> bool:
    """Check that modes mean anything on this filesystem: some show one and the same for all."""
    made = _made_in(path)
    return made is None or stat.S_IMODE(made.st_mode) & 0o077 == 0


def _made_in(path: Path) -> os.stat_result | None:
    """The status of a file that this process makes in a folder, for itself; None if it can't."""
    probe = path / f".tmp-probe-{os.urandom(8).hex()}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
        probe.unlink()
