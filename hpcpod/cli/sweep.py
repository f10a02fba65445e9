"""The verb ``sweep``, and ``launch`` of a sweep's file."""

from __future__ import annotations

import shlex
import signal
from argparse import Namespace
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hpcpod._process import StopFlag
from hpcpod.cli.inspect import console
from hpcpod.cli.output import say, say_error, say_json, wrapped
from hpcpod.errors import HpcpodError, UserError
from hpcpod.run.run import runs_home
from hpcpod.run.sweeps.design import label
from hpcpod.run.sweeps.folder import open_sweep, sweeps_here
from hpcpod.run.tables import count, interval, plain_table, visible
from hpcpod.run.text import duration, many
from hpcpod.storage.requests import Drain

if TYPE_CHECKING:
    from rich.table import Table

    from hpcpod.run.sweeps.cells import Plan
    from hpcpod.run.sweeps.design import Cell
    from hpcpod.run.sweeps.effects import Analysis
    from hpcpod.run.sweeps.folder import Sweep
    from hpcpod.run.sweeps.outcome import Outcome

MOST_LINES = 40
"""Cells of a plan that are shown."""
ACTIONS = ("status", "results", "stop", "resume")
TEXT = "a sweep: where it stands, its table and effects, its stop and its going on"
ARGUMENTS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("action",), {"metavar": "ACTION", "choices": ACTIONS,
                   "help": f"one of {', '.join(ACTIONS)}"}),
    (("run",), {"metavar": "RUN", "nargs": "?",
                "help": "a sweep's folder, or its name; status without it is of all of them"}),
    (("--csv",), {"action": "store_true", "help": "print the table of results as CSV"}),
)  # fmt: skip


def launch(options: Namespace, plan: Plan) -> int:
    """``hpcpod launch`` of a sweep: here it stays until the last cell has ended, on Slurm it
    returns."""
    from hpcpod.run.sweeps import folder, launch

    home = runs_home(options.runs)
    folder.check_free(home / plan.name)
    resolved = launch.check(plan, probe=not options.no_probe, tell=_tell)
    say_plan(plan)
    local = plan.configs[0].cluster.launcher == "local"
    if options.dry_run:
        for text in () if local else launch.scripts(plan, home):
            say(text)
        return 0
    sweep = launch.make(plan, resolved, home)
    say(f"sweep: {sweep.path}")
    if local:
        return follow(sweep)
    _say_jobs(sweep, launch.submit_new(sweep))
    return 0


def validate(options: Namespace, plan: Plan) -> int:
    """``hpcpod validate`` of a sweep's file: its cells, or every problem of them."""
    from hpcpod.run.sweeps import folder, launch

    launch.check(plan, probe=not options.no_probe, tell=_tell)
    say_plan(plan)
    try:
        folder.check_free(runs_home(options.runs) / plan.name)
    except UserError as error:
        say(f"# launch would refuse: {error}")
    return 0


def say_plan(plan: Plan) -> None:
    """Print the cells of a sweep, a line for each combination."""
    stop = plan.configs[0].stop
    budget = [f"{stop.env_steps:,} environment steps"] if stop.env_steps is not None else []
    budget += [f"{stop.minutes:g} minutes"] if stop.minutes is not None else []
    combos = len(plan.configs)
    seeds = f" with {plan.sweep.seeds} seeds each" if plan.sweep.seeds > 1 else ""
    say(
        f"# {plan.name}: {many(len(plan.cells), 'run')}, {many(combos, 'combination')} of"
        f" {many(len(plan.factors), 'factor')} ({plan.sweep.design}){seeds};"
        f" each has {' and '.join(budget)}"
    )
    for cell in plan.cells[: min(combos, MOST_LINES)]:
        say(f"# {cell.name}: {_levels(cell)}")
    if combos > MOST_LINES:
        say(f"# and {combos - MOST_LINES} more")


def follow(sweep: Sweep) -> int:
    """Run a sweep here, tell of each run that ends, and show the table at the end.

    Ctrl-C has the runs at work checkpoint and leave.
    """
    from hpcpod.run.sweeps.python import follow_here

    stop, every = StopFlag((signal.SIGINT, signal.SIGTERM)), len(sweep.cells)

    def tell(cell: Cell, outcome: Outcome, ended: int) -> None:
        say(f"{cell.name} ({_levels(cell)}): {_scored(outcome)}, {outcome.fate}"
            f" ({outcome.reason}); {ended} of {every}")  # fmt: skip

    code = follow_here(sweep, lambda: bool(stop), tell)
    left = every - len(sweep.kept())
    if left:
        say(f"{many(left, 'run')} to go; go on with: hpcpod sweep resume {_word(sweep)}")
        return code
    _say_results(sweep)
    return code


