"""What an environment is, as plain data: for checkpoints and for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, Space
from hpcpod.records import encode

_SPACES = {"Box": Box, "Discrete": Discrete, "MultiDiscrete": MultiDiscrete}


def spec_to_plain(spec: EnvSpec) -> dict[str, Any]:
    """A spec as JSON-able data; each space says its kind."""
    plain: dict[str, Any] = encode(spec)
    for field in ("observation", "action"):
        plain[field]["kind"] = type(getattr(spec, field)).__name__
    return plain


def spec_from_plain(plain: Mapping[str, Any]) -> EnvSpec:
    """The inverse of ``spec_to_plain``, for a batch on the CPU."""
    bounds = plain["action_bounds"]
    return EnvSpec(
        id=plain["id"],
        observation=_space(plain["observation"]),
        action=_space(plain["action"]),
        num_envs=plain["num_envs"],
        device="cpu",
        max_episode_steps=plain["max_episode_steps"],
        engine=plain["engine"],
        action_bounds=None if bounds is None else (_tuples(bounds[0]), _tuples(bounds[1])),
        seeded=plain.get("seeded", True),
        final_obs=plain.get("final_obs", True),
        action_dtype=plain.get("action_dtype", "float32"),
    )


def _space(plain: Mapping[str, Any]) -> Space:
    fields = {name: _tuples(value) for name, value in plain.items() if name != "kind"}
    space: Space = _SPACES[plain["kind"]](**fields)
    return space


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
