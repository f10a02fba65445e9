"""The verb ``ct``: continuous training."""

from __future__ import annotations

import argparse
import shlex
import signal
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod._process import REQUEUE
from hpcpod.cli.arguments import Argument, arg, flag
from hpcpod.cli.evaluate import as_ctrl_c
from hpcpod.cli.inspect import console
from hpcpod.cli.output import say, say_json, say_remarks
from hpcpod.errors import Corrupt, HpcpodError, UserError
from hpcpod.run.full_disk import full_words
from hpcpod.run.run import runs_home

if TYPE_CHECKING:
    from rich.table import Table

    from hpcpod.run.continuous.registry import Registry

ACTIONS = ("status", "history", "rollback", "repeat")
CHANGES = ("promoted", "rolled back")
"""Decisions that change what is deployed."""
ALARM = 0.05
"""p-value below which a shift is told as one."""


def _span(text: str) -> str:
    from hpcpod.config.continuous import seconds_of

    try:
        seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def ct(options: Namespace) -> int:
    """``hpcpod ct``: a cycle, or a look at those that were."""
    first, *rest = options.words
    if first in ACTIONS:
        return {"status": _status, "history": _history, "rollback": _rollback, "repeat": _repeat}[
            first
        ](rest, options)
    if rest:
        raise UserError(f"hpcpod ct {first} takes nothing else, got '{rest[0]}'")
    from hpcpod.cli.launch import say_progress
    from hpcpod.run.continuous import cycle, schedule
    from hpcpod.run.continuous.find import registry_of
    from hpcpod.run.continuous.registry import writable
    from hpcpod.run.preflight import site_for

    every = [] if options.every is None else [f"ct.every={options.every}"]
    registry = registry_of(
        first, [*options.overrides, *every], runs_home(options.runs), site_for(None, None)
    )
    writable(registry)
    registry.disk.make_folder(registry.path / "logs")
    if options.crontab:
        say(schedule.crontab(registry))
        return 0
    if options.submit:
        return _submit(registry)
    if options.abandon:
        done = cycle.abandon(registry)
    else:
        try:
            with as_ctrl_c(signal.SIGTERM, signal.SIGUSR2):
                done = cycle.advance(
                    registry, force=options.now, fresh=options.fresh, probe=not options.no_probe,
                    tell=say_progress,
                )  # fmt: skip
        except KeyboardInterrupt:
            say(f"{registry.name}: interrupted; the same command goes on where it was")
            return REQUEUE
    say_remarks(done.remarks)
    if options.json:
        say_json({**asdict(done), "policy": str(_policy(registry))})
    else:
        say(f"{registry.name}: {done.words}")
        if done.current is not None:
            say(f"deployed: {_policy(registry)}  ({_name(done.current)})")
    return REQUEUE if done.kind == "busy" and schedule.came_back(registry) else 0


def _submit(registry: Registry) -> int:
    from hpcpod.run.continuous.schedule import submit

    job, name = submit(registry)
    said = "a job of it is in the queue already" if job is None else f"submitted job {job}"
    say(f"{registry.name}: {said}; each submits the next one")
    say(f"end it:  scancel --me --name={shlex.quote(name)}")
    return 0


def _status(words: list[str], options: Namespace) -> int:
    from hpcpod.run.continuous.registry import CURRENT, registries_here

    if not words and len(registries_here()) > 1:
        for path in registries_here():
            _say_where(_looked(str(path)))
        return 0
    registry = _looked(words[0] if words else None, words[1:])
    plans, ledger = registry.plans(), registry.decisions()
    ended = {each.cycle for each in ledger}
    drift = registry.drift(plans[-1].cycle) if plans else None
    if options.json:
        last = plans[-1] if plans else None
        say_json({
            "name": registry.name, "folder": str(registry.path), "current": registry.current,
            "policy": str(_policy(registry)), "cycles": len(plans),
            "open": last.cycle if last and last.cycle not in ended else None,
            "drift": None if drift is None else asdict(drift),
            "versions": [_row(each) for each in registry.versions()],
        })  # fmt: skip
        return 0
    _say_where(registry)
    if registry.current is not None:
        _require_whole(registry, registry.current)
        link, wanted = registry.path / CURRENT, registry.folder(registry.current)
        if not link.exists() or not link.samefile(wanted):
            say(f"its link {CURRENT} leads elsewhere: the next `hpcpod ct` mends it")
    console().print(_versions(registry))
    if drift is not None:
        _say_drift(drift)
    return 0


