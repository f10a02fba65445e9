"""Locks that one process holds, seen by another: ``python -m hpcpod.doctor.probes.locks``."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpcpod._process import PYTHON
from hpcpod.doctor.commands import ask
from hpcpod.doctor.finding import Finding, decide
from hpcpod.storage.disk import explain

KINDS = ("flock", "fcntl")
"""The lock that hpcpod takes, and the one that most others do."""

_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}  # POSIX lets fcntl answer EACCES or EAGAIN


def take(kind: str, descriptor: int) -> str:
    """Try to lock an open file: ``taken``, ``held`` by another process, or why it is refused."""
    # flock on NFS is one of fcntl's kind, since Linux 2.6.12
    lock = fcntl.flock if kind == "flock" else fcntl.lockf
    try:
        lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # noflock on Lustre: ENOSYS
        return "held" if error.errno in _HELD else f"refused: {explain(error)}"
    return "taken"


@contextlib.contextmanager
def trying(kind: str, path: Path) -> Iterator[str]:
    """Open a file and try to lock it; what ``take`` says. The lock lasts as long as the body."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        yield f"refused: {explain(error)}"
        return
    try:
        yield take(kind, descriptor)
    finally:
        os.close(descriptor)


def summary(mine: str, theirs: str, after: str) -> str:
    """The worth of a lock: ``seen``, ``unseen``, ``kept`` or ``refused: ...``.

    Args:
        mine: the answer to the first process when it took it.
        theirs: the answer to another process meanwhile.
        after: the answer to that one once the first had let go.
    """
    for answer in (mine, theirs, after):
        if answer.startswith("refused"):
            return answer
    if mine != "taken":
        return "refused: a new file is locked already"
    if theirs == "taken":
        return "unseen"
    return "seen" if after == "taken" else "kept"


def between_processes(kind: str, path: Path, seconds: float = 20.0) -> str:
    """Hold a lock here while another process of this machine tries it; as ``summary`` says."""
    with trying(kind, path) as mine:
        # fcntl's belong to a process: a second one here would be granted
        theirs = _another(kind, path, seconds)
    return summary(mine, theirs, _another(kind, path, seconds))


def _another(kind: str, path: Path, seconds: float) -> str:
    answer = ask([*PYTHON, "-m", "hpcpod.doctor.probes.locks", kind, str(path)], seconds)
    return answer.out.strip() if answer.ok else f"refused: {answer.err.strip() or 'no answer'}"


def judge(group: str, locks: dict[str, str], where: str) -> list[Finding]:
    """Findings on each kind of lock.

    Args:
        group: the rows' group.
        locks: by kind, as ``summary`` says.
        where: between whom it was tried: ``processes``, ``nodes``.
    """
    return [_judged(group, kind, worth, where) for kind, worth in sorted(locks.items())]


def _judged(group: str, kind: str, worth: str, where: str) -> Finding:
    race = "merges race, and the losers do theirs again: what counts is decided without locks"
    finding = decide(
        group, f"locks ({kind})",
        (worth == "seen", "ok", f"a lock is seen between {where}", "merges take turns"),
        (worth == "unseen", "note", f"a lock that is held is not seen between {where}", race),
        (worth == "kept", "note", f"a lock that was let go of is still held for other {where}",
         "merges wait for it in vain, some seconds each; what counts is decided without locks"),
        (True, "note", f"there are none ({worth.removeprefix('refused: ')})", race),
    )  # fmt: skip
    if kind == "fcntl":
        return replace(finding, then="nothing: hpcpod takes no such locks")
    return finding


if __name__ == "__main__":
    with trying(sys.argv[1], Path(sys.argv[2])) as answer_here:
        print(answer_here)  # noqa: T201
