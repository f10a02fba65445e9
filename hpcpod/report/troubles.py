"""Troubles: orders that failed, decisions that were refused, damaged files, requeues."""

from __future__ import annotations

import time

from hpcpod.report.markup import Markup, joined, short, tag
from hpcpod.report.plot import Cell, table
from hpcpod.report.story import Story
from hpcpod.run.text import many

MOST_ROWS = 100


def troubles(story: Story) -> Markup:
    """A table for each kind of trouble that there was; a sentence if there was none."""
    parts = [
        part for part in (_failed(story), _dropped(story), _refused(story), _quarantined(story))
        if part is not None
    ]  # fmt: skip
    found = sum(row.counted for row in story.results)
    if found < story.board.reports:
        lost = many(story.board.reports - found, "report")
        said = f"{lost} that the leaderboard has counted can't be read: damaged or gone; no figure"
        parts.append(tag("p", f"{said} has them."))
    requeues = story.status.requeues
    if requeues:
        said = f"The scheduler has started slots again: {many(requeues, 'requeue')}."
        parts.append(tag("p", said))
    if not parts:
        none = (
            "No order failed, no decision was refused, no file was damaged, no slot was requeued."
        )
        return tag("p", none, class_="none")
    return joined(parts)


def _cut(count: int) -> str:
    return f", the last {MOST_ROWS} of {count}" if count > MOST_ROWS else ""


def _failed(story: Story) -> Markup | None:
    rows = [row for row in story.results if row.failure_kind]
    if not rows:
        return None
    cells: list[list[Cell]] = [
        [_since(row.seconds), row.pod, row.round, row.attempt, row.slot, row.failure_kind,
         short(row.failure, 300)]
        for row in rows[-MOST_ROWS:]
    ]  # fmt: skip
    heads = ["after", "pod", "round", "attempt", "slot", "kind", "because"]
    return table(heads, cells, f"Orders that failed{_cut(len(rows))}")


def _dropped(story: Story) -> Markup | None:
    end = story.board.stopped
    if story.board.phase != "finished" or end is None:
        return None
    rows = [
        row for row in story.results
        if not row.counted and not row.failure_kind and row.ended < end
    ]  # fmt: skip
    if not rows:
        return None
    cells = [[_since(row.seconds), row.order, row.slot] for row in rows[-MOST_ROWS:]]
    text = (
        "Reports that counted for nothing: their order was given to another slot in the meantime,"
        f" or was not needed any more{_cut(len(rows))}"
    )
    return table(["after", "order", "slot"], cells, text)


def _refused(story: Story) -> Markup | None:
    rows = [each for each in story.decisions if each.kind == "refusal"]
    if not rows:
        return None
    cells = [
        [time.strftime("%H:%M:%S", time.localtime(each.time)), short(each.rule), each.pod or "-",
         short(each.outcome, 300)]
        for each in rows[-MOST_ROWS:]
    ]  # fmt: skip
    text = f"Decisions of a rule that could not be carried out{_cut(len(rows))}"
    return table(["at", "rule", "pod", "what came of it"], cells, text)


def _quarantined(story: Story) -> Markup | None:
    rows = story.quarantined
    if not rows:
        return None
    cells = [[short(each.name, 120), short(each.reason, 300)] for each in rows[-MOST_ROWS:]]
    text = f"Damaged files that were set aside, and done again{_cut(len(rows))}"
    return table(["file", "because"], cells, text)


def _since(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"
