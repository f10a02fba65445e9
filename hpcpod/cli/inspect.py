"""Verbs that only look at runs."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod._process import REQUEUE
from hpcpod.cli.output import say, say_json
from hpcpod.cli.run_argument import is_pod, run_and
from hpcpod.errors import HpcpodError, UserError
from hpcpod.launchers.local import tail
from hpcpod.records.records import Board, encode
from hpcpod.run.advice import SHORTEST
from hpcpod.run.pod_log import PodLogs
from hpcpod.run.refused import refused
from hpcpod.run.run import ENDED, Run, open_run, runs_here, runs_home
from hpcpod.run.status import Status
from hpcpod.run.sweeps.folder import is_sweep, open_sweep
from hpcpod.run.tables import visible
from hpcpod.run.text import duration, interval, many, size, times
from hpcpod.run.usage import used

if TYPE_CHECKING:
    from rich.console import Console


def status(options: Namespace) -> int:
    """``hpcpod status``: one run; without one, all of them as ``list`` has them."""
    from hpcpod.run.tables import headline, progress_lines, queue_line

    if options.run is None:
        return _list(runs_home(), json=options.json)
    run = open_run(options.run)
    now = run.status(ask_scheduler=True)
    if options.json:
        say_json(encode(now))
        return 0
    say(headline(now))
    say_outcome(now)
    for line in progress_lines(now):
        say(line)
    for name, slot in now.slots.items():
        beside = f", scoring {slot['scoring']['order']}" if "scoring" in slot else ""
        again = f", requeued {times(slot['restarts'])}" if slot["restarts"] else ""
        say(f"slot {name}: {slot.get('state')} {slot.get('order', '')}{beside}{again}")
    if now.queue:
        say(queue_line(now.queue))
    elif now.unknown:
        say(f"what waits in the queue can't be told here: {now.unknown}")
    elif now.doubt:
        say(f"no process is seen to run it, but {now.doubt}; look again in two minutes")
    elif now.state == "waiting":
        asked = now.slots_pending is not None  # and none waits, so that those that run must start
        starting = "" if asked and not now.slots_running else ": its slots are starting"
        say(f"no slot works on it now{starting}")
    if now.state == "interrupted":
        say(f"no process runs it; go on with: hpcpod resume {run.word}")
    elif now.queue or now.coordinators == 0 or (now.state == "waiting" and not now.slots_running):
        say(f"what to do about it: hpcpod why {run.word}")
    if now.quarantined:
        say(f"{now.quarantined} damaged files were set aside in {run.path / 'quarantine'}")
    return 0


def say_outcome(now: Status) -> None:
    """Print the reason if the run was given up, and its best policy, if it has one."""
    if now.failure:
        say(f"{'paused' if now.state == 'paused' else 'given up'}: {now.failure}")
    best = now.best
    if best is None:
        return
    say(
        f"best: {best.title}: {interval(best.mean, best.low, best.high, best.episodes)} on"
        f" {many(best.episodes, 'episode')} of {best.seeds_words}"
        + (f", the best of {best.candidates}" if best.candidates > 1 else "")
    )
    say(f"policy: {best.checkpoint}")


def list_runs(options: Namespace) -> int:
    """``hpcpod list``: the runs that are asked for, in the order that is."""
    return _list(
        runs_home(options.runs), options.sort, reverse=options.reverse, states=options.state,
        env=options.env, json=options.json,
    )  # fmt: skip


def _list(
    home: Path, sort: str = "name", *, reverse: bool = False, states: Collection[str] = (),
    env: str | None = None, json: bool = False,
) -> int:  # fmt: skip
    from hpcpod.run.run_list import chosen, in_order, runs_table

    # squeue is not asked: it would be once for each run.
    every = [status for path in runs_here(home) for status in _readable(path)]
    runs = in_order(chosen(every, states, env), sort, reverse=reverse)
    if json:
        say_json([encode(status) for status in runs])
    elif runs:
        console(500).print(runs_table(runs))  # a run's name is whole where a script reads it
    else:
        return _no_runs(home, len(every))
    return 0


def _no_runs(home: Path, others: int) -> int:
    """Say why a list is empty; the exit code says the same."""
    damaged = len(runs_here(home)) - others
    if others:
        say(f"no such runs in {home}/, {others} others")
    elif damaged:
        raise HpcpodError(f"no run in {home}/ can be read: {damaged} damaged, see above")
    elif home.is_dir() or home == runs_home():
        say(f"no runs in {home}/")
    else:
        raise UserError(f"there is no folder {home}: --runs names the folder that holds runs")
    return 0


def _readable(path: Path) -> list[Status]:
    """The run's status; a damaged run is named, and does not hide the others."""
    try:
        return [open_run(path).status()]
    except HpcpodError as error:
        sys.stderr.write(visible(f"hpcpod: {error}\n"))
        return []


