"""Priorities: the pods to train while there is no room for all."""

from __future__ import annotations

import math

from hpcpod.records.records import Board, PodState
from hpcpod.tournament.settle import rank
from hpcpod.tournament.stopping import leader


def protected(board: Board) -> frozenset[str]:
    """Pods that no shortage stops: the controls, and the leader."""
    best = leader(board)
    controls = {pod.id for pod in board.living if pod.control}
    return frozenset(controls if best is None else controls | {best.pod})


def by_priority(board: Board) -> list[str]:
    """The living pods that have a round to train, best first.

    First the protected, then by the estimated mean return, then those that have
    none yet. Pods that lag behind are compared by what they reached so far: to find out what
    they might reach is what there is no room for.
    """
    safe = protected(board)

    def key(pod: PodState) -> tuple[bool, float, str]:
        score = rank(pod.history[-1])[0] if pod.history else -math.inf
        return pod.id not in safe, -score, pod.id

    return [pod.id for pod in sorted(board.living, key=key) if pod.birth is not None]


def resting_pods(board: Board) -> frozenset[str]:
    """Pods that get no slot for now: those that are sidelined, and those that wait at a barrier.

    They keep everything and go on when there is room again, or the barrier opens.
    """
    barrier = board.barrier.round
    if not barrier:
        return sidelined(board)
    births = (pod.birth for pod in board.living if pod.birth is not None)
    return sidelined(board).union(birth.pod for birth in births if birth.round > barrier)


def unawaited(board: Board) -> frozenset[str]:
    """Pods that no barrier waits for: those that are sidelined, and those that rest, also where
    these have the last turns: a barrier would wait for turns that come after it."""
    return sidelined(board).union(pod.id for pod in board.living if pod.rests)


def sidelined(board: Board) -> frozenset[str]:
    """Pods without a place: the allocator trains others instead, or ``board.size`` is smaller than
    the population.

    Never among them for want of room: a protected pod, or one whose rounds are all trained.
    """
    resting = board.resting
    if board.size is None:
        return resting
    training = [pod for pod in by_priority(board) if pod not in resting]
    return resting | (frozenset(training[board.size :]) - protected(board))
