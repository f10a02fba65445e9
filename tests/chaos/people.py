"""Faults of people: a second coordinator, many ticks at once, looks at a bad moment, a pause."""

from __future__ import annotations

import signal
from contextlib import suppress

from tests.chaos.faults import Fault
from tests.chaos.processes import Hit
from tests.chaos.world import World

LOOKS = (["status"], ["status", "--json"], ["leaderboard"], ["logs"])


def second_coordinator(world: World, fault: Fault) -> Hit | None:
    """Somebody starts a second coordinator at a login node; it is killed, or asked to go."""
    process = world.start_by_hand("hpcpod.orchestrator", str(world.path))

    def end() -> None:
        with suppress(ProcessLookupError):
            process.send_signal((signal.SIGTERM, signal.SIGKILL)[fault.pick % 2])

    return Hit(f"process {process.pid}", end)


def ticks(world: World, fault: Fault) -> Hit | None:
    """Three people tick at once."""
    for _ in range(3):
        world.start_by_hand("hpcpod", "tick", str(world.path))
    return Hit("three ticks")


def looks(world: World, fault: Fault) -> Hit | None:
    """Somebody looks."""
    verb, *options = fault.choice(LOOKS)
    world.start_by_hand("hpcpod", verb, str(world.path), *options)
    return Hit(verb)


def drain(world: World, fault: Fault) -> Hit | None:
    """Somebody has the run pause, and go on."""
    if world.disk.read_only:
        return None
    world.start_by_hand("hpcpod", "stop", "--drain", str(world.path))

    def resume() -> None:
        world.start_by_hand("hpcpod", "resume", str(world.path))

    return Hit("a pause", resume)