def leaderboard(options: Namespace) -> int:
    """``hpcpod leaderboard``: the rows and the lineage of the first."""
    run = open_run(options.run)
    board = run.board()
    if options.json:
        say_json(
            {
                "entries": [encode(row) for row in run.leaderboard(board)],
                "winner": board.winner,
                "lineage": [encode(pod) for pod in run.lineage(board=board)],
                "confirmed": [encode(score) for score in board.confirmed],
                **(_stats(run, board) if options.stats else {}),
            }
        )
        return 0
    show_leaderboard(run, board)
    if options.stats:
        from hpcpod.run.configuration_scores import configurations_table
        from hpcpod.run.tables import scores_table

        console().print(scores_table(run.scores(board)))
        if configurations := run.configurations(board):
            console().print(configurations_table(configurations))
    return 0


def _stats(run: Run, board: Board) -> dict[str, list[Any]]:
    """The keys that ``--stats`` adds to a leaderboard's JSON."""
    return {
        "scores": [encode(score) for score in run.scores(board)],
        "configurations": [encode(score) for score in run.configurations(board)],
    }


def snapshots(options: Namespace) -> int:
    """``hpcpod snapshots``: the leader's policy at equal wall times, with its scores."""
    run = open_run(options.run)
    scores = run.snapshots()
    if options.json:
        say_json([encode(score) for score in scores])
        return 0
    if run.folder.resolved.config.snapshots.seconds is None:
        raise UserError(f"{run.name} keeps no snapshots: launch it with snapshots.seconds")
    from hpcpod.run.tables import snapshots_table

    over = run.board().phase not in ("running", "finals")
    console().print(snapshots_table(scores, over))
    return 0


def report(options: Namespace) -> int:
    """``hpcpod report``: one page about a run, about several side by side, or about a sweep."""
    from hpcpod.report.write import write_report, write_sweep_report

    if len(options.runs) == 1 and is_sweep(options.runs[0]):
        swept = open_sweep(options.runs[0])
        path = write_sweep_report(swept, options.output, overwrite=options.overwrite)
    else:
        runs = [open_run(run) for run in options.runs]
        if options.compare and len(runs) < 2:
            raise UserError("--compare puts several runs side by side: name at least two")
        path = write_report(runs, options.output, overwrite=options.overwrite)
    say(f"{path} ({size(path.stat().st_size)}): open it with a browser")
    return 0


