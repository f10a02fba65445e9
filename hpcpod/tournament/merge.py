"""Merge: read the board, fold in new reports, publish the next generation, or try again.

Any process may merge at any time: the fold is idempotent and the board is published by
compare-and-swap, so a crash in the middle, or two mergers at once, lose and double nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from hpcpod.errors import Corrupt, RunNotFound, StorageError, Superseded
from hpcpod.records.records import Board, Document, Phase, Report
from hpcpod.storage.board import writer_id
from hpcpod.storage.freshness import refresh_report
from hpcpod.storage.os_errors import may_exist
from hpcpod.storage.requests import Finals, Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.barrier import opens
from hpcpod.tournament.delivery import BEST_FOLDER
from hpcpod.tournament.delivery import export_best as export_best
from hpcpod.tournament.leaderboard import begin, fold, orders
from hpcpod.tournament.provenance import score_of as score_of
from hpcpod.tournament.reopening import reopened
from hpcpod.tournament.rules import Rules

log = logging.getLogger(__name__)

LOCK_SECONDS = 10.0
"""Wait of a merge for its turn before it goes on without: the lock only saves work."""

_ASKED_LATER: dict[Phase, tuple[type[Stop | Finals], ...]] = {
    "running": (Finals, Stop), "finals": (Stop,), "finished": (),
}  # fmt: skip
"""Requests that are not made of the slots yet while the board is in a phase."""

COMPACT_EVERY = 64
"""Generations between two sweeps that empty old ones."""


def read_board(folder: RunFolder) -> Board:
    """The latest generation of the run's board.

    Raises:
        RunNotFound: the folder is gone.
        StorageError: the run has no board.
    """
    require_there(folder)
    return _extended(folder, _board_of(folder, _generation(folder)[1]))


def require_there(folder: RunFolder) -> None:
    """See that a run folder is still there.

    Raises:
        RunNotFound: it is gone.
    """
    if not may_exist(folder.path / "config.json"):
        raise RunNotFound(f"the run folder {folder.path} is gone")


def _generation(folder: RunFolder) -> tuple[int, Document]:
    """The latest generation's number and document.

    Raises:
        StorageError: there is none; says what is lost.
    """
    try:
        found = folder.board.read()
    except Corrupt as error:
        raise Corrupt(f"{error}{_lost(folder)}") from error
    if found is None:
        said = _lost(folder) or "; was its launch interrupted?"
        raise StorageError(f"{folder.path} has no board{said}")
    return found


def _lost(folder: RunFolder) -> str:
    """The losses with a board, if a policy is left, as the end of a sentence; else empty."""
    left, saved = folder.path / "best.h5", folder.path / BEST_FOLDER
    if not left.is_file():
        return ""
    policy = f"policy is left, {left}, and hpcpod.load_policy reads it"
    files = f"files are left, in {saved}"  # a program's
    return (
        ": its leaderboard, its pods and their lineage are lost, and it can't go on; its best"
        f" {files if saved.is_dir() else policy}"
    )


class BoardReader:
    """The latest board of a run, again and again: only the pods that changed are decoded."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._before: tuple[Document, Board] | None = None

    def read(self) -> Board:
        """As ``read_board``."""
        require_there(self._folder)
        document = _generation(self._folder)[1]
        board = _board_of(self._folder, document, self._before)
        self._before = document, board
        return _extended(self._folder, board)


def _board_of(
    folder: RunFolder, document: Document, before: tuple[Document, Board] | None = None
) -> Board:
    try:
        board = Board.from_document(document, before)
        _check_names(board)
        return board
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        said = f"the board of {folder.path} is none that this hpcpod wrote: {error}"
        raise Corrupt(said) from error


def _extended(folder: RunFolder, board: Board) -> Board:
    """The board with every extension carried out that is published and that it does not know.

    So a process that extends a run may be killed at any time: the run is as it was, or extended.
    """
    folder.extensions.adopt([ending.extension for ending in board.endings])
    for extension in folder.extensions.all()[len(board.endings) :]:
        board = reopened(board, folder.resolved.config, extension)
    return board


