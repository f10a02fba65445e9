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
    """Place of the probe: ``run folder``, ``two nodes``, ``scheduler``, ``compute node``..."""
    probe: str
    """Subject, in a word or two: ``locks (flock)``."""
    verdict: Verdict
    found: str
    """Facts, in one clause."""
    then: str
    """Consequence for a run, or advice to the reader; empty: none."""


Case = tuple[object, Verdict, str, str]
"""A condition, and the verdict, the facts and the consequence of a finding where it is true."""


def decide(group: str, probe: str, *cases: Case) -> Finding:
    """The finding of the first case whose condition is true; the last one's always is.

    Conditions and words of all of them are evaluated, so each has to bear the facts of the others.
    """
    return next(Finding(group, probe, *case[1:]) for case in cases if case[0])


def hinders(findings: Iterable[Finding]) -> bool:
    """True if one of them is in the way of a run."""
    return any(finding.verdict == "problem" for finding in findings)
