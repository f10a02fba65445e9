"""The verb that sends curves to loggers."""

from __future__ import annotations

from argparse import Namespace

from hpcpod.cli.output import say
from hpcpod.errors import UserError
from hpcpod.run.run import open_run
from hpcpod.run.text import many


def sync(options: Namespace) -> int:
    """``hpcpod sync``: replay the curves of a run."""
    from hpcpod.run.sync import sync

    run = open_run(options.run)
    names = options.to or run.folder.resolved.config.metrics
    if not names:
        raise UserError(f"{run.name} has no metrics configured: say where to, as by --to wandb")
    for name, rows in sync(run.folder, list(dict.fromkeys(names)), say).items():
        say(f"{name}: {many(rows, 'row')} sent" if rows else f"{name}: nothing new")
    return 0