def _require_whole(registry: Registry, number: int) -> None:
    from hpcpod.run.continuous.incumbent import remedies

    try:
        registry.verify(number)
    except Corrupt as error:
        raise Corrupt(f"{error}; {remedies(registry, number)}") from error


def _say_where(registry: Registry) -> None:
    plans, ledger = registry.plans(), registry.decisions()
    current = registry.current
    where = "nothing is deployed" if current is None else f"{_name(current)} is deployed"
    since = next((each for each in reversed(ledger) if each.kind in CHANGES), None)
    if since is not None and current is not None:
        where += f" since {_date(since.time)}"
    if plans and plans[-1].cycle not in {each.cycle for each in ledger}:
        where += f"; cycle {plans[-1].cycle} is open: {plans[-1].why}"
        policy = None if current is None else registry.policy(current)
        where = "; ".join(filter(None, (where, full_words(registry.path, policy))))
    say(f"{registry.name}: {where}")
    if current is not None:
        say(f"deployed: {_policy(registry)}")


def _say_drift(drift: Any) -> None:
    base = f"drift since {_name(drift.version)} was trained"
    if not drift.shifts:
        say(f"{base}: {drift.words}")
        return
    tested = [each for each in drift.shifts if each.p is not None]
    moved = [each for each in tested if each.p < ALARM]
    many_moved = f"{len(moved)} of {len(tested)} columns, by p below {ALARM} for all at once"
    say(f"{base}: {many_moved if moved else 'none that chance does not explain'}")
    for each in [*(moved or tested)[:8], *drift.shifts[len(tested) :]]:
        p = "not tested" if each.p is None else f"p {each.p:.3f}"
        say(f"  {each.name}: distance {each.distance:.2f}, PSI {each.psi:.2f}, mean"
            f" {each.mean:+.2f} sd, {p}")  # fmt: skip


def _versions(registry: Registry) -> Table:
    table = _table(registry.name, ("version", "parent", "score", "ahead of the deployed", "fate"))
    ledger = registry.decisions()  # a version is its cycle's; "kept" is said of the deployed one
    fates = {each.cycle: each.kind.replace("kept", "kept out") for each in ledger}
    for each in registry.versions():
        verdict, own = each.verdict, each.verdict.challenger
        ahead = "-"
        if verdict.ahead is not None:
            bound = "" if verdict.low is None else f", at least {verdict.low:+.3g}"
            ahead = f"{verdict.ahead:+.3g}{bound}"
        table.add_row(
            _name(each.number), "-" if each.parent is None else _name(each.parent),
            f"{own.mean:.3g} [{own.low:.3g}, {own.high:.3g}] {verdict.unit}", ahead,
            fates.get(each.number, "undecided") + ", deployed" * (each.number == registry.current),
        )  # fmt: skip
    return table


def _history(words: list[str], options: Namespace) -> int:
    registry = _looked(words[0] if words else None, words[1:])
    ledger = registry.decisions()
    if options.json:
        say_json([asdict(each) for each in ledger])
        return 0
    heads = ("when", "decision", "version", "deployed", "why")
    table = _table(f"{registry.name}: decisions", heads)
    for each in ledger:
        table.add_row(
            _date(each.time), each.kind, "-" if each.version is None else _name(each.version),
            "-" if each.current is None else _name(each.current), each.why,
        )  # fmt: skip
    console().print(table)
    return 0


