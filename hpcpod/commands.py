"""What each verb of the command line does. Torch is loaded by none that only looks."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from hpcpod.errors import HpcpodError, UserError
from hpcpod.lifetime import REQUEUE
from hpcpod.pod.ranks.place import place_of
from hpcpod.records import Board, encode
from hpcpod.results import ENDED, Run, Status, open_run, runs_home


def say(text: str = "") -> None:
    """Print a line at once, whatever standard output is."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def launch(options: Namespace) -> int:
    """``hpcpod launch``: on this machine it stays until the run ends, on Slurm it returns."""
    from hpcpod import launching, preparing

    config = preparing.read_config(options.config, options.cluster, set_options=options.overrides)
    resolved = preparing.resolve(config, source=options.config, probe=not options.no_probe)
    if options.dry_run:
        for text in preparing.scripts(config, _runs(options)):
            say(text)
        return 0
    folder = launching.create_run(resolved, _runs(options))
    run = Run(folder)
    if config.cluster.launcher == "local":
        return follow_here(run)
    jobs = launching.start(folder, config)
    names = zip(("the coordinator as job", "the slots as job"), jobs, strict=False)
    say(f"{run.name}: submitted " + " and ".join(f"{what} {job}" for what, job in names))
    _say_how_to_follow(run)
    return 0


def _say_how_to_follow(run: Run) -> None:
    say(f"run folder: {run.path}")
    say(f"follow it:  hpcpod watch {run.word}    hpcpod status {run.word}    squeue --me")
    say(f"end it:     hpcpod stop {run.word}")


def render(options: Namespace) -> int:
    """``hpcpod render``: the run folder and its scripts, for a person to submit."""
    from hpcpod import launching, preparing

    config = preparing.read_config(
        options.config, options.cluster or "slurm", set_options=options.overrides
    )
    resolved = preparing.resolve(config, source=options.config, probe=not options.no_probe)
    preparing.scripts(config, _runs(options))  # refuses what can't be rendered, before a folder
    folder = launching.create_run(resolved, _runs(options))
    run = Run(folder)
    say(f"run folder: {run.path}")
    say("submit it with")
    for path in launching.write_scripts(folder, config):
        say(f"    sbatch {shlex.quote(str(path))}")
    return 0


def validate(options: Namespace) -> int:
    """``hpcpod validate``: every problem at once, or the resolved configuration."""
    from hpcpod import preparing
    from hpcpod.config.loading import dump_yaml
    from hpcpod.config.manual import field_manual
    from hpcpod.storage.creation import check_creatable

    if options.fields:
        say(field_manual())
        return 0
    if options.config is None:
        raise UserError("validate needs a CONFIG file, or --fields for the manual")
    config = preparing.read_config(options.config, options.cluster, set_options=options.overrides)
    checked = preparing.check(config, source=options.config, probe=not options.no_probe)
    say(dump_yaml(config).rstrip())
    say()
    quotas = ", ".join(f"{n} {name}" for name, n in checked.quotas.items())
    say(f"# births: {quotas}")
    for name, footprint in checked.footprints.items():
        say(
            f"# {name}: checkpoint {_size(footprint.core)}"
            + (f", replay up to {_size(footprint.replay)}" if footprint.replay else "")
        )
    if checked.footprints:
        say(f"# disk that the run will need: about {_size(checked.disk)}")
    try:
        check_creatable(_runs(options) / config.name)
    except UserError as error:
        say(f"# launch would refuse: {error}")
    return 0


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def train(options: Namespace) -> int:
    """``hpcpod train``: one agent, no tournament."""
    from hpcpod import api, preparing
    from hpcpod.display import count, number
    from hpcpod.live import lasting_output

    config = preparing.read_config(options.config, set_options=options.overrides)
    to = options.save_to or Path(f"{config.name}.h5")
    if options.save_to is None and to.exists():
        word = shlex.quote(str(to))
        raise UserError(f"{to} is there already; overwrite it with --save-to {word}")
    told = 0.0
    first = place_of(os.environ).rank == 0  # of those that torchrun, mpirun or srun has started

    def tell(progress: Any) -> None:
        nonlocal told
        if time.monotonic() - told > 1.0:
            told = time.monotonic()
            mean = progress.mean_return
            say(
                f"{count(progress.env_steps)} / {count(progress.target_steps)} env steps,"
                f" {count(progress.steps_per_second)} steps/s,"
                f" training return {'-' if math.isnan(mean) else number(mean)}"
            )

    with lasting_output():
        training = api.train_config(
            config,
            env_steps=options.env_steps,
            save_to=to,
            on_progress=tell,
            source=options.config,
        )
        if not first:
            return 0
        for point in training.curve:
            say(f"{point.env_steps:>12} env steps  return {number(point.mean_return):>9}")
        say(f"policy: {to}")
    return 0


