"""Preflight: read a configuration, and check all that can be checked before a run is made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hpcpod import plugins
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.decoder import encode
from hpcpod.config.loader import (
    Choose,
    asks_auto,
    from_mapping,
    from_words,
    load_file,
    merged,
)
from hpcpod.config.placement import ON_ONE_DEVICE, ranks_of, shape_of, trains_on_gpu
from hpcpod.config.program import without_effect
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.config.site import SiteOfEnvironment, expanded, over_site
from hpcpod.config.space import AlgorithmSpace, extremes
from hpcpod.errors import ConfigError, UnusablePlugin, UserError
from hpcpod.launchers.base import ScriptLauncher, array_sizes, with_scripts
from hpcpod.launchers.factory import make_launcher
from hpcpod.launchers.slurm.feasibility import sentences
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.pod.trial import supervisor
from hpcpod.pod.trial.fit import Footprint, Look
from hpcpod.records.records import Intent
from hpcpod.run import start_from
from hpcpod.run.home import absolute
from hpcpod.run.programs import remarks_on_program, round_of_program, unusable_program
from hpcpod.run.remarks import remarks, round_in_words
from hpcpod.tournament.allocation import Allocator
from hpcpod.tournament.cohorts import quotas
from hpcpod.tournament.judgement import Updater
from hpcpod.tournament.proposals import Generator

Config = str | Path | Mapping[str, Any] | RunConfig

_NOWHERE = Path("/nowhere")
"""The runs of a launcher that is only made to see whether it can be."""


@dataclass(frozen=True)
class Checked:
    """Findings of ``validate`` on a configuration without a problem."""

    resolved: Resolved
    quotas: Mapping[str, int]
    """Pods of the first generation, by algorithm."""
    footprints: Mapping[str, Footprint]
    """Bytes that one pod of each algorithm keeps on the disk."""
    disk: float
    """Bytes that the run will hold at once, at most, by estimate; 0 without a probe."""
    round: str
    """The share of an episode that a round sees, in words."""
    remarks: tuple[str, ...]
    """Consequences that are seldom meant, a sentence each."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment, as plain data; empty without a probe."""


def read_config(
    config: Config,
    cluster: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    set_options: Sequence[str] = (),
    site: str | Path | None = None,
    choose: Choose | None = None,
) -> RunConfig:
    """A configuration from wherever it is, with overrides merged in.

    Plugins may lie beside a file: from now on, modules are found in its folder too.

    Args:
        config: a file's path, a mapping, or a configuration.
        cluster: the launcher, if it is not to be the configuration's.
        overrides: sections and keys to merge in.
        set_options: ``a.b=c`` strings, for a file or a mapping.
        site: a site's file, to be laid under a file or a mapping; see ``site_for``.
        choose: what fills in ``population: auto``, once all else is known; None: it is refused.

    Raises:
        ConfigError: says every problem.
    """
    changes, given = dict(overrides or {}), cast(object, config)
    loaded: Mapping[str, Any] | RunConfig
    fill: Choose | None = None
    if choose is not None:
        placed = {} if cluster is None else {"cluster": {"launcher": cluster}}

        def fill(data: dict[str, Any]) -> dict[str, Any]:
            return choose(merged(merged(data, encode(changes)), placed))

    if isinstance(config, (str, Path)):
        # For slots, too: they run in other folders than the one that the run was launched from.
        plugins.look_in([str(Path(config).absolute().parent)])
        loaded = load_file(config, set_options, site, fill)
    elif isinstance(config, RunConfig):
        loaded = config
    elif not isinstance(given, Mapping):
        said = f"expected the path of a YAML file, a mapping or a RunConfig, got {given!r}"
        raise ConfigError("the configuration", [said])
    elif asks_auto(config) or set_options:
        loaded = from_words(config, set_options, source=source_of(config), site=site, choose=fill)
    else:
        loaded = over_site(config, site)
    read = from_mapping(loaded, changes, source=source_of(config))
    if cluster is not None:
        read = from_mapping(read, {"cluster": {"launcher": cluster}}, source=source_of(config))
    return from_anywhere(read)


