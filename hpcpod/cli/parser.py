"""The parser of the command line: verbs only; a run is described by its configuration."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hpcpod import plugins
from hpcpod._version import __version__
from hpcpod.cli import control, doctor, envs, inspect, launch
from hpcpod.cli.examples import EXAMPLES
from hpcpod.errors import exit_code

EPILOG = """\
A first run on this machine:   hpcpod launch configs/cartpole.yaml
The same run on Slurm:         hpcpod launch configs/cartpole.yaml --cluster slurm
Look at it from any node:      hpcpod status NAME    hpcpod leaderboard NAME
What can be trained in here:   hpcpod envs    hpcpod envs check Ant-v5 --backend mujoco
Use what it found:             python -c 'import hpcpod; policy = hpcpod.load_policy("NAME")'

RUN is a run's folder, or its name under runs/ (or under $HPCPOD_RUNS).
Exit codes: 0 done, 1 failed, 2 a mistake in what was asked for, 75 paused or to be requeued.
"""

ENVS = """\
What is listed was found without importing a simulator, so a login node can tell. `hpcpod envs
check ENV` makes one and runs it:
  hpcpod envs check CartPole-v1
  hpcpod envs check Ant-v5 --backend mujoco --set resources.cpus_per_pod=4
  hpcpod envs check my_pkg.mod:MyEnv --num-envs 64 --processes 4 --set env.kwargs.level=2
  hpcpod envs check configs/cartpole.yaml
"""

CHECK = """\
It makes the environment as a run would, prints its spec, steps it at random, checks every promise
of the contract that can be seen (hpcpod.envs.vec_env: the true observation at the end of an
episode, seeds, copies, states that can be gone back to), and measures its speed. What can't be
made or breaks a promise is one sentence and exit code 2.
"""

DOCTOR = """\
It tries the filesystem on which runs lie, asks Slurm what its limits are and how it preempts, and
submits one small job of two tasks, with what a slot would ask for, that tries locks and names
between two nodes and looks at what a node has. The job is cancelled, and what was written is
removed, whatever happens. docs/doctor.md has all that it looks at.
Exit codes: 0 nothing hinders a run, 1 something does.
Examples:
  hpcpod doctor my.yaml --set cluster.partition=gpu
  hpcpod doctor --here --json