def status(options: Namespace) -> int:
    """``hpcpod status``: one run, or all of them in a line each."""
    from hpcpod.display import headline, queue_line

    if options.run is None:
        found = sorted(path.parent for path in runs_home().glob("*/config.json"))
        statuses = [status for path in found for status in _readable(path)]
        if options.json:
            say_json([encode(status) for status in statuses])
        else:
            say("\n".join(map(headline, statuses)) or f"no runs in {runs_home()}/")
        return 0
    run = open_run(options.run)
    now = run.status(ask_scheduler=True)
    if options.json:
        say_json(encode(now))
        return 0
    say(headline(now))
    _say_outcome(now)
    for name, slot in now.slots.items():
        beside = f", scoring {slot['scoring']['order']}" if "scoring" in slot else ""
        say(f"slot {name}: {slot.get('state')} {slot.get('order', '')}{beside}")
    if now.queue:
        say(queue_line(now.queue))
    elif now.state == "waiting":
        say("nobody works on it now: its slots are starting")
    elif now.state == "interrupted":
        say(f"nobody runs it; go on with: hpcpod resume {run.word}")
    if now.quarantined:
        say(f"{now.quarantined} damaged files were set aside in {run.path / 'quarantine'}")
    return 0


def _say_outcome(now: Status) -> None:
    """Why the run was given up, if it was, and its best policy, if it has one."""
    if now.failure:
        say(f"{'paused' if now.state == 'paused' else 'given up'}: {now.failure}")
    best = now.best
    if best is None:
        return
    seeds = "fresh seeds" if best.fresh else "the panel"
    say(
        f"best: {best.pod} {best.algorithm} round {best.round}: {best.mean:.1f}"
        f" [{best.low:.1f}, {best.high:.1f}] on {best.episodes} episodes of {seeds}"
    )
    say(f"policy: {best.checkpoint}")


def _readable(path: Path) -> list[Status]:
    """The run's status; a damaged run is named, and does not hide the others."""
    try:
        return [open_run(path).status()]
    except HpcpodError as error:
        sys.stderr.write(f"hpcpod: {error}\n")
        return []


def leaderboard(options: Namespace) -> int:
    """``hpcpod leaderboard``: the rows and the lineage of the first."""
    run = open_run(options.run)
    board = run.board()
    if options.json:
        say_json(
            {
                "entries": [encode(entry) for entry in board.entries],
                "winner": board.winner,
                "lineage": [encode(pod) for pod in run.lineage(board=board)],
                "confirmed": [encode(score) for score in board.confirmed],
            }
        )
        return 0
    show_leaderboard(run, board)
    return 0


def show_leaderboard(run: Run, board: Board) -> None:
    """Print the leaderboard and the lineage of the best."""
    from rich.console import Console

    from hpcpod.display import leaderboard_table, lineage_lines

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(leaderboard_table(board))
    ancestors = run.lineage(board=board)
    if ancestors:
        say(f"lineage of {ancestors[-1].id}:")
        for line in lineage_lines(board, ancestors, run.searched):
            say(f"  {line}")


def watch(options: Namespace) -> int:
    """``hpcpod watch``: look until the run ends."""
    from hpcpod.live import Live

    run = open_run(options.run)
    seconds = 1.0 if run.local else 10.0
    with Live(run) as live:
        for state in run.states(seconds):
            live.update(run.board())
            if state in ENDED:
                break
    return conclude(run)


def follow_here(run: Run) -> int:
    """Run the slots here, show them, and end as the run ends.

    Ctrl-C lets every slot finish its round and pauses; a second one has them checkpoint and
    end now. Either way the run can be resumed.
    """
    from hpcpod.live import Live, lasting_output
    from hpcpod.orchestrator import drive_here

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


def conclude(run: Run) -> int:
    """Print how a run ended; the exit code says the same."""
    board = run.board()
    now = run.status(board)
    say()
    show_leaderboard(run, board)
    _say_outcome(now)
    say(f"run folder: {run.path}")
    if board.phase != "finished":
        say(f"{now.state}; go on with: hpcpod resume {run.word}")
        return REQUEUE
    say(f"finished: {board.stop_reason}, after {now.minutes:.1f} minutes")
    if now.best is None:
        say(f"no policy: no round was reported; `hpcpod logs {run.word}` may say why")
    fruitless = now.best is None and board.stop_reason != "user"
    return 1 if fruitless or board.stop_reason == "failed" else 0


def logs(options: Namespace) -> int:
    """``hpcpod logs``: the ends of log files."""
    from hpcpod.launchers.local import tail

    folder = open_run(options.run).path / "logs"
    files = _logs(folder, options.name)
    if not files:
        raise UserError(f"no log in {folder} has '{options.name}' in its name")
    places = {path: path.stat().st_size for path in files}
    for path in files:
        say(f"==> {path}")
        say(tail(path, options.lines))
    while options.follow:
        time.sleep(0.5)
        for path in _logs(folder, options.name):
            places[path] = _say_rest(path, places.get(path, 0))
    return 0


def _logs(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in folder.glob("*.log") if name in path.name)


def _say_rest(path: Path, place: int) -> int:
    """Print what a log has from this place on; return where it ends."""
    with path.open(errors="replace") as file:
        file.seek(place)
        for line in file:
            say(f"{path.stem}: {line.rstrip()}")
        return file.tell()


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
    paused = run.undrain()
    if run.local:
        return follow_here(run)
    from hpcpod import launching

    jobs = launching.restart(run.folder, paused=paused)
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


def say_json(data: Any) -> None:
    """Print strict JSON: what is not a number is null."""
    say(json.dumps(_finite(data), indent=2, default=str))


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data


def _runs(options: Namespace) -> Path:
    return options.runs if options.runs is not None else runs_home()
