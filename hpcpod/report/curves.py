"""Return against wall time, environment steps and GPU-hours: a line for each pod."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hpcpod.report.axes import Axis, axis_of, number, seconds_axis
from hpcpod.report.markup import NOTHING, Markup, joined, tag
from hpcpod.report.plot import Plot, figure, numbers, table
from hpcpod.report.story import FEW, Story
from hpcpod.run.history import Result
from hpcpod.run.text import many

MOST_DOTS = 60
"""Points of a line that get a dot each."""
MOST_POINTS = 20_000
"""Points of all lines but the lineage's; of more, only every second, third and so on is drawn."""
MOST_ROWS = 120
"""Rows of the table behind a figure."""

BAND = (
    "The band is the 95 % interval of the mean over that panel's episodes (Student's t): the error"
    " of one score, not the spread over pods or over runs."
)
OPTIMISTIC = (
    "The highest point of many is mostly a lucky one: what the winner is worth is said by its score"
    " on fresh seeds, above."
)

At = Callable[[Result], float]


def curves(story: Story) -> Markup:
    """The three figures; a sentence if nothing was scored yet."""
    if not story.rounds:
        return tag("p", "No round has been scored yet: there is nothing to draw.", class_="none")
    every = [row for rows in story.rounds.values() for row in rows]
    spans = [row.seconds for row in every if row.seconds is not None]
    spans += [each.seconds for each in story.snapshots]
    steps = axis_of("environment steps of the pod and its ancestors",
                    [float(row.env_steps) for row in every], zero=True)  # fmt: skip
    hours = axis_of(f"{story.device_hours} of the whole run by then",
                    [story.hours[row.order] for row in every], zero=True)  # fmt: skip
    clock = seconds_axis("time since the first slot began", spans)
    first = figure(
        "Return against wall time", plot_of(story, clock, _seconds, 340).markup(),
        f"{_legend(story)} {BAND} {_snapshot_words(story)}{OPTIMISTIC}",
        _key(story), numbers(f"The numbers: {_how_many(story)}", _table(story)), wide=True,
    )  # fmt: skip
    figures = [first]
    if steps is not None:
        figures.append(figure(
            "Return against environment steps", plot_of(story, steps, _steps).markup(),
            "The same scores by experience: a copy goes on where its parent was, so this says how"
            " much each policy has learned from, not what the run cost.",
        ))  # fmt: skip
    if hours is not None:
        figures.append(figure(
            f"Return against {story.device_hours}",
            plot_of(story, hours, lambda row: story.hours[row.order]).markup(),
            "The same scores by what the run had spent on all pods until then:"
            f" {story.device_hours} of training and scoring, failed rounds included, waiting not.",
        ))  # fmt: skip
    return joined(figures)


def _seconds(row: Result) -> float:
    return float("nan") if row.seconds is None else row.seconds


def _steps(row: Result) -> float:
    return float(row.env_steps)


def plot_of(story: Story, x: Axis, at: At, height: int = 260) -> Plot:
    """The plot of every pod's scores over one axis, the winner's lineage last and strong."""
    path = story.path
    every = [row for rows in story.rounds.values() for row in rows]
    values = [row.mean for row in every if row.mean is not None]
    values += [each for row in path for each in (row.low, row.high) if each is not None]
    target = story.config.stop.target
    y = axis_of("mean return", values if target is None else [*values, target])
    if y is None:
        y = Axis("mean return", 0.0, 1.0)
    plot = Plot(
        f"{story.name}: return against {x.label}", _described(story), x, y, height, zoom=True
    )
    if target is not None:
        plot.level(target, f"target {number(target)}")
    stride = stride_of(story)
    for pod, rows in story.rounds.items():
        if pod not in story.kin:
            plot.line(_points(thinned(rows, stride), at), story.kind(pod), pod)
            if len(story.rounds) <= FEW or len(rows) == 1:
                plot.dots(_points(rows, at), story.kind(pod), pod)
    on_the_way = {row.order for row in path}
    for pod in story.kin:  # what an ancestor did after it was copied
        left = [row for row in story.rounds.get(pod, ()) if row.order not in on_the_way]
        plot.line(_points(left, at), f"{story.hue(story.board.pods[pod].algorithm)} each", pod)
    _draw_lineage(plot, story, at)
    _draw_snapshots(plot, story, x)
    _end_labels(plot, story)
    return plot


def stride_of(story: Story) -> int:
    """The number of rounds of which one is drawn, of pods that are not of the lineage."""
    return math.ceil(sum(map(len, story.rounds.values())) / MOST_POINTS) or 1


def thinned(rows: Sequence[Result], stride: int) -> list[Result]:
    """Every so many rounds, the last one always."""
    kept = list(rows[:-1:stride])
    return [*kept, *rows[-1:]]


def _draw_lineage(plot: Plot, story: Story, at: At) -> None:
    path = story.path
    if not path:
        return
    last, kind = story.lineage[-1], story.kind(story.lineage[-1].id)
    plot.band(((at(row), _or_nan(row.low), _or_nan(row.high)) for row in path), kind, last.id)
    plot.line(_points(path, at), kind, last.id)
    if len(path) <= MOST_DOTS:
        plot.dots(_points(path, at), kind, last.id)
    for pod in story.lineage[1:]:
        born = [row for row in path if row.pod == pod.id][:1]
        for row in born:
            plot.note(at(row), _or_nan(row.mean), pod.id, "note birth")


