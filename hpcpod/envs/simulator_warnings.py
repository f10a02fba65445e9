"""Warnings of simulators while they are imported and made: logged once, and seldom loudly.

That a simulator's own files or types are written in an old way is nothing that its user can mend:
such lines are of level debug. All others are warnings.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_log = logging.getLogger(__name__)

_OLD = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)

# SWIG's and MuJoCo's warnings came anew for each environment that was made.
_LOGGED: set[tuple[str, str]] = set()
"""Of what, and what was said, in this process."""


@contextmanager
def logged_once(name: str) -> Iterator[None]:
    """Log Python's warnings once in a process, when this ends without an error.

    Args:
        name: of the environment, for the log.
    """
    # gymnasium warns of old versions through `warnings`, which -W error turns into a crash.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # SWIG's types in Box2D: as many lines as it has types, at each import.
        warnings.filterwarnings("ignore", "builtin type [Ss]wig", DeprecationWarning)
        yield
    for warning in caught:
        said = one_line(warning.message)
        # gymnasium's own are of the id or its arguments, also those of this category.
        old = issubclass(warning.category, _OLD) and not said.startswith("WARN: ")
        _log_once(name, said, logging.DEBUG if old else logging.WARNING)


@contextmanager
def models_of(name: str) -> Iterator[None]:
    """Have MuJoCo log what it warns of while models are compiled, if it is imported already.

    MuJoCo's own way is a file MUJOCO_LOG.TXT wherever the process happens to be, and a line on
    standard error for each environment. A user's own callback for warnings stays.

    Args:
        name: of the environment, for the log.
    """
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None or mujoco.get_mju_user_warning() is not None:
        yield
        return
    mujoco.set_mju_user_warning(lambda said: _compiled(name, said))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)


def one_line(message: object) -> str:
    """A library's message without line ends and colours."""
    text = " ".join(str(message).split())
    for colour in ("\x1b[33m", "\x1b[31m", "\x1b[0m"):
        text = text.replace(colour, "")
    return text


def _log_once(name: str, said: str, level: int) -> None:
    if (name, said) not in _LOGGED:
        _LOGGED.add((name, said))
        _log.log(level, "%s: %s", name, said)


def _compiled(name: str, said: str) -> None:
    _log_once(name, one_line(said), logging.DEBUG if "deprecated" in said else logging.WARNING)
