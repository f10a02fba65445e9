"""How many threads step the environments of this process."""

from __future__ import annotations

_count = 1


def env_threads() -> int:
    """Threads that a simulator made now may use, the caller's included."""
    return _count


def set_env_threads(count: int) -> None:
    """Change that; environments that exist keep theirs."""
    global _count
    _count = count
