"""Settle a report: its pod goes on, tries again, or dies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from statistics import median

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import (
    Birth,
    Board,
    Checkpoint,
    Entry,
    Evaluation,
    Fate,
    Last,
    Milestone,
    Order,
    PodState,
    Report,
)
from hpcpod.tournament.estimates import estimated, moved
from hpcpod.tournament.statistics import mean, measured

# rounds; by these alone PPO, hundreds ahead of SAC, was never compared
HISTORY = 4
"""Evaluations that a pod keeps with their checkpoints. Of older ones it keeps those of rounds 1, 2,
4, 8 and so on without: pods of other speeds are compared with them."""
_NUMBERS = re.compile(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
"""In an exception's words, by which two of one kind differ."""
PEAKS = 256
"""Values that ``Board.peaks`` keeps."""
LARGEST = 1e100
"""A return beyond this is a divergence: its square is no number."""


def accept(board: Board, reports: Collection[Report]) -> dict[str, Report]:
    """The reports that count, by order in canonical sequence: one for each order that is open.

    This is the fence: a report of an older attempt, of a dead pod or of another run answers
    no open order.
    """
    counted: dict[str, Report] = {}
    for report in reports:
        if _answers_open_order(board, report):
            twin = counted.get(report.order)
            # any, so long as each merger takes the same one
            if twin is None or repr(report) < repr(twin):
                counted[report.order] = report
    return dict(sorted(counted.items()))


def _answers_open_order(board: Board, report: Report) -> bool:
    pod = board.pods.get(report.pod)
    orders: list[Order | None] = [None if pod is None else pod.birth, *board.rescores.values()]
    answered = (report.order, report.round, report.attempt)
    return any(
        order is not None and (order.id, order.round, order.attempt) == answered for order in orders
    )


def failure(report: Report) -> tuple[str, str]:
    """The kind of a report's failure and why; the kind is empty if it is a success."""
    if report.failure or report.failure_kind:
        return report.failure_kind or "crash", report.failure or report.failure_kind
    if not all(abs(value) < LARGEST for value in report.returns):  # false for nan
        return "diverged", "a return is not finite"
    if len(report.returns) < 2:
        return "crash", f"{len(report.returns)} episodes were reported, not at least two"
    return "", ""


def settle(
    board: Board, reports: Mapping[str, Report], lost: Collection[str], config: RunConfig
) -> Board:
    """The board with every birth that was reported, or lost, settled.

    ``reports`` are what ``accept`` returned, rescores left out. A pod that has finished its
    round holds its next birth, a pod that failed its next attempt or a fate.
    """
    unreadable = {
        order.checkpoint
        for report in reports.values()
        if failure(report)[0] == "corrupt"
        and (order := board.pods[report.pod].birth) is not None
        and order.checkpoint is not None
    }
    board = strike(board, unreadable)
    pods = dict(board.pods)
    steps, rounds = board.env_steps, board.rounds
    worst, floor = board.worst, board.floor
    for report in reports.values():
        steps += report.trained_steps
        kind, why = failure(report)
        if not kind and report.checkpoint is None:
            kind, why = "crash", "no checkpoint was reported"
        pod = pods[report.pod]
        if kind:
            pods[pod.id] = _failed(pod, report, kind, why, config)
        else:
            pods[pod.id] = _finished(pod, report, config)
            rounds += 1
            worst = lowest(worst, report.returns)
            floor = lowest(floor, [median(report.returns)])
    for name, pod in pods.items():
        birth = pod.birth
        if birth is not None and birth.id in lost:
            pods[name] = replace(pod, birth=replace(birth, attempt=birth.attempt + 1))
    counted = board.reports + len(reports)
    peaks = _peaks(board, pods.values(), rounds, config.population.pods.max)
    return replace(
        board,
        pods=pods,
        env_steps=steps,
        reports=counted,
        rounds=rounds,
        worst=worst,
        floor=floor,
        peaks=peaks,
    )


def _peaks(board: Board, pods: Collection[PodState], rounds: int, places: int) -> tuple[float, ...]:
    """``Board.peaks`` once so many rounds are finished."""
    passed = rounds // places - board.rounds // places
    living = (pod.history[-1] for pod in pods if pod.fate == "alive" and pod.history)
    best = max((rank(each)[0] for each in living), default=None)
    if passed == 0 or best is None:
        return board.peaks
    return (*board.peaks, *[best] * passed)[-PEAKS:]


def lowest(worst: float | None, returns: Collection[float]) -> float | None:
    """The worst return so far, after these."""
    return min([*returns, *([] if worst is None else [worst])], default=None)


def strike(board: Board, unreadable: Collection[Checkpoint]) -> Board:
    """The board without the evaluations whose checkpoint can't be read: no pod may copy them."""
    if not unreadable:
        return board
    pods: dict[str, PodState] = {}
    for pod in board.pods.values():
        history = tuple(each for each in pod.history if each.checkpoint not in unreadable)
        best = pod.best
        if best is not None and best.checkpoint in unreadable:
            best = max(reversed(history), key=rank, default=None)
        changed = (history, best) != (pod.history, pod.best)
        pods[pod.id] = replace(pod, history=history, best=best) if changed else pod
    kept = [entry for entry in board.entries if entry.checkpoint not in unreadable]
    for entry in board.entries:
        best = pods[entry.pod].best
        if entry.checkpoint in unreadable and best is not None:
            kept.append(entry_of(pods[entry.pod], best))
    return replace(board, pods=pods, entries=ranked(kept))


