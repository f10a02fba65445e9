"""Faults of people: a second coordinator, many ticks at once, looks at a bad moment, pauses."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.chaos import processes
from tests.chaos.faults import Fault
from tests.chaos.processes import Hit
from tests.chaos.world import World

LOOKS = (["status"], ["status", "--json"], ["leaderboard"], ["logs"])


def second_coordinator(world: World, fault: Fault) -> Hit | None:
    """Somebody starts a second coordinator at a login node; it is killed, or asked to go."""
    process = world.start_by_hand("hpcpod.orchestrator", str(world.path))
    world.by_hand.remove(process)
    world.coordinators.append(process)

    def end() -> None:
        process.send_signal((signal.SIGTERM, signal.SIGKILL)[fault.pick % 2])
        world.coordinators.remove(process)
        world.by_hand.append(process)

    return Hit(f"process {process.pid}", end)


def oversleep(world: World, fault: Fault) -> Hit | None:
    """Every coordinator is stopped for longer than its lease; somebody starts another, which
    takes over. They wake up, and do not know."""
    sleepers = world.processes("orchestrator")
    if not sleepers:
        return None
    for pid in sleepers:
        processes.send(pid, signal.SIGSTOP)
    second, held = second_coordinator(world, fault), world.holding()
    assert second is not None and second.heal is not None
    end = second.heal

    def wake() -> None:
        for pid in sleepers:
            processes.send(pid, signal.SIGCONT)
        held()
        end()

    return Hit(f"processes {sleepers}, {second.what}", wake)


def ticks(world: World, fault: Fault) -> Hit | None:
    """Three people tick at once."""
    for _ in range(3):
        _type(world, "tick")
    return Hit("three ticks")


def looks(world: World, fault: Fault) -> Hit | None:
    """Somebody looks."""
    verb, *options = fault.choice(LOOKS)
    _type(world, verb, *options)
    return Hit(verb)


def pause(*verb: str) -> Callable[[World, Fault], Hit | None]:
    """Somebody has the run pause by this verb, and go on."""

    def inject(world: World, fault: Fault) -> Hit | None:
        if world.disk.read_only:
            return None
        name, *options = verb
        _type(world, name, *options)
        return Hit(name, lambda: _type(world, "resume"))

    return inject


def scale(world: World, fault: Fault) -> Hit | None:
    """Somebody wants fewer slots, and then as many as there were."""
    if world.disk.read_only:
        return None
    slots = world.scene.slots
    fewer = 1 + fault.pick % (slots - 1)
    _type(world, "scale", str(fewer))
    return Hit(f"{fewer} slots", lambda: _type(world, "scale", str(slots)))


def _type(world: World, verb: str, *options: str) -> None:
    world.start_by_hand("hpcpod", verb, str(world.path), *options)
