"""Several runs side by side, with the aggregates of Agarwal et al. (2021): "Deep Reinforcement
Learning at the Edge of the Statistical Precipice".

Runs of one configuration, but for its seed and its name, are *replicates* of one *arm*. A run's
score is that of its winner; the error of an arm is that over its runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from hpcpod.report.arms import Arm, arms_of, copies, differences, fields_of, task_of
from hpcpod.report.axes import Axis, axis_of, number, seconds_axis
from hpcpod.report.markup import NOTHING, Markup, joined, short, tag
from hpcpod.report.page import contents, page, section
from hpcpod.report.plot import Cell, Plot, figure, numbers, table
from hpcpod.report.scores import fresh
from hpcpod.report.story import Story
from hpcpod.run.tables import count
from hpcpod.run.text import listed, many

if TYPE_CHECKING:
    from hpcpod.tournament.scores import Improvement

FEW = 3
"""Runs of an arm below which no interval over runs is shown."""
LEVEL = 0.05
"""Error level of all verdicts of a page together."""
POINTS = 60
"""Levels at which a performance profile is drawn."""
MOST_FIELDS = 40


def _fields(arms: Sequence[Arm]) -> Markup:
    """The fields by which configurations differ, a column for each arm."""
    keys = differences([story for arm in arms for story in arm.stories])
    if not keys:
        return NOTHING
    flat = [fields_of(arm.stories[0]) for arm in arms]
    rows = [[key, *(short(each.get(key, "-")) for each in flat)] for key in keys[:MOST_FIELDS]]
    cut = f", {MOST_FIELDS} of {len(keys)}" if len(keys) > MOST_FIELDS else ""
    return table(["field", *(short(arm.name) for arm in arms)], rows,
                 f"Fields in which the configurations differ{cut}")  # fmt: skip


def comparison(stories: Sequence[Story]) -> str:
    """The page about several runs."""
    arms = arms_of(stories)
    stories = [story for arm in arms for story in arm.stories]
    pairs = _pairs(arms)
    parts = [
        ("summary", "In words", _words(stories, arms, pairs)),
        ("runs", "The runs", joined([_score_figure(arms), _runs_table(arms), _fields(arms)])),
        ("curves", "Learning", tag("div", _curves(arms), class_="figures")),
        ("aggregate", "Aggregates over runs", _aggregates(arms, pairs)),
    ]
    links = contents([(name, title) for name, title, _ in parts])
    sections = [section(name, title, body) for name, title, body in parts]
    tasks = sorted({task_of(story) for story in stories})
    title = f"{many(len(stories), 'run')} side by side"
    return page(title, links, *sections, subtitle=", ".join(map(short, tasks)))


def _words(stories: Sequence[Story], arms: Sequence[Arm], pairs: Sequence[_Pair]) -> Markup:
    """The comparison in sentences."""
    runs = many(len(stories), "run")
    said = [
        f"{runs} of one configuration: their spread is that of chance, and of the machines they ran"
        " on."
    ]
    if len(tasks := _tasks(arms)) > 1:
        said = [
            f"{runs} of {many(len(tasks), 'task')}: fields in which only tasks differ are taken for"
            " settings of one configuration."
        ]
    if len(arms) > 1:
        named = listed([f"{short(arm.name)} ({many(len(arm.stories), 'run')})" for arm in arms])
        said = [f"{runs} of {many(len(arms), 'configuration')}: {named}."]
    for task in tasks:
        ranked = [(arm, arm.scores(task)) for arm in arms if arm.scores(task)]
        ranked.sort(key=lambda each: -sum(each[1]) / len(each[1]))
        if ranked:
            means = [f"{short(arm.name)} {number(sum(s) / len(s))}" for arm, s in ranked]
            said.append(f"{short(task)}: mean score of the runs: {', '.join(means)}.")
    said += _verdicts(pairs)
    small = [short(arm.name) for arm in arms if len(arm.counted) < FEW]
    if small:
        said.append(
            f"Of {listed(small)} there are fewer than {FEW} runs: nothing can be said of the"
            " configuration, only of these policies. Launch it again with other seeds."
        )
    loose = [short(arm.name) for arm in arms if len(arm.counted) >= FEW and not arm.final]
    if loose:
        said.append(
            f"No verdict and no aggregate of {listed(loose)}: they take runs that have all finished"
            " and were all scored on fresh seeds."
        )
    for same in copies(stories):
        said.append(
            f"The same seed and the same start: {listed([short(s.name) for s in same])}. They seem"
            " to be copies of one run, which counts once in an arm: leave the others out."
        )
    open_ = [short(s.name) for s in stories if s.board.phase != "finished"]
    if open_:
        said.append(f"Not finished yet: {listed(open_)}; its score may still change.")
    stale = [short(s.name) for s in stories if s.best is not None and not s.best.fresh]
    if stale:
        said.append(
            f"Not scored on fresh seeds: {listed(stale)}; a score that was chosen as a maximum is"
            " optimistic, and stands beside others that are not."
        )
    return joined([tag("p", sentence) for sentence in said])


@dataclass(frozen=True)
class _Pair:
    """Two arms, each with enough runs of the same tasks, and what their runs show."""

    one: Arm
    other: Arm
    found: Improvement
    p: float
    """Of a permutation test of the runs' labels."""


