"""Looking at a run: its status, its leaderboard, its lineages. Nothing here loads torch."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hpcpod.config.space import Range, Scalar
from hpcpod.errors import HpcpodError, LaunchError, RunNotFound, StorageError, UserError
from hpcpod.launchers.admission import lives
from hpcpod.orchestrator.tick import RESUMED, Orchestrator, launcher_of
from hpcpod.records import Board, Confirmed, Entry, PodState
from hpcpod.storage.disk import check_writable
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import REFUSED, RunFolder
from hpcpod.tournament.leaderboard import leader, lineage
from hpcpod.tournament.merge import after_merge, export_best, merge, read_board
from hpcpod.tournament.rules import Rules

log = logging.getLogger(__name__)

RunState = Literal["running", "finals", "draining", "paused", "waiting", "interrupted", "finished"]

STARTING_SECONDS = 30.0
"""A new run that nobody drives yet is only starting."""

ENDED: tuple[RunState, ...] = ("finished", "paused", "interrupted")
"""States in which nothing more happens by itself."""

SCHEDULER_SECONDS = 60.0
"""Between two questions to the scheduler, from those who wait."""

QUEUE_SECONDS = 5.0
"""How long a look at a run waits for the scheduler's answer."""


@dataclass(frozen=True)
class Best:
    """The winner, or the leader while there is no winner."""

    pod: str
    algorithm: str
    round: int
    mean: float
    low: float
    high: float
    episodes: int
    fresh: bool
    """The score is on seeds never used for selection."""
    checkpoint: Path
    """A file that ``load_policy`` reads."""
    hyperparameters: Mapping[str, Scalar]


@dataclass(frozen=True)
class Status:
    """A run at one moment."""

    run: str
    path: str
    state: RunState
    """``waiting``: nobody works on it now; its slots are queued or starting. ``paused``: it was
    drained. ``interrupted``: the process that ran it on this machine is gone, or it has no job
    in the queue. ``hpcpod resume`` goes on with the last two."""
    stop_reason: str | None
    failure: str
    """Empty, or why the run was given up or has paused, in one sentence."""
    target: float | None
    best: Best | None
    slots: Mapping[str, Mapping[str, Any]]
    """The slots at work, each with what it showed last."""
    queue: Mapping[str, int]
    """Slots that wait, by the scheduler's reason; empty unless it was asked."""
    pods: int
    """Pods alive."""
    born: int
    """Pods ever born."""
    copies: int
    """Of these, copies of another."""
    rounds: int
    """Rounds finished, over all pods."""
    env_steps: int
    """Environment steps trained, over all pods."""
    attempts: int
    """Attempts made at the target."""
    minutes: float
    """Wall time since the first slot began to work, to the end or to now."""
    quarantined: int
    """Damaged files that were set aside."""


