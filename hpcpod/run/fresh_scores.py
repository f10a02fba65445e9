"""Scores on fresh seeds in words, as they come, and what a final evaluation decides by them."""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.records.records import Board, Confirmed
from hpcpod.run.text import interval
from hpcpod.tournament.finals import ensemble_words

WORDS = {
    "confirm": "confirm", "final": "final: select set", "candidate": "final: confirm set",
    "report": "final: report set",
}  # fmt: skip
"""The use of a score, by its purpose."""


def title(score: Confirmed) -> str:
    """The policy of a score in words."""
    return ensemble_words(score) or f"{score.pod} round {score.round}"


def fresh_scores(old: Board | None, new: Board) -> Iterator[str]:
    """A line for each score on fresh seeds that came between two boards, and for the verdict.

    Args:
        old: the board that was seen last; None: nothing was seen yet.
        new: a later board.
    """
    for score in new.confirmed[len(old.confirmed) if old is not None else 0 :]:
        yield f"{title(score)} {_result(new, score)}"
    verdict = new.finals.verdict
    if verdict and (old is None or old.finals.verdict != verdict):
        yield f"final: {verdict}"


def _result(board: Board, score: Confirmed) -> str:
    if not score.episodes:
        return f"could not be scored ({WORDS[score.purpose]}){_why(board, score)}"
    verdict = ""
    if score.purpose == "confirm":
        verdict = ": confirmed" if score.passed else ": not yet"
    by = f", by {score.engine}" if score.engine else ""
    shown = interval(score.mean, score.low, score.high)
    return f"on {score.episodes} fresh seeds ({WORDS[score.purpose]}{by}): {shown}{verdict}"


def _why(board: Board, score: Confirmed) -> str:
    finals = board.finals
    why = finals.given_up.get(score.pod, "") if score.purpose == "final" else ""
    if score.purpose == "candidate" and score.number - finals.first < len(finals.candidates):
        why = finals.candidates[score.number - finals.first].failure
    return f": {why}" if why else ""
