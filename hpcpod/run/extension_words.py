"""Extensions of a run in words."""

from __future__ import annotations

import time

from hpcpod.records.records import Board, Ending
from hpcpod.run.text import many


def extensions_words(board: Board) -> tuple[str, ...]:
    """A sentence for each extension, oldest first."""
    return tuple(_words(ending) for ending in board.endings)


def _words(ending: Ending) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(ending.extension.time))
    won = "" if ending.winner is None else f" and won by {ending.winner}"
    ended = "" if ending.reason is None else f", after it was ended by {ending.reason}{won}"
    return (
        f"extended at {when}: {ending.extension.words}{ended}"
        f" at {many(ending.rounds, 'round')}, {ending.env_steps} env steps"
    )
