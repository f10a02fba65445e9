"""How a run ends: by its target, confirmed on fresh seeds, or by its limits and a final.

::

    running ──confirm passed──────────────────────────> finished (target)
       └──env_steps, minutes, rounds──> finals ──scored──> finished
       └──user, failed──────────────────────┴────────────> finished

``stop.minutes`` count from the moment at which the first slot began to work: a queue, however
long, costs none. They go on while a run is paused, or waits for slots again.

Finals have no deadline: an evaluation may be long, and slots may wait in a queue. They are
orders like births, given out again when a slot is lost; whoever can't wait ends them with the
scores that are there, by ``hpcpod stop``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from hpcpod.config.schema import RunConfig
from hpcpod.records import (
    Board,
    Checkpoint,
    Confirmed,
    Entry,
    Evaluation,
    Report,
    Rescore,
)
from hpcpod.tournament.outcomes import entry_of, failure, strike
from hpcpod.tournament.scores import interval, lower_bound, mean, spent, t_quantile

Purpose = Literal["confirm", "final"]


def settle_rescores(
    board: Board, reports: Mapping[str, Report], lost: Collection[str], config: RunConfig
) -> Board:
    """The board with every rescore that was reported, or lost, settled.

    A rescore that fails is tried again, ``cluster.max_restarts`` times; at once given up if
    trying again can't help.
    """
    rescores = dict(board.rescores)
    confirmed = list(board.confirmed)
    unreadable: set[Checkpoint] = set()
    counted = 0
    for name, order in sorted(board.rescores.items()):
        report = reports.get(order.id)
        if report is None:
            if order.id in lost:
                rescores[name] = replace(order, attempt=order.attempt + 1)
            continue
        counted += 1
        kind, _ = failure(report)
        if kind in ("crash", "memory") and order.attempt <= config.cluster.max_restarts:
            rescores[name] = replace(order, attempt=order.attempt + 1)
            continue
        if kind == "corrupt":
            unreadable.add(order.checkpoint)
        del rescores[name]
        returns = () if kind else report.returns
        confirmed.append(_scored(order, returns, report.engine, config))
    if not counted and rescores == board.rescores:
        return board
    return replace(
        strike(board, unreadable),
        rescores=rescores,
        confirmed=tuple(confirmed),
        reports=board.reports + counted,
    )


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
    if any(score.passed for score in board.confirmed):
        return finish(board, "target", now)
    if stop is not None:
        return finish(board, board.stop_reason or stop, now)
    if board.phase == "running":
        return _run_on(board, config, now)
    if board.rescores:
        return board
    waited = any(order.purpose == "confirm" for order in before.rescores.values())
    return _open_finals(board, config, now) if waited else finish(board, None, now)


def finish(board: Board, reason: str | None, now: float, failure: str = "") -> Board:
    """The end of a run: no order is open; the winner is the best there is."""
    champion = leader(board)
    return replace(
        _without_births(board),
        phase="finished",
        stop_reason=reason if reason is not None else board.stop_reason,
        failure=failure,
        stopped=board.stopped if board.stopped is not None else now,
        winner=None if champion is None else champion.pod,
        rescores={},
    )


def leader(board: Board) -> Confirmed | Entry | None:
    """The best score there is, with its checkpoint: a target confirmed, else a final, else the
    leaderboard's first row."""
    for score in board.confirmed:
        if score.passed:
            return score
    finals = [s for s in board.confirmed if s.purpose == "final" and s.episodes > 0]
    if finals:
        return min(finals, key=lambda score: (-score.low, -score.mean, score.pod))
    return board.entries[0] if board.entries else None


def _run_on(board: Board, config: RunConfig, now: float) -> Board:
    """A running board: an attempt at the target, or at a limit the finals.

    An attempt that is open at the limit is scored first, and the finals wait for it.
    """
    board = _attempt_target(board, config)
    reason = _limit(board, config, now)
    if reason is None:
        return board
    board = replace(_without_births(board), phase="finals", stop_reason=reason, stopped=now)
    return board if board.rescores else _open_finals(board, config, now)


