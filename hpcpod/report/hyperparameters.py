"""Hyperparameters over time, of survivors and dead, and those that mattered."""

from __future__ import annotations

import math

from hpcpod.config.space import AlgorithmSpace, Choice, LogUniform, Scalar
from hpcpod.report.axes import Axis, axis_of, number
from hpcpod.report.influence import (
    BLOCK,
    LEAST,
    RANDOM_MOVES,
    Influence,
    Sample,
    in_order,
    influences,
    samples,
)
from hpcpod.report.markup import NOTHING, Markup, joined, tag
from hpcpod.report.plot import Plot, numbers, table
from hpcpod.report.story import Story
from hpcpod.report.tree import lanes_of
from hpcpod.run.text import many

RHO = "\N{GREEK SMALL LETTER RHO}"
MOST_PANELS = 24
"""Hyperparameters, over all algorithms, that are drawn."""
MOST_LINES = 300
"""Pods of a panel of which each has a line that can be marked."""
MOST_ROWS = 150


def over_time(story: Story) -> Markup:
    """A panel for each hyperparameter that has a range."""
    searched = [(name, key) for name, space in story.algorithms.items() for key in space.ranged]
    if not searched or not story.board.pods:
        return tag("p", "No hyperparameter has a range: nothing was searched.", class_="none")
    _, ends = lanes_of(story)
    panels = [_panel(story, name, key, ends) for name, key in searched[:MOST_PANELS]]
    left = len(searched) - len(panels)
    note = tag("p", f"{left} more hyperparameters are not drawn.") if left > 0 else NOTHING
    caption = tag(
        "p", "A horizontal line is a pod at its value, from its birth to its end; strong is the"
        " winner's lineage, coloured are survivors, grey are pods that were replaced or failed."
        " Copies begin near their parent's value, so lines that crowd together late show what was"
        " copied, which need not be what is best.", class_="reading",
    )  # fmt: skip
    return joined([
        tag("div", *panels, class_="panels"), note, caption,
        numbers("The numbers", _table(story)),
    ])  # fmt: skip


def value_axis(space: AlgorithmSpace, name: str) -> Axis:
    """The axis of a hyperparameter: its range, logarithmic if that is."""
    given = space.values[name]
    if isinstance(given, Choice):
        names = tuple(str(value) for value in in_order(given))
        return Axis(name, -0.5, len(names) - 0.5, choices=names)
    if isinstance(given, LogUniform):
        made = axis_of(name, (given.low, given.high), log=True)
    elif isinstance(given, (bool, int, float, str)):
        made = None
    else:
        made = axis_of(name, (float(given.low), float(given.high)))
    return made or Axis(name, 0.0, 1.0)


def _drawn(space: AlgorithmSpace, name: str, value: Scalar) -> float:
    """A value as its axis has it."""
    given = space.values[name]
    if isinstance(given, Choice):
        return next((float(i) for i, each in enumerate(in_order(given)) if each == value), math.nan)
    return float(value) if isinstance(value, (int, float)) else math.nan


def _panel(story: Story, algorithm: str, name: str, ends: dict[str, float]) -> Markup:
    space, rounds = story.algorithms[algorithm], story.board.rounds
    x = Axis("rounds of all pods", 0.0, max(1.0, rounds * 1.02))
    plot = Plot(
        f"{algorithm} {name} over time", f"Values of {name} of {algorithm} pods, birth to end",
        x, value_axis(space, name), 170,
    )  # fmt: skip
    ours = [pod for pod in story.board.pods.values() if pod.algorithm == algorithm]
    if len(ours) > MOST_LINES:  # no line of its own for who is neither alive nor an ancestor
        others = [pod for pod in ours if pod.id not in story.kin]
        for fate in (False, True):
            lines = [
                ((float(pod.born), value), (ends[pod.id], value))
                for pod in others if (pod.fate == "alive") is fate
                for value in [_drawn(space, name, pod.hyperparameters.get(name, math.nan))]
            ]  # fmt: skip
            plot.segments(lines, f"{story.hue(algorithm)} {'thin' if fate else 'gone'}")
        ours = [pod for pod in ours if pod.id in story.kin]
    for pod in sorted(ours, key=lambda pod: (pod.id in story.kin, pod.fate == "alive")):
        value = _drawn(space, name, pod.hyperparameters.get(name, math.nan))
        strength = (
            "win" if pod.id in story.kin else "each" if pod.fate == "alive" else "gone"
        )  # fmt: skip
        kind = f"{story.hue(algorithm)} {strength}"
        plot.line([(pod.born, value), (ends[pod.id], value)], kind, pod.id)
        parent = story.board.pods.get(pod.parent or "")
        if parent is not None and pod.id in story.kin:
            before = _drawn(space, name, parent.hyperparameters.get(name, math.nan))
            plot.whisker((pod.born, before), (pod.born, value), kind, pod.id)
    label = f"{name} ({algorithm})"
    return tag("figure", tag("h4", label), tag("div", plot.markup(), class_="frame"))


def _table(story: Story) -> Markup:
    """The searched values of each pod, the winner's lineage first."""
    pods = sorted(story.board.pods.values(), key=lambda pod: (pod.id not in story.kin, pod.id))
    parts = []
    for algorithm, space in story.algorithms.items():
        ours = [pod for pod in pods if pod.algorithm == algorithm]
        if not space.ranged or not ours:
            continue
        rows = [
            [pod.id, pod.fate, *(_said(pod.hyperparameters.get(key, "-")) for key in space.ranged)]
            for pod in ours[:MOST_ROWS]
        ]
        cut = f", {MOST_ROWS} of {len(ours)}" if len(ours) > MOST_ROWS else ""
        caption = f"Values of {algorithm}, the winner's lineage first{cut}"
        parts.append(table(["pod", "fate", *space.ranged], rows, caption))
    return joined(parts)


