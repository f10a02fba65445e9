"""The origin of a pod and its end, in words."""

from __future__ import annotations

from hpcpod.records.records import Board, PodState


def origin(pod: PodState) -> str:
    """A sentence on what a pod began as."""
    if pod.parent is None:
        if pod.origin is not None:
            return f"{pod.id} {pod.algorithm} {pod.origin.begun}, of another run"
        kind = "a control: its hyperparameters never change" if pod.control else "a fresh draw"
        if pod.evidence:
            kind += f"{';' if pod.control else ':'} {pod.evidence}"
        if pod.repeats is not None:
            kind = f"{pod.repeats}'s training again with another seed: {pod.evidence}"
        return f"{pod.id} {pod.algorithm} is {kind}"
    because = f", because {pod.evidence}" if pod.evidence else ""
    return (
        f"{pod.id} {pod.algorithm} is a copy of {pod.parent} at round {pod.parent_round} in place"
        f" of {pod.replaces}{because}"
    )


def fate(pod: PodState, board: Board, word: str) -> str:
    """A sentence on how a pod ended; ``word`` is what a user types for its run."""
    heirs = [other for other in board.pods.values() if other.replaces == pod.id]
    heir = f" by {heirs[0].id}" if heirs else ""
    if pod.fate == "failed":
        word = f"`hpcpod logs {word} {pod.id}` has the traceback"
        replaced = f"; it was replaced{heir}" if heirs else ""
        return f"it is dead: {pod.fate_reason}{replaced}; {word}"
    trained = pod.judged if pod.last is None else pod.last.round  # a run of before has no last
    last = f" after round {trained}" if trained else ""
    if pod.fate == "given up":
        return f"it was given up{last}, and nothing took its place: {pod.fate_reason}"
    if heirs and heirs[0].repeats is not None:
        return (
            f"it was replaced{heir}{last}, since its place could be spared: {heirs[0].repeats} is"
            f" trained again there with another seed, because {heirs[0].evidence}"
        )
    evidence = next((other.evidence for other in heirs if other.evidence), pod.fate_reason)
    return f"it was replaced{heir}{last}, because {evidence or 'it was beaten'}"
