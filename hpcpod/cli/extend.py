"""The verb ``extend``: larger limits for a finished run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from hpcpod.cli.control import go_on
from hpcpod.cli.output import say
from hpcpod.run.extend import extend as publish
from hpcpod.run.extend import limits_of
from hpcpod.run.run import open_run


def extend(options: Namespace) -> int:
    """``hpcpod extend``: here it stays until the run ends again, on Slurm it submits."""
    run = open_run(options.run)
    extension = publish(run.folder, limits_of(options.overrides))
    say(f"{run.name}: {extension.words}; should this be interrupted: hpcpod resume {run.word}")
    return go_on(run)


EXTEND: tuple[
    Callable[[Namespace], int], str, tuple[tuple[tuple[str, ...], dict[str, Any]], ...]
] = (
    extend,
    "reopen a finished run with larger limits, and go on with it",
    (
        (("run",), {"metavar": "RUN", "help": "a run's folder, or its name under runs/"}),
        (
            ("--set",),
            {
                "action": "append", "default": [], "metavar": "KEY=VALUE", "dest": "overrides",
                "help": "a larger limit, such as stop.env_steps=2000000, or null for none; may be"
                " given again",
            },
        ),
    ),
)  # fmt: skip
"""The verb, its line of help and its arguments, for ``parser.VERBS``."""
