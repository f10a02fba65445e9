"""Stopping of a run: by its target, confirmed on fresh seeds, or by limits and a final evaluation.

::

    running ──confirm passed─────────────────────────────────> finished (target)
       ├──env_steps, minutes, rounds, user──> finals ──scored──> finished
       └──failed, or nothing to score────────────┴──user───────> finished

The stages of the finals are ``tournament.finals``'s.

A run that has kept policy snapshots has them scored between its decision (target, or finals scored)
and ``finished``: in phase ``finals``, with its winner and its reason on the board already.

``stop.minutes`` count from the moment at which the first slot began to work: a queue, however
long, costs none. They go on while a run is paused, or waits for slots again.

Finals have no deadline: an evaluation may be long, and slots may wait in a queue. They are
orders like births, given out again when a slot is lost; a user who can't wait ends them with the
scores that are there, by a second ``hpcpod stop``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import (
    Board,
    Checkpoint,
    Confirmed,
    Entry,
    Report,
    Rescore,
)
from hpcpod.tournament import second_looks
from hpcpod.tournament.confirmation import attempt_target, goes_on, shown
from hpcpod.tournament.finals import (
    closed,
    delivered_row,
    fresh_row,
    next_stage,
    opened,
    received,
)
from hpcpod.tournament.policy_snapshots import being_scored, scored, to_score
from hpcpod.tournament.settle import failure, lowest, strike
from hpcpod.tournament.statistics import chosen_interval, interval, mean, played

FINALS_FIRST = "finals first"
"""For ``fold``'s ``stop``: a user ends the run, once its finalists are scored on fresh seeds."""


def settle_rescores(
    board: Board, reports: Mapping[str, Report], lost: Collection[str], config: RunConfig
) -> Board:
    """The board with every rescore that was reported, or lost, settled.

    A rescore that fails is tried again, ``cluster.max_restarts`` times; at once given up if
    trying again can't help.
    """
    rescores, snapshots = dict(board.rescores), board.snapshots
    confirmed, finals, looks = list(board.confirmed), board.finals, board.looks
    unreadable: set[Checkpoint] = set()
    counted, sets, worst = 0, board.confirmations, board.worst
    for name, order in sorted(board.rescores.items()):
        report = reports.get(order.id)
        if report is None:
            if order.id in lost:
                rescores[name] = replace(order, attempt=order.attempt + 1)
            continue
        counted += 1
        kind, why = failure(report)
        if _tries_again(order, report, kind, config):
            rescores[name] = replace(order, attempt=order.attempt + 1)
            continue
        if kind == "corrupt" and not order.members:  # which of them is not known
            unreadable.add(order.checkpoint)
        del rescores[name]
        if order.purpose == "snapshot":  # the run is decided: they count for nothing else
            snapshots = scored(replace(board, snapshots=snapshots), order, report, why)
            continue
        returns = () if kind else (*order.earlier, *report.returns)
        worst = lowest(worst, returns)
        if order.purpose == "look":
            looks = second_looks.played(looks, order, returns)
            continue
        if finals.stage and order.purpose != "confirm":
            finals = received(replace(board, finals=finals), order, report, returns, why)
            if order.purpose != "final":
                confirmed.append(fresh_row(board, order, report, returns, worst))
            continue
        score = _scored(order, returns, worst, report, config)
        confirmed.append(score)
        if board.phase == "running" and goes_on(order, score, returns, worst, config.stop):
            sets += 1
            rescores[name] = replace(order, number=sets, attempt=1, earlier=returns)
    if not counted and rescores == board.rescores:
        return board
    return replace(
        strike(board, unreadable),
        rescores=rescores,
        snapshots=snapshots,
        looks=looks,
        confirmed=tuple(confirmed),
        confirmations=sets,
        worst=worst,
        finals=finals,
        reports=board.reports + counted,
    )


def _tries_again(order: Rescore, report: Report, kind: str, config: RunConfig) -> bool:
    """True if a failure of this kind may go well elsewhere, or next time."""
    if order.attempt > config.cluster.max_restarts:
        return False
    # members that don't fit a rule never will
    return kind in ("crash", "memory") or (kind == "raised" and not report.rule)


def advance(
    board: Board,
    before: Board,
    config: RunConfig,
    *,
    now: float,
    stop: str | None,
) -> Board:
    """The board after what its scores, its limits and the user ask for.

    ``before`` is the board that was merged into.
    """
    at_once = stop is not None and stop != FINALS_FIRST
    if being_scored(before.rescores):
        return finish(board, None, now) if at_once or not board.rescores else board
    end = finish if at_once else _decide
    if any(score.passed for score in board.confirmed):
        return end(board, "target", now)
    if at_once:
        return finish(board, board.stop_reason or stop, now)
    if board.phase == "running":
        return _run_on(board, config, now, finals=stop is not None)
    if board.rescores:
        return board
    waited = any(order.purpose == "confirm" for order in before.rescores.values())
    after = _open_finals(board, config, now) if waited else next_stage(board, config, now)
    return after if after.rescores or after.phase == "finished" else _decide(after, None, now)


