"""The verb ``init``: write a configuration for any environment, to be read and edited."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hpcpod.cli.launch import free_name, say_progress
from hpcpod.cli.output import say
from hpcpod.errors import UserError
from hpcpod.run.run import runs_home

if TYPE_CHECKING:
    from hpcpod.run.auto import Auto

T = TypeVar("T")

HEAD = """\
# Chosen by hpcpod for {env}.
# Above each key is its meaning, and where it was chosen, the reason.
# Every other field has its default: `hpcpod validate --fields` is their manual.
"""


def init(options: Namespace) -> int:
    """``hpcpod init``: choose as ``launch --env`` does, and write the choice with comments."""
    from hpcpod.config.auto.choice import MINUTES
    from hpcpod.run.auto import Auto
    from hpcpod.storage.disk import Disk, check_writable

    env, minutes, cluster = options.env, options.minutes, options.cluster
    if env is None:
        env = _ask("environment: a gymnasium id, or a class as pkg.mod:MyEnv", "CartPole-v1", str)
        if minutes is None and options.env_steps is None:
            minutes = _ask("how many minutes of wall time", f"{MINUTES:g}", minutes_of)
        if cluster is None:
            here = "slurm" if shutil.which("sbatch") else "local"
            cluster = _ask("where: local (this machine) or slurm", here, _place)
    name = free_name(env, runs_home())
    file = options.file or Path(f"{name}.yaml")
    check_writable(file, overwrite=options.overwrite)
    limits = {
        "stop.minutes": minutes,
        "stop.env_steps": options.env_steps,
        "cluster.slots": options.slots,
    }
    overrides = [f"{path}={value}" for path, value in limits.items() if value is not None]
    auto = Auto(measure=not options.no_measure, source=f"--env {env}", tell=say_progress)
    Disk().replace(file.absolute(), _text(env, name, cluster, overrides, auto).encode())
    word = shlex.quote(str(file))
    say(f"wrote {word}: read and edit it, then")
    say(f"  hpcpod validate {word}")
    say(f"  hpcpod launch {word}")
    return 0


def _text(env: str, name: str, cluster: str | None, overrides: list[str], auto: Auto) -> str:
    """The file's content."""
    from hpcpod.config.manual import meanings
    from hpcpod.run.preflight import read_config

    asked = {"name": name, "env": {"id": env}, "population": "auto"}
    config = read_config(asked, cluster or "local", set_options=overrides, choose=auto)
    text = auto.commented(meanings(config.population.algorithms))
    return HEAD.format(env=env) + "\n" + text + "\n"


def _ask(question: str, default: str, read: Callable[[str], T]) -> T:
    """The answer of the person at this terminal, asked again while it is none.

    Raises:
        UserError: there is no person, or no answer.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            "init needs --env with a task's id, such as --env CartPole-v1; only in a terminal it"
            " asks for it"
        )
    while True:
        try:
            return read(input(f"{question} [{default}]: ").strip() or default)
        except EOFError:
            raise UserError("no answer: nothing is written") from None
        except ArgumentTypeError as error:
            say(str(error))


def minutes_of(text: str) -> float:
    """Minutes above 0, as an option or an answer gives them.

    Raises:
        ArgumentTypeError: they are none.
    """
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise ArgumentTypeError(f"expected minutes, above 0, got '{text}'")
    return minutes


def _place(text: str) -> str:
    if text not in ("local", "slurm"):
        raise ArgumentTypeError(f"expected local or slurm, got '{text}'")
    return text
