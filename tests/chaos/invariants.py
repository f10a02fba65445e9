"""Invariants that hold once a storm is over, seen from outside."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator

from hpcpod.records.records import Board, Checkpoint
from hpcpod.storage.layout import blob_path
from hpcpod.tournament.policy_snapshots import in_order
from hpcpod.tournament.stopping import leader
from tests.chaos.accounting import audit
from tests.chaos.world import World, parent, variable, words

TRACEBACK = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)$"
    r"(?!\n\nThe above exception was the direct cause)",
    re.MULTILINE,
)
TOLERATED = ("hpcpod.errors.Corrupt", "hpcpod.pod.ranks.rank.RankLost")
"""What a training process may say with a traceback: its slot says the sentence."""
ORPHAN_SECONDS = 60.0
"""After a storm: until every process belongs to a job that runs."""
BEHIND_SECONDS = 90.0
"""Longer where slots hear late that they must end, or a disk hangs under them."""
LIVELY_SECONDS = 180.0
"""After a storm: until the next report counts, or the run has ended."""


def of_the_run(world: World) -> list[str]:
    """Promises about the run folder, whatever was done to it."""
    with world.observer.still() as past:
        books = audit(past)
        board = books.board if books.board is not None else world.board()
        return [*past.complaints, *books.violations, *of_files(world, board)]


def of_files(world: World, board: Board) -> list[str]:
    """Promises about files, whatever they say."""
    return [*_gaps(world), *_missing_blobs(world, board), *_tracebacks(world)]


def _gaps(world: World) -> Iterator[str]:
    """Generations have every number from 0 on, and each is what it was, or empty, or damaged."""
    board, seen = world.folder.board, world.observer.past.generations
    names = sorted((world.path / "board").glob("*/*.json"))
    numbers = [int(path.stem) for path in names if not path.name.startswith(".")]
    if numbers != list(range(len(numbers))):
        yield f"generations are not gapless: {numbers}"
    for number, generation in enumerate(seen):
        if number not in numbers:
            continue
        data = board.path(number).read_bytes()
        same = data == generation.data or data == b'{"emptied":true}\n'
        if not same and not generation.damaged:
            yield f"generation {number} was changed after it was published"


def _missing_blobs(world: World, board: Board) -> Iterator[str]:
    """What the leaderboard and the next rounds need is there, unless a fault took it."""
    needed = [(f"the entry of {e.pod}", e.checkpoint) for e in board.entries]
    births = [pod.birth for pod in board.living if pod.birth is not None]
    needed += [(f"the birth {b.id}", b.checkpoint) for b in births if b.checkpoint is not None]
    for what, checkpoint in needed:
        for blob in set(checkpoint.blobs()) - world.observer.past.blobs:
            path = blob_path(world.path / "blobs", blob)
            if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != blob:
                yield f"{what} has lost its blob {blob[:12]}"


def _tracebacks(world: World) -> Iterator[str]:
    """Whatever happens is said in sentences."""
    for log in [*sorted((world.path / "logs").glob("*.log")), world.home / "by-hand.log"]:
        text = log.read_text(errors="replace") if log.exists() else ""
        for match in TRACEBACK.finditer(text):
            if not match[1].startswith(TOLERATED):
                yield f"{log.name} has a traceback: {match[1]}"


def orphans(world: World) -> list[str]:
    """Processes of the run that belong to no job that runs, or whose slot is gone."""
    jobs = set(world.cluster.run("squeue", "-h", "-r", "-o", "%A").split())
    by_hand = {process.pid for process in world.by_hand}
    found = []
    for pid in world.cluster.processes():
        command = words(pid)
        if not any(word.startswith("hpcpod.") for word in command) or pid in by_hand:
            continue
        job = variable(pid, "SLURM_JOB_ID")
        if job is not None and (job not in jobs or parent(pid) == 1):
            found.append(f"process {pid} of job {job} is an orphan: {' '.join(command)[:120]}")
    return found


def of_processes(world: World) -> list[str]:
    """No process is left of what was killed, and never more slots than are wanted."""
    # Not looked at again after a look that found none: a pod that is just ending has no parent.
    late = ORPHAN_SECONDS + (0.0 if world.views is None else BEHIND_SECONDS)
    if world.wait("those to end that must", late, lambda: not _too_many(world)):
        return []
    return _too_many(world)


def _too_many(world: World) -> list[str]:
    slots = [job for job in world.jobs() if "_" in job]
    if len(slots) <= world.scene.slots:
        return orphans(world)
    return [*orphans(world), f"{len(slots)} slots, {world.scene.slots} are wanted: {slots}"]


def of_the_end(world: World, board: Board) -> list[str]:
    """The run ended as it should, its best policy is there, and nothing else of it."""
    violations = []
    if board.stop_reason != world.scene.ends:
        violations.append(f"the run ended for {board.stop_reason}, not {world.scene.ends}:"
                          f" {board.failure}")  # fmt: skip
    if world.scene.ends == "target" and not any(s.passed for s in board.confirmed):
        violations.append("the target is reached, and no score on fresh seeds says so")
    violations += _lost_best(world, board)
    violations += [
        f"snapshot {row.number} has no score: {row.failure or 'the run has ended without'}"
        for row in in_order(board)
        if not row.returns and row.checkpoint.core not in world.observer.past.blobs
    ]
    if not world.wait("its jobs to end", ORPHAN_SECONDS, lambda: not world.jobs()):
        world.repair()  # a controller that died calls running what has ended since
    if not world.wait("its jobs to end", ORPHAN_SECONDS, lambda: not world.jobs()):
        violations.append(f"jobs are left of a run that has ended: {world.jobs()}")
    run = str(world.path)
    world.wait("its processes to end", 10.0, lambda: not _left(world, run))
    return violations + [f"left of a run that has ended: {line}" for line in _left(world, run)]


def _left(world: World, run: str) -> list[str]:
    return [" ".join(words(pid)) for pid in world.cluster.processes() if run in words(pid)]


def _lost_best(world: World, board: Board) -> list[str]:
    """``best.h5`` is the best of those whose files no fault has damaged."""
    try:
        about = json.loads((world.path / "best.json").read_text())
        data = (world.path / "best.h5").read_bytes()
    except OSError as error:
        return [f"there is no best policy: {error}"]
    if hashlib.sha256(data).hexdigest() != about["checkpoint"]:
        return ["best.h5 is not the checkpoint that best.json names"]
    best = leader(board)
    finals = [s for s in board.confirmed if s.purpose == "final" and s.episodes]
    ranked: list[Checkpoint] = [best.checkpoint] if best is not None else []
    ranked += [s.checkpoint for s in sorted(finals, key=lambda s: -s.mean)]
    ranked += [entry.checkpoint for entry in board.entries]
    sound = [c.core for c in ranked if c.core not in world.observer.past.blobs]
    tolerated = [c.core for c in ranked[: len(ranked) - len(sound)]]
    if sound and about["checkpoint"] not in {sound[0], *tolerated}:
        return [f"best.h5 is {about['checkpoint'][:12]}, the best that is whole {sound[0][:12]}"]
    return []
