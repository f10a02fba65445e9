"""Faults of the cluster: its daemons, its nodes, and what becomes of jobs on them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress

from tests.chaos.faults import Fault
from tests.chaos.processes import Hit
from tests.chaos.world import World
from tests.support.slurm_cluster import CONTROLLER

NOBODY = "no such job"


def kill_slurmd(world: World, fault: Fault) -> Hit | None:
    """SIGKILL of a node's slurmd; its jobs live on, and it comes back."""
    return _kill_daemon(world, fault.choice(world.cluster.nodes))


def kill_slurmctld(world: World, fault: Fault) -> Hit | None:
    """SIGKILL of the controller; what it has not saved is forgotten."""
    return _kill_daemon(world, CONTROLLER)


def _kill_daemon(world: World, name: str) -> Hit | None:
    if name in world.dead_daemons:
        return None
    world.cluster.kill_daemon(name)
    world.dead_daemons.add(name)

    def start() -> None:
        world.cluster.start_daemon(name)
        world.dead_daemons.discard(name)

    return Hit(name, start)


def node(state: str) -> Callable[[World, Fault], Hit | None]:
    """A node that goes ``down`` or is set to ``drain``, and is put back to work."""

    def inject(world: World, fault: Fault) -> Hit | None:
        name = fault.choice(world.cluster.nodes)
        if not told(world, "scontrol", "update", f"NodeName={name}", f"State={state}",
                    "Reason=chaos"):  # fmt: skip
            return None
        return Hit(name, lambda: world.repair())

    return inject


def preempt(world: World, fault: Fault) -> Hit | None:
    """A job that goes first takes a node."""
    name = fault.choice(world.cluster.nodes)
    return _preempt(world, fault, name, "-w", name)


def preempt_all(world: World, fault: Fault) -> Hit | None:
    """A job that goes first takes all nodes: a storm of preemptions."""
    return _preempt(world, fault, "all nodes", f"-N{len(world.cluster.nodes)}")


def _preempt(world: World, fault: Fault, what: str, *options: str) -> Hit | None:
    words = ("sbatch", "-p", "high", "--exclusive", *options, "-o", "/dev/null",
             "--wrap", f"sleep {fault.seconds}")  # fmt: skip
    return Hit(what) if told(world, *words) else None


def requeue(world: World, fault: Fault) -> Hit | None:
    """``scontrol requeue`` of a running slot by its owner."""
    return _on_job(world, fault, world.elements, "scontrol", "requeue")


def cancel_slot(world: World, fault: Fault) -> Hit | None:
    """``scancel`` of one element, running or not."""

    def elements() -> list[str]:
        return [job for job in world.jobs() if "_" in job]

    return _on_job(world, fault, elements, "scancel")


def cancel_coordinator(world: World, fault: Fault) -> Hit | None:
    """``scancel`` of a coordinator, running or not."""

    def coordinators() -> list[str]:
        return [job for job in world.jobs() if "_" not in job]

    return _on_job(world, fault, coordinators, "scancel")


def cancel_all(world: World, fault: Fault) -> Hit | None:
    """``scancel`` of all jobs of the run."""
    jobs = world.jobs() if world.controller_up else []
    return Hit(f"{len(jobs)} jobs") if jobs and told(world, "scancel", *jobs) else None


def suspend(world: World, fault: Fault) -> Hit | None:
    """A running slot is stopped with all its processes, as by a gang scheduler."""
    hit = _on_job(world, fault, world.elements, "scontrol", "suspend")
    if hit is None:
        return None
    held = world.holding()

    def go_on() -> None:
        told(world, "scontrol", "resume", hit.what)
        world.go_on(hit.what)
        held()

    return Hit(hit.what, go_on)


def _on_job(world: World, fault: Fault, jobs: Callable[[], list[str]], *command: str) -> Hit | None:
    job = fault.choice(jobs()) if world.controller_up else None
    return Hit(job) if job is not None and told(world, *command, job) else None


def told(world: World, *command: str) -> bool:
    """Whether the controller did it; a storm does not wait for one that is away."""
    if not world.controller_up:
        return False
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, env=world.cluster.env(), capture_output=True, timeout=5, check=False
        )
        return done.returncode == 0
    return False