def _pairs(arms: Sequence[Arm]) -> list[_Pair]:
    """The pairs of arms that can be compared: all their runs have a final score."""
    from hpcpod.tournament.scores import improvement_over_tasks, improvement_test

    pairs = []
    for one, other in combinations([arm for arm in arms if arm.final], 2):
        tasks = [task for task in _tasks((one, other))
                 if min(len(one.scores(task)), len(other.scores(task))) >= FEW]  # fmt: skip
        if tasks:
            strata = [[arm.scores(task) for task in tasks] for arm in (one, other)]
            found = improvement_over_tasks(*strata)
            pairs.append(_Pair(one, other, found, improvement_test(*strata)))
    return pairs


def _verdicts(pairs: Sequence[_Pair]) -> list[str]:
    """A sentence for each pair of arms with enough runs."""
    said = []
    for pair in pairs:
        one, other, found = short(pair.one.name), short(pair.other.name), pair.found
        better, worse = (one, other) if found.probability > 0.5 else (other, one)
        verdict = f"{better} is better than {worse}"
        if pair.p >= LEVEL / len(pairs):
            verdict = f"{one} and {other} can't be told apart by so few runs"
        said.append(
            f"{verdict}: a run of {one} scores above one of {other} with a probability of"
            f" {found.probability:.2f} (permutation test of the runs, p = {pair.p:.2g};"
            f" below {LEVEL / len(pairs):.2g} it counts)."
        )
    return said


def _tasks(arms: Sequence[Arm]) -> list[str]:
    return sorted({task_of(story) for arm in arms for story in arm.stories})


def _score_figure(arms: Sequence[Arm]) -> Markup:
    """Each run's winner with its interval, a dot for each episode on fresh seeds."""
    rows = [(arm, story) for arm in arms for story in arm.stories if story.best is not None]
    best = [(arm, story, story.best) for arm, story in rows if story.best is not None]
    values = [end for _, _, each in best for end in (each.mean, each.low, each.high)]
    x = axis_of("mean return of the winner", values)
    if x is None:
        return tag("p", "No run has a score yet.", class_="none")
    size = len(best)
    plot = Plot(
        "Winners of the runs", f"{many(size, 'run')}, each with the interval of its winner's score",
        x, Axis("", 0.4, size + 0.6), max(80, 26 * size),
        rows=[(float(size - i), story.name) for i, (_, story, _) in enumerate(best)],
    )  # fmt: skip
    for i, (arm, story, score) in enumerate(best):
        at = float(size - i)
        plot.whisker((score.low, at), (score.high, at), f"{arm.hue} each", story.name)
        plot.dots([(score.mean, at)], f"{arm.hue} mean", story.name)
    caption = (
        "The dot is the winner's mean return, the bar its interval over episodes, as in the"
        " run's own report: the error of one policy's score. What another run of the same"
        " configuration would give is not in it."
    )
    return figure("The winner of each run", plot.markup(), caption, _key(arms), NOTHING, wide=True)


def _key(arms: Sequence[Arm]) -> Markup:
    return tag("ul", *(
        tag("li", tag("i", class_=f"swatch {arm.hue}"), " ", short(arm.name)) for arm in arms
    ), class_="key")  # fmt: skip