def _attempt_target(board: Board, config: RunConfig) -> Board:
    """Open a confirmation if somebody seems to have reached the target and none is open.

    Each attempt makes the next ones harder to pass, so none is spent on who would rather fail: the
    bound that is to be expected of the fresh seeds, by what the panel says, must reach the target.
    """
    target = config.stop.target
    if target is None or board.rescores:
        return board
    attempt, fresh = board.attempts + 1, config.stop.confirm_episodes
    level = spent(config.stop.alpha, attempt)
    tried = {score.checkpoint for score in board.confirmed if score.purpose == "confirm"}
    candidates = [
        entry
        for entry in _candidates(board, target)
        if entry.checkpoint not in tried and expected_bound(entry, level, fresh) >= target
    ]
    if not candidates:
        return board
    best = min(candidates, key=lambda entry: (-entry.low, -entry.mean, entry.pod))
    rescore = _rescore(board, best, "confirm", attempt)
    return replace(board, attempts=attempt, rescores={best.pod: rescore})


def _candidates(board: Board, target: float) -> Iterator[Entry]:
    """Whoever reaches the target by the mean on the panel: the leaderboard, and the living."""
    yield from (entry for entry in board.entries if entry.mean >= target)
    for pod in board.living:
        seen: list[Evaluation] = [*pod.history[-1:], *([pod.best] if pod.best else [])]
        for evaluation in seen:
            if mean(evaluation.returns) >= target:
                yield entry_of(pod, evaluation)


def expected_bound(entry: Entry, alpha: float, episodes: int) -> float:
    """What ``lower_bound`` would be of so many fresh returns with the panel's mean and spread."""
    half = t_quantile(0.975, entry.episodes - 1)
    spread = (entry.mean - entry.low) / half * math.sqrt(entry.episodes)
    return entry.mean - t_quantile(1 - alpha, episodes - 1) * spread / math.sqrt(episodes)


def _limit(board: Board, config: RunConfig, now: float) -> str | None:
    """The limit that a running run has met, if any."""
    stop = config.stop
    if stop.env_steps is not None and board.env_steps >= stop.env_steps:
        return "env_steps"
    spent = 0.0 if board.began is None else now - board.began
    if stop.minutes is not None and spent >= 60 * stop.minutes:
        return "minutes"
    if stop.rounds is not None and all(pod.birth is None for pod in board.living):
        return "rounds"
    return None


def _open_finals(board: Board, config: RunConfig, now: float) -> Board:
    """Order the finalists to be scored on fresh seeds; with none, the run is over."""
    finalists = board.entries[: config.stop.finalists]
    if not finalists:
        return finish(board, None, now)
    rescores = {entry.pod: _rescore(board, entry, "final", 0) for entry in finalists}
    return replace(board, rescores=rescores)


def _rescore(board: Board, entry: Entry, purpose: Purpose, number: int) -> Rescore:
    pod = board.pods[entry.pod]
    return Rescore(
        purpose,
        number,
        pod.id,
        1,
        pod.algorithm,
        pod.hyperparameters,
        entry.checkpoint,
        entry.round,
    )


def _scored(
    order: Rescore, returns: tuple[float, ...], engine: str, config: RunConfig
) -> Confirmed:
    """A rescore's result; without returns, the record that it could not be scored."""
    centre = low = high = 0.0
    if returns:
        centre = mean(returns)
        low, high = interval(returns)
    target = config.stop.target
    passed = False
    if returns and order.purpose == "confirm" and target is not None:
        low = lower_bound(returns, spent(config.stop.alpha, order.number))
        high = 2 * centre - low
        passed = low >= target
    return Confirmed(
        order.pod,
        order.round,
        order.purpose,
        order.number,
        centre,
        low,
        high,
        len(returns),
        passed,
        order.checkpoint,
        engine,
    )


def _without_births(board: Board) -> Board:
    pods = {
        name: replace(pod, birth=None) if pod.birth is not None else pod
        for name, pod in board.pods.items()
    }
    return replace(board, pods=pods)
