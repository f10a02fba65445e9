"""The number of threads, or processes, that step the environments of this process."""

from __future__ import annotations

import os

_given = 0


def env_threads() -> int:
    """Threads that a simulator made now may use, the caller's included: 1 by default."""
    return _given or 1


def env_cpus() -> int:
    """CPUs that processes made now may keep busy: as many as threads, or by default all
    that the kernel lets this process use."""
    return _given or len(os.sched_getaffinity(0))


def given_threads() -> int:
    """The last number given to ``set_env_threads``; 0: none."""
    return _given


def set_env_threads(count: int) -> None:
    """Change both; environments that exist keep theirs. 0: the default."""
    global _given
    _given = count
