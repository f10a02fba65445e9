"""The page about a sweep: the effects of its factors, and the table of its runs."""

from __future__ import annotations

from collections.abc import Sequence

from hpcpod.report.axes import Axis, axis_of, number
from hpcpod.report.holdout import folds, over_folds
from hpcpod.report.markup import NOTHING, Markup, joined, short, tag
from hpcpod.report.page import contents, page, section
from hpcpod.report.plot import Cell, Plot, figure, table
from hpcpod.run.sweeps.design import label
from hpcpod.run.sweeps.effects import Analysis, Effect, analyse
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.run.sweeps.outcome import tidy
from hpcpod.run.text import listed, many

MOST_ROWS = 40
"""Intervals in one figure; of more the table has all."""
MOST_RUNS = 500
"""Rows of the table of runs."""


def sweep_page(sweep: Sweep) -> str:
    """The page about a sweep."""
    rows = sweep.rows()
    analyses = analyse(sweep.factors, rows)
    heads, cells = tidy(sweep.factors, rows)
    shown = [[*map(_cell, row)] for row in cells[:MOST_RUNS]]
    cut = f", {MOST_RUNS} of {len(cells)}" if len(cells) > MOST_RUNS else ""
    parts = [
        ("summary", "In words", _words(sweep, analyses, [o.fate for _, o in rows])),
        ("effects", "Effects", joined([_main(each) for each in analyses])),
        ("interactions", "Interactions", joined([_interactions(each) for each in analyses])),
        ("runs", "The runs", table(heads, shown, f"A row for each run of the sweep{cut}")),
    ]
    if over_folds(sweep):
        parts.insert(1, ("holdouts", "The holdouts", folds(sweep)))
    links = contents([(name, title) for name, title, _ in parts])
    sections = [section(name, title, body) for name, title, body in parts]
    factors = listed([short(factor.path) for factor in sweep.factors])
    return page(sweep.name, links, *sections, subtitle=f"A sweep over {factors}")


def _cell(value: object) -> Cell:
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return number(value)
    return short(value) if isinstance(value, str) else label(value)


def _words(sweep: Sweep, analyses: Sequence[Analysis], fates: Sequence[str]) -> Markup:
    design = sweep.design
    counted = ", ".join(f"{fates.count(fate)} {fate}" for fate in dict.fromkeys(fates))
    seeds = f", {design.seeds} seeds each" if design.seeds > 1 else ""
    said = [
        f"{many(len(sweep.cells), 'run')} of {many(len(sweep.factors), 'factor')}, a design"
        f" {design.design}{seeds}, with equal budgets: {counted}."
    ]
    for each in analyses:
        where = f"In {short(each.env)}: " if each.env else ""
        clear = [effect for effect in each.effects if effect.shown]
        if not each.effects:
            said.append(f"{where}no effects can be told.")
        elif clear:
            said.append(f"{where}{listed([_sentence(effect) for effect in clear[:8]])}.")
        else:
            said.append(f"{where}no interval leaves zero out: nothing is shown to have an effect.")
        if each.effects:
            said.append(
                f"Of {len(each.effects)} intervals some {each.expected:.1f} would leave zero out if"
                " nothing had an effect: one alone is weak evidence."
            )
        said += each.remarks
    return joined([tag("p", sentence) for sentence in said])


def _sentence(effect: Effect) -> str:
    """An effect in words: ``gamma=0.99 +12 [3, 21]``."""
    return f"{_name(effect)} {effect.value:+.3g} [{number(effect.low)}, {number(effect.high)}]"


def _name(effect: Effect) -> str:
    pairs = zip(effect.factors, effect.levels, strict=True)
    return " with ".join(f"{short(path)}={short(level)}" for path, level in pairs)


def _main(analysis: Analysis) -> Markup:
    """A figure of the main effects in one environment, factor by factor."""
    return _figure(analysis, [each for each in analysis.effects if len(each.factors) == 1],
                   "Main effects", "The mean score of a level, less the mean of all levels,"
                   f" {number(analysis.mean)}, over all levels of the other factors.")  # fmt: skip


def _interactions(analysis: Analysis) -> Markup:
    return _figure(analysis, [each for each in analysis.effects if len(each.factors) == 2],
                   "Interactions of two", "What two levels together have beyond the sum of their"
                   " two effects.")  # fmt: skip


def _figure(analysis: Analysis, effects: Sequence[Effect], title: str, meaning: str) -> Markup:
    where = f" in {short(analysis.env)}" if analysis.env else ""
    x = axis_of("effect on the score", [0.0, *(end for e in effects for end in (e.low, e.high))])
    if not effects or x is None:
        return tag("p", f"{title}{where}: none can be told.", class_="none")
    drawn = effects[:MOST_ROWS]
    size = len(drawn)
    rows = [(float(size - i), f"E{i + 1}") for i in range(size)]
    plot = Plot(f"{title}{where}", "; ".join(map(_sentence, drawn)), x, Axis("", 0.4, size + 0.6),
                max(80, 24 * size), rows=rows)  # fmt: skip
    plot.line([(0.0, 0.4), (0.0, size + 0.6)], "mark")
    hues: dict[tuple[str, ...], str] = {}
    for i, effect in enumerate(drawn):
        hue, at = hues.setdefault(effect.factors, f"k{len(hues) % 7}"), float(size - i)
        plot.whisker((effect.low, at), (effect.high, at), f"{hue} each", _name(effect))
        plot.dots([(effect.value, at)], f"{hue} mean", _name(effect))
    caption = (
        f"{meaning} The bar is a 95 % interval (Student's, {analysis.freedom} degrees of freedom;"
        f" standard deviation of a run {number(analysis.spread)}); it holds for scores that are"
        " about normal and spread alike in all cells."
    )
    cells: list[list[Cell]] = [
        [f"E{i + 1}", *map(short, (" with ".join(e.factors), " with ".join(e.levels))),
         number(e.value), number(e.low), number(e.high)]
        for i, e in enumerate(effects)
    ]  # fmt: skip
    heads = ["", "factor", "level", "effect", "low", "high"]
    return figure(f"{title}{where}", plot.markup(), caption,
                  table(heads, cells, f"{title}{where}"), NOTHING, wide=True)  # fmt: skip
