"""Retry while a filesystem refuses: a full disk is emptied, a server comes back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from hpcpod.errors import Corrupt, StorageError

log = logging.getLogger(__name__)

PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0, *[60.0] * 60)
"""Seconds before each new try: an hour in all, in which a person can empty a full disk."""

T = TypeVar("T")


def with_retries(work: Callable[[], T], should_stop: Callable[[], bool]) -> T:
    """Do something, and try again after a pause while the filesystem refuses it.

    Raises:
        StorageError: it refused to the last, or ``should_stop`` said that there is no time to wait.
        Corrupt: at once; damage does not mend itself.
    """
    for pause in PAUSES:
        try:
            return work()
        except Corrupt:
            raise
        except StorageError as error:
            if should_stop():
                raise
            log.warning("%s; trying again in %g s", error, pause)
        sleep(pause, should_stop)
    return work()


def sleep(seconds: float, should_stop: Callable[[], bool]) -> None:
    """Sleep until the time is over or ``should_stop`` says so."""
    end = time.monotonic() + seconds
    while not should_stop() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))  # s: Python sleeps on after a signal's handler (PEP 475)
