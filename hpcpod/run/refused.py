"""Decisions of a user's own rules that were refused, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from hpcpod.records.records import Board, Decision
from hpcpod.run.text import many
from hpcpod.storage.run_folder import RunFolder


def refused(folder: RunFolder, board: Board, pod: str | None = None) -> Iterator[str]:
    """A sentence for each rule of the user's that was refused, with the number and the last reason.

    Args:
        folder: the run's.
        board: its latest.
        pod: decisions about this pod alone.
    """
    population = folder.resolved.config.population
    names = {part: getattr(population, part) for part in ("updater", "generator", "allocator")}
    if not any(":" in name for name in names.values()):  # a file for each merge is not read
        return
    every = {**folder.decisions.all(), **board.decisions}.values()
    for part, name in names.items():
        about = [each for each in every if each.rule == name and pod in (None, each.pod)]
        if found := [each for each in about if each.kind == "refusal"]:
            yield (
                f"population.{part}: {many(len(found), 'decision')} by {name} refused, and made by"
                f" the built-in rule; the last reason: {found[-1].outcome}"
            )


def new_refusals(old: Board | None, new: Board) -> Iterator[str]:
    """A line for each rule that the last merge has refused, unless the board of before has one."""
    known = set() if old is None else {each.rule for each in _refusals(old)}
    for each in {each.rule: each for each in _refusals(new) if each.rule not in known}.values():
        about = f" about {each.pod}" if each.pod else ""
        yield (
            f"{each.rule}: its decision{about} is refused, and the built-in rule decides:"
            f" {each.outcome}"
        )


def _refusals(board: Board) -> list[Decision]:
    return [each for each in board.decisions.values() if each.kind == "refusal"]