def _check_names(board: Board) -> None:
    """See that pods have their own names, and that whatever names one names one that is there:
    another user may have written it, and an ancestor of itself has no first ancestor.

    Raises:
        KeyError, ValueError: it is not so.
    """
    for name, pod in board.pods.items():
        if pod.id != name or (pod.birth is not None and pod.birth.pod != name):
            raise ValueError(f"pod {name!r} has another name, too")
    _check_chains({name: pod.parent for name, pod in board.pods.items()}, "descends from itself")
    # the cost of a place follows these, for ever round a circle
    _check_chains({name: pod.replaces for name, pod in board.pods.items()}, "replaces itself")
    named = {entry.pod for entry in board.entries} | {score.pod for score in board.confirmed}
    named |= {order.pod for order in board.rescores.values()} | {*filter(None, [board.winner])}
    named |= {snapshot.pod for snapshot in board.snapshots.values()}
    finals = board.finals
    members = [m for order in board.rescores.values() for m in order.members]
    members += [m for candidate in finals.candidates for m in candidate.members]
    named |= {member.pod for member in (*members, *finals.finalists)}
    _check_candidates(board)
    named |= {end.winner for end in board.endings if end.winner is not None}
    for name in sorted(named):
        if name not in board.pods:
            raise ValueError(f"there is no pod {name!r}")


def _check_candidates(board: Board) -> None:
    """See that a final evaluation names no finalist and no candidate that is not there."""
    finals = board.finals
    scored = {*finals.returns, *finals.played, *finals.given_up}
    if finals.stage == "select":
        scored |= {o.pod for o in board.rescores.values() if o.purpose == "final"}
    if not scored <= {member.pod for member in finals.finalists}:
        raise ValueError("its final evaluation names a finalist that is not there")
    batches = len(finals.batches)
    if not all(len(finals.returns.get(pod, ())) > 1 for pod in finals.played) or not all(
        pod in finals.played and 0 < finals.played[pod] <= batches for pod in finals.returns
    ):
        raise ValueError("its final evaluation has other batches than returns")
    places = [trial.candidate for trial in finals.trials]
    places += [] if finals.delivered is None else [finals.delivered]
    numbers = [o.number for o in board.rescores.values() if o.purpose == "candidate"]
    places += [number - finals.first for number in numbers]
    there = all(each.members for each in finals.candidates)
    there &= finals.stage != "confirm" or len(finals.candidates) > 1
    if not there or any(not 0 <= place < len(finals.candidates) for place in places):
        raise ValueError("its final evaluation names a candidate that is not there")


def _check_chains(before: Mapping[str, str | None], wrong: str) -> None:
    """Check that following these names from any one comes to an end."""
    settled: set[str] = set()
    for name in before:
        line: set[str] = set()
        at: str | None = name
        while at is not None and at not in settled:
            if at in line:
                raise ValueError(f"pod {name!r} {wrong}")
            line.add(at)
            at = before[at]
        settled |= line


def merge(
    folder: RunFolder,
    rules: Rules,
    *,
    lost: Collection[str] = (),
    stop: str | None = None,
    at_work: bool = False,
    size: int | None = None,
) -> Board:
    """Fold every report that counts into the board and publish it; return the latest board.

    Args:
        folder: the run.
        rules: the run's updater, generator and limits.
        lost: ids of orders whose slots are gone.
        stop: end the run for this reason, or ``stopping.FINALS_FIRST``.
        at_work: a slot has an order in hand: a run that has not begun begins.
        size: how many pods may be in training at once; None leaves it as it is.

    Raises:
        Superseded: the run was extended, and the rules have its limits of before.
        StorageError: the run has no board, or the filesystem refuses.
    """
    writer, published = writer_id(), False
    with folder.locks.merge(LOCK_SECONDS):
        while not published:
            generation, document = _generation(folder)
            read = _board_of(folder, document)
            old = _extended(folder, read)
            _require_current(folder, rules, old)
            reports, broken = pending_reports(folder, old, lost)
            now, gone = now_of(folder, old), {*lost, *broken}
            begun = begin(old, now) if at_work else old
            board = fold(begun, reports, rules, now=now, lost=gone, stop=stop, size=size)
            if board == read:
                break
            if board.decisions != old.decisions:
                folder.decisions.publish(old.decisions)
            published = folder.board.publish(generation, document, board.document(), writer)
        if published:
            for report in reports:
                if report.checkpoint is not None:
                    folder.checkpoints.drop(report.pod, report.round)
            if generation % COMPACT_EVERY == 0:
                folder.board.compact()
    after_merge(folder, board)
    return board


