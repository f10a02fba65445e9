"""Looking at a run: its status, its leaderboard, its lineages. Nothing here loads torch."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hpcpod.config.resolved import Resolved
from hpcpod.config.space import Range, Scalar
from hpcpod.errors import HpcpodError, LaunchError, RunNotFound, StorageError, UserError
from hpcpod.launchers.admission import lives
from hpcpod.orchestrator import RESUMED, Orchestrator, launcher_of
from hpcpod.records import Board, Confirmed, Entry, PodState
from hpcpod.storage.disk import check_writable
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import leader, lineage
from hpcpod.tournament.merge import after_merge, export_best, merge, read_board
from hpcpod.tournament.rules import Rules

log = logging.getLogger(__name__)

RunState = Literal["running", "finals", "draining", "paused", "waiting", "interrupted", "finished"]

STARTING_SECONDS = 30.0
"""A new run that nobody drives yet is only starting."""

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
    drained. ``interrupted``: the process that ran it on this machine is gone. ``hpcpod resume``
    goes on with the last two."""
    stop_reason: str | None
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
    """Rounds reported, over all pods."""
    env_steps: int
    """Environment steps trained, over all pods."""
    attempts: int
    """Attempts made at the target."""
    minutes: float
    """Wall time from the first generation to the end, or to now."""
    quarantined: int
    """Damaged files that were set aside."""


class Run:
    """One run, by its folder. Every call looks anew, from any machine that sees the folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        """The storage behind it."""
        self._resolved = Resolved.from_document(folder.config)

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

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
            ask_scheduler: if the run waits on a cluster, ask why.
        """
        # Before the board is read: a run that ends meanwhile has ended there.
        driven = not self.local or self.folder.driven() is not False
        board = board or self.board()
        slots = {name: s for name, s in self.folder.slots().items() if _at_work(s)}
        state = self._state(board, bool(slots), driven)
        end = board.stopped if board.stopped is not None else time.time()
        return Status(
            run=self.name,
            path=str(self.path),
            state=state,
            stop_reason=board.stop_reason,
            target=self._resolved.config.stop.target,
            best=self.best(board),
            slots=slots,
            queue=self._queue() if ask_scheduler and state == "waiting" else {},
            pods=len(board.living),
            born=len(board.pods),
            copies=sum(pod.cause == "copy" for pod in board.pods.values()),
            rounds=board.reports,
            env_steps=board.env_steps,
            attempts=board.attempts,
            minutes=(end - board.started) / 60,
            quarantined=len(self.folder.quarantined()),
        )

    def _state(self, board: Board, at_work: bool, driven: bool) -> RunState:
        if board.phase == "finished":
            return "finished"
        if self.folder.requested("drain") is not None:
            return "draining" if at_work else "paused"
        if at_work:
            return "finals" if board.phase == "finals" else "running"
        starting = time.time() - board.started < STARTING_SECONDS
        return "waiting" if driven or starting else "interrupted"

    def _queue(self) -> dict[str, int]:
        if self.local:
            return {}
        try:
            jobs = launcher_of(self.folder).observe(QUEUE_SECONDS).jobs
        except LaunchError as error:
            log.warning("why %s waits is not known: %s", self.name, error)
            return {}
        slots = [job for job in jobs if job.kind == "slots" and job.state == "pending"]
        return dict(Counter(job.reason or "no reason yet" for job in slots))

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
        while True:
            status = self.status()
            if status.state == "finished":
                with contextlib.suppress(StorageError):  # a looker may have no right to write
                    after_merge(self.folder, self.board())
            if status.state in ("finished", "paused"):
                return status
            if status.state == "interrupted":
                word = shlex.quote(str(self.path))
                raise HpcpodError(
                    f"nobody runs {self.name} any more; `hpcpod resume {word}` goes on"
                )
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"{self.name} is still {status.state} after {timeout:g} s")
            time.sleep(poll)

    def stop(self, *, drain: bool = False) -> Status:
        """End the run and keep the best policy of it.

        Args:
            drain: let every slot finish the round it is in, then pause: ``hpcpod resume``
                goes on. Otherwise slots end now and the run is finished.
        """
        if drain:
            self.drain()
            return self.status()
        rules = Rules.of(self._resolved.config, self._resolved.algorithms)
        merge(self.folder, rules, stop="user")
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

    def undrain(self) -> None:
        """Take the wish to drain back; what was submitted before did not fail, it was ended."""
        self.folder.withdraw(RESUMED)
        self.folder.request(RESUMED, {"intents": self.folder.intent_count()})
        self.folder.withdraw("drain")

    def tick(self) -> Status:
        """Observe, plan, act once, as the coordinator does.

        Slots of a local run belong to the process that launched it: there, only the reports
        are merged.
        """
        Orchestrator(self.folder, None if self.local else launcher_of(self.folder)).tick()
        return self.status()

    def export(self, to: Path | None = None) -> Path:
        """Write the best policy so far to a file; by default ``best.h5`` in the run folder.

        Raises:
            UserError: the file can't be written.
        """
        if to is not None:
            check_writable(to)
        board = self.board()
        if export_best(self.folder, board) is None:
            raise UserError(f"{self.name} has no policy yet: no round was reported")
        exported = self.path / "best.h5"
        if to is None:
            return exported
        self.folder.disk.replace(to.absolute(), exported.read_bytes())
        return to

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


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