def console(columns: int = 140) -> Console:
    """A console of rich's, which takes what is no terminal for one of 80 columns."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else columns, highlight=False)


def show_leaderboard(run: Run, board: Board) -> None:
    """Print the leaderboard and the lineage of the best."""
    from hpcpod.run.tables import leaderboard_table, lineage_lines
    from hpcpod.trading.verdict import BACKENDS, UNIT

    console().print(leaderboard_table(board))
    if run.folder.resolved.config.env.backend in BACKENDS:
        say(UNIT)
    ancestors = run.lineage(board=board)
    if ancestors:
        say(f"lineage of {ancestors[-1].id}:")
        for line in lineage_lines(board, ancestors, run.searched):
            say(f"  {line}")


def watch(options: Namespace) -> int:
    """``hpcpod watch``: look until the run ends; panes in a terminal, lines without one."""
    from hpcpod.cli.live import Live
    from hpcpod.cli.screen.app import watch as watch_in_panes
    from hpcpod.cli.screen.terminal import usable
    from hpcpod.run.tables import summary

    run = open_run(options.run)
    if usable():
        if watch_in_panes(run):
            return conclude(run)
        say(summary(run.status()))
        return 0
    with Live(run) as live:
        for status in run.looks(1.0 if run.local else 10.0):  # s; a shared disk answers each look
            live.update(run.board())
            if status.state in ENDED:
                break
    return conclude(run)


def conclude(run: Run) -> int:
    """Print how a run ended; the exit code says the same."""
    board = run.board()
    now = run.status(board)
    say()
    show_leaderboard(run, board)
    for sentence in refused(run.folder, board):
        say(sentence)
    say_outcome(now)
    say(f"run folder: {run.path}")
    if board.phase != "finished":
        say(f"{now.state}; go on with: hpcpod resume {run.word}")
        return REQUEUE
    say(f"finished: {board.stop_reason}, after {now.minutes:.1f} minutes")
    if board.snapshots:
        say(f"return against time: hpcpod snapshots {run.word}")
    if now.best is not None:
        say(f"what won, and why, on one page: hpcpod report {run.word}")
    if run.advice():
        say(f"what to ask for the next time: hpcpod advise {run.word}")
    if now.best is None:
        short = board.stop_reason == "minutes" and not any(p.failures for p in board.pods.values())
        if short:
            say(
                "no policy: the time (stop.minutes) was over before a pod had finished a round:"
                " give it more, or make rounds shorter (round.env_steps)"
            )
        else:
            say(f"no policy: no round was reported; `hpcpod logs {run.word}` may say why")
    fruitless = now.best is None and board.stop_reason != "user"
    return 1 if fruitless or board.stop_reason == "failed" else 0


def why(options: Namespace) -> int:
    """``hpcpod why``: of a pod, or of the whole run."""
    run, pod = run_and((options.run, options.pod), is_pod)
    sentences = run.why(pod)
    if options.json:
        say_json({"run": run.name, "pod": pod, "why": sentences})
    else:
        say("\n".join(sentences))
    return 0


def advise(options: Namespace) -> int:
    """``hpcpod advise``: what was asked for against what was used, with lines to change."""
    run = open_run(options.run)
    found = run.advice()
    if options.json:
        say_json([encode(each) for each in found])
        return 0
    for each in found:
        say(f"{each.about}: {each.sentence}")
        say(f"    {each.yaml}")
    if not found:
        worked = used(run.folder.restarts.all()).slot_seconds
        if worked < SHORTEST:
            least = duration(SHORTEST)
            say(f"too short to tell: its slots worked {duration(worked)}, and it takes {least}")
        else:
            say("nothing to change, by what is known: hpcpod advise --help has what it looks at")
    return 0


def logs(options: Namespace) -> int:
    """``hpcpod logs``: the ends of log files, or their lines about a pod."""
    run, name = run_and((options.run, options.name), is_pod)
    if name is not None and is_pod(name):
        return _pod_logs(run, name, options)
    if options.rank is not None:
        raise UserError(f"--rank is about a pod: hpcpod logs {run.word} POD --rank {options.rank}")
    return _all_logs(run, name or "", options)


def _pod_logs(run: Run, pod: str, options: Namespace) -> int:
    logs = PodLogs(run.folder, pod, options.rank)
    ends = logs.last(options.lines)
    if not ends and not options.follow:
        raise UserError(f"no log says anything of {pod}: {logs.absence()}")
    more = logs.follow(0.5 if run.local else 2.0) if options.follow else ()  # s
    last = None
    for path, line in chain(ends, more):
        if path != last:
            say(f"==> {path}")
            last = path
        say(line)
    return 0


def _all_logs(run: Run, name: str, options: Namespace) -> int:
    folder = run.path / "logs"
    files = _logs(folder, name)
    if not files:
        none = f"no log in {folder} has '{name}' in its name" if name else f"no log in {folder} yet"
        raise UserError(none)
    places = {path: path.stat().st_size for path in files}
    for path in files:
        say(f"==> {path}")
        say(tail(path, options.lines))
    while options.follow:
        time.sleep(0.5)  # s
        for path in _logs(folder, name):
            places[path] = _say_rest(path, places.get(path, 0))
    return 0


def _logs(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in folder.glob("*.log") if name in path.name)


def _say_rest(path: Path, place: int) -> int:
    """Print what a log has from this place on; return where it ends."""
    with path.open(errors="replace") as file:  # others may write anything into a log
        file.seek(place)
        for line in file:
            say(f"{path.stem}: {line.rstrip()}")
        return file.tell()
