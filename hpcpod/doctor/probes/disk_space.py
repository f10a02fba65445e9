"""A folder's filesystem: its type, its free space, its quotas."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcpod.doctor.commands import ask
from hpcpod.doctor.finding import Finding, decide
from hpcpod.run.text import size

GROUP = "run folder"
LITTLE, TOO_LITTLE = 10e9, 100e6
"""Bytes that are worth knowing of, and that are not enough for any run."""
FEW_FILES, TOO_FEW_FILES = 100_000, 1_000
"""Files, likewise."""
SHARED = re.compile(
    r"nfs\d?|lustre|gpfs|beegfs\w*|fhgfs|wekafs|ceph|cifs|smb3?|panfs|afs|9p|virtiofs"
    r"|pvfs2|orangefs|ocfs2|gfs2|daos|vast|fuse\.(?!squash|overlay|portal|gvfsd).*"
)
"""Types that several machines may have mounted; a type that is not among them lies on one."""
# localflock: Lustre, without a word to the processes; local_lock, nolock: NFS
PER_NODE = re.compile(r"localflock|noflock|nolock|local_lock=(?:all|flock)")
"""Mount options by which locks are a node's own."""

_QUOTA_SECONDS = 20.0
_ESCAPE = re.compile(r"\\([0-7]{3})")  # mountinfo has a space as \040
_LONG_NAME = re.compile(r"^([ \t]*\S+)[ \t]*\n(?=[ \t]+\[?\d)", re.MULTILINE)
"""Behind a name that is too long for its column the row goes on in the next line."""


@dataclass(frozen=True)
class Mount:
    """A line of /proc/self/mountinfo."""

    point: str
    type: str
    source: str
    options: str


@dataclass(frozen=True)
class Quota:
    """A user's quota on a filesystem; a limit of 0 is none."""

    used: float
    """Bytes."""
    limit: float
    """Bytes."""
    files: int
    files_limit: int


@dataclass(frozen=True)
class SpaceFacts:
    """A filesystem's type and room, as this user has it."""

    folder: str
    mount: Mount | None
    free: float
    """Bytes that an ordinary user may still write."""
    files: int | None
    """Files that may still be made; None where the filesystem has no such limit."""
    quota: Quota | None
    """None if unknown."""
    quota_error: str = ""
    """Failure of the command that lists quotas; empty if there is none."""
    error: str = ""
    """Failure that leaves all else unknown; else empty."""