def from_anywhere(config: RunConfig) -> RunConfig:
    """With absolute paths."""
    # A tick from another folder found no template, or another one of this name.
    env, cluster = config.env, config.cluster
    if cluster.template != "default":
        cluster = replace(cluster, template=str(expanded(cluster.template).absolute()))
    if env.python is not None:
        env = replace(env, python=str(expanded(env.python).absolute()))
    population = config.population
    if (source := population.start_from) is not None:
        source = replace(source, run=str(absolute(source.run)))
        population = replace(population, start_from=source)
    program = config.program
    if program is not None:
        program = replace(program, folder=str(expanded(program.folder or ".").absolute()))
    return replace(config, env=env, program=program, cluster=cluster, population=population)


def site_for(site: str | Path | None, cluster: str | None) -> str | Path | None:
    """The site's file for a run: the one that is named, else ``$HPCPOD_SITE``, which is not asked
    for a run that shall be on this machine (``cluster`` is ``local``)."""
    if site is not None or cluster == "local":
        return site
    named = os.environ.get("HPCPOD_SITE")
    return SiteOfEnvironment(named) if named else None


def source_of(config: Config) -> str:
    """The name of a configuration in a message."""
    return str(config) if isinstance(config, (str, Path)) else "the configuration"


def check(
    config: RunConfig, *, source: str = "the configuration", probe: bool = True, anew: bool = True
) -> Checked:
    """Check everything that can be checked, and estimate what the run needs.

    The updater, the generator and the launcher are made once, and batch scripts are rendered. Where
    Slurm answers, what they ask for is compared with what its nodes have.

    Args:
        config: the configuration.
        source: what to call it in a message.
        probe: make the environment and each agent once. A login node that can't run the
            simulator may go without: then a round is only compared with the hyperparameter
            ``horizon``, and an agent that has another one, or does not fit, fails in a slot.
        anew: see ``problems_of``.

    Raises:
        ConfigError: says every problem that was found.
    """
    algorithms, look, problems = _task(config, probe=probe)
    footprints = look.footprints if look is not None else {}
    problems += [*unusable_launcher(config), *problems_of(config, algorithms, look, anew=anew)]
    if problems:  # ranks are a problem of the launcher's, too
        raise ConfigError(source, [*dict.fromkeys(problems)])
    share = quotas(config.population)
    # A pod keeps a core per round of its history, its best and the one it is working on; its
    # replay is shared between them but for the rows that were overwritten in between.
    disk = sum(share[name] * (7.0 * f.core + 2 * f.replay) for name, f in footprints.items())
    every, minutes = config.snapshots.seconds, config.stop.minutes
    if every is not None and minutes is not None and footprints:  # each may be another policy
        disk += int(60 * minutes // every) * max(f.core for f in footprints.values())
    inherit = start_from.heirs_words(config, algorithms, share)
    said = (*inherit, *remarks(config, algorithms, look), *remarks_on_program(config))
    sees = round_of_program(config) or round_in_words(config, look)
    spec = look.spec if look is not None else {}
    return Checked(Resolved(config, algorithms), share, footprints, disk, sees, said, spec)


def problems_of(
    config: RunConfig,
    algorithms: Mapping[str, AlgorithmSpace],
    look: Look | None,
    *,
    anew: bool = True,
) -> Iterator[str]:
    """Every problem that is neither of the task and its agents, nor of the launcher.

    Args:
        config: the configuration.
        algorithms: the space of each.
        look: at the task, if it was probed.
        anew: a person asks for it. False: a registry does, which an earlier version may have made,
            and is refused for nothing that has become a problem since.
    """
    yield from _unusable_parts(config, own=bool(algorithms))
    yield from unusable_program(config)
    yield from _unusable_ranks(config)
    yield from _contradictions(config)
    yield from short_budget(config, anew=anew)
    if anew and config.program is not None:
        yield from without_effect(config)
    yield from start_from.unusable(config, algorithms, look)
    yield from _short_rounds(config, algorithms, look.footprints if look is not None else {})


def resolve_task(config: RunConfig, *, source: str = "the configuration") -> tuple[Resolved, Look]:
    """Check the agents and the environment alone: training one agent needs no tournament.

    Its rounds may be shorter than an iteration: they only say how often it is scored.

    Returns:
        The resolved configuration, and a look at the task.

    Raises:
        ConfigError: says every problem that was found.
    """
    algorithms, look, problems = _task(config, probe=True)
    if config.program is not None:
        problems.append("program: hpcpod trains one agent of its own so; launch a program's run")
    if problems:
        raise ConfigError(source, problems)
    assert look is not None
    return Resolved(config, algorithms), look


def scripts(config: RunConfig, runs: Path) -> list[str]:
    """The batch scripts of a run as ``launch`` would submit them; nothing is made.

    Returns:
        The coordinator's and the slots', of which one array may not hold all; of arrays of one
        size the first.

    Raises:
        UnusablePlugin: the launcher.
        UserError: it submits no scripts, or a template or an option can't be used as written.
    """
    launcher = make_launcher((runs / config.name).absolute(), config)
    submitting = with_scripts(launcher, config.cluster.launcher)
    sizes = dict.fromkeys(array_sizes(submitting.places, submitting.largest_array()))
    slots = [Intent(1, "TOKEN", "slots", size) for size in sizes]
    return [submitting.script(intent) for intent in (Intent(0, "TOKEN", "coordinator"), *slots)]


def _task(
    config: RunConfig, *, probe: bool
) -> tuple[Mapping[str, AlgorithmSpace], Look | None, list[str]]:
    """The agents' spaces, a look at the task, and every problem of them and of the environment;
    no agent is tried while one of the spaces is wrong."""
    if probe:
        return supervisor.probe(config)
    try:
        return resolve_algorithms(config), None, unknown_env(config)
    except ConfigError as error:
        return {}, None, [*error.problems, *unknown_env(config)]


def _refusal(path: str, work: Callable[..., object], *arguments: object) -> list[str]:
    """The problem of the field at ``path``, if work on it is refused."""
    try:
        work(*arguments)
    except UserError as error:
        return [f"{path}: {error}"]
    return []


def _unusable_parts(config: RunConfig, *, own: bool) -> Iterator[str]:
    """Problems of rules and loggers; of a user's ``own`` only if the trial has not ended by one."""
    by = config.population
    for kind, part, name in (
        (Updater, "updater", by.updater),
        (Generator, "generator", by.generator),
        (Allocator, "allocator", by.allocator),
    ):
        if own or ":" not in name:
            yield from _refusal(f"population.{part}", plugins.make, kind, f"{part}s", name, by)
    for name in config.metrics:
        if own or ":" not in name:
            yield from _refusal("metrics", plugins.find, "loggers", name)


def unusable_launcher(config: RunConfig) -> Iterator[str]:
    """Every problem of the launcher, and of what it would ask for."""
    try:
        launcher = make_launcher(_NOWHERE, config)
        if isinstance(launcher, ScriptLauncher):
            scripts(config, _NOWHERE)
        if isinstance(launcher, SlurmLauncher):
            # sbatch takes what no node has: it waits for ever, and squeue speaks of drained nodes.
            yield from sentences(launcher.impossible())
    except UnusablePlugin as error:
        yield f"cluster.launcher: {error}"
    except UserError as error:
        yield str(error)


def _unusable_ranks(config: RunConfig) -> Iterator[str]:
    """Problems in the way that a pod is spread over processes."""
    try:
        shape_of(config, config.resources.nodes_per_pod or 1)
    except UserError as error:
        yield str(error)
    pod = config.pod
    if pod.pipeline and pod.worker != "batched":
        yield "pod.worker: a pipeline has its own; take it out, or pod.pipeline"
    yield from _refusal("pod.worker", plugins.find, "workers", pod.worker)
    yield from _refusal("pod.learner", plugins.find, "learners", pod.learner)
    yield from _refusal("pod.fusion.scheme", plugins.find, "fusions", pod.fusion.scheme)


def _contradictions(config: RunConfig) -> Iterator[str]:
    stop = config.stop
    if all(end is None for end in (stop.target, stop.env_steps, stop.minutes, stop.rounds)):
        yield "stop: nothing ends this run; give it a target, env_steps, minutes or rounds"
    if config.pod.device == "cuda" and config.resources.gpus_per_pod == 0:
        yield (
            "pod.device: cuda needs a GPU, but resources.gpus_per_pod is 0; set it to 1,"
            " or pod.device to auto"
        )
    processes, backend = config.env.processes or 1, config.env.backend
    if processes > 1 and backend in ON_ONE_DEVICE and trains_on_gpu(config):
        yield (
            f"env.processes: backend {backend} steps all environments on the pod's GPU at once, and"
            f" {processes} processes would take them to the CPU; leave it out"
        )
    fusion, ranks = config.pod.fusion.backend, config.pod.ranks or config.resources.gpus_per_pod
    if ranks > 1 and fusion == "nccl" and not trains_on_gpu(config):
        yield (  # torch said that another rank was gone
            f"pod.fusion.backend: nccl joins GPUs, and the {ranks} ranks train on cores; set it to"
            " auto, or give each rank a GPU"
        )
    here = config.cluster.launcher == "local"
    if ranks > 1 and fusion == "mpi" and here and shutil.which("mpirun") is None:
        yield (
            "pod.fusion.backend: mpi starts ranks by mpirun, which is not on this machine; install"
            " an MPI (Debian: openmpi-bin), or set it to gloo"
        )


def short_budget(config: RunConfig, *, anew: bool = True) -> Iterator[str]:
    """A budget that ends before an allocator has pods to compare, or ``anew``, before a round."""
    population, steps, program = config.population, config.stop.env_steps, config.program
    pods, one = population.pods.max, config.round.env_steps
    if steps is None or (program is not None and program.seconds is not None):
        return
    if population.allocator not in ("auto", "fair") and steps < pods * one:
        yield (
            f"stop.env_steps: the budget of {steps} steps ends before each of {pods} pods has"
            f" trained a round of {one}, so population.allocator has nothing to compare; set it to"
            f" at least {pods * one}, or lower population.pods.max or round.env_steps"
        )
    elif anew and steps < one:  # the first round ended the run, however far beyond its budget
        yield (
            f"stop.env_steps: no round of {one} steps (round.env_steps) ends within {steps}; set"
            f" stop.env_steps to at least {one}, or round.env_steps to at most {steps}"
        )


def _short_rounds(
    config: RunConfig,
    algorithms: Mapping[str, AlgorithmSpace],
    footprints: Mapping[str, Footprint],
) -> list[str]:
    """A round that is shorter than an iteration would leave the next ones nothing to train."""
    problems = []
    try:
        ranks = ranks_of(config)
    except UserError:  # a problem of its own, see _unusable_ranks
        ranks = 1
    for name, space in algorithms.items():
        horizons = [v for v in extremes(space.values.get("horizon", 1)) if isinstance(v, int)]
        horizons += [footprints[name].horizon] if name in footprints else []
        longest, num_envs = max(horizons, default=1), config.env.num_envs * ranks
        if config.round.env_steps < longest * num_envs:
            problems.append(
                f"round.env_steps: must be at least {longest * num_envs} for {name}, which updates"
                f" after {longest} steps of {num_envs} environments, got {config.round.env_steps}"
            )
    return problems


def unknown_env(config: RunConfig) -> list[str]:
    """The problem of an environment that is not known here, without making one."""
    if config.env.python is not None or config.program is not None:
        return []  # an interpreter that may know others, or no environment of ours
    from hpcpod.envs.known import check_known  # loads gymnasium

    return _refusal("env.id", check_known, config.env.id, config.env.backend)
