"""Attempts at the target: the choice of a checkpoint, and its confirmation on fresh seeds.

One checkpoint is tried at a time, by as many sets of ``stop.confirm_episodes`` fresh episodes as
it takes to decide, pooled (``confirmation``). The k-th that is tried spends the error level
alpha / (k (k + 1)), all of them together no more than alpha.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hpcpod.config.schema import RunConfig, StopConfig
from hpcpod.records.records import Board, Confirmed, Evaluation, PodState, Rescore
from hpcpod.tournament.confidence_bound import (
    MOST_EPISODES,
    best_stake,
    episodes_needed,
    highest,
    log_wealth,
    lower_bound,
    worst_case,
)
from hpcpod.tournament.settle import rank
from hpcpod.tournament.statistics import mean, spent

Returns = tuple[float, ...]


def attempt_target(board: Board, config: RunConfig) -> Board:
    """Open an attempt if a checkpoint promises to pass one and none is open.

    Each makes the next ones harder, so none is spent on a checkpoint that would rather fail:
    with fresh episodes like its panel's the target must be shown within ``MOST_EPISODES``.
    """
    stop = config.stop
    if stop.target is None or _open(board):
        return board
    level = spent(stop.alpha, board.attempts + 1)
    tried = {score.checkpoint for score in board.confirmed if score.purpose == "confirm"}
    found = [
        (needed, pod, evaluation)
        for pod, evaluation in _candidates(board, stop.target)
        if evaluation.checkpoint not in tried
        and (needed := needed_by(board, evaluation, level, stop.target)) <= MOST_EPISODES
    ]
    if not found:
        return board
    _, pod, evaluation = min(found, key=lambda each: (each[0], each[1].id, -each[2].round))
    worst = worst_case(_seen(board, evaluation), stop.target, evaluation.returns)
    number = max(board.confirmations, board.attempts) + 1
    rescore = Rescore(
        "confirm", number, pod.id, 1, pod.algorithm, pod.hyperparameters,
        evaluation.checkpoint, evaluation.round, level,
        best_stake(evaluation.returns, stop.target, worst),
    )  # fmt: skip
    return replace(
        board,
        attempts=board.attempts + 1,
        confirmations=number,
        rescores={**board.rescores, pod.id: rescore},
    )


def needed_by(board: Board, evaluation: Evaluation, level: float, target: float) -> float:
    """Fresh episodes that an attempt would take if all were like the panel's."""
    worst = worst_case(_seen(board, evaluation), target, evaluation.returns)
    return episodes_needed(evaluation.returns, level, target, worst)


def highest_target(board: Board, stop: StopConfig) -> float | None:
    """The highest target that the best panel could show, where it can't show the one it reaches.

    Returns are never far above a target at their ceiling: no number of them shows that their mean
    is not below it.

    Returns:
        None while an attempt is open or possible, or where nothing reaches the target.
    """
    if stop.target is None or _open(board):
        return None
    level = spent(stop.alpha, board.attempts + 1)

    def enough(evaluation: Evaluation, target: float) -> bool:
        return needed_by(board, evaluation, level, target) <= MOST_EPISODES

    found = [evaluation for _, evaluation in _candidates(board, stop.target)]
    if not found or any(enough(each, stop.target) for each in found):
        return None
    best = max(found, key=lambda each: mean(each.returns))
    return highest(min(best.returns) - 1.0, stop.target, lambda target: enough(best, target))


def shown(
    order: Rescore, returns: Returns, worst: float | None, stop: StopConfig
) -> tuple[float, bool]:
    """The lower bound of an attempt's true mean, and whether it reaches the target.

    Args:
        order: its last.
        returns: of all its fresh episodes so far.
        worst: the lowest return that the run has seen.
        stop: has a target.
    """
    least, level, stake = _bet(order, returns, worst, stop)
    assert stop.target is not None
    if log_wealth(returns, stop.target, least, stake) >= math.log(1.0 / level):
        return max(stop.target, lower_bound(returns, level, least, stake)), True
    return lower_bound(returns, level, least, stake), False


def goes_on(
    order: Rescore, score: Confirmed, returns: Returns, worst: float | None, stop: StopConfig
) -> bool:
    """True if an attempt that has not passed is worth another set of fresh episodes."""
    if order.purpose != "confirm" or stop.target is None or score.passed or not returns:
        return False
    if len(returns) < stop.confirm_episodes:  # the first set had all episodes that there are
        return False
    least, level, stake = _bet(order, returns, worst, stop)
    won = log_wealth(returns, stop.target, least, stake)
    needed = episodes_needed(returns, level, stop.target, least, won)
    # pooled: each new attempt would have less of the level
    return len(returns) + needed <= MOST_EPISODES


def _bet(
    order: Rescore, returns: Returns, worst: float | None, stop: StopConfig
) -> tuple[float, float, float]:
    """The worst case, the error level and the stake of an attempt."""
    assert stop.target is not None
    seen = min(returns) if worst is None else worst
    level = order.level or spent(stop.alpha, order.number)
    return worst_case(seen, stop.target, returns), level, order.stake or 0.5


def _open(board: Board) -> bool:
    """True while an attempt, or a final evaluation, is open."""
    return any(order.purpose != "look" for order in board.rescores.values())


def _seen(board: Board, evaluation: Evaluation) -> float:
    return min(evaluation.returns) if board.worst is None else board.worst


def _candidates(board: Board, target: float) -> Iterator[tuple[PodState, Evaluation]]:
    """Evaluations that reach the target by the panel's mean and by the estimate: the best of pods
    that are on the leaderboard, and the last of the living."""
    listed = {entry.pod for entry in board.entries}
    for _, pod in sorted(board.pods.items()):
        alive = pod.fate == "alive"
        last = pod.history[-1:] if alive else ()
        best = (pod.best,) if pod.best is not None and (alive or pod.id in listed) else ()
        for evaluation in {each.round: each for each in (*last, *best)}.values():
            if min(rank(evaluation)[0], mean(evaluation.returns)) >= target:
                yield pod, evaluation
