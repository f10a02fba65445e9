"""Verbs that change what a run does."""

from __future__ import annotations

import re
import signal
from argparse import Namespace

from hpcpod.cli.inspect import conclude, say_outcome
from hpcpod.cli.output import say, say_json
from hpcpod.cli.run_argument import run_and
from hpcpod.errors import UserError
from hpcpod.records.records import encode
from hpcpod.run.requests import require_resumable, start_finals
from hpcpod.run.run import Run, open_run
from hpcpod.run.text import many


def follow_here(run: Run) -> int:
    """Run the slots here, show them, and end as the run ends.

    Ctrl-C lets every slot finish its round and pauses; a second one has them checkpoint and
    end now. Either way the run can be resumed.
    """
    from hpcpod.cli.live import Live, lasting_output
    from hpcpod.orchestrator.loop import drive_here

    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Handlers nest, and may come in the middle of anything: it is seen to between two looks.
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
    # A local run's slots have ended with the process that ran them: they are started here.
    if not (options.drain or options.now) and start_finals(run.folder):
        say(f"its finalists are scored here; finish it without: hpcpod stop {run.word} --now")
        return follow_here(run)
    now = run.stop(drain=options.drain, now=options.now)
    say(f"{run.name}: {now.state}" + (f" ({now.stop_reason})" if now.stop_reason else ""))
    if now.state == "finished" and now.best is not None:
        say_outcome(now)
        if not now.best.fresh:
            say("it was not scored on fresh seeds")
    if now.state == "finals":
        kept = " and its snapshots" if run.snapshots() else ""
        say(f"its finalists{kept} are scored on fresh seeds, and then it is finished")
        say(f"finish it without: hpcpod stop {run.word} --now")
    elif now.state != "finished":
        say(f"go on with: hpcpod resume {run.word}")
    return 0


def pause(options: Namespace) -> int:
    """``hpcpod pause``."""
    run = open_run(options.run)
    now = run.pause()
    leaving = f"; {many(len(now.slots), 'slot')} still to checkpoint and leave" if now.slots else ""
    say(f"{run.name}: {now.state}{leaving}")
    say(f"go on with: hpcpod resume {run.word}")
    return 0


def resume(options: Namespace) -> int:
    """``hpcpod resume``: here it stays until the run ends, on Slurm it submits."""
    run = open_run(options.run)
    require_resumable(run.folder)  # first: engines of a run that goes on are not forgotten
    if options.any_engine:
        run.folder.engines.forget()
    return go_on(run)


def go_on(run: Run) -> int:
    """Have a run go on: here until it ends, on Slurm by submitting; return the exit code."""
    if run.local:
        run.undrain()
        return follow_here(run)
    jobs = run.resume()
    say(f"{run.name}: submitted {' and '.join(jobs) or 'nothing: its jobs are in the queue'}")
    return 0


def scale(options: Namespace) -> int:
    """``hpcpod scale``: print or change the number of slots at once."""
    from hpcpod.run.tables import slots_words

    run, word = run_and((options.run, options.slots), _is_amount)
    before = run.target()
    if word is None:
        now = run.status(ask_scheduler=True)
        wanted = (
            f"how many slots are wanted can't be told here ({before.wanted_by})"
            if before.wanted is None
            else f"{before.wanted} slots at once, {before.wanted_by}"
        )
        say(f"{run.name}: {wanted}; {slots_words(now)}")
        return 0
    if not _is_amount(word):
        raise UserError(
            f"expected a number of slots, at least 1, or {AUTO}, got '{word}';"
            f" `hpcpod pause {run.word}` leaves none at work"
        )
    now = run.scale(None if word == AUTO else int(word))
    after = run.target()
    was = "unknown" if before.wanted is None else before.wanted
    say(f"{run.name}: slots at once were {was}, will be {after.wanted} ({after.wanted_by})")
    if now.state in ("paused", "draining", "interrupted"):
        say(f"it is {now.state}; go on with: hpcpod resume {run.word}")
    return 0


AUTO = "auto"
"""The word for as many slots as the configuration says."""


def _is_amount(word: str) -> bool:
    return word == AUTO or re.fullmatch(r"0*[1-9][0-9]{0,8}", word) is not None


def tick(options: Namespace) -> int:
    """``hpcpod tick``."""
    from hpcpod.run.tables import headline

    now = open_run(options.run).tick()
    if options.json:
        say_json(encode(now))
    else:
        say(headline(now))
    return 0
