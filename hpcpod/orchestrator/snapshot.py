"""Parts of what is known of a run at one moment: submissions, failures, wanted slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from hpcpod.config.schedule import scheduled
from hpcpod.errors import LaunchError
from hpcpod.launchers.base import ClusterView, Launcher
from hpcpod.launchers.factory import launcher_of, require_launcher
from hpcpod.launchers.local import LocalLauncher, places_of
from hpcpod.orchestrator.backoff import DELAYS, Brakes, failed_starts
from hpcpod.orchestrator.sizing import Bounds
from hpcpod.records.records import Board, Intent
from hpcpod.storage.progress import fruitful
from hpcpod.storage.requests import Refusals, Resumed, Scale
from hpcpod.storage.run_folder import RunFolder


def submissions(folder: RunFolder) -> tuple[int, tuple[Intent, ...], dict[int, str]]:
    """The next free number, the intents, and the job that counts for an intent by its number."""
    # First: the number of an intent that comes meanwhile must not be passed over.
    numbered, intents = folder.intents.count(), tuple(folder.intents.all())
    found = {i.number: folder.intents.submission(i.number) for i in intents}
    return numbered, intents, {number: job for number, job in found.items() if job is not None}


def bounds_of(folder: RunFolder, launcher: Launcher, room: int | None = None) -> Bounds:
    """The number of slots by the configuration, the launcher and the user.

    Args:
        folder: the run's.
        launcher: of the run.
        room: see ``ClusterView.room``.
    """
    # A machine has no more than it has, and what is to leave has its part until it is gone.
    here = launcher.most if isinstance(launcher, LocalLauncher) else None
    return _bounds(folder, launcher.places, here, room)


def bounds_seen(folder: RunFolder) -> Bounds:
    """The same for those who only look: GPUs of this machine are not counted for that.

    Raises:
        UserError: the run is another user's, its launcher can't be had here, or no process has
            begun to run its slots yet.
    """
    config = folder.resolved.config
    if config.cluster.launcher != "local":
        return bounds_of(folder, launcher_of(folder))
    require_launcher(folder)
    each, gpus = config.resources.gpus_per_pod, 0
    if each:  # its process has submitted for as many slots as its GPUs allow
        wanted = [intent.target for intent in folder.intents.all() if intent.kind == "slots"]
        if not wanted:
            raise LaunchError("no process has counted the GPUs of its machine yet")
        gpus = max(wanted) * each
    return _bounds(folder, *places_of(config, gpus), None)


def _bounds(folder: RunFolder, places: int, here: int | None, room: int | None) -> Bounds:
    config = folder.resolved.config
    pods, local = config.population.pods, config.cluster.launcher == "local"
    lanes = 1 if local else config.resources.pods_per_gpu
    return Bounds(
        places=places,
        most=(here or places) if local else -(-pods.max // lanes),
        pods=(pods.min, pods.max),
        lanes=lanes,
        scale=scale_of(folder),
        scheduled=scheduled(config.cluster.schedule, datetime.now().astimezone()),
        waiting=config.cluster.waiting if here is None else 0,
        room=room,
    )


def brakes_of(
    folder: RunFolder,
    board: Board,
    cluster: ClusterView,
    intents: Sequence[Intent],
    submitted: Mapping[int, str],
) -> Brakes:
    """Failures of late, of intents that were read before the scheduler was asked."""
    here = folder.resolved.config.cluster.launcher == "local"
    resumed = (folder.requests.read(Resumed) or Resumed()).intents
    made = [
        intent
        for intent in intents
        if intent.kind == "slots" and intent.number in submitted and intent.number >= resumed
    ]
    tokens = {job.token for job in cluster.jobs}
    present = frozenset(intent.number for intent in made if intent.token in tokens)
    failed = failed_starts(made, board.reports, frozenset(), present)
    if failed:  # else nobody needs to look into thousands of files
        useful = frozenset(_fruitful(folder, made, submitted))
        failed = failed_starts(made, board.reports, useful, present)
    return Brakes(
        refusals=refusals_of(folder),
        failed_starts=failed,
        last_start=made[-1].time if made else 0.0,
        delays=() if here else DELAYS,
    )


def _fruitful(folder: RunFolder, made: Sequence[Intent], submitted: Mapping[int, str]) -> set[int]:
    """Submissions of which a slot has brought the run further, whatever became of it."""
    names = {
        slot.rpartition("_")[0] or slot.rpartition("-")[0] or slot
        for slot, life in folder.restarts.all().items()
        if life.in_vain < life.restarts or fruitful(folder, life)
    }
    return {i.number for i in made if names & {submitted[i.number], f"local-{i.number}"}}


def scale_of(folder: RunFolder) -> int | None:
    """The number of slots that the user has asked for; None if none."""
    return (folder.requests.read(Scale) or Scale()).slots


def refusals_of(folder: RunFolder) -> Refusals:
    """What the scheduler has refused since it last took something."""
    return folder.requests.read(Refusals) or Refusals()