def entry_of(pod: PodState, evaluation: Evaluation) -> Entry:
    """A pod's row of the leaderboard."""
    low, high, episodes = measured(evaluation.returns, evaluation.metrics)
    return Entry(
        pod.id,
        pod.algorithm,
        evaluation.round,
        mean(evaluation.returns),
        low,
        high,
        episodes,
        evaluation.checkpoint,
        rank(evaluation)[0],
    )


def ranked(entries: Collection[Entry]) -> tuple[Entry, ...]:
    """Entries by estimated mean return, best first; among equals the one trained for longest.

    Not by a lower confidence bound: one success in ten has a wide interval, no success at all
    has none, and would lead.
    """

    def key(entry: Entry) -> tuple[float, float, int, str]:
        estimate = entry.mean if entry.estimate is None else entry.estimate
        return -estimate, -entry.mean, -entry.round, entry.pod

    return tuple(sorted(entries, key=key))


def rank(evaluation: Evaluation) -> tuple[float, float]:
    """The key by which an evaluation ranks: the estimated mean return, then the panel's."""
    found = mean(evaluation.returns)
    return found if evaluation.estimate is None else evaluation.estimate, found


def onward(birth: Birth, trained: int, checkpoint: Checkpoint, config: RunConfig) -> Birth | None:
    """The birth that continues a pod from the end of a round; None if it has trained all.

    Args:
        birth: any of the pod's; its attempt goes on.
        trained: the round that has ended.
        checkpoint: what it ended in.
        config: of the run.
    """
    if config.stop.rounds is not None and trained >= config.stop.rounds:
        return None
    teacher = birth.teacher
    if teacher is not None and trained * config.round.env_steps >= teacher.env_steps:
        teacher = None
    return replace(
        birth, round=trained + 1, checkpoint=checkpoint, inherited=False, origin=None,
        teacher=teacher, shrink=False,
    )  # fmt: skip


def as_dead(pod: PodState, reason: str, fate: Fate) -> PodState:
    """A pod that is dead: what an ancestor is remembered by stays, its history goes."""
    last = pod.history[-1] if pod.history else None
    return replace(
        pod,
        fate=fate,
        fate_reason=reason,
        rests="",
        birth=None,
        withdrawn=None,
        last=None if last is None else Last(last.round, mean(last.returns)),
        history=(),
        milestones=(),
        parent_returns=(),
    )


def _finished(pod: PodState, report: Report, config: RunConfig) -> PodState:
    """A pod that has trained its round, with the birth that continues it."""
    assert pod.birth is not None and report.checkpoint is not None
    cost = pod.cost + report.cost
    now = Evaluation(
        report.round,
        report.returns,
        report.checkpoint,
        report.metrics,
        cost,
        report.evaluate_seconds,
    )
    motion = moved(pod.motion, pod.history[-1] if pod.history else None, now)
    kept = estimated((*pod.history, now), motion)
    exact = pod.transfer_exact
    if pod.birth.inherited and pod.parent_returns and report.inherited_returns:
        exact = report.inherited_returns == pod.parent_returns
    older = [pod.best] if pod.best is not None and pod.best.round < kept[0].round else []
    # At a ceiling the later one: it has trained for longer.
    best = max([*reversed(kept), *older], key=rank)
    done = replace(
        pod,
        history=kept[-HISTORY:],
        milestones=pod.milestones + _sparse(kept[:-HISTORY]),
        best=best,
        motion=motion,
        cost=cost,
        trained_steps=pod.trained_steps + report.trained_steps,
        failures=0,
        failure="",
        raised="",
        transfer_exact=exact,
        parent_returns=(),
    )
    return replace(done, birth=onward(pod.birth, report.round, report.checkpoint, config))


def _failed(pod: PodState, report: Report, kind: str, why: str, config: RunConfig) -> PodState:
    """A pod whose attempt failed: another attempt, from an older checkpoint if its own is lost.

    Attempts only ever grow within a pod, so that a round that is trained again is an order
    of its own.
    """
    assert pod.birth is not None
    again = replace(pod.birth, attempt=pod.birth.attempt + 1)
    failures = pod.failures + 1
    tried = f"round {report.round}, attempt {report.attempt} on {report.slot}"
    raised = _NUMBERS.sub("#", why) if kind == "raised" else ""
    pod = replace(
        pod,
        failures=failures,
        lost=pod.lost + report.cost,
        failure=f"{tried} failed: {why}",
        raised=raised if pod.raised == raised or not pod.failures else "",
    )
    if kind == "diverged":
        return as_dead(pod, f"diverged: {why}", "failed")
    if kind == "corrupt" and again.checkpoint is not None:
        if not pod.history:
            return as_dead(pod, f"nothing older to go back to: {why}", "failed")
        last = pod.history[-1]
        return replace(pod, birth=onward(again, last.round, last.checkpoint, config))
    if failures > config.cluster.max_restarts:
        times = "1 failure" if failures == 1 else f"{failures} failures in a row"
        return as_dead(pod, f"{times}, the last one: {why}", "failed")
    return replace(pod, birth=again)


def remembered(pod: PodState, last: int) -> tuple[Milestone, ...]:
    """A pod's evaluations of sparse rounds up to one at which it is copied: the child's past, with
    which it stands where a slower pod comes only now."""
    past = tuple(milestone for milestone in pod.milestones if milestone.round <= last)
    return past + _sparse(e for e in pod.history if e.round <= last)


def _sparse(evaluations: Iterable[Evaluation]) -> tuple[Milestone, ...]:
    """Those whose round is a power of two."""
    return tuple(
        Milestone(e.round, e.returns, e.cost) for e in evaluations if e.round & (e.round - 1) == 0
    )