def sweep(options: Namespace) -> int:
    """``hpcpod sweep ACTION RUN``."""
    if options.csv and options.action != "results":
        raise UserError("--csv is of `hpcpod sweep results` alone")
    if options.run is None:
        if options.action != "status":
            raise UserError(f"hpcpod sweep {options.action} needs a sweep's folder, or its name")
        return _all(json=options.json)
    found = open_sweep(options.run)
    return {"status": _status, "results": _results, "stop": _stop, "resume": _resume}[
        options.action
    ](found, options)


def _all(*, json: bool) -> int:
    found = []
    for path in sweeps_here():
        try:
            found.append(open_sweep(path))
        except HpcpodError as error:
            say_error(str(error))
    if json:
        say_json([_counts(each) for each in found])
        return 0
    for each in found:
        say(f"{each.name}: {_words(_counts(each)['fates'])}")
    if not found:
        say(f"no sweeps in {runs_home()}/")
    return 0


def _counts(sweep: Sweep) -> dict[str, Any]:
    fates = Counter(outcome.fate for _, outcome in sweep.rows())
    return {"sweep": sweep.name, "path": str(sweep.path), "runs": len(sweep.cells),
            "fates": dict(fates)}  # fmt: skip


def _words(fates: dict[str, int]) -> str:
    return f"{many(sum(fates.values()), 'run')}: " + ", ".join(
        f"{number} {fate}" for fate, number in fates.items()
    )


def _status(sweep: Sweep, options: Namespace) -> int:
    rows, jobs = sweep.rows(), _jobs(sweep)
    if options.json:
        say_json({**_counts(sweep), "stopping": sweep.stopping, "jobs": jobs, "rows": [
            {"run": cell.name, **asdict(outcome)} for cell, outcome in rows
        ]})  # fmt: skip
        return 0
    say(f"{sweep.name}: {_words(_counts(sweep)['fates'])}")
    if sweep.stopping:
        say(f"it was asked to stop; go on with: hpcpod sweep resume {_word(sweep)}")
    if isinstance(jobs, str):
        say(f"its jobs can't be told here: {jobs}")
    elif jobs is not None:
        say(f"elements of its array: {jobs['running']} running, {jobs['pending']} in the queue")
    for cell, outcome in rows:
        if outcome.fate not in ("waiting", "finished"):
            steps = f"{count(outcome.env_steps)} env steps"
            why = f": {outcome.reason}" if outcome.reason else ""
            say(f"{cell.name} ({_levels(cell)}): {outcome.fate}, {steps}{why}")
    say(f"one of them: hpcpod status {shlex.quote(str(sweep.folder(sweep.cells[0])))}")
    return 0


def _jobs(sweep: Sweep) -> dict[str, int] | str | None:
    """Elements of the array by state, or why they can't be told; None of a sweep here."""
    from hpcpod.launchers.factory import make_launcher

    if sweep.element.cluster.launcher == "local":
        return None
    if not sweep.owner.mine:
        return f"the scheduler tells them to {sweep.owner.name} alone"
    try:
        view = make_launcher(sweep.path, sweep.element).observe(5.0)  # s
    except UserError as error:
        return str(error)
    states = Counter(job.state for job in view.jobs)
    return {"running": states["running"], "pending": states["pending"]}


def _results(sweep: Sweep, options: Namespace) -> int:
    from hpcpod.run.data_files import as_csv

    if options.csv:
        say(as_csv(sweep.table()).rstrip("\n"))
    elif options.json:
        table = sweep.table()
        rows = zip(*table.values(), strict=True)
        say_json({
            "rows": [dict(zip(table, row, strict=True)) for row in rows],
            "analyses": [asdict(each) for each in sweep.analyses()],
        })  # fmt: skip
    else:
        _say_results(sweep)
    return 0


def _say_results(sweep: Sweep) -> None:
    from hpcpod.run.sweeps.effects import analyse

    rows = sweep.rows()
    console(500).print(_table(sweep, rows))
    for analysis in analyse(sweep.factors, rows):
        _say_effects(analysis)
    word = _word(sweep)
    say(f"as a page: hpcpod report {word}    as CSV: hpcpod sweep results {word} --csv")


