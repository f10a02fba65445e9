"""Mounts, room and quotas: what their listings say, and what follows."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.doctor.finding import Finding
from hpcpod.doctor.probes import disk_space
from hpcpod.doctor.probes.disk_space import (
    Mount,
    Quota,
    SpaceFacts,
    judge,
    measure_space,
    mount_of,
    read_quota,
)

MOUNTS = r"""22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 22 0:30 / /lab\040data rw,relatime shared:2 - nfs4 srv:/lab rw,vers=4.2,local_lock=none
41 22 0:31 / /scratch rw,noatime - lustre 10.0.0.1@o2ib:/work rw,localflock,lazystatfs
42 22 0:32 / /scratch/mine rw - tmpfs tmpfs rw
43 22 0:33 / /scratch/mine rw - xfs /dev/sdb rw
torn line
"""

LFS = """\
Disk quotas for usr ann (uid 1000):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
       /scratch 1000000*      0  900000       -     500       0    1000       -
"""
LFS_LONG = """\
     /a/mount/point/with/a/name
                 [2000]       0    3000       -      10       0       0       -
"""
QUOTA = """\
Disk quotas for user ann (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
       srv:/lab     4000       0    5000       0      20      30       0       0
"""

ROOMY = SpaceFacts("/x", Mount("/x", "lustre", "srv:/x", "rw,flock"), 1e12, 10**8, None)


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/home/x", "/", "ext4"),
        ("/lab data/runs", "/lab data", "nfs4"),
        ("/lab", "/", "ext4"),
        ("/scratch", "/scratch", "lustre"),
        ("/scratch/mine/runs", "/scratch/mine", "xfs"),
        ("/scratch/mines", "/scratch", "lustre"),
    ],
)
def test_a_path_lies_on_the_nearest_mount_and_the_last_one_there(
    path: str, point: str, kind: str
) -> None:
    found = mount_of(MOUNTS, path)
    assert found is not None
    assert (found.point, found.type) == (point, kind)


def test_a_mount_that_was_made_is_found(small: Path) -> None:
    facts = measure_space(small)
    assert facts.mount is not None
    assert (facts.mount.point, facts.mount.type) == (str(small), "tmpfs")
    room = os.statvfs(small)
    assert facts.free == room.f_bavail * room.f_frsize
    assert facts.files is not None
    assert 0 < facts.files < 1000


@pytest.mark.parametrize(
    ("text", "name", "quota"),
    [
        (LFS, "/scratch", Quota(1000000 * 1024, 900000 * 1024, 500, 1000)),
        (LFS_LONG, "/a/mount/point/with/a/name", Quota(2000 * 1024, 3000 * 1024, 10, 0)),
        (QUOTA, "srv:/lab", Quota(4000 * 1024, 5000 * 1024, 20, 30)),
        (QUOTA, "/other", None),
        ("", "/scratch", None),
    ],
)
def test_a_quota_is_read_from_the_row_of_its_filesystem(
    text: str, name: str, quota: Quota | None
) -> None:
    assert read_quota(text, [name]) == quota


def test_a_quota_is_asked_for_by_the_user_s_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many compute nodes know no name for it."""
    command = tmp_path / "lfs"
    command.write_text('#!/bin/sh\n[ "$4" = "$(id -u)" ] && echo /scratch 1 0 2 - 3 0 4 -\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    lustre = Mount("/scratch", "lustre", "srv:/work", "rw,flock")
    monkeypatch.setattr(disk_space, "mount_of", lambda text, path: lustre)
    assert measure_space(tmp_path).quota == Quota(1024, 2048, 3, 4)


@given(st.text(), st.text())
def test_no_text_is_too_strange_to_be_read(text: str, name: str) -> None:
    read_quota(text, [name])
    mount_of(text, "/" + name)


def row(findings: list[Finding], probe: str) -> Finding:
    [found] = [finding for finding in findings if finding.probe == probe]
    return found


@pytest.mark.parametrize(
    ("free", "files", "verdict"),
    [
        (1e12, None, "ok"), (1e12, 10**6, "ok"), (9e9, None, "note"), (1e12, 99_999, "note"),
        (9e7, None, "problem"), (1e12, 999, "problem"),
    ],
)  # fmt: skip
def test_room_is_judged_in_bytes_and_in_files(free: float, files: int | None, verdict: str) -> None:
    facts = replace(ROOMY, free=free, files=files)
    assert row(judge(facts, slurm=True, seen=True), "space").verdict == verdict


@pytest.mark.parametrize(
    ("quota", "verdict"),
    [
        (Quota(5e12, 0, 10**9, 0), "ok"),
        (Quota(5e9, 1e12, 5, 10**6), "ok"),
        (Quota(5e9, 1e10, 5, 0), "note"),
        (Quota(2e10, 1e10, 5, 0), "problem"),
        (Quota(5e9, 0, 1000, 1000), "problem"),
    ],
)
def test_a_quota_that_is_nearly_used_up_is_told_of(quota: Quota, verdict: str) -> None:
    facts = replace(ROOMY, quota=quota)
    assert row(judge(facts, slurm=True, seen=True), "quota").verdict == verdict


@pytest.mark.parametrize(
    ("kind", "options", "slurm", "seen", "verdict"),
    [
        ("ext4", "rw", False, False, "ok"),
        ("ext4", "rw", True, False, "note"),
        ("ext4", "rw", True, True, "ok"),
        ("lustre", "rw,flock", True, False, "ok"),
        ("lustre", "rw,localflock", True, True, "note"),
        ("nfs4", "rw,local_lock=all", True, True, "note"),
        ("nfs4", "rw,local_lock=none", True, False, "ok"),
        ("fuse.sshfs", "rw", True, False, "ok"),
        ("fuse.squashfuse", "ro", True, False, "note"),
    ],
)
def test_a_filesystem_s_type_is_a_hint_and_nodes_that_met_are_proof(
    kind: str, options: str, slurm: bool, seen: bool, verdict: str
) -> None:
    facts = replace(ROOMY, mount=Mount("/x", kind, "srv", options))
    assert row(judge(facts, slurm=slurm, seen=seen), "filesystem").verdict == verdict
