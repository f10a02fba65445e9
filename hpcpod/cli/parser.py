"""The parser of the command line: verbs only; a run is described by its configuration."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcpod import plugins
from hpcpod._version import __version__
from hpcpod.cli import completion, control, data, doctor, envs, init, inspect, launch, results, sync
from hpcpod.cli import lineage as births
from hpcpod.cli import play as playing
from hpcpod.cli import sweep as sweeping
from hpcpod.cli.arguments import Argument
from hpcpod.cli.arguments import arg as _arg
from hpcpod.cli.arguments import count as _count
from hpcpod.cli.arguments import flag as _flag
from hpcpod.cli.ct import CT
from hpcpod.cli.evaluate import EVALUATE_ARGUMENTS, evaluate
from hpcpod.cli.examples import EXAMPLES
from hpcpod.cli.export import EXPORT_ARGUMENTS, export
from hpcpod.cli.extend import EXTEND
from hpcpod.cli.output import log_to_terminal, say_error
from hpcpod.errors import exit_code
from hpcpod.run.run_list import SORTS, STATES

EPILOG = """\
A first run on this machine:   hpcpod launch configs/cartpole.yaml
Without a configuration:       hpcpod launch --env LunarLander-v3 --minutes 20
A configuration to edit:       hpcpod init
The same run on Slurm:         hpcpod launch configs/cartpole.yaml --cluster slurm
Look at it from any node:      hpcpod status NAME    hpcpod leaderboard NAME
What can be trained in here:   hpcpod envs    hpcpod envs check Ant-v5 --backend mujoco
Use what it found:             python -c 'import hpcpod; policy = hpcpod.load_policy("NAME")'