def finish(board: Board, reason: str | None, now: float, failure: str = "") -> Board:
    """The end of a run: no order is open; the winner is the best there is."""
    board = closed(board)
    champion = leader(board)
    return replace(
        _without_births(board),
        phase="finished",
        stop_reason=reason if reason is not None else board.stop_reason,
        failure=failure,
        stopped=board.stopped if board.stopped is not None else now,
        winner=board.winner or (None if champion is None else champion.pod),
        rescores={},
        looks={},
    )


def _decide(board: Board, reason: str | None, now: float) -> Board:
    """The end of a run, but that its snapshots are scored first, if it has any."""
    decided = finish(board, reason, now)
    orders = to_score(decided)
    return replace(decided, phase="finals", rescores=orders) if orders else decided


def leader(board: Board) -> Confirmed | Entry | None:
    """The policy that is delivered, or would be, with its score: a target confirmed, else what the
    report set, the confirm set or the select set says, else the leaderboard's first row."""
    for score in board.confirmed:
        if score.passed or (score.purpose == "report" and score.episodes > 0):
            return score
    if (delivered := delivered_row(board)) is not None:
        return delivered
    finals = [s for s in board.confirmed if s.purpose == "final" and s.episodes > 0]
    if finals:
        return min(finals, key=lambda score: (-score.mean, score.pod))
    return board.entries[0] if board.entries else None


def allowed(board: Board, score: Confirmed | Entry) -> tuple[float, float, int]:
    """The 95 % interval of the best score, and the number of those among which it was chosen.

    A row of the leaderboard is the best of all evaluations so far, and its interval is widened
    for that; one on fresh seeds has been made so already.
    """
    if isinstance(score, Confirmed):
        rivals = sum(each.purpose == score.purpose for each in board.confirmed)
        return score.low, score.high, 1 if score.purpose == "confirm" else rivals
    # The plain interval of the best row held the truth in 0 of 40 runs.
    low, high = chosen_interval(score.mean, score.low, score.episodes, board.rounds, board.worst)
    return low, high, board.rounds


def _run_on(board: Board, config: RunConfig, now: float, *, finals: bool) -> Board:
    """A running board: an attempt at the target, or at a limit the finals.

    An attempt that is open at the limit is scored first, and the finals wait for it; not where a
    user ends the run, who waits.
    """
    board = board if finals else attempt_target(board, config)
    reason = "user" if finals else limit_met(board, config, now)
    if reason is None:
        return board
    board = replace(
        _without_births(second_looks.without(board)),
        phase="finals",
        stop_reason=reason,
        stopped=now,
    )
    return board if board.rescores and not finals else _open_finals(board, config, now)


def limit_met(board: Board, config: RunConfig, now: float) -> str | None:
    """The limit that a running run has met, if any."""
    stop = config.stop
    if stop.env_steps is not None and board.env_steps >= stop.env_steps:
        return "env_steps"
    if stop.minutes is not None and board.elapsed(now) >= 60 * stop.minutes:
        return "minutes"
    if stop.rounds is not None:
        resting = board.resting
        if all(pod.birth is None or pod.id in resting for pod in board.living):
            return "rounds"
    return None


def _open_finals(board: Board, config: RunConfig, now: float) -> Board:
    """Order the finalists to be scored on fresh seeds; with none, the run is over. So it is where
    a user's program can't score: the leaderboard's first row is what there is."""
    if config.program is not None and not config.program.scores:
        return _decide(board, None, now)
    board = opened(board, config)
    return board if board.rescores else _decide(board, None, now)


def _scored(
    order: Rescore,
    returns: tuple[float, ...],
    worst: float | None,
    report: Report,
    config: RunConfig,
) -> Confirmed:
    """A rescore's result; without returns, the record that it could not be scored."""
    assert order.purpose != "snapshot"
    assert order.purpose != "look"
    centre = low = high = 0.0
    passed, episodes = False, played(returns, report)
    if returns:
        centre = mean(returns)
        plain, _ = interval(returns, episodes=episodes)
        rivals = config.stop.finalists if order.purpose == "final" else 1
        low, high = chosen_interval(centre, plain, episodes, rivals, worst)
        if order.purpose == "confirm":
            low, passed = shown(order, returns, worst, config.stop)
    return Confirmed(
        order.pod,
        order.round,
        order.purpose,
        order.number,
        centre,
        low,
        high,
        episodes,
        passed,
        order.checkpoint,
        report.engine,
    )


def _without_births(board: Board) -> Board:
    pods = {
        name: replace(pod, birth=None, withdrawn=pod.birth) if pod.birth is not None else pod
        for name, pod in board.pods.items()
    }
    return replace(board, pods=pods)
