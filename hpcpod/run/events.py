"""Lines on what happens in a run, for those who follow it."""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.records.records import Board, PodState
from hpcpod.run.fresh_scores import fresh_scores
from hpcpod.run.refused import new_refusals
from hpcpod.run.tables import changes
from hpcpod.run.text import number
from hpcpod.tournament.policy_snapshots import policies
from hpcpod.tournament.statistics import mean


def events(old: Board | None, new: Board, run: str) -> Iterator[str]:
    """Lines on what happened between two boards of a run.

    A pod keeps its last four evaluations and its last failure, one that is replaced its last round
    alone: of what is older nothing is said.

    Args:
        old: the board that was seen last; None: nothing was seen yet.
        new: a later board.
        run: the run's name or path, as the user would type it.
    """
    before = old.pods if old is not None else {}
    for name, pod in sorted(new.pods.items()):
        was, logs = before.get(name), f"`hpcpod logs {run} {name}` has the traceback"
        if was is None and pod.replaces is not None:
            yield _birth(new, pod)
        # By checkpoint: a round whose checkpoint was damaged is trained, and shown, a second time.
        seen = {evaluation.checkpoint for evaluation in was.history} if was is not None else set()
        for evaluation in pod.history:
            if evaluation.checkpoint not in seen:
                yield _scored(pod, evaluation.round, mean(evaluation.returns))
        if pod.last is not None and (was is None or _newest(was) < pod.last.round):
            yield _scored(pod, pod.last.round, pod.last.mean)
        if pod.fate == "failed" and (was is None or was.fate != "failed"):
            yield f"{name} {pod.algorithm} failed: {pod.fate_reason}; {logs}"
        elif pod.failure and (was is None or was.failure != pod.failure):
            yield f"{name} {pod.algorithm} {pod.failure}; {logs}"
        if pod.transfer_exact is not None and (was is None or was.transfer_exact is None):
            how = "exactly as" if pod.transfer_exact else "NOT as"
            yield f"{name} scored its parent's panel {how} its parent did before it trained"
    yield from new_refusals(old, new)
    yield from fresh_scores(old, new)
    yield from _snapshots(old, new)


def _birth(board: Board, pod: PodState) -> str:
    """A line on a pod that has taken another's place."""
    if pod.parent is not None:
        kind = f"copy of {pod.parent} at round {pod.parent_round} in place of {pod.replaces}"
        return f"{pod.id} is born: {kind}; {changes(board, pod)}; {pod.evidence}"
    kind = "fresh draw" if pod.repeats is None else f"{pod.repeats} again with another seed"
    return f"{pod.id} is born: {kind} in place of {pod.replaces}; {pod.evidence or 'no reason'}"


def _scored(pod: PodState, round: int, score: float) -> str:
    return f"{pod.id} {pod.algorithm} round {round}: return {number(score)}"


def _newest(pod: PodState) -> int:
    """The last round that a pod has finished."""
    return pod.last.round if pod.last else max((each.round for each in pod.history), default=0)


def _snapshots(old: Board | None, new: Board) -> Iterator[str]:
    """A line for each policy snapshot that got its score between two boards."""
    known = old.snapshots if old is not None else {}
    for row in policies(new).values():
        was = known.get(str(row.number))
        if row.settled and not (was is not None and was.settled):
            said = row.failure or f"return {number(mean(row.returns))}"
            yield f"snapshot {row.number} is {row.pod} round {row.round}: {said}"
