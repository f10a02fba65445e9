"""Faults of the disk and of files: full, read-only, torn, gone, with times that can't be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hpcpod.records.records import Board, Checkpoint
from hpcpod.storage.board import PERIOD
from hpcpod.storage.layout import blob_path, sharded
from hpcpod.tournament.leaderboard import orders
from tests.chaos.faults import Fault
from tests.chaos.processes import Hit
from tests.chaos.world import World

HOURS = 3600.0
LOST = (0.02, 0.3)
"""Least and greatest share of replies that are lost."""


def fill(world: World, fault: Fault) -> Hit | None:
    """Leave no free byte, until the file that takes them is removed."""
    filler = world.disk.home / "filler"
    if filler.exists() or world.disk.read_only:
        return None
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        free = os.statvfs(filler)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
        file.seek(0, os.SEEK_END)
        while True:
            file.write(bytes(4096))
    held = world.holding()

    def empty() -> None:
        filler.unlink(missing_ok=True)
        held()

    return Hit("the disk", empty)


def read_only(world: World, fault: Fault) -> Hit | None:
    """The filesystem takes no writes, until it is mounted again as it was."""
    if world.disk.read_only or (world.disk.home / "filler").exists():
        return None
    end = time.monotonic() + 2.0
    while not world.disk.remount("ro"):  # somebody is writing right now
        if time.monotonic() > end:
            return None
        time.sleep(0.01)
    held = world.holding()

    def writable() -> None:
        world.disk.remount("rw")
        held()

    return Hit("the disk", writable)


def lose_replies(world: World, fault: Fault) -> Hit | None:
    """A server could not say what it has done: the client sends it again, or gives up."""
    views = world.views
    if views is None or views.bad.lost:
        return None
    low, high = LOST
    share = low + (high - low) * (fault.pick % 1000) / 1000
    views.lose(share)
    return Hit(f"{share:.0%} of all changes", lambda: views.lose(0.0))


def hang(world: World, fault: Fault) -> Hit | None:
    """To one node the disk answers nothing for a while."""
    views, node = world.views, fault.choice(world.cluster.nodes)
    if views is None or node in views.hung or node in world.dead_daemons:
        return None  # a slurmd that starts does not wait for the disk, but its mount would
    views.hang(node)
    held = world.holding()

    def answer() -> None:
        views.answer(node)
        held()

    return Hit(node, answer)


def wrong_times(world: World, fault: Fault) -> Hit | None:
    """Files get times of hours ago, or of hours to come, as a server with a wrong clock gives."""
    places = ("slots", "lease", "claims", "control", "pods", "blobs")
    place = fault.choice(places)
    moment = time.time() + (fault.pick % 2000 - 1000) / 1000 * 3 * HOURS
    touched = 0
    world.observer.look()
    for path in (world.path / place).rglob("*"):
        with suppress(OSError):
            os.utime(path, (moment, moment))
            touched += 1
    return Hit(f"{touched} files in {place}, {moment - time.time():+.0f} s") if touched else None


def wrong_clock(world: World, fault: Fault) -> Hit | None:
    """A node's clock jumps."""
    name = fault.choice(world.cluster.nodes)
    shift = (fault.pick // 7 % 2001 - 1000) / 1000 * 3 * HOURS
    beside = world.clocks / f".{name}"
    beside.write_text(f"{shift:.0f}")
    beside.rename(world.clocks / name)
    return Hit(f"{name} by {shift:+.0f} s")


def torn_report(world: World, fault: Fault) -> Hit | None:
    """The report of an open order is there, but only half of it: its writer's machine crashed
    on a filesystem that had not kept what it promised."""
    open_orders = [order.id for order in orders(world.board())]
    order = fault.choice([name for name in open_orders if not _report(world, name).exists()])
    if order is None:
        return None
    half = b'{"sha256":"' + b"0" * 64 + b'","payload":{"order":"' + order.encode()
    path = _report(world, order)
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            file.write(half)
        return Hit(order)
    return None


def torn_old_report(world: World, fault: Fault) -> Hit | None:
    """A report that was counted long ago is cut short."""
    world.observer.look()
    waiting = {order.id for order in orders(world.board())}
    past = world.observer.past.reports
    old = sorted(name for name, seen in past.items() if seen.report and name not in waiting)
    order = fault.choice(old)
    if order is None or not _truncate(_report(world, order)):
        return None
    past[order].damaged = past[order].damaged or time.time()
    return Hit(order)


def torn(*places: str) -> Callable[[World, Fault], Hit | None]:
    """Any file of these patterns is cut short."""

    def inject(world: World, fault: Fault) -> Hit | None:
        found = [path for place in places for path in world.path.glob(place)]
        path = fault.choice(sorted(p for p in found if p.is_file() and ".tmp-" not in p.name))
        if path is None or not _truncate(path):
            return None
        return Hit(str(path.relative_to(world.path)))

    return inject


def torn_claim(world: World, fault: Fault) -> Hit | None:
    """The claim of an open order is cut short."""
    open_orders = [order.id for order in orders(world.board())]
    claims = [sharded(world.path / "claims", order) for order in open_orders]
    path = fault.choice([path for path in claims if path.exists()])
    return Hit(path.name) if path is not None and _truncate(path) else None


def torn_blob(world: World, fault: Fault) -> Hit | None:
    """A blob that somebody needs is cut short."""
    return _damage_blob(world, fault, _truncate)


def blob_gone(world: World, fault: Fault) -> Hit | None:
    """A blob that somebody needs is gone."""

    def remove(path: Path) -> bool:
        try:
            path.unlink()
        except OSError:
            return False
        return True

    return _damage_blob(world, fault, remove)


def _damage_blob(world: World, fault: Fault, damage: Callable[[Path], bool]) -> Hit | None:
    blob = fault.choice(sorted(_expendable(world.board())))
    if blob is None:
        return None
    path = blob_path(world.path / "blobs", blob)
    world.observer.past.blobs.add(blob)  # before: whoever reads it next may strike it at once
    if path.exists() and damage(path):
        return Hit(f"{path.name[:12]}, {_uses(world.board(), blob)}")
    return None


def _expendable(board: Board) -> set[str]:
    """Blobs of pods that have an older checkpoint to go back to, and of all but one entry."""
    found: set[str] = set()
    for pod in board.living:
        checkpoints: list[Checkpoint] = [e.checkpoint for e in pod.history[1:]]
        if len(pod.history) > 1:
            found.update(blob for each in checkpoints for blob in each.blobs())
    for entry in board.entries[:-1]:
        found.update(entry.checkpoint.blobs())
    return found - {blob for pod in board.living for e in pod.history[:1]
                    for blob in e.checkpoint.blobs()}  # fmt: skip


def _uses(board: Board, blob: str) -> str:
    leads = board.entries and blob in board.entries[0].checkpoint.blobs()
    needed = any(
        pod.birth is not None and pod.birth.checkpoint is not None
        and blob in pod.birth.checkpoint.blobs()
        for pod in board.living
    )  # fmt: skip
    return " and ".join(["the best's"] * bool(leads) + ["a birth's"] * needed) or "an old one"


def torn_generation(world: World, fault: Fault) -> Hit | None:
    """The newest generation of the board, or one of the three before it, is cut short."""
    world.observer.look()
    seen = world.observer.past.generations
    number = len(seen) - 1 - fault.pick % 4
    # Without a sound snapshot before it nothing can be read: that is no promise.
    before = max(1, number - PERIOD) if number % PERIOD == 0 else number - 1
    if number < 2 or seen[number].damaged or (seen[before].damaged and number % PERIOD == 0):
        return None
    path = world.folder.board.path(number)
    seen[number].damaged = True
    return Hit(path.name) if _truncate(path) else None


def _report(world: World, order: str) -> Path:
    return sharded(world.path / "reports", order, ".json")


def _truncate(path: Path) -> bool:
    try:
        size = path.stat().st_size
        os.truncate(path, size // 2)
    except OSError:
        return False
    return size > 1
