"""Diagnoses: run ``hpcpod doctor`` as a person does, and read its findings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcpod.doctor.finding import Finding, hinders
from hpcpod.doctor.probes import disk_space, files
from hpcpod.doctor.probes.files import HereFacts
from hpcpod.records.codec import decode

REFUSING = [sys.executable, str(Path(__file__).with_name("refusing.py"))]


@dataclass(frozen=True)
class Said:
    """What it printed as JSON, and how it ended."""

    code: int
    findings: tuple[Finding, ...]
    err: str

    def row(self, group: str, probe: str) -> Finding:
        """The one row of this group and probe."""
        [row] = [f for f in self.findings if (f.group, f.probe) == (group, probe)]
        return row

    def groups(self) -> list[str]:
        """The groups, in their order."""
        return list(dict.fromkeys(finding.group for finding in self.findings))

    def problems(self) -> list[tuple[str, str]]:
        """Group and probe of each problem."""
        return [(f.group, f.probe) for f in self.findings if f.verdict == "problem"]


def doctor(
    home: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    under: Sequence[str] = (),
) -> Said:
    """Run ``hpcpod doctor --json`` in a folder; it leaves nothing there.

    Args:
        home: the working directory.
        words: further words.
        env: the environment, if not this process's.
        under: the words of a command that runs it.
    """
    before = sorted(home.iterdir())
    done = subprocess.run(
        [*under, sys.executable, "-m", "hpcpod", "doctor", "--json", *words],
        cwd=home, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert sorted(home.iterdir()) == before
    found = json.loads(done.stdout)
    findings = tuple(decode(Finding, row) for row in found["findings"])
    assert (
        found["hinders"]
        == (done.returncode == 1)
        == any(finding.verdict == "problem" for finding in findings)
    )
    return Said(done.returncode, findings, done.stderr)


def filesystem(folder: Path, *refused: str) -> Said:
    """What the doctor says of the filesystem of a folder; it leaves nothing there.

    Args:
        folder: where runs would lie; it need not exist.
        refused: calls that the kernel refuses its process, as ``linkat=EPERM``.
    """
    under = [*REFUSING, *refused, "--"] if refused else []
    done = subprocess.run(
        [*under, sys.executable, "-m", "hpcpod.doctor.probes.files", str(folder)],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    here = decode(HereFacts, json.loads(done.stdout))
    findings = (*files.judge(here.files), *disk_space.judge(here.space, slurm=False, seen=False))
    return Said(int(hinders(findings)), findings, done.stderr)


def without_slurm(folder: Path) -> dict[str, str]:
    """An environment whose PATH has no command of Slurm's, and is not empty."""
    folder.mkdir(exist_ok=True)
    return {**os.environ, "PATH": str(folder)}
