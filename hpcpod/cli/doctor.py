"""The verb ``doctor``: examine this cluster, and print the consequences for a run."""

from __future__ import annotations

import contextlib
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from hpcpod.cli.output import say, say_json, wrapped
from hpcpod.doctor.finding import Finding
from hpcpod.run.run import runs_home
from hpcpod.run.text import many

if TYPE_CHECKING:
    from hpcpod.config.schema import RunConfig
    from hpcpod.doctor.examine import Diagnosis

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def doctor(options: Namespace) -> int:
    """``hpcpod doctor``: exit code 0 if nothing hinders a run, 1 if something does."""
    from hpcpod.doctor.examine import Asked, examine
    from hpcpod.records.codec import encode

    config = _config(options)
    launcher = options.cluster
    if launcher is None and config.cluster.launcher != "local":
        launcher = config.cluster.launcher
    asked = Asked(
        config=config,
        launcher=launcher,
        runs=runs_home(options.runs),
        here=options.here,
        patience=options.patience,
    )
    with _interrupted_once():
        found = examine(asked, _tell)
    if options.json:
        say_json(encode(found))
    else:
        for line in lines(found):
            say(line)
    return 1 if found.hinders else 0


def _config(options: Namespace) -> RunConfig:
    from hpcpod.config.loader import from_words
    from hpcpod.run.preflight import read_config, site_for

    site = site_for(options.site, options.cluster)
    if options.config is not None:
        return read_config(options.config, set_options=options.overrides, site=site)
    nothing = {"name": "doctor", "env": {"id": "CartPole-v1"}}
    return from_words(nothing, options.overrides, source="the configuration", site=site)


def _tell(text: str) -> None:
    sys.stderr.write(f"hpcpod: {text} ...\n")
    sys.stderr.flush()


@contextlib.contextmanager
def _interrupted_once() -> Iterator[None]:
    """Have the first signal end the body, which cancels its job then; the next ones must wait."""

    def interrupt(number: int, frame: object) -> None:
        for each in _SIGNALS:
            signal.signal(each, lambda number, frame: None)
        raise KeyboardInterrupt

    # Slurm has a job before sbatch has said its id: a second signal would leave it in the queue.
    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def lines(found: Diagnosis) -> Iterator[str]:
    """The table: of each probe what was found, and below it what follows, if anything does."""
    for group, findings in groupby(found.findings, key=lambda finding: finding.group):
        yield f"{group}: {found.runs}" if group == "run folder" else group
        for finding in findings:
            yield from _row(finding)
        yield ""
    yield _verdict([f for f in found.findings if f.verdict == "problem"])


def _row(finding: Finding) -> list[str]:
    title = f"  {finding.verdict:<9}{finding.probe:<16}"
    return [*wrapped(finding.found, title, 27), *wrapped(finding.then, " " * 27 + "-> ", 30)]


def _verdict(problems: Sequence[Finding]) -> str:
    if not problems:
        return "nothing hinders a run"
    named = ", ".join(f"{finding.group}: {finding.probe}" for finding in problems)
    return f"{many(len(problems), 'problem')} ({named})"
