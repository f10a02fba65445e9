"""The process in which a trial is made; ``supervisor`` starts and follows it.

The request comes in on standard input, as JSON. Replies leave on standard output, a line of JSON
each: ``{"doing": ..., "field": ...}`` before something is done, ``{"level": ..., "log": ...}``,
what was found, and at last ``{"done": true}``. What is printed goes to standard error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hpcpod import plugins
from hpcpod._process import die_with_parent, end_group_with
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.errors import ConfigError, HpcpodError

RULES = ("updater", "generator", "allocator")
"""Fields of ``population`` that name a rule."""


class _Line(logging.Handler):
    """The channel of replies, by which what is logged goes to the other side, too."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._file = os.fdopen(descriptor, "w", buffering=1)
        self._sending = threading.Lock()  # not the handler's: replies do not pass through it

    def send(self, **reply: Any) -> None:
        """Send a reply."""
        with self._sending:
            self._file.write(json.dumps(reply) + "\n")

    def tell(self, doing: str, field: str) -> None:
        """Say what is done now; see ``fit.Tell``."""
        self.send(doing=doing, field=field)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        self.send(level=record.levelno, log=record.getMessage())


def main(parent: int, stack: int) -> None:
    """Do what is asked, and end."""
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    end_group_with(replies)  # and with it whatever a simulator has started
    die_with_parent(parent)
    faulthandler.enable(stack, all_threads=False)  # the line of a segfault, for the message
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]  # a plugin may lie beside the script
    line = _Line(replies)
    ours = logging.getLogger("hpcpod")
    ours.addHandler(line)
    ours.propagate = False  # else it is shown twice
    try:
        {"probe": _probe, "check": _check, "measure": _measure}[request["what"]](request, line)
    except ConfigError as error:
        line.send(problems=error.problems)
    except HpcpodError as error:
        line.send(refused=str(error))
    line.send(done=True)


def _probe(request: Mapping[str, Any], line: _Line) -> None:
    config = from_mapping(request["config"])
    _import_first(config, line)
    from hpcpod.pod.trial.probe import resolve_and_probe

    alike = [from_mapping({**request["config"], **part}) for part in request["alike"]]
    for reply in resolve_and_probe(config, line.tell, alike):
        line.send(**reply)


def _measure(request: Mapping[str, Any], line: _Line) -> None:
    config = from_mapping(request["config"])
    _import_first(config, line)
    from hpcpod.pod.trial.speed import resolve_and_measure

    line.send(**resolve_and_measure(config, request["seconds"], line.tell))


def _check(request: Mapping[str, Any], line: _Line) -> None:
    config = from_mapping(request["config"])
    _import_first(config, line)
    from hpcpod.pod.trial.env_trial import try_env

    for found in try_env(
        config, request["device"], request["sizes"], steps=request["steps"],
        seconds=request["seconds"], tell=lambda doing: line.tell(doing, "env.id"),
    ):  # fmt: skip
        line.send(kind=type(found).__name__, found=asdict(found))


def _import_first(config: RunConfig, line: _Line) -> None:
    """Import the environment's module, as pods do, before torch; what that takes is not counted."""
    if config.env.python is None:
        line.tell("importing it", "env.id")
        plugins.load_early(config.env.id)
    # validate itself does so, once that has ended no process
    for part in RULES:
        field, name = f"population.{part}", getattr(config.population, part)
        if _import_own(name, field, line):
            line.tell(f"making {name}", field)
            with contextlib.suppress(Exception, SystemExit):
                plugins.load(name)(config.population)
    for name in config.metrics:
        _import_own(name, "metrics", line)
    line.tell("importing torch", "")
    plugins.import_torch()
    if config.env.python is None:
        _import_own(config.env.backend, "env.backend", line)


def _import_own(name: str, field: str, line: _Line) -> bool:
    """Import a part if it is a user's own, which is the answer: should that end this process, the
    field is to blame."""
    own = ":" in name
    if own:
        line.tell(f"importing {name}", field)
        plugins.load_early(name)
    return own


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