RUN is a run's folder, or its name under runs/ (or under $HPCPOD_RUNS).
Exit codes: 0 done, 1 failed, 2 a mistake in what was asked for, 75 paused or to be requeued.
"""

CHECK = """\
It makes the environment as a run would, prints its spec, steps it at random, checks every promise
of the contract that can be seen (hpcpod.envs.vec_env: the true observation at the end of an
episode, seeds, copies, states that can be gone back to), and measures its speed. What can't be
made or breaks a promise is one sentence and exit code 2.
"""

MAKERS = ("launch", "init", "render", "validate", "train", "envs", "data", "evaluate", "ct")
"""Verbs that find modules in the working directory. The others are of runs, which say themselves
where theirs are, and their reader may stand in a folder that a group writes into."""


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a rank's number, from 0, got '{text}'")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise argparse.ArgumentTypeError(f"expected seconds, above 0 and below 3600, got '{text}'")
    return seconds


def _states(text: str) -> list[str]:
    states = text.split(",")
    for state in states:
        if state not in STATES:
            raise argparse.ArgumentTypeError(
                f"there is no state '{state}', only {', '.join(STATES)}"
            )
    return states


def _config(nargs: str | None = None, text: str = "a YAML file") -> Argument:
    return _arg("config", metavar="CONFIG", nargs=nargs, help=text)


def _set(text: str | None = None) -> Argument:
    return _arg(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=text
    )


_FILE = "a YAML file, such as configs/cartpole.yaml"
_CONFIG = _config(None, _FILE)
_SET = _set("override a field, such as stop.minutes=10; may be given again")
_RUN = _arg("run", metavar="RUN", help="a run's folder, or its name under runs/")
_RUN_OR_POD = _arg("run", metavar="RUN", help="a run, or a pod of the only run there is")
_OVERWRITE = _flag("--overwrite", "write FILE even if it is there")
_JSON = _flag("--json", "print JSON, for scripts")
_RUNS = _arg("--runs", type=Path, metavar="DIR", help="where runs are (default: runs)")
_YES = _flag("--yes", "of a sweep: make more than a thousand runs, too")
_SITE = _arg(
    "--site", type=Path, metavar="FILE",
    help="what holds for every run at this site (default: $HPCPOD_SITE, unless --cluster is"
    " local, or cluster.site)",
)  # fmt: skip
_PLACED = (
    _arg("--cluster", metavar="NAME", help="local or slurm: overrides cluster.launcher"),
    _flag("--no-probe", "do not make the environment here first: a login node may be unable to"),
    _SITE,
    _RUNS,
    *launch.FROM,
)  # fmt: skip
_BUDGET = (
    _arg("--minutes", type=init.minutes_of, metavar="M", help="wall time: overrides stop.minutes"),
    _arg("--env-steps", type=_count, metavar="N",
         help="environment steps of all pods: overrides stop.env_steps"),
    _arg("--slots", type=_count, metavar="N", help="slots at once: overrides cluster.slots"),
    _flag("--no-measure", "with --env or population: auto, assume speeds instead of measuring them"
          " here for some ten seconds"),
)  # fmt: skip
_MADE_FOR = (
    _arg("--env", metavar="ID",
         help="instead of CONFIG: a gymnasium id, or the path of an environment class; all else is"
         " chosen by its spaces and its speed"),
    *_BUDGET,
)  # fmt: skip


class Verb(NamedTuple):
    """A verb: the function that does it, one line of help, and its arguments."""

    command: Callable[[argparse.Namespace], int]
    text: str
    arguments: tuple[Argument, ...]


VERBS = {
    "launch": Verb(
        launch.launch, "train a tournament to its target, here or on Slurm",
        (_config("?", _FILE), _SET, *_MADE_FOR, *_PLACED,
         _flag("--dry-run", "print what would be submitted, and submit nothing"), _YES),
    ),
    "init": Verb(
        init.init, "write a commented configuration for any environment",
        (_arg("file", metavar="FILE", nargs="?", type=Path,
              help="default: the environment's name with .yaml"),
         _arg("--env", metavar="ID",
              help="a gymnasium id, or the path of an environment class; without it three"
              " questions are asked"),
         _arg("--cluster", choices=("local", "slurm"),
              help="where it is to be launched (default: local)"),
         *_BUDGET, _OVERWRITE),
    ),
    "render": Verb(
        launch.render, "make a run and its sbatch scripts, to submit by hand",
        (_config("?", _FILE), _SET, *_MADE_FOR, *_PLACED,
         _flag("--container",
               "write what an image is built from, too; without CONFIG, only that")),
    ),
    "validate": Verb(
        launch.validate, "check a configuration and print it resolved",
        (_config("?"), _set(), *_MADE_FOR, *_PLACED, _YES,
         _flag("--fields", "print the manual of every field"),
         _flag("--schema", "print the JSON Schema of a configuration, by which editors complete"
               " and check a file")),
    ),
    "train": Verb(
        launch.train, "train one agent with no tournament",
        (_CONFIG, _SET,
         _arg("--env-steps", type=_count, metavar="N", help="environment steps to train"),
         _arg("--save-to", type=Path, metavar="FILE",
              help="where the policy goes; by default NAME.h5"),
         _arg("--keep", choices=("best", "last"), default="best",
              help="the policy that is kept: of the best score on the way (default), or the last"
              " one"),
         _OVERWRITE),
    ),
    "status": Verb(
        inspect.status, "where a run stands; without RUN, every run in a line",
        (_arg("run", metavar="RUN", nargs="?", help="a run's folder, or its name"), _JSON),
    ),
    "list": Verb(
        inspect.list_runs, "every run in a line, sorted and filtered",
        (_arg("--sort", choices=tuple(SORTS), default="name",
              help="name (default), started (the newest first), score (the highest first) or state"
              " (running ones first)"),
         _flag("--reverse", "the other way round"),
         _arg("--state", type=_states, default=[], metavar="STATES",
              help=f"only runs in these states: {', '.join(STATES)}; several with commas"),
         _arg("--env", metavar="ID", help="only runs of this environment, or of a pattern:"
              " 'Ant-*'"),
         _RUNS, _JSON),
    ),
    "watch": Verb(inspect.watch, "follow a run until it ends", (_RUN,)),
    "leaderboard": Verb(
        inspect.leaderboard,
        "who leads, with intervals that allow for the choice, and the winner's lineage",
        (_RUN,
         _arg("--stats", action="store_true",
              help="how sure that is, the living pods side by side: shrunk means, interquartile"
              " means, P(best), slopes, correlations; with replicates configurations, too"),
         _JSON),
    ),
    "snapshots": Verb(
        inspect.snapshots, "the leader's policy at equal wall times, scored on fresh seeds",
        (_RUN, _JSON),
    ),
    "results": Verb(
        results.results, "a run as data: tables, CSV files, a study of Optuna",
        (_RUN,
         _arg("--table", metavar="NAME", action="append", dest="tables", default=[],
              help="this table alone, such as pods, and printed as CSV; may be given again"),
         _flag("--columns", "tell what each column of the tables means"),
         _arg("--csv", type=Path, metavar="DIR", help="write each table as DIR/TABLE.csv"),
         _arg("--optuna", type=Path, metavar="FILE",
              help="write the run as a study in Optuna's journal format: pods are trials"),
         _flag("--overwrite", "write files even if they are there"),
         _JSON),
    ),
    "evaluate": Verb(
        evaluate, "score policies of any runs on common seeds, here or on Slurm",
        EVALUATE_ARGUMENTS,
    ),
    "report": Verb(
        inspect.report, "one page of HTML: what won, by how much, why, at what cost",
        (_arg("runs", metavar="RUN", nargs="+",
              help="runs' folders, or their names under runs/; or a sweep's"),
         _arg("-o", "--output", type=Path, metavar="FILE", default=Path("report.html"),
              help="where it goes (default: report.html); an earlier report is replaced"),
         _flag("--compare", "put several runs side by side; several are anyway"),
         _OVERWRITE),
    ),
    "why": Verb(
        inspect.why, "why a run or a pod waits, and what you can do about it",
        (_RUN_OR_POD,
         _arg("pod", metavar="POD", nargs="?", help="a pod's name, such as p0003"), _JSON),
    ),
    "advise": Verb(
        inspect.advise, "what to ask for differently the next time, by what a run has used",
        (_RUN, _JSON),
    ),
    "lineage": Verb(
        births.lineage, "the tree of a run's births, or a pod's ancestors and its schedule",
        (_RUN_OR_POD, *births.LINEAGE, _JSON),
    ),
    "replay": Verb(
        births.replay, "train a pod's schedule again, from scratch, with any seed",
        (_RUN_OR_POD, *births.REPLAY),
    ),
    "logs": Verb(
        inspect.logs, "what slots and coordinator say, or what is said of a pod",
        (_RUN_OR_POD,
         _arg("name", metavar="POD", nargs="?", help="a pod's name, or a part of a log's name"),
         _arg("-n", "--lines", type=_count, default=20,
              help="lines of each log, or of a pod (20)"),
         _arg("-f", "--follow", action="store_true",
              help="go on as they grow; of a pod, through requeues and in whatever slot it is"),
         _arg("--rank", type=_rank, metavar="R",
              help="of a pod of several ranks, this one's log")),
    ),
    "scale": Verb(
        control.scale, "have more slots at once, or fewer",
        (_RUN,
         _arg("slots", metavar="N", nargs="?",
              help="slots at once, or auto; without it they are told")),
    ),
    "pause": Verb(control.pause, "have every slot checkpoint and leave now", (_RUN,)),
    "stop": Verb(
        control.stop, "end a run and keep its best policy",
        (_RUN,
         _flag("--drain", "let slots finish their round, then pause; `hpcpod resume` goes on"),
         _flag("--now", "finish at once: the finalists are not scored on fresh seeds first, as on"
               " Slurm where no slot is at work to do it")),
    ),
    "resume": Verb(
        control.resume, "go on with a run that was paused or that lost its slots",
        (_RUN,
         _flag("--any-engine",
               "compare scores by the simulators of today with those that the run has")),
    ),
    "extend": Verb(*EXTEND), "ct": Verb(*CT),
    "tick": Verb(
        control.tick, "do once what the coordinator does: observe, plan, act", (_RUN, _JSON)
    ),
    "export": Verb(
        export, "write the best policy so far to a file, or to a folder for others",
        (*EXPORT_ARGUMENTS, _JSON),
    ),
    "play": Verb(
        playing.play, "play a policy in its environment: returns, a video, a contact sheet",
        (*playing.PLAY, _OVERWRITE, _JSON),
    ),
    "sweep": Verb(sweeping.sweep, sweeping.TEXT, (*sweeping.ARGUMENTS, _JSON)),
    "sync": Verb(
        sync.sync, "send the curves of a run to W&B, Trackio, MLflow, TensorBoard or a logger",
        (_RUN,
         _arg("--to", action="append", metavar="LOGGER",
              help="tensorboard, wandb, trackio, mlflow or the path of another; may be given again"
              " (default: the run's metrics)")),
    ),
    "envs": Verb(envs.envs, "what environments can be had here, or a trial of one", (_JSON,)),
    "data": Verb(data.data, "market data: made, fetched, checked, for trading", data.ARGUMENTS),
    "doctor": Verb(
        doctor.doctor, "what this cluster really does, by trying it",
        (_config("?", "a YAML file: its cluster section is used"),
         _set("override a field, such as cluster.partition=gpu; may be given again"),
         _arg("--cluster", metavar="NAME",
              help="local or slurm; by default slurm where it answers"),
         _SITE, _RUNS,
         _flag("--here", "submit no job: try this machine alone"),
         _arg("--patience", type=_seconds, default=300.0, metavar="S",
              help="seconds for its job to start, before it is cancelled (default: 300)"),
         _JSON),
    ),
    "completion": Verb(
        completion.completion, "print what has a shell complete verbs, options, runs and pods",
        (_arg("shell", metavar="SHELL", choices=completion.SHELLS, help="bash, zsh or fish"),),
    ),
}  # fmt: skip

ENVS_CHECK = Verb(
    envs.check, "make an environment, check its contract and measure its speed",
    (_arg("env", metavar="ENV", help="a gymnasium id, the path of a class (pkg.mod:MyEnv), or a"
          " configuration (a .yaml)"),
     _arg("--backend", metavar="B", help="a backend of `hpcpod envs`, or its path"),
     _arg("--num-envs", type=_count, metavar="N",
          help="environments in the batch; by default the contract is checked with 8, or as the"
          " configuration says, and the speed measured with 1, 16 and 256"),
     _arg("--processes", type=_count, metavar="P",
          help="that step a part of them each; by default 1 or resources.cpus_per_pod, whichever"
          " is measured to be faster"),
     _arg("--python", metavar="PATH", help="another Python, whose processes step them"),
     _arg("--device", default="cpu", metavar="D",
          help="where the tensors live (default: cpu)"),
     _set("set a field, such as env.kwargs.g=5 (Pendulum-v1) or resources.cpus_per_pod=4"),
     _arg("--steps", type=_count, metavar="N",
          help="steps to check the contract for (default: 1000, or to the time limit's end)"),
     _arg("--seconds", type=_seconds, default=1.0, metavar="S",
          help="to measure each batch's speed for (default: 1)"),
     _arg("--patience", type=_seconds, metavar="S",
          help="to wait for one step, or for the making, before it is taken to hang"
          " (default: env.trial_seconds)"),
     # SUPPRESS: a default here would undo `hpcpod envs --json check`.
     _arg("--json", action="store_true", default=argparse.SUPPRESS,
          help="print JSON, for scripts")),
)  # fmt: skip


@functools.cache
def parser() -> argparse.ArgumentParser:
    """Every verb with its help."""
    top = argparse.ArgumentParser(
        prog="hpcpod",
        description="Tournament-based ensemble training of deep-RL agents on Slurm, or here.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hpcpod {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        made = _add(verbs, name, verb, verb.text, EXAMPLES.get(name))
        if name == "envs":
            made.usage = "hpcpod envs [-h] [--json]\n       hpcpod envs check ENV [options]"
            inner = made.add_subparsers(metavar="check", prog="hpcpod envs")
            _add(inner, "check", ENVS_CHECK, CHECK, None)
    return top


def _add(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str, verb: Verb, description: str, epilog: str | None,
) -> argparse.ArgumentParser:  # fmt: skip
    made = verbs.add_parser(
        name, help=verb.text, description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.set_defaults(command=verb.command)
    for names, options in verb.arguments:
        made.add_argument(*names, **options)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    plugins.end_uncollected()
    verbs = parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks at TAB
        completion.complete(verbs)
    options = verbs.parse_args(arguments)
    if options.verb in MAKERS:
        plugins.look_in([str(Path.cwd())])
    log_to_terminal()
    try:
        return exit_code(lambda: int(options.command(options) or 0), say_error)
    except BrokenPipeError:  # as of `| head`
        sys.stderr.close()  # Python flushes stdout at its end, and would complain there
        return 0
    except KeyboardInterrupt:
        return 130  # of a shell: 128 + SIGINT
