"""The log of one pod, gathered from the logs of all slots that it was in."""

from __future__ import annotations

import heapq
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcpod.config.placement import ranks_of
from hpcpod.errors import UserError
from hpcpod.records.records import Board
from hpcpod.run.pod_history import Claim, claim_of, claims_of, require_pod
from hpcpod.storage.layout import log_name
from hpcpod.storage.os_errors import explained
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import read_board

_TURN = re.compile(
    r"(?P<rank> rank \d+)? INFO (?P<order>\S+): (?:training|scoring) (?P<what>begins|ends)\b"
)
_LIFE = re.compile(r" INFO slot [^\s+]+(\+0)? of job \S+ on ")
"""Of slots that share a log the first one's word counts: they begin anew together."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)?) (?:rank \d+ )?[A-Z]+ ")
"""The beginning of each line that hpcpod itself logs, by its node's clock."""

_POD = re.compile(r"\bp\d{4,}\b")


class About:
    """A filter for the lines of one log that are about a pod, fed with all lines in their order.

    Between the lines that say that work on it begins and ends, all but those that name other
    pods; beside that, every line that names it. Of what a slot trains and scores at once both
    get the lines that name neither.
    """

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._in_hand: set[str] = set()

    def __call__(self, line: str) -> bool:
        """True if the next line is about the pod."""
        turn = _TURN.search(line)
        if _LIFE.search(line) or (turn is not None and turn["rank"]):
            self._in_hand.clear()  # of a process that is gone, or has one order at a time
        if turn is not None and turn["what"] == "begins":
            self._in_hand.add(turn["order"])
        mine = any(order.startswith(f"{self._pod}-") for order in self._in_hand)
        if turn is not None and turn["what"] == "ends":
            self._in_hand.discard(turn["order"])
        named = set(_POD.findall(line))
        return self._pod in named or (mine and not named)


@dataclass
class PodLog:
    """The part of one log file that is about a pod, read on and on as it grows."""

    path: Path
    pod: str

    def __post_init__(self) -> None:
        self._about = About(self.pod)
        self._place = 0
        self._rest = b""
        self._time = ""

    def more(self) -> Iterator[tuple[str, str]]:
        """Each line about the pod since the last call, after its time; it counts once it is whole.

        A line without a time has that of the one before, and none has an earlier one than that.

        Raises:
            StorageError: the log can't be read.
        """
        with explained("read", self.path):
            try:
                file = self.path.open("rb")
            except FileNotFoundError:
                return
            with file:
                file.seek(self._place)
                for chunk in file:  # in bytes: a writer may be in the middle of a character
                    self._place += len(chunk)
                    self._rest += chunk
                    if self._rest.endswith(b"\n"):
                        line = self._rest.decode(errors="replace").rstrip()
                        self._rest = b""
                        timed = _TIME.match(line)
                        self._time = max(self._time, timed[1] if timed else "")
                        if self._about(line):
                            yield self._time, line


class PodLogs:
    """The lines about a pod by its slots, or by one of its ranks, in the order of time."""

    def __init__(self, folder: RunFolder, pod: str, rank: int | None = None) -> None:
        """Args:
        folder: the run's.
        pod: the pod's name.
        rank: the rank whose words are wanted; None is all of them, and the slot's own.

        Raises:
            UserError: the run has no such pod, its pods no such rank, or no slot has claimed it.
        """
        config = folder.resolved.config
        board = read_board(folder)
        self._folder, self._pod = folder, pod
        ranks = ranks_of(config)
        require_pod(board, pod, config.name)
        if rank is not None and rank >= ranks:
            raise UserError(
                f"pods of {config.name} have {ranks} ranks, there is no rank {rank}:"
                " they are numbered from 0"
                if ranks > 1
                else f"pods of {config.name} have one rank, number 0, not {rank}"
            )
        self._ranks: list[int | None] = [rank]  # each rank of several has a log of its own
        if ranks == 1 or rank is None:
            self._ranks = [None] if ranks == 1 else [None, *range(ranks)]
        self._logs: dict[Path, PodLog] = {}
        self.claims = claims_of(folder, pod)
        """The claims of slots that have worked on it, oldest first."""
        for claim in self.claims:
            self._add(claim)

    def _add(self, claim: Claim) -> None:
        for rank in self._ranks:
            path = self._folder.path / "logs" / log_name(claim.owner.slot, rank)
            self._logs.setdefault(path, PodLog(path, self._pod))

    def last(self, count: int) -> list[tuple[Path, str]]:
        """The last lines about the pod, over all logs, each with the log that has it."""
        return list(deque(self._more(count), count))

    def _more(self, count: int | None = None) -> Iterator[tuple[Path, str]]:
        """New lines of the logs, in the order of time; of each only so many, the last."""
        new = [
            [(said_at, path, line) for said_at, line in deque(log.more(), count)]
            for path, log in self._logs.items()
        ]
        # Log by log, what happened between two slots had to be put together by eye.
        for _, path, line in heapq.merge(*new, key=lambda said: said[0]):
            yield path, line

    def absence(self) -> str:
        """The reason why there may be no line, in a clause."""
        if not self.claims:
            return "no slot has taken it yet"
        slots = sorted({claim.owner.slot for claim in self.claims})
        hosts = sorted({claim.owner.host for claim in self.claims})
        where = f"slot {', '.join(slots)} on {', '.join(hosts)}"
        return f"{where} had it, and none of {', '.join(p.name for p in self._logs)} names it"

    def follow(
        self, seconds: float, pause: Callable[[float], object] = time.sleep
    ) -> Iterator[tuple[Path, str]]:
        """Lines about it from here on, through requeues and from slot to slot.

        It ends when the pod has nothing more to do.

        Args:
            seconds: between two looks.
            pause: waits for so many seconds.
        """
        while self.claimed(read_board(self._folder)):
            yield from self._more()
            pause(seconds)
        yield from self._more()

    def claimed(self, board: Board) -> bool:
        """Go on with the logs of slots that have claimed the pod's orders since; False if it has
        nothing more to do.

        Args:
            board: the latest.
        """
        mine = [order for order in orders(board) if order.pod == self._pod]
        for order in mine:
            claim = claim_of(self._folder, order.id)
            if claim is not None:
                self._add(claim)
        return bool(mine)
