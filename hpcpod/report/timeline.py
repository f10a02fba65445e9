"""The timeline of slots, and the hours by purpose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcpod.report.axes import Axis, axis_of, number, seconds_axis
from hpcpod.report.markup import NOTHING, Markup, tag
from hpcpod.report.plot import GRID, Plot, figure, numbers, table
from hpcpod.report.story import Story
from hpcpod.run.text import duration, many
from hpcpod.run.usage import Activity

MOST_SLOTS = 64
"""Slots that are drawn."""
KINDS = ("training", "scoring", "starting", "waiting", "failed", "away")
"""Activities in the order in which they are drawn: the rarest last."""
WORDS = {
    "training": "training a round", "scoring": "scoring", "starting": "starting a process",
    "waiting": "waiting for work", "failed": "an order that failed",
    "away": "away: preempted, requeued or out of time",
}  # fmt: skip


def timeline(story: Story) -> Markup:
    """The figure of what each slot did when; a sentence if none has worked."""
    spans = story.activities
    if not spans:
        return tag("p", "No slot has begun to work yet.", class_="none")
    start = min(span.began for span in spans)
    if story.board.began is not None:
        start = min(start, story.board.began)
    x = seconds_axis("time since the first slot began", [span.ended - start for span in spans])
    names = sorted({span.slot for span in spans}, key=_in_order)
    shown = names[:MOST_SLOTS]
    rows = {name: float(len(shown) - i) for i, name in enumerate(shown)}
    step = 22 if len(shown) <= 16 else 10
    y = Axis("", 0.4, len(shown) + 0.6)
    plot = Plot(
        f"{story.name}: what each slot did when",
        f"{many(len(names), 'slot')}; {_shares(story)}", x, y, max(70, step * len(shown)),
        rows=[(row, name) for name, row in rows.items()] if step > 10
        else [(float(len(shown)), "slots")],
    )  # fmt: skip
    for kind in KINDS:
        mine = [span for span in spans if span.kind == kind and span.slot in rows]
        bars = [(began - start, ended - start, rows[slot])
                for slot, began, ended in merged(mine, x.high / GRID)]  # fmt: skip
        plot.bars(bars, kind, 0.36 if kind == "waiting" else 0.78)
    cut = f" Drawn are {len(shown)} of {len(names)} slots." if len(names) > len(shown) else ""
    key = tag(
        "ul", *(tag("li", tag("i", class_=f"swatch {kind}"), " ", WORDS[kind]) for kind in KINDS
                if any(span.kind == kind for span in spans)), class_="key",
    )  # fmt: skip
    caption = (
        "A row is a slot: an element of the job array, or a process on this machine. While it"
        " trains one round it may score another one beside it; that is drawn as training."
        f" {_shares(story)}{cut}"
    )
    return figure("What each slot did when", plot.markup(), caption, key, NOTHING, wide=True)


def merged(spans: Sequence[Activity], close: float) -> list[tuple[str, float, float]]:
    """Spans of slots with neighbours joined that are less than ``close`` seconds apart."""
    found: list[tuple[str, float, float]] = []
    for span in sorted(spans, key=lambda span: (span.slot, span.began)):
        if found and found[-1][0] == span.slot and span.began - found[-1][2] < close:
            slot, began, ended = found[-1]
            found[-1] = (slot, began, max(ended, span.ended))
        else:
            found.append((span.slot, span.began, span.ended))
    return found


def _in_order(name: str) -> list[str]:
    """A key by which slot 10 comes after slot 2."""
    return [part.zfill(9) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def hours(story: Story) -> Markup:
    """Bars of the hours that each purpose took."""
    used = [row for row in story.usage if row.slot_seconds > 0]
    if not used:
        return NOTHING
    values = [row.gpu_hours if story.gpus else row.core_hours for row in used]
    unit = story.device_hours
    x = axis_of(unit, [0.0, 1.3 * max(values)], zero=True)
    if x is None:
        return NOTHING
    whole, count = sum(values) or 1.0, len(used)
    y = Axis("", 0.4, count + 0.6)
    places = [float(count - i) for i in range(count)]
    plot = Plot(
        f"{story.name}: {unit} by purpose", _shares(story), x, y, max(70, 30 * count),
        rows=[(place, row.purpose) for place, row in zip(places, used, strict=True)],
    )  # fmt: skip
    for place, row, value in zip(places, used, values, strict=True):
        kind = "failed" if row.purpose == "lost" else row.purpose
        plot.bars([(0.0, value, place)], kind, 0.7)
        plot.beside(value, place, f"{number(value)} ({value / whole:.0%})")
    cells = [
        [row.purpose, duration(row.slot_seconds), number(row.core_hours), number(row.gpu_hours)]
        for row in story.usage
    ]
    heads = ["purpose", "slot time", "core-hours", "GPU-hours"]
    caption = (
        f"The {unit} that the run's slots had, by what they did. Lost are orders that failed, and"
        " those that were done again since their slot was given up; a queue's time is not in it."
    )
    return figure(f"{unit[:1].upper()}{unit[1:]} by purpose", plot.markup(), caption,
                  numbers("The numbers", table(heads, cells, "Slot time by purpose")))  # fmt: skip


def _shares(story: Story) -> str:
    """The shares of the slots' time, in a sentence."""
    whole = sum(row.slot_seconds for row in story.usage)
    if whole <= 0:
        return ""
    parts = [
        f"{row.slot_seconds / whole:.0%} {row.purpose}" for row in story.usage
        if row.slot_seconds / whole >= 0.005
    ]  # fmt: skip
    return f"Of {duration(whole)} of slot time: {', '.join(parts)}."