def _require_current(folder: RunFolder, rules: Rules, board: Board) -> None:
    """See that rules have the limits of an extended run, not those that it had met before."""
    if board.endings and rules.config.stop != folder.resolved.config.stop:
        said = "was extended while this process went by its limits of before; others go on"
        raise Superseded(f"{folder.resolved.config.name} {said}")


def overdue(folder: RunFolder, board: Board) -> bool:
    """True if a merge would open a barrier whose deadline has passed, though no report comes.

    Raises:
        StorageError: the filesystem refuses.
    """
    if board.barrier.met is None:  # no question to the disk where nothing can be due
        return False
    return opens(board, folder.resolved.config, now_of(folder, board))


def now_of(folder: RunFolder, board: Board) -> float:
    """Unix time in seconds, to compare with the times on a run's board.

    Where it can end the run or open a barrier, or tells the times of snapshots, what has passed
    since the launch is measured by one clock, the disk's: on a node whose own is hours ahead the
    first merge would spend ``stop.minutes``.

    Raises:
        StorageError: the filesystem refuses; another clock would not do.
    """
    config = folder.resolved.config
    stop, snapshots = config.stop, config.snapshots.seconds
    timed = any(limit is not None for limit in (stop.minutes, stop.final_minutes, snapshots))
    if not timed and config.population.scheme == "tournament":
        return time.time()
    # by a node's own clock, hours ahead, one merge ended the run
    return board.started + folder.age()


def pending_reports(
    folder: RunFolder, board: Board, lost: Collection[str] = ()
) -> tuple[list[Report], list[str]]:
    """Reports that the board waits for and that are there; and orders whose report is broken.

    The board knows each one's name, so nothing is listed. A broken report is in quarantine
    already; its order counts as lost and is given out again. Of those that are ``lost`` the server
    is asked: their slots may have reported before they went, and this machine not know it.
    """
    reports: list[Report] = []
    broken: list[str] = []
    for order in orders(board):
        if order.id in lost:
            # a client that believes missing names for a minute gave a finished round out again
            refresh_report(folder, order.id)
        try:
            report = folder.reports.read(order.id)
        except Corrupt as error:
            log.warning("%s; its round is given out again", error)
            broken.append(order.id)
            continue
        if report is not None:
            reports.append(report)
    return reports, broken


def after_merge(folder: RunFolder, board: Board) -> None:
    """Carry out a board that is published: export the winner, tell slots to end. Where another
    user's process has merged, the owner's next one does it.

    Everything here may be done twice, and is done by the next one that merges if interrupted:
    the request comes last, and says that all is done.
    """
    if not folder.owner.mine:
        return
    _withdraw_untrue(folder, board)
    if board.phase == "running":
        return
    request: type[Stop | Finals] = Stop if board.phase == "finished" else Finals
    asked = folder.requests.read(request)
    if asked is not None and _of_this_end(asked, board):
        return
    if board.phase == "finished":
        export_best(folder, board)
    folder.requests.replace(request(board.stop_reason, len(board.endings) or None))


def _of_this_end(request: Stop | Finals, board: Board) -> bool:
    """True if a request was made at the end that a board has or had, and not before an extension
    of the run."""
    return (request.extensions or 0) >= len(board.endings)


def _withdraw_untrue(folder: RunFolder, board: Board) -> None:
    """Take back what a later phase has asked for: its generation is damaged since, and a report
    with it. The run goes on from the one before, unless a person had ended it.
    """
    later = _ASKED_LATER[board.phase]
    found = [folder.requests.read(kind) for kind in later]
    asked: list[Stop | Finals] = [request for request in found if request is not None]
    # Who asks has published before: this board may only be an old one.
    if not asked or read_board(folder).phase != board.phase:
        return
    valid = [request for request in asked if _of_this_end(request, board)]
    if any(request.reason == "user" for request in valid):
        merge(folder, Rules.of_run(folder), stop="user")
        return
    if valid:
        log.warning("the run's newest board was damaged, and a report: it is %s again", board.phase)
    for request in asked:
        # left there, it told the slots of a run that goes on to leave
        folder.requests.withdraw(type(request))