def _runs_table(arms: Sequence[Arm]) -> Markup:
    rows: list[list[Cell]] = []
    for arm in arms:
        for story in arm.stories:
            best, status = story.best, story.status
            scored = ["-"] * 4 if best is None else [
                best.pod, number(best.mean),
                f"[{number(best.low)}, {number(best.high)}]" if best.episodes > 1 else "-",
                f"{best.episodes} {'fresh' if best.fresh else 'panel'}",
            ]  # fmt: skip
            rows.append([
                story.name, short(arm.name), short(task_of(story)), story.config.seed, *scored,
                count(story.board.env_steps), number(status.minutes), number(status.core_hours),
                number(status.gpu_hours), status.stop_reason or status.state,
                len(fresh(story)),
            ])  # fmt: skip
    heads = ["run", "configuration", "task", "seed", "winner", "mean", "interval", "episodes",
             "env steps", "minutes", "core-hours", "GPU-hours", "end", "fresh scores"]  # fmt: skip
    return table(heads, rows, "The runs")


def _curves(arms: Sequence[Arm]) -> Markup:
    """The way to each run's winner, against time, steps and hours."""
    stories = [story for arm in arms for story in arm.stories if story.path]
    if not stories:
        return tag("p", "No round has been scored yet: there is nothing to draw.", class_="none")
    spans = [row.seconds or 0.0 for s in stories for row in s.path]
    clock = seconds_axis("time since the first slot began", spans)
    steps = axis_of(
        "environment steps of the whole run by then",
        [float(row.total_steps) for s in stories for row in s.path],
        zero=True,
    )
    hours = axis_of("core-hours, or GPU-hours, of the whole run by then",
                    [s.hours[row.order] for s in stories for row in s.path], zero=True)  # fmt: skip
    y = axis_of("mean return", [row.mean or 0.0 for s in stories for row in s.path])
    if steps is None or hours is None or y is None:
        return NOTHING
    figures = []
    for title, x in (("wall time", clock), ("environment steps", steps), ("hours", hours)):
        plot = Plot(f"The way to each winner against {title}", "A line for each run", x, y, 260,
                    zoom=True)  # fmt: skip
        for arm in arms:
            for story in arm.stories:
                points = [
                    (_x(story, row, x, clock, steps), row.mean) for row in story.path
                    if row.mean is not None
                ]  # fmt: skip
                plot.line(points, f"{arm.hue} each", story.name)
                if points:
                    plot.label(points[-1][1], story.name, f"{arm.hue} each")
        caption = (
            "Each line is the way to a run's winner, through every copy: panels of its rounds."
        )
        figures.append(figure(f"Return against {title}", plot.markup(), caption, wide=x is clock))
    return joined([*figures, _key(arms)])


def _x(story: Story, row: Any, x: Axis, clock: Axis, steps: Axis) -> float:
    if x is clock:
        return row.seconds if row.seconds is not None else float("nan")
    return float(row.total_steps) if x is steps else story.hours[row.order]


def _aggregates(arms: Sequence[Arm], pairs: Sequence[_Pair]) -> Markup:
    """IQM, performance profiles and probabilities of improvement, of arms with enough runs."""
    strata = _normalized(arms)
    tasks = _tasks(arms)
    large = [arm for arm in arms
             if arm.final and all(len(arm.scores(task)) >= FEW for task in tasks)]  # fmt: skip
    several = len(tasks) > 1
    if not large:
        each = " on each task" if several else ""
        few = (
            f"An aggregate takes {FEW} runs of a configuration{each}, all of them finished and"
            " scored on fresh seeds."
        )
        return tag("p", few, class_="none")
    unit = "score, 0 the lowest and 1 the highest run of each task" if several else (
        "score of a run")  # fmt: skip
    return tag("div", _iqms(large, strata, unit), _profiles(large, strata, unit),
               _improvements(pairs), class_="figures")  # fmt: skip


def _normalized(arms: Sequence[Arm]) -> dict[str, list[list[float]]]:
    """Scores by arm, of each task; of several tasks from 0 (lowest run) to 1 (highest)."""
    tasks = _tasks(arms)
    found: dict[str, list[list[float]]] = {}
    for arm in arms:
        found[arm.name] = []
        for task in tasks:
            every = [score for each in arms for score in each.scores(task)]
            scores = arm.scores(task)
            if len(tasks) > 1 and scores:
                low, spread = min(every), (max(every) - min(every)) or 1.0
                scores = [(score - low) / spread for score in scores]
            if scores:
                found[arm.name].append(scores)
    return found


