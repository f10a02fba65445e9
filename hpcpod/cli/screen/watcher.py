"""The reader behind the screen: each file of a run only as often as it pays."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hpcpod.cli.screen.pace import Pace
from hpcpod.errors import StorageError
from hpcpod.orchestrator.snapshot import RunState, Snapshot
from hpcpod.records.records import Board
from hpcpod.run.events import events
from hpcpod.run.leaderboard import Row, rows
from hpcpod.run.pod_log import PodLogs
from hpcpod.run.run import ENDED, Run
from hpcpod.run.score_curves import Curves
from hpcpod.run.snapshot import see, slots_at_work
from hpcpod.run.status import Best, Doubts, Status, best_of, status_of
from hpcpod.storage.requests import Drain
from hpcpod.storage.restarts import RestartRecord
from hpcpod.storage.slots import SlotStatus
from hpcpod.tournament.merge import BoardReader, require_there

LOOK = 1.0, 0.0025
BOARD = 1.0, 0.0015
STATUS = 20.0, 0.001
RECORDS = 600.0, 0.0005
LOG = 2.0, 0.001
"""Shortest interval in seconds, and the share of a core, of: a look at the slots; the board, if it
is new; the status, with the forecast; the records of slots that are gone, for the hours used; a log
that is open. With the drawing they stay below 1 %."""

MOST_EVENTS = 1000
"""Events that are kept."""

LOG_LINES = 500
"""Lines of a pod's log that are kept."""


@dataclass(frozen=True)
class Event:
    """Something that happened, in words."""

    at: float | None
    """Unix time in seconds at which it was seen here; None: before the first look."""
    text: str