"""

MAKERS = ("launch", "render", "validate", "train", "envs")
"""Verbs that find modules in the working directory. The others are of runs, which say themselves
where theirs are, and their reader may stand in a folder that a group writes into."""

Add = Callable[..., argparse.ArgumentParser]


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

    def add(name: str, command: object, text: str) -> argparse.ArgumentParser:
        verb = verbs.add_parser(
            name, help=text, description=text, epilog=EXAMPLES.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        verb.set_defaults(command=command)
        return verb

    _add_makers(add)
    _add_lookers(add)
    _add_doers(add)
    _add_envs(add)
    _add_doctor(add)
    return top


def _config(verb: argparse.ArgumentParser, *, optional: bool = False) -> None:
    verb.add_argument(
        "config", metavar="CONFIG", nargs="?" if optional else None,
        help="a YAML file, such as configs/cartpole.yaml",
    )  # fmt: skip
    verb.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override a field, such as stop.minutes=10; may be given again",
    )  # fmt: skip


def _run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")


def _overwrite(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--overwrite", action="store_true", help="write FILE even if it is there")


def _json(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, got '{text}'")
    return int(text)


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


def _site(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--site", type=Path, metavar="FILE",
        help="what holds for every run at this site (default: $HPCPOD_SITE, unless --cluster is"
        " local, or cluster.site)",
    )  # fmt: skip


def _placed(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--cluster", metavar="NAME", help="local or slurm: overrides cluster.launcher"
    )
    verb.add_argument(
        "--no-probe", action="store_true",
        help="do not make the environment here first: a login node may be unable to",
    )  # fmt: skip
    _site(verb)
    verb.add_argument("--runs", type=Path, metavar="DIR", help="where runs are (default: runs)")


def _add_makers(add: Add) -> None:
    verb = add("launch", launch.launch, "train a tournament to its target, here or on Slurm")
    _config(verb)
    _placed(verb)
    verb.add_argument(
        "--dry-run", action="store_true", help="print what would be submitted, and submit nothing"
    )
    verb = add("render", launch.render, "make a run and its sbatch scripts, to submit by hand")
    _config(verb, optional=True)
    _placed(verb)
    verb.add_argument(
        "--container", action="store_true",
        help="write what an image is built from, too; without CONFIG, only that",
    )  # fmt: skip
    verb = add("validate", launch.validate, "check a configuration and print it resolved")
    verb.add_argument("config", metavar="CONFIG", nargs="?", help="a YAML file")
    verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    _placed(verb)
    verb.add_argument("--fields", action="store_true", help="print the manual of every field")
    verb.add_argument(
        "--schema", action="store_true",
        help="print the JSON Schema of a configuration, by which editors complete and check a file",
    )  # fmt: skip
    verb = add("train", launch.train, "train one agent with no tournament")
    _config(verb)
    verb.add_argument("--env-steps", type=_count, metavar="N", help="environment steps to train")
    verb.add_argument(
        "--save-to", type=Path, metavar="FILE",
        help="where the policy goes; by default NAME.h5",
    )  # fmt: skip
    verb.add_argument(
        "--keep", choices=("best", "last"), default="best",
        help="the policy that is kept: of the best score on the way (default), or the last one",
    )  # fmt: skip
    _overwrite(verb)


def _add_lookers(add: Add) -> None:
    verb = add("status", inspect.status, "where a run stands; without RUN, every run in a line")
    verb.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or its name")
    _json(verb)
    verb = add("watch", inspect.watch, "follow a run until it ends")
    _run(verb)
    verb = add(
        "leaderboard", inspect.leaderboard,
        "who leads, with intervals that allow for the choice, and the winner's lineage",
    )  # fmt: skip
    _run(verb)
    _json(verb)
    verb = add("why", inspect.why, "why a run or a pod waits, and what you can do about it")
    verb.add_argument("run", metavar="RUN", help="a run, or a pod of the only run there is")
    verb.add_argument("pod", metavar="POD", nargs="?", help="a pod's name, such as p0003")
    _json(verb)
    verb = add("logs", inspect.logs, "what slots and coordinator say, or what is said of a pod")
    verb.add_argument("run", metavar="RUN", help="a run, or a pod of the only run there is")
    verb.add_argument(
        "name", metavar="POD", nargs="?", help="a pod's name, or a part of a log's name"
    )
    verb.add_argument(
        "-n", "--lines", type=_count, default=20, help="lines of each log, or of a pod (20)"
    )
    verb.add_argument(
        "-f", "--follow", action="store_true",
        help="go on as they grow; of a pod, through requeues and in whatever slot it is",
    )  # fmt: skip
    verb.add_argument(
        "--rank", type=_rank, metavar="R", help="of a pod of several ranks, this one's log"
    )


def _add_doers(add: Add) -> None:
    verb = add("scale", control.scale, "have more slots at once, or fewer")
    verb.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    verb.add_argument(
        "slots", metavar="N", nargs="?", help="slots at once, or auto; without it they are told"
    )
    verb = add("pause", control.pause, "have every slot checkpoint and leave now")
    _run(verb)
    verb = add("stop", control.stop, "end a run and keep its best policy")
    _run(verb)
    verb.add_argument(
        "--drain", action="store_true",
        help="let slots finish their round, then pause; `hpcpod resume` goes on",
    )  # fmt: skip
    verb.add_argument(
        "--now", action="store_true",
        help="finish at once: the finalists are not scored on fresh seeds first, as on Slurm where"
        " no slot is at work to do it",
    )  # fmt: skip
    verb = add("resume", control.resume, "go on with a run that was paused or that lost its slots")
    _run(verb)
    verb.add_argument(
        "--any-engine", action="store_true",
        help="compare scores by the simulators of today with those that the run has",
    )  # fmt: skip
    verb = add("tick", control.tick, "do once what the coordinator does: observe, plan, act")
    _run(verb)
    _json(verb)
    verb = add("export", control.export, "write the best policy so far to a file")
    _run(verb)
    verb.add_argument("to", metavar="FILE", nargs="?", type=Path, help="default: RUN/best.h5")
    _overwrite(verb)


def _add_envs(add: Add) -> None:
    verb = add("envs", envs.envs, "what environments can be had here, or a trial of one")
    verb.formatter_class = argparse.RawDescriptionHelpFormatter
    verb.epilog = ENVS
    _json(verb)
    verb.usage = "hpcpod envs [-h] [--json]\n       hpcpod envs check ENV [options]"
    verb = verb.add_subparsers(metavar="check", prog="hpcpod envs").add_parser(
        "check", help="make an environment, check its contract and measure its speed",
        description=CHECK, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    verb.set_defaults(command=envs.check)
    verb.add_argument(
        "env", metavar="ENV",
        help="a gymnasium id, the path of a class (pkg.mod:MyEnv), or a configuration (a .yaml)",
    )  # fmt: skip
    verb.add_argument("--backend", metavar="B", help="a backend of `hpcpod envs`, or its path")
    verb.add_argument(
        "--num-envs", type=_count, metavar="N",
        help="environments in the batch; by default the contract is checked with 8, or as the"
        " configuration says, and the speed measured with 1, 16 and 256",
    )  # fmt: skip
    verb.add_argument(
        "--processes", type=_count, metavar="P",
        help="that step a part of them each; by default 1 or resources.cpus_per_pod, whichever is"
        " measured to be faster",
    )  # fmt: skip
    verb.add_argument("--python", metavar="PATH", help="another Python, whose processes step them")
    verb.add_argument(
        "--device", default="cpu", metavar="D", help="where the tensors live (default: cpu)"
    )
    verb.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="set a field, such as env.kwargs.g=5 (Pendulum-v1) or resources.cpus_per_pod=4",
    )  # fmt: skip
    verb.add_argument(
        "--steps", type=_count, metavar="N",
        help="steps to check the contract for (default: 1000, or to the time limit's end)",
    )  # fmt: skip
    verb.add_argument(
        "--seconds", type=_seconds, default=1.0, metavar="S",
        help="to measure each batch's speed for (default: 1)",
    )  # fmt: skip
    verb.add_argument(
        "--patience", type=_seconds, metavar="S",
        help="to wait for one step, or for the making, before it is taken to hang"
        " (default: env.trial_seconds)",
    )  # fmt: skip
    verb.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, for scripts"
    )


def _add_doctor(add: Add) -> None:
    verb = add("doctor", doctor.doctor, "what this cluster really does, by trying it")
    verb.formatter_class = argparse.RawDescriptionHelpFormatter
    verb.epilog = DOCTOR
    verb.add_argument(
        "config", metavar="CONFIG", nargs="?", help="a YAML file: its cluster section is used"
    )
    verb.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="override a field, such as cluster.partition=gpu; may be given again",
    )  # fmt: skip
    verb.add_argument(
        "--cluster", metavar="NAME", help="local or slurm; by default slurm where it answers"
    )
    _site(verb)
    verb.add_argument("--runs", type=Path, metavar="DIR", help="where runs are (default: runs)")
    verb.add_argument("--here", action="store_true", help="submit no job: try this machine alone")
    verb.add_argument(
        "--patience", type=_seconds, default=300.0, metavar="S",
        help="seconds for its job to start, before it is cancelled (default: 300)",
    )  # fmt: skip
    _json(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    options = parser().parse_args(arguments)
    if options.verb in MAKERS:
        plugins.look_in([str(Path.cwd())])
    logging.basicConfig(level=logging.WARNING, format="hpcpod: %(message)s")
    try:
        return exit_code(
            lambda: int(options.command(options) or 0),
            lambda message: print(f"hpcpod: {message}", file=sys.stderr),  # noqa: T201
        )
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