def _table(sweep: Sweep, rows: list[tuple[Cell, Outcome]]) -> Table:
    from rich.text import Text

    table = plain_table(sweep.name)
    table.add_column("run", no_wrap=True)
    for factor in sweep.factors:
        table.add_column(Text(visible(factor.path)), no_wrap=True, overflow="ellipsis")
    for head in ("score", "steps", "time"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("fate", no_wrap=True)
    for cell, outcome in rows:
        paths, levels = [factor.path for factor in sweep.factors], cell.levels
        table.add_row(
            cell.name, *(Text(visible(label(levels[p])) if p in levels else "-") for p in paths),
            _scored(outcome), count(outcome.env_steps), duration(outcome.seconds), outcome.fate,
        )  # fmt: skip
    return table


def _say_effects(analysis: Analysis) -> None:
    """Print the main effects, and those interactions whose intervals leave zero out."""
    where = f" in {analysis.env}" if analysis.env else ""
    if not analysis.effects:
        say(f"no effects can be told{where}: {' '.join(analysis.remarks)}")
        return
    say(f"effects on the score{where}, each against the mean of {analysis.mean:.4g}, with 95 %"
        f" intervals ({analysis.freedom} degrees of freedom):")  # fmt: skip
    hidden = 0
    for each in analysis.effects:
        if len(each.factors) > 1 and not each.shown:
            hidden += 1
            continue
        named = " and ".join(f"{f}={v}" for f, v in zip(each.factors, each.levels, strict=True))
        say(f"  {named}: {each.value:+.4g} [{each.low:.4g}, {each.high:.4g}]"
            f"{' *' if each.shown else ''}")  # fmt: skip
    if hidden:
        say(f"  {many(hidden, 'interaction')} whose intervals hold zero")
    total = len(analysis.effects)
    said = (
        f"* leaves zero out: if nothing had an effect, so would some {analysis.expected:.1f} of"
        f" {total} intervals."
    )
    for line in wrapped(" ".join([said, *analysis.remarks]), "  ", 2):
        say(line)


def _stop(sweep: Sweep, options: Namespace) -> int:
    from hpcpod.run.sweeps.launch import cancel

    sweep.ask_stop()
    if sweep.element.cluster.launcher != "local":
        try:
            cancel(sweep)
        except HpcpodError as error:
            say_error(f"its jobs end by themselves when they look up; {error}")
    say(f"{sweep.name}: its runs checkpoint and leave; go on with:"
        f" hpcpod sweep resume {_word(sweep)}")  # fmt: skip
    return 0


def _resume(sweep: Sweep, options: Namespace) -> int:
    from hpcpod.run.sweeps.launch import cancel, submit

    local = sweep.element.cluster.launcher == "local"
    left = len(sweep.cells) - len(sweep.kept())
    if not left:
        raise UserError(f"{sweep.name}: all its runs have ended: there is nothing to resume")
    if sweep.stopping and not local:
        cancel(sweep)  # a stop from where there is no scheduler has left that to us
    sweep.take_stop_back()
    kept = sweep.kept()
    for cell in (each for each in sweep.cells if each.name not in kept):
        try:
            if sweep.run(cell).folder.requests.read(Drain) is not None:
                sweep.run(cell).undrain()
        except HpcpodError as error:  # one that is lost holds up no other
            say_error(str(error))
    if local:
        return follow(sweep)
    _say_jobs(sweep, submit(sweep))
    return 0


def _say_jobs(sweep: Sweep, jobs: list[str]) -> None:
    said = f"submitted {' and '.join(jobs)}" if jobs else "nothing to submit: its jobs are there"
    say(f"{sweep.name}: {said}")
    say(f"follow it:  hpcpod sweep status {_word(sweep)}")
    say(f"end it:     hpcpod sweep stop {_word(sweep)}")


def _scored(outcome: Outcome) -> str:
    if outcome.score is None or outcome.low is None or outcome.high is None:
        return "-"
    return interval(outcome.score, outcome.low, outcome.high, outcome.episodes)


def _levels(cell: Cell) -> str:
    return ", ".join(f"{path}={label(v)}" for path, v in cell.levels.items())


def _word(sweep: Sweep) -> str:
    return shlex.quote(str(sweep.path))


def _tell(text: str) -> None:
    from hpcpod.cli.launch import say_progress

    say_progress(text)
