"""Spaces of policies, compared by their metadata alone: no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MOST = 80


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first difference between two specs that a policy would notice, in words; else empty.

    Args:
        one, other: specs as plain data, see ``envs.spec_json``.
    """
    first, second = _seen(one), _seen(other)
    for name, value in first.items():
        if second[name] != value:
            return f"{name} are {_words(value)} there and {_words(second[name])} here"
    return ""


def _seen(spec: Mapping[str, Any]) -> dict[str, Any]:
    observation, action = spec["observation"], spec["action"]
    if observation["kind"] == "Box":  # no agent relies on the bounds of observations
        observation = {name: observation[name] for name in ("kind", "shape", "dtype")}
    seen = {
        "observations": observation,
        "parts of observations": spec.get("structure"),
        "actions": action,
        "bounds of actions": spec.get("action_bounds"),
    }
    plain: dict[str, Any] = json.loads(json.dumps(seen))  # a spec in memory has tuples
    return plain


def _words(value: Any) -> str:
    text = json.dumps(value).replace('"', "")
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