@dataclass(frozen=True)
class Scene:
    """All that is known of a run at one moment, as the panes need it."""

    now: float
    """Unix time in seconds."""
    word: str
    """The run as a word of a command line."""
    board: Board
    status: Status
    """As of ``status_at``."""
    status_at: float
    """Unix time in seconds."""
    state: RunState
    seen: Snapshot
    """The run as of now, but for what only ``status`` needs."""
    best: Best | None
    rows: tuple[Row, ...]
    """The leaderboard."""
    names: tuple[str, ...]
    """Pods as they can be chosen: those of the leaderboard, the other living ones by their last
    mean, then those that failed."""
    curves: Curves
    events: tuple[Event, ...]
    searched: Mapping[str, tuple[str, ...]]
    trouble: str = ""
    """The reason why the last look saw nothing, in a sentence; else empty."""

    @property
    def slots(self) -> Mapping[str, SlotStatus]:
        """The slots at work, each with what it showed last."""
        return self.seen.slots

    @property
    def restarts(self) -> Mapping[str, RestartRecord]:
        """The record of every slot that there ever was."""
        return self.seen.restarts

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps per second of all slots, by what they showed last; None if none did."""
        found = [shown.steps_per_second for shown in self.slots.values()]
        known = [each for each in found if each is not None]
        return sum(known) if known else None

    @property
    def minutes(self) -> float:
        """Wall time since the first slot began to work."""
        if self.board.stopped is not None:  # perhaps after the status, which then says less
            return max(0.0, self.board.elapsed(self.board.stopped)) / 60
        goes_on = self.board.began is not None
        return self.status.minutes + (self.now - self.status_at) / 60 * goes_on


class Watcher:
    """A run that is looked at for hours.

    A look lists one folder, ``slots/``, and opens the files in it that are new, and the board if it
    has a new generation. The scheduler is asked nothing.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._look, self._board, self._status, self._records, self._log = (
            Pace(*each) for each in (LOOK, BOARD, STATUS, RECORDS, LOG)
        )
        self._shown: dict[str, SlotStatus] = {}
        self._boards = BoardReader(run.folder)
        self._doubts = Doubts()
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._logs: PodLogs | None = None
        self._lines: deque[str] = deque(maxlen=LOG_LINES)
        self.scene = self._first()
        """The run at the last look."""

    def _first(self) -> Scene:
        board = self._boards.read()
        with self._status, self._records:
            seen = see(self._run.folder, board)
            status = self._doubts.settled(status_of(self._run.folder, seen), known=self._run.local)
        board, curves, now = seen.board, Curves(), time.time()
        curves.add(board)
        self._note(None, board)
        return Scene(
            now=now, word=self._run.word, board=board, status=status, status_at=now,
            state=status.state, seen=seen, best=status.best, rows=rows(board),
            names=_names(board), curves=curves, events=tuple(self._events),
            searched=self._run.searched,
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        """True if nothing more happens by itself."""
        return self.scene.state in ENDED

    def look(self) -> None:
        """Look again at what it is time to.

        A filesystem that refuses for a while is shown, and asked again.

        Raises:
            RunNotFound: the run's folder is gone.
            UserError: it holds what no run does.
        """
        scene = replace(self.scene, now=time.time())
        try:
            if self._look.due:
                with self._look:
                    require_there(self._run.folder)
                    scene = self._slots(scene)
            if self._board.due and self._run.folder.board.newer():
                with self._board:
                    scene = self._newer(scene)
            # The last word is not waited for: a run that seems to have ended is looked at in full.
            if self._status.due or (scene.state in ENDED and scene.status.state not in ENDED):
                with self._status:
                    scene = self._whole(scene)
            scene = replace(scene, trouble="")
        except StorageError as error:
            scene = replace(scene, trouble=str(error))
        self.scene = scene

    def _slots(self, scene: Scene) -> Scene:
        folder, was = self._run.folder, scene.seen
        self._shown = folder.slots.all(self._shown)
        seen = replace(
            was,
            slots=slots_at_work(self._shown),
            drain=folder.requests.read(Drain),
            driven=not self._run.local or folder.locks.driven() is not False,
            now=scene.now,
            clock=was.clock - was.now + scene.now,
        )
        return replace(scene, seen=seen, state=seen.state)

    def _newer(self, scene: Scene) -> Scene:
        board = self._boards.read()
        scene.curves.add(board)
        self._note(scene.board, board)
        seen = replace(scene.seen, board=board)
        return replace(
            scene, board=board, seen=seen, state=seen.state, rows=rows(board), names=_names(board),
            best=best_of(self._run.folder, board), events=tuple(self._events),
        )  # fmt: skip

    def _whole(self, scene: Scene) -> Scene:
        known = replace(scene.seen, restarts=self._restarts(scene))
        seen = see(self._run.folder, scene.board, known=known)
        if seen.board is not scene.board:  # it has finished meanwhile
            scene = self._newer(scene)
        status = self._doubts.settled(status_of(self._run.folder, seen), known=self._run.local)
        return replace(scene, seen=seen, status=status, status_at=scene.now, state=status.state)

    def _restarts(self, scene: Scene) -> Mapping[str, RestartRecord]:
        """The records of slots: those at work write theirs once a minute, the others never."""
        restarts = self._run.folder.restarts
        if self._records.due:
            with self._records:
                return restarts.all()
        found = {slot: restarts.read(slot) for slot in scene.slots}
        return {
            **scene.restarts,
            **{slot: each for slot, each in found.items() if each is not None},
        }

    def _note(self, old: Board | None, new: Board) -> None:
        at = None if old is None else time.time()
        self._events.extend(Event(at, text) for text in events(old, new, self._run.word))

    # The log of one pod at a time.

    def open_log(self, pod: str) -> None:
        """Read a pod's log from now on.

        Raises:
            UserError: the run has no such pod.
        """
        self._logs, self._lines = PodLogs(self._run.folder, pod), deque(maxlen=LOG_LINES)
        self._read_log(self._logs)

    def close_log(self) -> None:
        """Read it no more."""
        self._logs = None

    def log(self) -> tuple[str, ...]:
        """The last lines of the log that is open; else none."""
        if self._logs is not None and self._log.due:
            self._logs.claimed(self.scene.board)
            self._read_log(self._logs)
        return tuple(self._lines)

    def _read_log(self, logs: PodLogs) -> None:
        with self._log:
            self._lines.extend(line for _, line in logs.last(LOG_LINES))
            if not self._lines:
                self._lines.append(f"no log says anything of it: {logs.absence()}")


def _names(board: Board) -> tuple[str, ...]:
    ranked = [entry.pod for entry in board.entries]
    return tuple(dict.fromkeys([*ranked, *_others(board)]))


def _others(board: Board) -> Iterator[str]:
    """The living pods, the highest last mean first, then those that failed."""

    def last(name: str) -> float:
        history = board.pods[name].history
        return sum(history[-1].returns) / len(history[-1].returns) if history else float("-inf")

    yield from sorted((pod.id for pod in board.living), key=last, reverse=True)
    yield from (name for name, pod in sorted(board.pods.items()) if pod.fate == "failed")
