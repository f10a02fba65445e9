"""A finding: the result of a probe, and its consequence for a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "problem"]
"""``problem``: it hinders a run until a person has done something. ``note``: worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One row of what the doctor prints."""

    group: str
    """Where it was looked: ``run folder``, ``two nodes``, ``scheduler``, ``compute node``..."""
    probe: str
    """What was tried, in a word or two."""
    verdict: Verdict
    found: str
    """What there is, in one clause."""
    then: str
    """What hpcpod does about it, or what the reader is to do; empty: nothing."""


def hinders(findings: Iterable[Finding]) -> bool:
    """True if one of them is in the way of a run."""
    return any(finding.verdict == "problem" for finding in findings)
