"""Controls: pods with the agents' defaults, by which is seen what the search is worth.

A control does not rest, nor is it replaced, until it can teach nothing more: then it is a pod like
any other.
"""

from __future__ import annotations

from hpcpod.records.records import Board, PodState
from hpcpod.tournament.settle import rank
from hpcpod.tournament.statistics import GATE, difference
from hpcpod.tournament.stopping import leader

RESTS = 2
"""Rounds, one after another, at which a control must have been shown to be worse before it may
rest."""
ENDS = 4
"""Rounds at which it must have been before it may be replaced: that can't be undone."""


def leading(board: Board) -> PodState | None:
    """The pod of the best score that there is; None before there is one."""
    best = leader(board)
    return None if best is None else board.pods.get(best.pod)


def measure(board: Board) -> PodState | None:
    """The pod that controls are held against: the leader, or once that is dead, and has left no
    rounds to compare, the living pod whose last score is the best; None before there is one."""
    best = leading(board)
    if best is None or best.evaluations:
        return best
    scored = [pod for pod in board.living if pod.history]
    return max(scored, key=lambda pod: (rank(pod.history[-1]), pod.id), default=best)


def privileged(pod: PodState, best: PodState | None, rounds: int) -> bool:
    """True if a pod is a control that may still teach something: it was not shown to be worse than
    the best after as many rounds, by the gate's test on common seeds.

    Args:
        pod: any pod.
        best: see ``measure``.
        rounds: at which it must have been shown.
    """
    if not pod.control or best is None:
        return pod.control
    own = {each.round: each.returns for each in pod.evaluations}
    both = [each for each in best.evaluations if each.round in own][-rounds:]
    tests = (difference(e.returns, own[e.round], paired=True, level=GATE) for e in both)
    return len(both) < rounds or not all(test is not None and test.low > 0 for test in tests)
