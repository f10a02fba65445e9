"""The books of a run, kept a second time: what counted, when, and whether each sum is right.

From the files alone, not by the fold that is under test: of two generations one can see which
orders were closed between them; each must have been closed by a report that was there, or been
given out again, and every sum on the board must have grown by just what those reports say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hpcpod.errors import Corrupt
from hpcpod.records.records import Birth, Board, Document, PodState, Report, Rescore
from hpcpod.storage.board import applied
from hpcpod.storage.checksummed import checksum_of, unpack
from tests.chaos.observer import Past, SeenReport

SLACK_SECONDS = 5.0
"""A merge may take so long on a busy machine: a report that came meanwhile was not seen by it."""


@dataclass(frozen=True)
class Step:
    """One generation and the one before it, as every reader sees them."""

    number: int
    appeared: float
    old: Board
    new: Board
    foreign: bool
    """It was, or may have been, computed from a generation that only its writer still saw: damage
    lay between."""


@dataclass
class Books:
    """What the generations of a run say, one after another."""

    violations: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    """By order, the generation that counted its report."""
    lost: dict[str, float] = field(default_factory=dict)
    """By order, when it was closed without a report."""
    finished: dict[tuple[str, int], str] = field(default_factory=dict)
    """By pod and round, the order by which it was finished last."""
    board: Board | None = None


def audit(past: Past) -> Books:
    """Go through all generations that were seen."""
    books = Books()
    for step in steps(past, books.violations):
        _enter(step, past, books)
        books.board = step.new
    return books


def steps(past: Past, violations: list[str]) -> Iterator[Step]:
    """The board before and after each generation, damage and all, read independently."""
    document: Document = {}
    checksum = ""
    board: Board | None = None
    damaged = 0  # generations by faults, since the last sound one
    for number, seen in enumerate(past.generations):
        foreign = False
        damaged += seen.damaged
        try:
            if seen.damaged:
                raise Corrupt("by a fault")
            payload = unpack(seen.data, str(number))
            if payload["generation"] != number:
                violations.append(f"generation {number} says it is {payload['generation']}")
            if "snapshot" in payload:
                document = payload["snapshot"]
                # Of two, the earlier one may have been damaged after this one was written.
                foreign = (
                    number > 0 and checksum == "" and (payload["previous"] != "" or damaged > 1)
                )
            elif payload["previous"] == checksum:
                document = applied(document, payload)
            else:
                if checksum != "":
                    violations.append(f"generation {number} does not follow the one before it")
                raise Corrupt("its predecessor was damaged")
            checksum, damaged = checksum_of(seen.data), 0
        except Corrupt as error:
            if not seen.damaged and checksum != "":
                violations.append(f"generation {number} is damaged, and no fault did it: {error}")
            checksum = ""
            continue
        new = Board.from_document(document)
        if board is not None:
            yield Step(number, seen.appeared, board, new, foreign)
        board = new


def _enter(step: Step, past: Past, books: Books) -> None:
    old, new = step.old, step.new
    if step.foreign:  # what it counts, and what it takes back, was never seen by anybody else
        books.counted.clear()
        return
    reports, rounds, env_steps = 0, 0, 0
    for order in _orders(old):
        seen = past.reports.get(order.id)
        report = None if seen is None or seen.report is None else seen.report
        closed = _closed(order, old, new, report)
        if closed == "counted":
            assert report is not None
            _count(order.id, step, books)
            reports += 1
            env_steps += report.trained_steps
            if isinstance(order, Birth) and not report.failure_kind:
                rounds += 1
                books.finished[order.pod, order.round] = order.id
        elif closed == "unexplained":
            books.violations.append(f"generation {step.number} counts {order.id} without a report")
        else:
            if closed == "lost":
                books.lost.setdefault(order.id, step.appeared)
            _check_not_passed_over(order.id, seen, step, past, books)
    grown = (new.reports - old.reports, new.rounds - old.rounds, new.env_steps - old.env_steps)
    if grown != (reports, rounds, env_steps):
        books.violations.append(
            f"generation {step.number} adds (reports, rounds, env steps) {grown},"
            f" its reports say {(reports, rounds, env_steps)}"
        )
    _check_leader(step, past, books)


def _closed(order: Birth | Rescore, old: Board, new: Board, report: Report | None) -> str:
    """``open``, ``counted``, ``lost`` (or void), or ``unexplained``."""
    if isinstance(order, Rescore):
        return _closed_rescore(order, old, new, report)
    before, after = old.pods[order.pod], new.pods.get(order.pod)
    if after is None:
        return "unexplained"
    if after.birth is not None and after.birth.id == order.id:
        return "open"
    trained = after.trained_steps - before.trained_steps
    if trained or _failed(before, after):
        answered = report is not None and (report.order, report.attempt) == (
            order.id,
            order.attempt,
        )
        right = report is not None and trained in (0, report.trained_steps)
        return "counted" if answered and right else "unexplained"
    return "lost"


def _failed(before: PodState, after: PodState) -> bool:
    died = before.fate == "alive" and after.fate == "failed"
    return after.failures > before.failures or died


def _closed_rescore(order: Rescore, old: Board, new: Board, report: Report | None) -> str:
    if any(now.id == order.id for now in new.rescores.values()):
        return "open"
    fresh = new.confirmed[len(old.confirmed) :]
    scored = any((s.pod, s.purpose, s.number) == (order.pod, order.purpose, order.number)
                 for s in fresh)  # fmt: skip
    if order.purpose == "final":  # a batch of several; the row comes with the last of all
        was, now = old.finals, new.finals
        scored = now.played.get(order.pod, 0) > was.played.get(order.pod, 0)
        scored = scored or (order.pod in now.given_up and order.pod not in was.given_up)
    if order.purpose == "snapshot":
        number = str(order.number)
        scored = new.snapshots[number].settled and not old.snapshots[number].settled
    if scored:
        return "counted" if report is not None and report.order == order.id else "unexplained"
    failed = report is not None and report.failure_kind in ("crash", "raised", "memory")
    return "counted" if failed and new.reports > old.reports else "lost"


def _count(order: str, step: Step, books: Books) -> None:
    # What a damaged generation had counted is counted again, but that one is no step here.
    if order in books.counted:
        books.violations.append(
            f"generation {step.number} counts {order}, which {books.counted[order]} has counted"
        )
    books.counted[order] = step.number


def _check_not_passed_over(
    order: str, seen: SeenReport | None, step: Step, past: Past, books: Books
) -> None:
    """A sound report that was there before a merge began is counted by it."""
    if seen is None or seen.report is None or seen.report.order != order:
        return
    if seen.damaged is not None and seen.damaged < step.appeared + SLACK_SECONDS:
        return
    slack = SLACK_SECONDS + past.held(seen.appeared - SLACK_SECONDS, step.appeared)
    slack += past.believed
    if seen.appeared < step.appeared - slack:
        books.violations.append(
            f"the report {order} was there {step.appeared - seen.appeared:.1f} s before"
            f" generation {step.number}, which passes over it"
        )


def _check_leader(step: Step, past: Past, books: Books) -> None:
    """The leader stays on the board, and leads until another one is better, unless its files are
    damaged."""
    if not step.old.entries:
        return
    before, after = step.old.entries[0], step.new.entries
    if past.blobs & set(before.checkpoint.blobs()):
        return
    estimates = [entry.mean if entry.estimate is None else entry.estimate for entry in after]
    listed = before.pod in {entry.pod for entry in after}
    if not listed or estimates[0] < max(estimates):
        books.violations.append(
            f"generation {step.number} loses its best: {before.pod} with {before.mean:.2f}"
            f" gives way to {after[0] if after else None}"
        )


def _orders(board: Board) -> list[Birth | Rescore]:
    """What is to be done, as the board says it."""
    births = [pod.birth for pod in board.pods.values() if pod.birth is not None]
    return [*board.rescores.values(), *births]
