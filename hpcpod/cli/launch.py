"""Verbs that make something: a run, its scripts, a policy."""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod.cli import sweep
from hpcpod.cli.arguments import arg, count
from hpcpod.cli.control import follow_here
from hpcpod.cli.output import say, say_json, say_remarks
from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.pod.ranks.rank import rank_of
from hpcpod.run.run import Run, runs_home
from hpcpod.run.start_from import asked_for
from hpcpod.run.text import many, size

if TYPE_CHECKING:
    from hpcpod.run.auto import Auto
    from hpcpod.run.sweeps.cells import Plan

FROM = (
    arg("--from", dest="start_from", metavar="RUN[:POD]",
        help="start from another run's best policy, or a pod's: population.start_from"),
    arg("--distill", type=count, metavar="N",
        help="with --from, have it act in the first N environment steps of pods of other"
        " algorithms and networks, which learn from that: population.start_from.distill"),
)  # fmt: skip
"""Arguments of a run that starts from another."""


def launch(options: Namespace) -> int:
    """``hpcpod launch``: on this machine it stays until the run ends, on Slurm it returns."""
    from hpcpod.run import launch as launching
    from hpcpod.run import preflight

    asked = _asked(options)
    plan = _sweep(options, asked)
    if plan is not None:
        return sweep.launch(options, plan)
    config = _read(options, asked, options.cluster)
    checked = preflight.check(config, source=asked.source, probe=not options.no_probe)
    asked.say_chosen()
    say_remarks(checked.remarks)
    if options.dry_run:
        for text in preflight.scripts(config, runs_home(options.runs)):
            say(text)
        return 0
    folder = launching.create_run(
        checked.resolved, runs_home(options.runs), because=asked.auto.because
    )
    run = Run(folder)
    if config.cluster.launcher == "local":
        if config.cluster.slots not in (None, run.target().wanted):
            _say_slots(run)
        return follow_here(run)
    jobs = launching.start(folder, config)
    # One array holds MaxArraySize elements at most: a launch may submit several.
    made = {folder.intents.submission(intent.number): intent for intent in folder.intents.all()}
    said = [
        f"{many(made[job].count, 'slot') if made[job].kind == 'slots' else 'the coordinator'}"
        f" as job {job}"
        for job in jobs
    ]
    say(f"{run.name}: submitted {' and '.join(said)}")
    _say_slots(run)
    _say_how_to_follow(run)
    return 0


def _say_slots(run: Run) -> None:
    target = run.target()
    say(f"slots: {target.wanted} at once, {target.wanted_by}")


def _say_how_to_follow(run: Run) -> None:
    say(f"run folder: {run.path}")
    say(f"follow it:  hpcpod watch {run.word}    hpcpod status {run.word}    squeue --me")
    say(f"end it:     hpcpod stop {run.word}")


def render(options: Namespace) -> int:
    """``hpcpod render``: the run folder and its scripts, for a person to submit; the files of an
    image for it, or for any."""
    from hpcpod.config.site import read_site
    from hpcpod.run import launch as launching
    from hpcpod.run import preflight

    if options.config is None and options.env is None and options.container:
        site = preflight.site_for(options.site, options.cluster)
        cluster = read_site(Path(site)).cluster if site is not None else ClusterConfig()
        _write_container(Path("hpcpod-container"), cluster)
        return 0
    asked = _asked(options, "or --container for an image's files, ")
    config = _read(options, asked, options.cluster or "slurm")
    checked = preflight.check(config, source=asked.source, probe=not options.no_probe)
    asked.say_chosen()
    say_remarks(checked.remarks)
    preflight.scripts(config, runs_home(options.runs))  # before a folder is made: may be refused
    folder = launching.create_run(
        checked.resolved, runs_home(options.runs), because=asked.auto.because
    )
    run = Run(folder)
    say(f"run folder: {run.path}")
    if options.container:
        _write_container(run.path / "container", config.cluster)
    say("submit it with")
    for path in launching.write_scripts(folder, config):
        say(f"    sbatch {shlex.quote(str(path))}")
    return 0


def _write_container(folder: Path, cluster: ClusterConfig) -> None:
    from hpcpod.launchers.slurm.image import write_container_files

    values = write_container_files(folder, cluster.container, cluster.template)
    say(f"files of the image: {folder} (its README says more)")
    say(f"    cd {shlex.quote(str(folder))}")
    say(f"    docker build -t hpcpod:{values['version']} .")
    say(f"    enroot import -o {shlex.quote(values['sqsh'])} dockerd://hpcpod:{values['version']}")
    say("or, without Docker,")
    say(f"    apptainer build {shlex.quote(values['sif'])} hpcpod.def")


def validate(options: Namespace) -> int:
    """``hpcpod validate``: every problem at once, or the resolved configuration."""
    from hpcpod.config.json_schema import json_schema
    from hpcpod.config.loader import dump_yaml
    from hpcpod.config.manual import field_manual
    from hpcpod.run import preflight
    from hpcpod.storage.creation import check_creatable

    if options.fields:
        say(field_manual())
        return 0
    if options.schema:
        say_json(json_schema())
        return 0
    asked = _asked(options, "or --fields for the manual, or --schema for editors, ")
    plan = _sweep(options, asked)
    if plan is not None:
        return sweep.validate(options, plan)
    config = _read(options, asked, options.cluster)
    checked = preflight.check(config, source=asked.source, probe=not options.no_probe)
    if not asked.say_chosen():
        say(dump_yaml(config).rstrip())
    say()
    quotas = ", ".join(f"{n} {name}" for name, n in checked.quotas.items())
    say(f"# births: {quotas}")
    say(f"# a round: {checked.round}")
    for name, footprint in checked.footprints.items():
        say(
            f"# {name}: checkpoint {size(footprint.core)}"
            + (f", replay up to {size(footprint.replay)}" if footprint.replay else "")
        )
    if checked.footprints:
        say(f"# disk that the run will need: about {size(checked.disk)}")
    say_remarks(checked.remarks)
    try:
        check_creatable(runs_home(options.runs) / config.name)
    except UserError as error:
        say(f"# launch would refuse: {error}")
    return 0


