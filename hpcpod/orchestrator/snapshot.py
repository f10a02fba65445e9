"""A run at one moment, as data: read once, for a plan, a status or an explanation."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Literal

from hpcpod.config.schedule import scheduled
from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError
from hpcpod.launchers.base import Cancelled, ClusterView, JobView, Launcher
from hpcpod.launchers.identity import BY_HAND
from hpcpod.launchers.local import LocalLauncher, places_of
from hpcpod.launchers.slurm.feasibility import Impossible
from hpcpod.launchers.slurm.sacct import EndedJob
from hpcpod.orchestrator.backoff import DELAYS, Backoff, failed_starts
from hpcpod.records.records import Birth, Board, Intent, Order, Owner
from hpcpod.storage.requests import Drain, Refusals, Resumed, Scale, SlotRefused
from hpcpod.storage.restarts import RestartRecord
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import LANE, SlotStatus, element
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.priorities import resting_pods, sidelined

RunState = Literal["running", "finals", "draining", "paused", "waiting", "interrupted", "finished"]

STARTING_SECONDS = 30.0
"""Age of a run up to which it is only starting while no process is seen to run it."""


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment.

    ``observe`` reads one for a plan, ``hpcpod.run.snapshot.see`` one for people who look. Each
    leaves as by default what its readers do not need, and the files of it unread.
    """

    path: Path
    """The run folder."""
    config: RunConfig
    board: Board
    now: float = 0.0
    """Unix time in seconds."""
    clock: float = 0.0
    """The same by the clock of the board's times."""
    view: ClusterView | None = None
    """The run's jobs by the scheduler; None if it was not asked, or can't be."""
    unknown: str = ""
    """The reason why the scheduler could not be asked, in one sentence."""
    places: int | None = None
    """Slots wanted at once, if neither a user nor a schedule asks for another number; None if
    unknown here."""
    fits: int | None = None
    """Slots that the machine of a local run has room for; None on a cluster, or if unknown."""
    scale: int | None = None
    """Slots that the user has asked for by ``hpcpod scale``; None if none."""
    scheduled: int | None = None
    """Slots that ``cluster.schedule`` asks for now; None if it has no say."""
    drain: Drain | None = None
    """The request to pause, if there is one."""
    refused: str = ""
    """The reason why a slot could do nothing for the run, if one said so since the last report."""
    leaving: frozenset[str] = frozenset()
    """Slots that have been asked to retire."""
    slots: Mapping[str, SlotStatus] = field(default_factory=dict)
    """The slots at work, each with what it showed last."""
    restarts: Mapping[str, RestartRecord] = field(default_factory=dict)
    """Records of every slot that there ever was."""
    claims: Mapping[str, Owner] = field(default_factory=dict)
    """Owners of open orders, read *before* the scheduler was asked."""
    silence: Mapping[str, float] = field(default_factory=dict)
    """Seconds for which an owner that no scheduler knows has shown nothing, by its slot."""
    intents: tuple[Intent, ...] = ()
    """Submissions, read *before* the scheduler was asked."""
    numbered: int = 0
    """Numbers below this one are taken, also where an intent can't be read any more."""
    submitted: Mapping[int, str] = field(default_factory=dict)
    """The job that counts for an intent, by the intent's number."""
    backoff: Backoff = field(default_factory=Backoff)
    """Failures of late."""
    driven: bool = True
    """Of a run on one machine: a process runs its slots; true where that is unknown."""
    doubt: str = ""
    """The doubt about ``state``, in one sentence: a process that is not seen here may run it."""
    cancelled: tuple[tuple[Cancelled, bool], ...] = ()
    """Slots that a person has cancelled lately, though they were wanted; of each, whether slots
    were asked for since."""
    impossible: tuple[Impossible, ...] = ()
    """Demands of waiting jobs that no node could meet."""
    ended: Mapping[str, EndedJob] = field(default_factory=dict)
    """The last end of slots that are gone, by their names, where the site keeps account."""

    @property
    def word(self) -> str:
        """The run as a word of a command line."""
        return shlex.quote(str(self.path))

    @property
    def local(self) -> bool:
        """Its slots are processes of one machine."""
        return self.config.cluster.launcher == "local"

    @property
    def coordinated(self) -> bool:
        """The coordinator is a job, and should always have a successor in the queue."""
        return not self.local and self.config.cluster.coordinator

    @property
    def draining(self) -> bool:
        """A pause was asked for."""
        return self.drain is not None

    @property
    def lanes(self) -> int:
        """Pods that share an element of an array, and its GPU."""
        return 1 if self.local else self.config.resources.pods_per_gpu

    @property
    def most(self) -> int:
        """Slots beyond which no schedule and no user may ask: as many as ``pods.max`` has work for,
        and no more than a machine has room for."""
        work = -(-self.config.population.pods.max // self.lanes)
        return work if self.fits is None else self.fits

    @property
    def target(self) -> int:
        """Slots wanted at once: the user's word, else the schedule's, else ``places``."""
        asked = self.scale if self.scale is not None else self.scheduled
        return min((self.places or 0) if asked is None else max(asked, 1), self.most)

    @property
    def wanted(self) -> int | None:
        """Slots wanted at once; None if unknown."""
        return None if self.places is None else self.target

    @property
    def wanted_by(self) -> str:
        """The source of that number, in a clause; or the reason why it is unknown."""
        if self.places is None:
            return self.unknown
        if self.scale is not None:
            return "a person asked for as many (`hpcpod scale`)"
        if self.scheduled is not None:
            return "cluster.schedule says so for this hour"
        if self.target == self.config.cluster.slots:
            return "cluster.slots says so"
        if self.local and self.target < self.config.population.pods.max:
            return "as many fit on this machine"
        return "as many as population.pods.max has work for"

    @property
    def unasked(self) -> int:
        """Slots that may wait whatever ``cluster.waiting`` says: ``pods.min`` in training."""
        fewest = -(-self.config.population.pods.min // self.lanes)
        return min(fewest, self.places or 0, self.target)

    @property
    def population(self) -> int:
        """Pods in training at once: as many for each slot as the configuration has."""
        pods, places = self.config.population.pods, self.places or 0
        if self.target >= places:
            return pods.max
        return min(max(math.ceil(pods.max * self.target / places), pods.min), pods.max)

    @cached_property
    def open_orders(self) -> list[Order]:
        """Orders that a slot may take, the most urgent first: not those of pods that rest."""
        resting = resting_pods(self.board)
        return [o for o in orders(self.board) if not (isinstance(o, Birth) and o.pod in resting)]

    @property
    def held(self) -> set[str | None]:
        """The orders that slots have in hand, by name."""
        return {part.order for slot in self.slots.values() for part in slot.orders}

    @property
    def useful(self) -> int:
        """Slots that the open orders need, those of pods at a barrier included, and the finalists
        that may play further batches: else a queue would follow each barrier, and each stage."""
        aside = sidelined(self.board)
        births = [pod for pod in self.board.living if pod.birth is not None]
        pods = sum(pod.id not in aside for pod in births)
        finals, scores = self.board.finals, len(self.board.rescores)
        if finals.stage == "select" and self.board.phase == "finals":
            scores = max(scores, len(finals.finalists))
        return -(-(pods + scores) // self.lanes)

    @property
    def cluster(self) -> ClusterView:
        """``view``, or one without a job."""
        return ClusterView() if self.view is None else self.view

    @property
    def largest(self) -> int | None:
        """Elements that one array may have; None: any number."""
        return self.cluster.max_array_size

    @cached_property
    def state(self) -> RunState:
        """The state of the run, in a word."""
        if self.board.phase == "finished":
            return "finished"
        if self.drain is not None:
            return "draining" if self.slots else "paused"
        if self.slots:
            return "finals" if self.board.phase == "finals" else "running"
        return "interrupted" if self.alone and not self.doubt else "waiting"

    @property
    def alone(self) -> bool:
        """No process is seen to run it, nor is it only starting."""
        unseen = not self.view.jobs if self.view is not None else not self.driven
        starting = self.clock - self.board.started < STARTING_SECONDS
        return unseen and not self.slots and not starting

    @property
    def waiting(self) -> list[JobView]:
        """Jobs of slots that the scheduler has not started."""
        return self._jobs("pending")

    @property
    def running(self) -> int:
        """Jobs of slots that run, by the scheduler, else by what slots show."""
        if self.view is None:
            return len({element(slot) for slot in self.slots})
        return len(self._jobs("running"))

    @property
    def coordinators(self) -> list[JobView]:
        """Jobs of the coordinator in the queue."""
        return [job for job in self.cluster.jobs if job.kind == "coordinator"]

    @property
    def pause_reason(self) -> str:
        """The reason why the coordinator has paused the run; empty if a person did."""
        return (self.drain.reason if self.drain else None) or ""

    def _jobs(self, state: str) -> list[JobView]:
        return [job for job in self.cluster.jobs if (job.kind, job.state) == ("slots", state)]


def observe(folder: RunFolder, launcher: Launcher) -> Snapshot:
    """Read the run folder, then ask the scheduler once: in this order (see ``alive``).

    Raises:
        LaunchError: the scheduler does not answer.
    """
    board = read_board(folder)
    claims = folder.claims.owners(order.id for order in orders(board))
    # Slots that no scheduler knows: by hand, and those of another driver of a local run.
    here = folder.resolved.config.cluster.launcher == "local"
    # And of several slots in one job it knows only that some go on.
    strangers = [
        o.slot for o in claims.values() if here or o.slot.startswith(BY_HAND) or LANE in o.slot
    ]
    numbered, intents, submitted = submissions(folder)
    view = launcher.observe()
    now = time.time()
    return replace(
        counted(folder, board, launcher),
        now=now,
        clock=now,
        view=view,
        drain=folder.requests.read(Drain),
        refused=folder.requests.read_or_default(SlotRefused).reason,
        leaving=frozenset(folder.slots.retirees()),
        claims=claims,
        silence={slot: folder.slots.silence(slot) for slot in strangers},
        intents=intents,
        numbered=numbered,
        submitted=submitted,
        backoff=backoff_of(folder, board, view, intents, submitted),
    )


def submissions(folder: RunFolder) -> tuple[int, tuple[Intent, ...], dict[int, str]]:
    """The next free number, the intents, and the job that counts for an intent by its number."""
    # First: the number of an intent that comes meanwhile must not be passed over.
    numbered, intents = folder.intents.count(), tuple(folder.intents.all())
    found = {i.number: folder.intents.submission(i.number) for i in intents}
    return numbered, intents, {number: job for number, job in found.items() if job is not None}


def counted(folder: RunFolder, board: Board, launcher: Launcher | None) -> Snapshot:
    """A snapshot of nothing but the board and the number of slots that there should be.

    Args:
        folder: the run's.
        board: its board.
        launcher: of the run; None for a look at a local run, which counts no GPUs.

    Raises:
        LaunchError: without a launcher, no process has begun to run slots on GPUs yet.
    """
    config, fits = folder.resolved.config, None
    if launcher is None:
        places, fits = places_of(config, _gpus_counted(folder))
    else:
        places = launcher.places
        fits = launcher.most if isinstance(launcher, LocalLauncher) else None
    return Snapshot(
        path=folder.path,
        config=config,
        board=board,
        places=places,
        fits=fits,
        scale=folder.requests.read_or_default(Scale).slots,
        scheduled=scheduled(config.cluster.schedule, datetime.now().astimezone()),
    )


def _gpus_counted(folder: RunFolder) -> int:
    """GPUs of the machine that runs the slots: its process asks for as many as have one."""
    each = folder.resolved.config.resources.gpus_per_pod
    if not each:
        return 0
    wanted = [intent.target for intent in folder.intents.all() if intent.kind == "slots"]
    if not wanted:
        raise LaunchError("no process has counted the GPUs of its machine yet")
    return max(wanted) * each


def backoff_of(
    folder: RunFolder,
    board: Board,
    cluster: ClusterView,
    intents: Sequence[Intent],
    submitted: Mapping[int, str],
) -> Backoff:
    """Failures of late, of intents that were read before the scheduler was asked."""
    here = folder.resolved.config.cluster.launcher == "local"
    resumed = folder.requests.read_or_default(Resumed).intents
    made = [
        intent
        for intent in intents
        if intent.kind == "slots" and intent.number in submitted and intent.number >= resumed
    ]
    tokens = {job.token for job in cluster.jobs}
    present = frozenset(intent.number for intent in made if intent.token in tokens)
    failed = failed_starts(made, board.reports, frozenset(), present)
    if failed:  # else thousands of files need not be read
        useful = frozenset(_fruitful(folder, made, submitted))
        failed = failed_starts(made, board.reports, useful, present)
    return Backoff(
        refusals=refusals_of(folder),
        failed_starts=failed,
        last_start=made[-1].time if made else 0.0,
        delays=() if here else DELAYS,
    )


def _fruitful(folder: RunFolder, made: Sequence[Intent], submitted: Mapping[int, str]) -> set[int]:
    """Submissions of which a slot has brought the run further, whatever became of it."""
    names = {
        slot.rpartition("_")[0] or slot.rpartition("-")[0] or slot
        for slot, record in folder.restarts.all().items()
        if record.without_progress < record.restarts or folder.restarts.made_progress(record)
    }
    return {i.number for i in made if names & {submitted[i.number], f"local-{i.number}"}}


def refusals_of(folder: RunFolder) -> Refusals:
    """Submissions that the scheduler has refused since it last took one."""
    return folder.requests.read_or_default(Refusals)