def _rollback(words: list[str], options: Namespace) -> int:
    from hpcpod.run.continuous.rollback import number_of, rolled_back

    run, version = _run_and_version(words)
    registry = _looked(run)
    line = rolled_back(registry, None if version is None else number_of(version))
    if options.json:
        say_json(asdict(line))
        return 0
    say(f"{registry.name}: rolled back {line.why}")
    say(f"deployed: {_policy(registry)}")
    return 0


def _repeat(words: list[str], options: Namespace) -> int:
    from hpcpod.cli.launch import say_progress
    from hpcpod.run.continuous.cycle import stream_of
    from hpcpod.run.continuous.registry import writable
    from hpcpod.run.continuous.rollback import number_of
    from hpcpod.run.continuous.training import repeat

    run, version = _run_and_version(words)
    if version is None:
        raise UserError("say which version is to be trained again, such as v0002")
    registry = _looked(run)
    writable(registry)
    number = number_of(version)
    to = options.to or registry.path / "repeats"
    done = repeat(registry, number, to, stream_of(registry.config), tell=say_progress)
    if options.json:
        say_json(asdict(done))
    elif done.same_bits:
        say(f"{_name(number)} trained again: the same bits; {done.run}")
    else:
        say(f"{_name(number)} trained again: other weights; {done.run}")
    return 0 if done.same_bits else 1


def _run_and_version(words: list[str]) -> tuple[str | None, str | None]:
    """A registry and a version, of which either may be left out."""
    if len(words) > 2:
        raise UserError(f"expected a run and a version, got also '{words[2]}'")
    if len(words) == 2:
        return words[0], words[1]
    if not words:
        return None, None
    from hpcpod.run.continuous.registry import open_registry

    try:
        open_registry(words[0])
    except HpcpodError:
        return None, words[0]
    return words[0], None


def _looked(word: str | None, more: list[str] | None = None) -> Registry:
    from hpcpod.run.continuous.find import looked_at

    if more:
        raise UserError(f"expected one run, got also '{more[0]}'")
    return looked_at(word)


def _table(title: str, heads: tuple[str, ...]) -> Table:
    from hpcpod.run.tables import plain_table

    table = plain_table(title)
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _row(version: Any) -> dict[str, Any]:
    names = ("number", "parent", "run", "policy", "config_sha256", "score", "verdict", "time")
    plain = asdict(version)
    data = {"sha256": version.windows.digest, "windows": version.windows.words}
    return {**{name: plain[name] for name in names}, "data": data}


def _policy(registry: Registry) -> Path:
    from hpcpod.run.continuous.registry import CURRENT, POLICY

    return registry.path / CURRENT / POLICY


def _name(number: int) -> str:
    from hpcpod.run.continuous.entries import named

    return named(number)


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


CT: tuple[Callable[[Namespace], int], str, tuple[Argument, ...]] = (
    ct,
    "retrain the deployed policy when there are news, and deploy what is shown to be better",
    (
        arg("words", metavar="WORD", nargs="+",
            help="RUN or CONFIG: do what is due of it; or status [RUN], history [RUN], rollback"
            " [RUN [VERSION]], repeat [RUN] VERSION"),
        arg("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
            help="override a field for the next cycles, such as ct.level=0.01; may be given again"),
        arg("--every", type=_span, metavar="SPAN",
            help="such as 6h or 1d: overrides ct.every from now on"),
        flag("--now", "begin a cycle though ct.every or the data say that it is not due"),
        flag("--fresh", "start no pod from the deployed policy in the cycle that begins now"),
        flag("--abandon", "end the cycle that is open without a new version"),
        flag("--submit", "submit a job to Slurm that does what is due, and submits the next one"),
        flag("--crontab", "print a line for crontab or scrontab that does what is due"),
        flag("--no-probe", "do not make the environment here before a run: a login node may be"
             " unable to"),
        arg("--to", type=Path, metavar="DIR", help="of repeat: where the second run is made"
            " (default: repeats/ of the registry)"),
        arg("--runs", type=Path, metavar="DIR", help="where runs are (default: runs)"),
        flag("--json", "print JSON, for scripts"),
    ),
)  # fmt: skip
"""The verb, its line of help and its arguments, for ``parser.VERBS``."""
