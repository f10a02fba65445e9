"""The holdout of a trading run, as it was last opened."""

from __future__ import annotations

from hpcpod.report.markup import Markup, joined, tag
from hpcpod.report.plot import table
from hpcpod.report.story import Story
from hpcpod.run.sweeps.folder import home_of
from hpcpod.trading.ledger import LEDGERS
from hpcpod.trading.verdict import BACKENDS, HEADS, cells, verdicts


def has_holdout(story: Story) -> bool:
    """True of a trading run."""
    return story.config.env.backend in BACKENDS


def holdout(story: Story) -> Markup:
    """The verdict, its table, and what the other intervals of the page are of."""
    narrow = tag(
        "p",
        "All other intervals of this page are of episodes whose windows lie on the same days, again"
        " and again: they tell policies apart on these days, and are too narrow for others.",
    )
    found = verdicts(home_of(story.folder) / LEDGERS, story.name)
    if not found:
        never = (
            f"It was not opened yet: hpcpod evaluate {story.name} --holdout does, and counts it."
        )
        return joined([tag("p", never, class_="none"), narrow])
    last = found[-1]
    words = [f"{last.words[0].upper()}{last.words[1:]}."]
    words += [] if last.trials is None else [last.trials.words]
    rows = [list(cells(row)) for row in last.rows]
    return joined([
        tag("p", " ".join(words)),
        table(list(HEADS), rows, f"{last.first} to {last.last}, with equal fills and costs for all;"
              " intervals of 95 %, by a stationary bootstrap of the same days"),
        narrow,
    ])  # fmt: skip
