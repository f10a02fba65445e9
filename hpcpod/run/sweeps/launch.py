"""The launch of a sweep: every cell is checked, then all are made, then elements submitted."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import to_mapping
from hpcpod.config.resolved import Resolved
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.errors import ConfigError, HpcpodError
from hpcpod.launchers.base import Launcher, array_sizes, with_scripts
from hpcpod.launchers.factory import make_launcher
from hpcpod.pod.trial import supervisor
from hpcpod.pod.trial.fit import Look
from hpcpod.records.records import Intent
from hpcpod.run.preflight import problems_of, unknown_env, unusable_launcher
from hpcpod.run.sweeps.cells import Plan, said_of
from hpcpod.run.sweeps.driver import gpus_of
from hpcpod.run.sweeps.folder import Sweep, create

Spaces = Mapping[str, AlgorithmSpace]


def element_of(plan: Plan) -> RunConfig:
    """The configuration of an element of the sweep's array, which runs a cell at a time: its cores
    and its GPUs are those of all slots of a cell, on one node."""
    config, slots = plan.configs[0], plan.sweep.slots
    wanted, local = config.cluster.slots, config.cluster.launcher == "local"
    elements = None if wanted is None else max(1, wanted // slots)
    if elements is None and not local:  # on this machine its cores decide, when it is run
        elements = len(plan.cells)
    resources = replace(
        config.resources,
        cpus_per_pod=config.resources.cpus_per_pod * slots,
        gpus_per_pod=gpus_of(config, slots),
        pods_per_gpu=1,
        nodes_per_pod=1,
    )
    most = None if elements is None else min(elements, len(plan.cells))
    cluster = replace(config.cluster, slots=most, coordinator=False, schedule={})
    pod = replace(config.pod, ranks=1)
    return replace(config, name=plan.name, pod=pod, resources=resources, cluster=cluster)


def check(
    plan: Plan, *, probe: bool = True, tell: Callable[[str], object] = lambda text: None
) -> dict[int, Resolved]:
    """Check every cell; return its resolved configuration by the combination's number.

    Tasks that differ in numbers of agents alone are tried once, with the first of these cells.

    Args:
        plan: of the sweep.
        probe: make each task and its agents once.
        tell: called with what is being done.

    Raises:
        ConfigError: says every problem of every cell.
    """
    wrong: dict[str, list[int]] = {}
    found: dict[int, Resolved] = {}
    tasks: dict[str, list[int]] = {}
    for number, config in enumerate(plan.configs, 1):
        tasks.setdefault(_task(config), []).append(number)
    for done, numbers in enumerate(tasks.values(), 1):
        if probe and len(tasks) > 1:
            tell(f"trying task {done} of {len(tasks)}")
        configs = [plan.configs[number - 1] for number in numbers]
        spaces, look, problems = _resolved(configs, probe=probe)
        for number, config, space, own in zip(numbers, configs, spaces, problems, strict=True):
            found[number] = Resolved(config, space)
            for problem in (*own, *problems_of(config, space, look)):
                wrong.setdefault(problem, []).append(number)
    by_number = {cell.number: cell.levels for cell in plan.cells}
    combos = [by_number[number] for number in sorted(by_number)]
    said = [said_of(problem, numbers, combos) for problem, numbers in wrong.items()]
    # Ranks are a problem of each cell's, too.
    said += [each for each in unusable_launcher(_launched(plan)) if each not in wrong]
    if said:
        raise ConfigError(plan.source, said)
    return found


def _launched(plan: Plan) -> RunConfig:
    """The configuration whose launcher starts the sweep: on this machine that of a cell."""
    local = plan.configs[0].cluster.launcher == "local"
    return plan.config_of(plan.cells[0]) if local else element_of(plan)


def _task(config: RunConfig) -> str:
    """All that a trial of a task depends on, but for the numbers of its agents."""
    mapping = to_mapping(config)
    agents = {
        name: {key: value for key, value in each.items() if not _number(value)}
        for name, each in mapping["agents"].items()
    }
    kinds = list(mapping["population"]["algorithms"])
    return json.dumps([mapping["env"], kinds, agents, mapping["pod"]], default=str)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _resolved(
    configs: list[RunConfig], *, probe: bool
) -> tuple[list[Spaces], Look | None, list[list[str]]]:
    """The spaces of configurations that are alike, a look at their task, and each one's
    problems."""
    if probe:
        return supervisor.probe_alike(configs)
    spaces: list[Spaces] = []
    problems: list[list[str]] = []
    for config in configs:
        try:
            spaces.append(resolve_algorithms(config))
            problems.append([])
        except ConfigError as error:
            spaces.append({})
            problems.append(list(error.problems))
    problems[0] += unknown_env(configs[0])
    return spaces, None, problems


def scripts(plan: Plan, runs: Path) -> list[str]:
    """The batch scripts of a sweep's elements, as ``launch`` would submit them.

    Raises:
        UserError: its launcher submits none.
    """
    element = element_of(plan)
    launcher = make_launcher((runs / plan.name).absolute(), element)
    submitting = with_scripts(launcher, element.cluster.launcher)
    sizes = dict.fromkeys(array_sizes(element.cluster.slots or 1, submitting.largest_array()))
    return [submitting.script(Intent(0, "TOKEN", "slots", size)) for size in sizes]


def make(plan: Plan, resolved: dict[int, Resolved], runs: Path) -> Sweep:
    """Make the folder of a sweep that was checked; see ``folder.create``."""
    return create(plan, element_of(plan), resolved, runs)


def submit(sweep: Sweep) -> list[str]:
    """Submit the elements that a sweep on a cluster lacks; return the ids of new jobs.

    Those that were cancelled are not counted, though they may be at their checkpoint still: a cell
    is free for another once its element has ended.

    Raises:
        UserError: the sweep is another user's.
        LaunchError: the scheduler refused, or can't be asked from here.
    """
    sweep.owner.require_mine("submits its elements")
    sweep.owner.require_code((), "submit")
    launcher = make_launcher(sweep.path, sweep.element)
    jobs, leaving = launcher.observe(patience=60.0).jobs, sweep.leaving  # s
    # One that completes may be requeued: then there is one more, which finds no free cell.
    here = sum(
        job.kind == "slots" and job.submission not in leaving and not job.completing for job in jobs
    )
    left = len(sweep.cells) - len(sweep.kept())
    missing = min(sweep.element.cluster.slots or 1, left) - here
    if missing < 1:
        return []
    largest = with_scripts(launcher, sweep.element.cluster.launcher).largest_array()
    return [_submit(launcher, size) for size in array_sizes(missing, largest)]


def _submit(launcher: Launcher, size: int) -> str:
    return launcher.submit(Intent(0, secrets.token_hex(8), "slots", size, time=time.time()))


def submit_new(sweep: Sweep) -> list[str]:
    """``submit`` for a sweep that was just made: where it is refused, nothing is left.

    Raises:
        LaunchError: the scheduler refused.
    """
    try:
        return submit(sweep)
    except HpcpodError:
        with contextlib.suppress(HpcpodError):
            cancel(sweep)
        shutil.rmtree(sweep.path, ignore_errors=True)
        raise


def cancel(sweep: Sweep) -> None:
    """End the elements that a sweep on a cluster has; those at work checkpoint first.

    Raises:
        UserError: the sweep is another user's.
        LaunchError: the scheduler can't be asked from here.
    """
    sweep.owner.require_mine("cancels its elements")
    launcher = make_launcher(sweep.path, sweep.element)
    jobs = launcher.observe(patience=60.0).jobs  # s
    launcher.cancel([job.job for job in jobs])
    sweep.note_leaving({job.submission for job in jobs})
