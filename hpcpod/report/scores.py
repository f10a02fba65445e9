"""The final evaluation episode by episode, the leaderboard with its intervals, and configurations
over their seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpcpod.records.records import Confirmed
from hpcpod.report.axes import Axis, axis_of, number
from hpcpod.report.markup import NOTHING, Markup, joined, tag
from hpcpod.report.plot import Cell, Plot, figure, numbers, table
from hpcpod.report.story import Story
from hpcpod.run.configuration_scores import (
    COLUMNS,
    configurations_caption,
    differing,
    shown,
)
from hpcpod.run.leaderboard import ranking
from hpcpod.run.text import many
from hpcpod.tournament.provenance import seed_set
from hpcpod.tournament.stopping import leader

MOST_ROWS = 30
"""Rows of a figure; of a table five times as many."""
MOST_DOTS = 512
"""Episodes of one score that are drawn."""


def fresh(story: Story) -> list[tuple[Confirmed, tuple[float, ...]]]:
    """The scores on fresh seeds that came to something, each with its episodes' returns: of an
    attempt at the target those of all its sets of seeds."""
    scores = [score for score in story.board.confirmed if score.episodes]
    found = [(score, _returns(story, score)) for score in scores]
    return [
        (score, returns if all(map(math.isfinite, returns)) else ()) for score, returns in found
    ]


def _returns(story: Story, score: Confirmed) -> tuple[float, ...]:
    """The episodes behind a score; empty if their reports are not there any more."""
    results = story.results
    if score.purpose == "final" and score.pod in story.board.finals.returns:
        return story.board.finals.returns[score.pod]
    prefix = f"{score.pod}-{score.purpose}{score.number}-"
    ours = [row for row in results if row.order.startswith(prefix) and not row.failure]
    if score.purpose != "confirm" or not ours:
        return ours[-1].returns if ours else ()
    sets = [row for row in results if row.purpose == "confirm" and row.pod == score.pod
            and row.round == score.round and not row.failure]  # fmt: skip
    found: tuple[float, ...] = ()
    for row in sets:
        if len(found) < score.episodes:
            found += row.returns
    return found if len(found) == score.episodes else ours[-1].returns


def finals(story: Story) -> Markup:
    """The scores on fresh seeds with a dot for each episode."""
    scores = fresh(story)
    if not scores:
        return tag(
            "p", "No policy has been scored on fresh seeds: the end of the run brings that.",
            class_="none",
        )  # fmt: skip
    order = ["report", "candidate", "final", "confirm"]
    scores = sorted(scores[-MOST_ROWS:], key=lambda each: order.index(each[0].purpose))
    ends = [end for score, _ in scores for end in (score.mean, score.low, score.high)]
    target = story.config.stop.target
    values = [each for _, returns in scores for each in returns] + ends
    x = axis_of("return of an episode", values if target is None else [*values, target])
    if x is None:
        return NOTHING
    count = len(scores)
    y = Axis("", 0.4, count + 0.6)
    names = [(float(count - i), _name(score)) for i, (score, _) in enumerate(scores)]
    plot = Plot(
        f"{story.name}: scores on fresh seeds", _said(scores), x, y, max(80, 44 * count), rows=names
    )
    if target is not None:
        plot.line([(target, y.low), (target, y.high)], "mark")
        plot.note(target, y.high, f"target {number(target)}")
    for (score, returns), (row, _) in zip(scores, names, strict=True):
        hue = story.hue(story.board.pods[score.pod].algorithm)
        strength = "win" if score == leader(story.board) else "each"
        plot.dots(_spread(returns[:MOST_DOTS], row), f"{hue} episode", score.pod)
        plot.whisker((score.low, row), (score.high, row), f"{hue} {strength}", score.pod)
        plot.dots([(score.mean, row)], f"{hue} mean", score.pod)
    caption = (
        "Each small dot is the return of one episode, on seeds of which no evaluation before it"
        " knew; its height in the row means nothing. The large dot is their mean, the bar its"
        " interval of 95 %. The report set was played by what is delivered alone, and decided"
        " nothing. The confirm set decided whether an ensemble is delivered, the select set which"
        " finalist is best: these intervals are for all of their set at once, and the mean of the"
        " best one flatters. Of an attempt at the target, with its n episodes so far, the lower"
        " end is the bound at the error level that the attempt spends."
    )
    return figure("Scores on fresh seeds, episode by episode", plot.markup(), caption,
                  numbers("The numbers", _table(story, scores)), wide=True)  # fmt: skip


def _name(score: Confirmed) -> str:
    """The set of seeds and the policy, in twelve characters if the pod's name has five; of an
    attempt at the target the policy and its episodes so far."""
    who = f"{score.rule[:4]}*{len(score.members)}" if score.rule else score.pod
    seeds = seed_set(score).replace("confirm", "conf.")
    return f"{who} n={score.episodes}" if seeds == "target" else f"{seeds} {who}"


def _spread(returns: Sequence[float], row: float) -> list[tuple[float, float]]:
    """Dots beside each other in a row: equal returns would be one dot."""
    return [(each, row + ((i * 0.618034) % 1.0 - 0.5) * 0.62) for i, each in enumerate(returns)]


def _said(scores: Sequence[tuple[Confirmed, tuple[float, ...]]]) -> str:
    said = [f"{_name(score)} {number(score.mean)} from {number(score.low)} to {number(score.high)}"
            for score, _ in scores]  # fmt: skip
    return "Mean return with its interval: " + "; ".join(said)


def _table(story: Story, scores: Sequence[tuple[Confirmed, tuple[float, ...]]]) -> Markup:
    rows = [
        [
            ", ".join(score.members) or score.pod, score.rule or "-",
            story.board.pods[score.pod].algorithm, score.round, seed_set(score), score.episodes,
            number(score.mean), number(score.low), number(score.high),
            number(min(returns)) if returns else "-",
            {True: "passed", False: "no" if score.purpose == "confirm" else "-"}[score.passed],
            score.engine,
        ]
        for score, returns in scores
    ]  # fmt: skip
    heads = ["pod", "ensemble", "algorithm", "round", "seeds", "episodes", "mean", "low", "high",
             "worst", "target", "engine"]  # fmt: skip
    return table(heads, rows, "Scores on fresh seeds, in the order in which they came")


def leaderboard(story: Story) -> Markup:
    """The leaderboard as dots with intervals, and as a table."""
    if not story.rows:
        return tag("p", ranking(story.board), class_="none")
    drawn = story.rows[:MOST_ROWS]
    values = [end for row in drawn for end in (row.mean, row.low, row.high)]
    x = axis_of("mean return of the panel by which the pod ranks", values)
    if x is None:
        return NOTHING
    count = len(drawn)
    y = Axis("", 0.4, count + 0.6)
    places = [float(count - i) for i in range(count)]
    names = [(place, row.pod) for place, row in zip(places, drawn, strict=True)]
    plot = Plot(
        f"{story.name}: leaderboard", f"{many(len(story.rows), 'row')}, {drawn[0].pod} first",
        x, y, max(80, 22 * count), rows=names,
    )  # fmt: skip
    for place, row in zip(places, drawn, strict=True):
        strength = "win" if row.pod in story.kin else "each"
        kind = f"{story.hue(row.algorithm)} {strength}"
        plot.whisker((row.low, place), (row.high, place), kind, row.pod)
        plot.dots([(row.mean, place)], f"{kind} mean", row.pod)
        if row.last is not None:
            plot.dots([(row.last, place)], f"{kind} last", row.pod)
    cut = f" The first {count} of {len(story.rows)} are drawn." if len(story.rows) > count else ""
    caption = (
        f"{ranking(story.board)} The bar is that interval, the large dot the panel's mean, the"
        f" small one the pod's last panel. A row is the best of its pod's panels, so it flatters."
        f"{cut}"
    )
    return figure("The panel by which each pod ranks", plot.markup(), caption,
                  numbers("The numbers", _board_table(story)), wide=True)  # fmt: skip


def _board_table(story: Story) -> Markup:
    most = 5 * MOST_ROWS
    rows: list[list[Cell]] = [
        [
            place, row.pod, row.algorithm, row.round, number(row.mean),
            *(number(end) if row.episodes > 1 else "-" for end in (row.low, row.high)),
            number(row.last), row.origin, row.fate,
        ]
        for place, row in enumerate(story.rows[:most], start=1)
    ]  # fmt: skip
    heads = ["#", "pod", "algorithm", "round", "mean", "95 % low", "95 % high", "last", "origin",
             "fate"]  # fmt: skip
    left = len(story.rows) - len(rows)
    return joined([
        table(heads, rows, "The leaderboard"),
        tag("p", f"{left} more rows: `hpcpod leaderboard` prints them.") if left > 0 else NOTHING,
    ])  # fmt: skip


def configurations(story: Story) -> Markup:
    """A table of the configurations that were trained to the end, the best estimate first."""
    scores = story.configurations
    rows: list[list[Cell]] = [
        [
            each.pod, each.algorithm, each.trainings, number(each.mean), number(each.sd),
            number(each.estimate), number(each.error), differing(each, scores),
        ]
        for each in shown(scores)
    ]  # fmt: skip
    return joined([
        tag("p", configurations_caption(scores)),
        table(COLUMNS, rows, "Configurations over their seeds"),
    ])  # fmt: skip
