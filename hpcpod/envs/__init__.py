"""Batched environments behind one protocol.

``check_env`` is loaded on first use (PEP 562): it needs torch, which not all that name a module
of this package may load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcpod.envs.checking import check_env

__all__ = ["check_env"]


def __getattr__(name: str) -> Any:
    if name != "check_env":
        raise AttributeError(f"module 'hpcpod.envs' has no attribute '{name}'")
    from hpcpod.envs.checking import check_env

    return check_env


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