class Run:
    """One run, by its folder. Every call looks anew, from any machine that sees the folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        """The storage behind it."""
        self._resolved = folder.resolved

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def word(self) -> str:
        """The run as a word of a command line."""
        return shlex.quote(str(self.path))

    @property
    def name(self) -> str:
        """The run's name."""
        return self._resolved.config.name

    @property
    def local(self) -> bool:
        """Its slots are processes of one machine."""
        return self._resolved.config.cluster.launcher == "local"

    @property
    def searched(self) -> dict[str, tuple[str, ...]]:
        """By algorithm, the hyperparameters that have a range."""
        return {
            name: tuple(key for key, value in space.values.items() if isinstance(value, Range))
            for name, space in self._resolved.algorithms.items()
        }

    def board(self) -> Board:
        """The latest generation of the board, whole."""
        return read_board(self.folder)

    def status(self, board: Board | None = None, *, ask_scheduler: bool = False) -> Status:
        """Where the run stands.

        Args:
            board: a board that was read before, to look at; by default the latest.
            ask_scheduler: if the run waits on a cluster, ask whether, and why.
        """
        # Before the board is read: a run that ends meanwhile has ended there.
        driven = not self.local or self.folder.driven() is not False
        board = board or self.board()
        slots = {name: s for name, s in self.folder.slots().items() if _at_work(s)}
        state = self._state(board, bool(slots), driven)
        queue: dict[str, int] = {}
        if state == "waiting" and ask_scheduler and not self.local and self.folder.owner.mine:
            state, queue = self._ask_scheduler(board)
        end = board.stopped if board.stopped is not None else time.time()
        began = board.began if board.began is not None else end
        return Status(
            run=self.name,
            path=str(self.path),
            state=state,
            stop_reason=board.stop_reason,
            failure=board.failure or (self._pause_reason() if state == "paused" else ""),
            target=self._resolved.config.stop.target,
            best=self.best(board),
            slots=slots,
            queue=queue,
            pods=len(board.living),
            born=len(board.pods),
            copies=sum(pod.cause == "copy" for pod in board.pods.values()),
            rounds=board.rounds,
            env_steps=board.env_steps,
            attempts=board.attempts,
            minutes=(end - began) / 60,
            quarantined=len(self.folder.quarantined()),
        )

    def _state(self, board: Board, at_work: bool, driven: bool) -> RunState:
        if board.phase == "finished":
            return "finished"
        if self.folder.requested("drain") is not None:
            return "draining" if at_work else "paused"
        if at_work:
            return "finals" if board.phase == "finals" else "running"
        return "waiting" if driven or _starting(board) else "interrupted"

    def _ask_scheduler(self, board: Board) -> tuple[RunState, dict[str, int]]:
        """Whether a run without a slot at work waits, and for what, by the number of its slots."""
        try:
            jobs = launcher_of(self.folder).observe(QUEUE_SECONDS).jobs
        except LaunchError as error:
            log.warning("why %s waits is not known: %s", self.name, error)
            return "waiting", {}
        slots = [job for job in jobs if job.kind == "slots" and job.state == "pending"]
        reasons = Counter(job.reason or "no reason yet" for job in slots)
        return ("waiting" if jobs or _starting(board) else "interrupted"), dict(reasons)

    def leaderboard(self, board: Board | None = None) -> tuple[Entry, ...]:
        """The rows, best first."""
        return (board or self.board()).entries

    def best(self, board: Board | None = None) -> Best | None:
        """The winner, or the leader so far; None before the first report."""
        board = board or self.board()
        score = leader(board)
        if score is None:
            return None
        exported = self.path / "best.h5"
        blob = blob_path(self.path / "blobs", score.checkpoint.core)
        return Best(
            pod=score.pod,
            algorithm=board.pods[score.pod].algorithm,
            round=score.round,
            mean=score.mean,
            low=score.low,
            high=score.high,
            episodes=score.episodes,
            fresh=isinstance(score, Confirmed),
            checkpoint=exported if board.phase == "finished" and exported.exists() else blob,
            hyperparameters=dict(board.pods[score.pod].hyperparameters),
        )

    def lineage(self, pod: str | None = None, board: Board | None = None) -> list[PodState]:
        """The ancestors of a pod, founder first; by default of the best one."""
        board = board or self.board()
        if pod is None:
            best = self.best(board)
            if best is None:
                return []
            pod = best.pod
        return lineage(board, pod)

    def wait(self, timeout: float | None = None, poll: float = 0.5) -> Status:
        """Wait until the run has finished or is paused; return its status.

        Args:
            timeout: seconds; None waits as long as it takes.
            poll: seconds between two looks at the board.

        Raises:
            TimeoutError: it is still going on.
            HpcpodError: nobody goes on with it: the process that ran it here is gone.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for state in self.states(poll):
            if state == "finished":
                with contextlib.suppress(StorageError):  # a looker may have no right to write
                    after_merge(self.folder, self.board())
            if state in ("finished", "paused"):
                break
            if state == "interrupted":
                raise HpcpodError(f"nobody runs {self.name}; `hpcpod resume {self.word}` goes on")
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"{self.name} is still {state} after {timeout:g} s")
        return self.status()

    def states(self, seconds: float) -> Iterator[RunState]:
        """Its state now, and again after each pause of ``seconds``, without an end."""
        asked = -math.inf
        while True:
            due = time.monotonic() - asked > SCHEDULER_SECONDS
            asked = time.monotonic() if due else asked
            yield self.status(ask_scheduler=due).state
            time.sleep(seconds)

    def stop(self, *, drain: bool = False) -> Status:
        """End the run and keep the best policy of it.

        Args:
            drain: let every slot finish the round it is in, then pause: ``hpcpod resume``
                goes on. Otherwise slots end now and the run is finished.
        """
        self.folder.owner.require_mine()
        if drain:
            self.drain()
            return self.status()
        merge(self.folder, Rules.of_run(self.folder), stop="user")
        if not self.local:
            launcher = launcher_of(self.folder)
            launcher.cancel([job.job for job in launcher.observe().jobs])
        return self.status()

    def drain(self) -> bool:
        """Ask every slot to end after its round; False if that was asked before."""
        if self.folder.requested("drain") is not None:
            return False
        self.folder.request("drain")
        return True

    def _pause_reason(self) -> str:
        """Why the coordinator has paused the run; empty if a person did."""
        reason: str = (self.folder.requested("drain") or {}).get("reason", "")
        return reason

    def undrain(self) -> bool:
        """Take the wish to drain back, if there was one; what was submitted before did not fail,
        it was ended."""
        paused = self.folder.requested("drain") is not None
        self.folder.withdraw(RESUMED)
        self.folder.request(RESUMED, {"intents": self.folder.intent_count()})
        for request in (REFUSED, "drain"):
            self.folder.withdraw(request)
        return paused

    def tick(self) -> Status:
        """Observe, plan, act once, as the coordinator does.

        Slots of a local run belong to the process that launched it: there, only the reports
        are merged. The same is done of another user's run, with a warning that says so.

        Raises:
            UserError: the run is another user's, and merging it would run code of theirs.
        """
        owner = self.folder.owner
        if not owner.mine:
            log.warning(
                "%s belongs to %s: its reports are merged, and nothing else is done",
                self.name, owner.name,
            )  # fmt: skip
        here = self.local or not owner.mine
        Orchestrator(self.folder, None if here else launcher_of(self.folder)).tick()
        return self.status()

    def export(self, to: Path | None = None) -> Path:
        """Write the best policy so far to a file; by default ``best.h5`` in the run folder.

        Raises:
            UserError: the file can't be written.
        """
        board = self.board()
        if to is None:
            self.folder.owner.require_mine("writes its best.h5: say where the policy is to go")
            done = export_best(self.folder, board)
        else:
            check_writable(to)
            done = export_best(self.folder, board, to.absolute())
        if done is None:
            raise UserError(f"{self.name} has no policy yet: no round was reported")
        return to or self.path / "best.h5"

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def _starting(board: Board) -> bool:
    return time.time() - board.started < STARTING_SECONDS


def _at_work(status: Mapping[str, Any]) -> bool:
    """Whether a slot's last word is from a slot that still lives, as far as can be seen here."""
    silence = time.time() - status["mtime"]
    return lives(status.get("host", ""), status.get("pid", 0), silence)


def runs_home() -> Path:
    """Where runs are: ``$HPCPOD_RUNS``, else ``runs`` in the working directory."""
    return Path(os.environ.get("HPCPOD_RUNS", "runs"))


def open_run(path: str | Path) -> Run:
    """A run, by the path of its folder or by its name under ``runs/``.

    Raises:
        RunNotFound: there is none.
    """
    direct, named = Path(path), runs_home() / path
    for folder in (direct, named):
        if (folder / "config.json").exists():
            return Run(RunFolder.open(folder))
    raise RunNotFound(f"there is no run at {direct}, and none named so in {runs_home()}/")