def _iqms(arms: Sequence[Arm], strata: Mapping[str, list[list[float]]], unit: str) -> Markup:
    from hpcpod.tournament.scores import iqm, iqm_interval

    found = []
    for arm in arms:
        flat = [score for scores in strata[arm.name] for score in scores]
        found.append((arm, iqm(flat), *iqm_interval(strata[arm.name]), len(flat)))
    x = axis_of(f"IQM of the {unit}", [end for row in found for end in row[1:4]])
    if x is None:
        return NOTHING
    size = len(found)
    said = [f"{arm.name} {number(m)} from {number(low)} to {number(high)}"
            for arm, m, low, high, _ in found]  # fmt: skip
    rows = [(float(size - i), arm.name) for i, (arm, *_) in enumerate(found)]
    y = Axis("", 0.4, size + 0.6)
    plot = Plot("Interquartile means", "; ".join(said), x, y, max(80, 40 * size), rows=rows)
    for i, (arm, middle, low, high, _) in enumerate(found):
        plot.whisker((low, float(size - i)), (high, float(size - i)), f"{arm.hue} each", arm.name)
        plot.dots([(middle, float(size - i))], f"{arm.hue} mean", arm.name)
    cells: list[list[Cell]] = [[short(arm.name), runs, number(m), number(low), number(high)]
             for arm, m, low, high, runs in found]  # fmt: skip
    caption = (
        "The mean of the middle half of the runs (of three nothing is cut: it is their mean), with"
        " the percentile interval of a bootstrap over runs, within each task. It is meant to hold"
        " the truth in 95 % of cases; of 3, 5 and 10 normal scores it did in 74, 89 and 94 %."
    )
    return figure("Interquartile mean (IQM)", plot.markup(), caption, _key(arms),
                  numbers("The numbers", table(["configuration", "runs", "IQM", "low", "high"],
                                               cells, "IQM with 95 % intervals")))  # fmt: skip


def _profiles(arms: Sequence[Arm], strata: Mapping[str, list[list[float]]], unit: str) -> Markup:
    from hpcpod.tournament.scores import profile, profile_band

    flat = {arm.name: [s for scores in strata[arm.name] for s in scores] for arm in arms}
    x = axis_of(unit, [score for scores in flat.values() for score in scores])
    if x is None:
        return NOTHING
    levels = [x.low + (x.high - x.low) * k / POINTS for k in range(POINTS + 1)]
    plot = Plot("Performance profiles", "The share of runs above each score, by configuration", x,
                Axis("share of runs above", 0.0, 1.02), 240)  # fmt: skip
    for arm in arms:
        shares = profile(flat[arm.name], levels)
        low, high = profile_band(strata[arm.name], levels, draws=500)
        band = zip(levels, map(float, low), map(float, high), strict=True)
        plot.band(band, arm.hue, arm.name)
        plot.line(zip(levels, map(float, shares), strict=True), f"{arm.hue} each", arm.name)
    caption = (
        "The share of an arm's runs that score above each value: where one is above another"
        " everywhere, these runs were higher by any measure. The band is the pointwise 95 %"
        " interval of a bootstrap over runs."
    )
    return figure("Performance profiles", plot.markup(), caption, _key(arms), NOTHING)


def _improvements(pairs: Sequence[_Pair]) -> Markup:
    if not pairs:
        return NOTHING
    size = len(pairs)
    plot = Plot("Probability of improvement", f"{many(size, 'pair')} of configurations",
                Axis("P(a run of X scores above a run of Y)", 0.0, 1.0),
                Axis("", 0.4, size + 0.6), max(80, 40 * size),
                rows=[(float(size - i), f"X{i + 1}, Y{i + 1}") for i in range(size)])  # fmt: skip
    plot.line([(0.5, 0.4), (0.5, size + 0.6)], "mark")
    cells = []
    for i, pair in enumerate(pairs):
        each, at, one = pair.found, float(size - i), pair.one
        plot.whisker((each.low, at), (each.high, at), f"{one.hue} each", one.name)
        plot.dots([(each.probability, at)], f"{one.hue} mean", one.name)
        cells.append([f"X{i + 1}", short(one.name), f"Y{i + 1}", short(pair.other.name),
                      f"{each.probability:.2f}", f"{each.low:.2f}", f"{each.high:.2f}",
                      f"{pair.p:.2g}"])  # fmt: skip
    caption = (
        "0.5 is no difference. Of few runs the bar is too narrow to show one (Newcombe's interval,"
        " 2006, of one task; of several a bootstrap's over runs). By p, of a permutation test,"
        f" a difference is shown below {LEVEL} divided by the number of pairs."
    )
    heads = ["", "configuration", "", "against", "P", "low", "high", "p"]
    return figure("Probability of improvement", plot.markup(), caption,
                  table(heads, cells, "Pairs of configurations"), NOTHING)  # fmt: skip
