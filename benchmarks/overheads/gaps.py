"""Seconds between two pieces of work of a slot, from what its work has noted."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any


def gaps_of(log: Path) -> dict[str, Any]:
    """Read lines of a begin, an end and whether it was a copy.

    Returns:
        ``first``, the first begin; ``on`` and ``copied``, the gaps before work of either kind.
    """
    steps = sorted(json.loads(each) for each in log.read_text(encoding="ascii").splitlines())
    gaps: dict[str, Any] = {"first": steps[0][0], "on": [], "copied": []}
    for (_, ended, _), (began, _, copied) in itertools.pairwise(steps):
        gaps["copied" if copied else "on"].append(began - ended)
    return gaps