def _draw_snapshots(plot: Plot, story: Story, x: Axis) -> None:
    """The leader's policies at equal wall times, on fresh seeds; only against wall time."""
    if x.suffix and story.snapshots:
        points = [(each.seconds, _or_nan(each.mean)) for each in story.snapshots]
        plot.dots(points, "fresh")
        for each in story.snapshots:
            if each.mean is not None and each.error is not None:
                half = 2 * each.error
                low, high = (each.seconds, each.mean - half), (each.seconds, each.mean + half)
                plot.whisker(low, high, "fresh")


def _end_labels(plot: Plot, story: Story) -> None:
    """Names at the right end, the winner's first: of the best pod of each algorithm, and of all if
    they are few."""
    last = {pod: rows[-1].mean or 0.0 for pod, rows in story.rounds.items()}
    winner = story.lineage[-1].id if story.lineage else ""
    order = sorted(last, key=lambda pod: (pod != winner, -last[pod]))
    named: set[str] = set()
    for pod in order:
        algorithm = story.board.pods[pod].algorithm
        if pod == winner or len(last) <= FEW or algorithm not in named:
            kind = "win" if pod == winner else "each"
            plot.label(last[pod], pod, f"{story.hue(algorithm)} {kind}")
        named.add(algorithm)


def _points(rows: Iterable[Result], at: At) -> list[tuple[float, float]]:
    return [(at(row), row.mean) for row in rows if row.mean is not None]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _how_many(story: Story) -> str:
    scored = sum(len(rows) for rows in story.rounds.values())
    return f"{many(scored, 'score')} of {many(len(story.rounds), 'pod')}"


def _legend(story: Story) -> str:
    few = len(story.rounds) <= FEW
    rest = "the other pods" if few else "the other pods, thin"
    winner = "the winner" if story.board.winner else "the leader so far"
    if not story.lineage or len(story.rounds) == 1:
        return "Each point is a pod's mean return on the panel of one round."
    said = (
        "Each line is a pod, each point its mean return on the panel of one round. The strong line"
        f" is the way to {winner}, {story.lineage[-1].id}, from its founder"
        f" {story.lineage[0].id} through every copy; beside it {rest}. +2 behind a name: so many"
        " more lines end there."
    )
    stride = stride_of(story)
    return f"{said} Of the thin lines one round in {stride} is drawn." if stride > 1 else said


def _snapshot_words(story: Story) -> str:
    if not any(each.mean is not None for each in story.snapshots):
        return ""
    return (
        "Dark dots with bars are the policy that led at that time, scored after the run on fresh"
        " seeds (plus and minus two standard errors): what one would have got then. "
    )


def _key(story: Story) -> Markup:
    """The colours of the algorithms, where there are several."""
    if len(story.hues) < 2:
        return NOTHING
    return tag(
        "ul",
        *(tag("li", tag("i", class_=f"swatch {hue}"), " ", name)
          for name, hue in story.hues.items()),
        class_="key",
    )  # fmt: skip


def _described(story: Story) -> str:
    """The figure for those who don't see it."""
    if story.best is None:
        return _how_many(story)
    first, last = story.path[:1], story.path[-1:]
    way = ""
    if first and last and first[0].mean is not None and last[0].mean is not None:
        way = f" Its lineage went from {number(first[0].mean)} to {number(last[0].mean)}."
    return f"{_how_many(story)}; {story.best.pod} leads.{way}"


def _table(story: Story) -> Markup:
    """The lineage's scores round by round, then each other pod in a row."""
    lineage = [_row(story, row) for row in story.path]
    heads = ["pod", "algorithm", "round", "seconds", "env steps", story.device_hours, "mean return",
             "95 % low", "95 % high"]  # fmt: skip
    shown = lineage if len(lineage) <= MOST_ROWS else lineage[:: len(lineage) // MOST_ROWS + 1]
    parts = [table(heads, shown, f"The way to {story.lineage[-1].id}, round by round"
                   if story.lineage else "Scores")] if shown else []  # fmt: skip
    others = [(pod, rows) for pod, rows in story.rounds.items() if pod not in story.kin]
    others.sort(key=lambda each: -max(row.mean or 0.0 for row in each[1]))
    cut = f", the best {MOST_ROWS} of {len(others)}" if len(others) > MOST_ROWS else ""
    if others:
        parts.append(table(heads, [_row(story, rows[-1]) for _, rows in others[:MOST_ROWS]],
                           f"The last score of every other pod{cut}"))  # fmt: skip
    return joined(parts)


def _row(story: Story, row: Result) -> list[str | float | None]:
    ends = map(number, (row.mean, row.low, row.high))
    seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
    hours = number(story.hours[row.order])
    return [row.pod, row.algorithm, row.round, seconds, number(row.env_steps), hours, *ends]


def main_figure(story: Story) -> Plot:
    """Return against wall time, for a picture outside the page."""
    spans = [row.seconds or 0.0 for rows in story.rounds.values() for row in rows]
    clock = seconds_axis("time since the first slot began", spans)
    return replace(plot_of(story, clock, _seconds, 340), zoom=False)