def mount_of(mountinfo: str, path: str) -> Mount | None:
    """The mount that a path lies on; of several at one place, the last, which hides the others.

    Args:
        mountinfo: the text of /proc/self/mountinfo.
        path: absolute, without symbolic links.
    """
    best: Mount | None = None
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if not dash or len(before) < 6 or len(after) < 2:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), before[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            options = ",".join([before[5], *after[2:3]])  # the mount's, then the filesystem's own
            best = Mount(point, after[0], after[1], options)
    return best


def read_quota(listing: str, names: Iterable[str]) -> Quota | None:
    """The row of a filesystem in what ``quota -wp`` or ``lfs quota -q`` prints, in kibibytes.

    Args:
        listing: what was printed. A star behind a number says that it is exceeded, brackets
            that a server did not answer.
        names: what the row may be called by: the device, or the mount point.
    """
    wanted = set(names)
    for line in _LONG_NAME.sub(r"\1 ", listing).splitlines():
        words = line.split()
        numbers = [word.strip("*[]") for word in words[1:]]
        if len(words) >= 8 and words[0] in wanted and all(map(str.isdecimal, numbers[:3])):
            used, soft, hard = (1024.0 * int(number) for number in numbers[:3])
            counts = (int(number) if number.isdecimal() else 0 for number in numbers[4:7])
            files, files_soft, files_hard = counts
            return Quota(used, hard or soft, files, files_hard or files_soft)  # 0 is none
    return None


def measure_space(folder: Path) -> SpaceFacts:
    """Facts of the filesystem under a folder that exists."""
    try:
        real = folder.resolve()
        mount = mount_of(Path("/proc/self/mountinfo").read_text(errors="replace"), str(real))
        room = os.statvfs(real)
    except OSError as error:
        return SpaceFacts(str(folder), None, 0.0, None, None, error=str(error.strerror))
    quota, quota_error = _quota(mount)
    return SpaceFacts(
        folder=str(folder),
        mount=mount,
        free=float(room.f_bavail * room.f_frsize),  # f_bfree has root's reserve in it
        files=room.f_favail if room.f_files else None,  # 0 on Btrfs, which has no limit
        quota=quota,
        quota_error=quota_error,
    )


def _quota(mount: Mount | None) -> tuple[Quota | None, str]:
    if mount is None:
        return None, ""
    if mount.type == "lustre" and shutil.which("lfs"):
        # By number: many compute nodes know no name, and lfs failed there.
        words, names = ["lfs", "quota", "-q", "-u", str(os.getuid()), mount.point], [mount.point]
    elif shutil.which("quota"):
        words, names = ["quota", "-wp"], [mount.source, mount.point]  # -w: a row is a line
    else:
        return None, ""
    answer = ask(words, _QUOTA_SECONDS)
    if answer.code is None:
        return None, answer.err
    return read_quota(answer.out, names), ""  # `quota` says by its exit code that one is exceeded


def judge(facts: SpaceFacts, *, slurm: bool, seen: bool) -> list[Finding]:
    """Findings on a filesystem for a run there.

    Args:
        facts: of the filesystem.
        slurm: slots are on other machines.
        seen: two tasks of a job have met there.
    """
    if facts.error:
        found = f"unknown: {facts.error}"
        return [Finding(GROUP, "space", "problem", found, "name another: --runs")]
    findings = [_judge_type(facts.mount, slurm, seen), _judge_room(facts)]
    if facts.quota is not None or facts.quota_error:
        findings.append(_judge_quota(facts.quota, facts.quota_error))
    return findings


def _judge_type(mount: Mount | None, slurm: bool, seen: bool) -> Finding:
    probe = "filesystem"
    if mount is None:
        return Finding(GROUP, probe, "note", "its mount is not listed", "")
    found, per_node = f"{mount.type} at {mount.point}", PER_NODE.search(mount.options)
    return decide(
        GROUP, probe,
        (per_node, "note", f"{found}, mounted with {per_node and per_node[0]}",
         "locks are each node's own: merges race, and the losers do theirs again"),
        (seen, "ok", found, "slots see it"),
        (not slurm, "ok", found, "slots are processes here"),
        (SHARED.fullmatch(mount.type), "ok", found, "whether nodes see it, two would show"),
        (True, "note", f"{found}: by its type, this machine's own",
         "a run must lie where all nodes see it, and these were not asked, or don't: name such a"
         " place (--runs DIR)"),
    )  # fmt: skip


def _judge_room(facts: SpaceFacts) -> Finding:
    files = math.inf if facts.files is None else facts.files
    found = f"room for {size(facts.free)}"
    found += "" if facts.files is None else f" and {facts.files:,} files"
    return decide(
        GROUP, "space",
        (facts.free < TOO_LITTLE or files < TOO_FEW_FILES, "problem", found,
         "free some, or name another place for runs (--runs DIR)"),
        (facts.free < LITTLE or files < FEW_FILES, "note", found,
         "compare it with what `hpcpod validate CONFIG` says that a run will hold"),
        (True, "ok", found, "`hpcpod validate CONFIG` says what a run will hold"),
    )  # fmt: skip


def _judge_quota(quota: Quota | None, error: str) -> Finding:
    if quota is None:
        return Finding(GROUP, "quota", "note", f"unknown: {error}", "")
    left = quota.limit - quota.used if quota.limit else math.inf
    files = quota.files_limit - quota.files if quota.files_limit else math.inf
    found = f"{size(quota.used)} used" + (f" of {size(quota.limit)}" if quota.limit else "")
    found += f", {quota.files:,} files"
    found += f" of {quota.files_limit:,}" if quota.files_limit else ""
    then = "slots wait while it is used up: free some before"
    return decide(
        GROUP, "quota",
        (left < TOO_LITTLE or files < TOO_FEW_FILES, "problem", found, then),
        (left < LITTLE or files < FEW_FILES, "note", found, then),
        (True, "ok", found, ""),
    )  # fmt: skip
