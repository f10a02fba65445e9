"""Output of all verbs: lines, remarks, strict JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import Any

from hpcpod.run.tables import visible


def say(text: str = "") -> None:
    """Print a line at once, whatever standard output is."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def say_remarks(remarks: Iterable[str]) -> None:
    """Print remarks on a configuration on standard error, a line each."""
    for remark in remarks:
        sys.stderr.write(visible(f"remark: {remark}") + "\n")
    sys.stderr.flush()


def say_json(data: Any) -> None:
    """Print strict JSON: what is not a number is null."""
    say(json.dumps(_finite(data), indent=2, default=str))


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
