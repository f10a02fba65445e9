"""Spaces of policies, compared by their metadata alone: no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 80


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first difference between two specs that an agent would notice, in words; else empty.

    Args:
        one, other: specs as plain data, see ``envs.spec_json``.
    """
    for name, there, here in differing(one, other):
        return f"{name} are {words(there)} there and {words(here)} here"
    return ""


def differing(
    one: Mapping[str, Any], other: Mapping[str, Any], *, dtypes: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two specs that differ: the name of each, its value in one and in the other.

    Args:
        one, other: specs as plain data.
        dtypes: compare those of actions as ``step`` takes them, too; no agent notices them.
    """
    first, second = _seen(one), _seen(other)
    for name, value in first.items():
        if second[name] != value and (dtypes or name != "dtypes of actions"):
            yield name, value, second[name]


def _seen(spec: Mapping[str, Any]) -> dict[str, Any]:
    observation = _space(spec["observation"])
    if observation["kind"] == "Box":
        # No agent relies on the bounds of observations, and it reads uint8 or float32.
        dtype = "uint8" if observation["dtype"] == "uint8" else "float32"
        observation = {"kind": "Box", "shape": observation["shape"], "dtype": dtype}
    seen = {
        "observations": observation,
        "parts of observations": spec.get("structure"),
        "actions": _space(spec["action"]),
        "bounds of actions": spec.get("action_bounds"),
        "dtypes of actions": spec.get("action_dtype", "float32"),
    }
    plain: dict[str, Any] = json.loads(json.dumps(seen))  # a spec in memory has tuples
    return plain


def _space(space: Mapping[str, Any]) -> dict[str, Any]:
    """A space with what older specs leave out."""
    return dict(space) if space["kind"] == "Box" else {"start": 0, **space}


def words(value: Any) -> str:
    """A part of a spec on one line."""
    text = json.dumps(value).replace('"', "")
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