def _said(value: Scalar) -> str:
    return number(value) if isinstance(value, float) else str(value)


def mattered(story: Story) -> Markup:
    """The correlations of hyperparameters with scores, and what can't be seen."""
    found = [(sample, influences(sample)) for sample in samples(story)]
    found = [(sample, rows) for sample, rows in found if rows]
    how = tag("p", _method(story), class_="reading")
    if not found:
        few = (
            f"This run is too small to say: it takes {LEAST} pods of one algorithm that drew their"
            " values by chance and reached the same round, or as many copies that moved by chance."
        )
        return joined([tag("p", few, class_="none"), how])
    every = [row for _, rows in found for row in rows]
    sentences = [tag("p", _sentence(sample, rows)) for sample, rows in found]
    panels = [
        _scatter(story, sample, row)
        for sample, rows in found if sample.kind == "draws" for row in rows[:4]
    ]  # fmt: skip
    return joined([
        *sentences, tag("div", *panels[:12], class_="panels") if panels else NOTHING, how,
        numbers("The numbers", _correlations(every)),
    ])  # fmt: skip


def _method(story: Story) -> str:
    moves = (
        " Moves: copies, by how far chance moved each value from the parent's, and how much their"
        " first round scored above the parent. Ranks count, and chance exchanges scores, among"
        f" {BLOCK} neighbouring births at most: gains fall with time, and values drift."
        if story.config.population.generator in RANDOM_MOVES
        else " Copies are left out: this generator may choose their values by the scores."
    )
    return (
        "Counted are only values that chance has set. Draws: founders that drew from the ranges, by"
        f" their score at an equal round.{moves} {RHO} is Spearman's rank correlation, from -1 to"
        " 1, with its 95 % interval, which is for each hyperparameter alone. p is the probability"
        " that any hyperparameter of the sample shows as much by chance; where none matters, one in"
        " twenty samples shows something all the same. A best value in the middle of a range is"
        " hardly a rank correlation: look at the points."
    )


def _sentence(sample: Sample, rows: list[Influence]) -> str:
    """A sample's findings in words."""
    pods = many(len(sample.scores), "founder" if sample.kind == "draws" else "copy")
    pods = pods.replace("copys", "copies")
    where = f" at round {sample.round}" if sample.kind == "draws" else " in their first round"
    seen = [row for row in rows if row.seen]
    limit = rows[0].limit
    rest = f"With {pods}, correlations below about {limit:.2f} can't be told from chance."
    if limit > 1:
        size = f"{pods} and {many(len(rows), 'hyperparameter')}"
        rest = f"With {size} nothing can be seen: not even a correlation of 1."
    if not seen:
        return f"{sample.algorithm}, {pods}{where}: no hyperparameter is seen to matter. {rest}"
    said = "; ".join(
        f"{'higher' if row.rho > 0 else 'lower'} {row.hyperparameter} went with higher scores"
        f" ({RHO} = {row.rho:.2f}{_ends(row, ', from {} to {}')}, p {_chance(row.p)})"
        for row in seen
    )
    return f"{sample.algorithm}, {pods}{where}: {said}. {rest}"


def _ends(row: Influence, words: str) -> str:
    """The interval in words; of a correlation of 1 it has none."""
    return words.format(f"{row.low:.2f}", f"{row.high:.2f}") if math.isfinite(row.low) else ""


def _chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _scatter(story: Story, sample: Sample, row: Influence) -> Markup:
    """The founders' scores over one hyperparameter."""
    space = story.algorithms[sample.algorithm]
    x = value_axis(space, row.hyperparameter)
    values = sample.values[row.hyperparameter]
    if isinstance(space.values[row.hyperparameter], LogUniform):
        values = [math.exp(value) for value in values]
    y = axis_of("mean return", sample.scores) or Axis("mean return", 0.0, 1.0)
    said = f"{RHO} = {row.rho:.2f}{_ends(row, ' [{}, {}]')}, p {_chance(row.p)}"
    plot = Plot(
        f"{sample.algorithm}: score at round {sample.round} over {row.hyperparameter}", said,
        x, y, 170,
    )  # fmt: skip
    kind = f"{story.hue(sample.algorithm)} {'win' if row.seen else 'each'} mean"
    plot.dots(zip(values, sample.scores, strict=True), kind)
    title = f"{row.hyperparameter} ({sample.algorithm})"
    return tag("figure", tag("h4", title), tag("div", plot.markup(), class_="frame"),
               tag("figcaption", said))  # fmt: skip


def _correlations(rows: list[Influence]) -> Markup:
    cells = [
        [row.algorithm, row.hyperparameter, row.kind, row.pods, f"{row.rho:.2f}",
         _ends(row, "{0}") or "-", _ends(row, "{1}") or "-", f"{row.p:.3f}",
         "yes" if row.seen else "no"]
        for row in rows
    ]  # fmt: skip
    heads = ["algorithm", "hyperparameter", "sample", "pods", RHO, "95 % low", "95 % high", "p",
             "seen"]  # fmt: skip
    return table(heads, cells, "Rank correlations of hyperparameters with scores")
