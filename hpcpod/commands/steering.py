"""Verbs that change what a run does."""

from __future__ import annotations

import signal
from argparse import Namespace

from hpcpod.commands.looking import conclude
from hpcpod.commands.output import say, say_json
from hpcpod.errors import UserError
from hpcpod.records import encode
from hpcpod.results import Run, open_run


def follow_here(run: Run) -> int:
    """Run the slots here, show them, and end as the run ends.

    Ctrl-C lets every slot finish its round and pauses; a second one has them checkpoint and
    end now. Either way the run can be resumed.
    """
    from hpcpod.live import Live, lasting_output
    from hpcpod.orchestrator.driving import drive_here

    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, frame: asked.append(got))

    def stop() -> bool:
        if asked and signal.SIGTERM not in asked and run.drain():
            live.say("draining: every slot finishes its round; Ctrl-C again to stop now")
        return len(asked) > 1 or signal.SIGTERM in asked

    with lasting_output():
        with Live(run) as live:
            drive_here(run.folder, stop, live.update, live.say)
        return conclude(run)


def stop(options: Namespace) -> int:
    """``hpcpod stop``."""
    run = open_run(options.run)
    now = run.stop(drain=options.drain)
    say(f"{run.name}: {now.state}" + (f" ({now.stop_reason})" if now.stop_reason else ""))
    if now.state == "finished" and now.best is not None:
        say(f"policy: {now.best.checkpoint}")
    return 0


def resume(options: Namespace) -> int:
    """``hpcpod resume``: here it stays until the run ends, on Slurm it submits."""
    run = open_run(options.run)
    if run.board().phase == "finished":
        raise UserError(f"{run.name} is finished: there is nothing to resume")
    if run.local and run.folder.driven():
        raise UserError(f"another process runs {run.name} already; see `hpcpod status`")
    if options.any_engine:
        run.folder.forget_engines()
    run.undrain()
    if run.local:
        return follow_here(run)
    from hpcpod import launching

    jobs = launching.submit_missing(run.folder)
    say(f"{run.name}: submitted {' and '.join(jobs) or 'nothing: its jobs are in the queue'}")
    return 0


def tick(options: Namespace) -> int:
    """``hpcpod tick``."""
    from hpcpod.display import headline

    now = open_run(options.run).tick()
    if options.json:
        say_json(encode(now))
    else:
        say(headline(now))
    return 0


def export(options: Namespace) -> int:
    """``hpcpod export``."""
    say(str(open_run(options.run).export(options.to)))
    return 0