def train(options: Namespace) -> int:
    """``hpcpod train``: one agent, no tournament."""
    from hpcpod import api
    from hpcpod.cli.live import lasting_output
    from hpcpod.run import preflight
    from hpcpod.run.tables import count, number
    from hpcpod.run.tables import interval as scored
    from hpcpod.tournament.statistics import interval

    config = preflight.read_config(options.config, set_options=options.overrides)
    to = options.save_to or Path(f"{config.name}.h5")
    last = 0.0
    first = rank_of(os.environ).number == 0  # of those that torchrun, mpirun or srun has started

    def tell(progress: Any) -> None:
        nonlocal last
        if time.monotonic() - last > 1.0:  # s; updates of a small agent come by the thousand
            last = time.monotonic()
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
            overwrite=options.overwrite,
            keep=options.keep,
            on_progress=tell,
            source=options.config,
        )
        if not first:
            return 0
        for point in training.curve:
            say(f"{point.env_steps:>12} env steps  return {number(point.mean_return):>9}")
        mean, (low, high) = training.mean_return, interval(training.returns)
        fresh = " of fresh seeds" if options.keep == "best" else ""
        say(
            f"kept: the {options.keep}, at {training.kept.env_steps} env steps:"
            f" {scored(mean, low, high)} on {len(training.returns)} episodes{fresh}"
        )
        say(f"policy: {training.saved_to}")
    return 0


@dataclass(frozen=True)
class _Asked:
    """A configuration as the command line names it: a file, or an environment alone."""

    config: str | Mapping[str, Any]
    overrides: Sequence[str]
    source: str
    """Its name in a message."""
    auto: Auto

    def say_chosen(self) -> bool:
        """Print what was chosen, with the reasons; False if nothing was."""
        if self.auto.yaml is not None:
            say(self.auto.yaml)
        return self.auto.yaml is not None


def _asked(options: Namespace, otherwise: str = "") -> _Asked:
    """The configuration that is asked for.

    Args:
        options: of the command line.
        otherwise: what the verb does without one, for the message.

    Raises:
        UserError: there is none, or there are two.
    """
    from hpcpod.run.auto import Auto

    if options.config is not None and options.env is not None:
        raise UserError("CONFIG and --env name two tasks; leave one of them out")
    if not options.config and not options.env:
        raise UserError(f"{options.verb} needs a CONFIG file, {otherwise}or --env with a task's id")
    limits = {
        "stop.minutes": options.minutes,
        "stop.env_steps": options.env_steps,
        "cluster.slots": options.slots,
    }
    overrides = [f"{path}={value}" for path, value in limits.items() if value is not None]
    source = options.config or f"--env {options.env}"
    auto = Auto(measure=not options.no_measure, source=source, tell=say_progress)
    config: str | dict[str, Any] = options.config
    if options.config is None:
        name = free_name(options.env, runs_home(options.runs))
        config = {"name": name, "env": {"id": options.env}, "population": "auto"}
    return _Asked(config, [*overrides, *options.overrides], source, auto)


def say_progress(text: str) -> None:
    """Print what is being done on standard error."""
    sys.stderr.write(f"hpcpod: {text}\n")
    sys.stderr.flush()


def free_name(env: str, home: Path) -> str:
    """A name for a run of an environment, which no run has yet: ``cartpole-v1``."""
    plain = re.sub(r"[^a-z0-9._+-]+", "-", env.rpartition(":")[2].lower()).strip(".-") or "run"
    names = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
    return next(name for name in names if not (home / name).exists())


def _sweep(options: Namespace, asked: _Asked) -> Plan | None:
    """The sweep, if the file that is asked for is one's."""
    from hpcpod.run import preflight
    from hpcpod.run.sweeps.cells import read_plan

    if not isinstance(asked.config, str):
        return None
    site = preflight.site_for(options.site, options.cluster)
    plan = read_plan(asked.config, options.cluster, asked.overrides, site, yes=options.yes)
    if plan is not None and (options.start_from is not None or options.distill is not None):
        raise UserError(
            f"{asked.config} is a sweep: give population.start_from there, or by --set, in place of"
            " --from and --distill"
        )
    return plan


def _read(options: Namespace, asked: _Asked, cluster: str | None) -> RunConfig:
    from hpcpod.run import preflight

    if options.no_probe and options.env is not None:
        raise UserError(
            "--env needs to see the environment once, which --no-probe forbids; write a"
            " configuration with its algorithms instead, or let --no-measure keep it short"
        )
    site = preflight.site_for(options.site, cluster)
    started = asked_for(options.start_from, distill=options.distill)
    return preflight.read_config(
        asked.config, cluster, started, asked.overrides, site=site, choose=asked.auto
    )
