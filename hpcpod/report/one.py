"""The report of one run."""

from __future__ import annotations

import shlex
import time

from hpcpod.config.loader import to_mapping
from hpcpod.report.axes import number
from hpcpod.report.curves import curves
from hpcpod.report.holdout import has_holdout, holdout
from hpcpod.report.hyperparameters import mattered, over_time
from hpcpod.report.markup import Markup, joined, tag
from hpcpod.report.page import contents, page, section
from hpcpod.report.plot import numbers, table
from hpcpod.report.scores import configurations, finals, leaderboard
from hpcpod.report.story import Story
from hpcpod.report.summary import summary
from hpcpod.report.timeline import hours, timeline
from hpcpod.report.tree import tree
from hpcpod.report.troubles import troubles
from hpcpod.run.tables import count
from hpcpod.run.text import duration

MOST_NAMES = 500
"""Pods that can be marked by name."""


def report_of(story: Story) -> str:
    """The page about one run."""
    seeds = "Configurations over their seeds"
    parts = [
        ("summary", "In words", joined([_tiles(story), summary(story)])),
        *([("holdout", "The holdout", holdout(story))] if has_holdout(story) else []),
        ("fresh", "What the best policies are worth", finals(story)),
        ("curves", "Learning", tag("div", curves(story), class_="figures")),
        ("board", "Leaderboard", leaderboard(story)),
        *([("configurations", seeds, configurations(story))] if story.configurations else []),
        ("births", "Births", tree(story)),
        ("values", "Hyperparameters over time", over_time(story)),
        ("mattered", "Which hyperparameters mattered", mattered(story)),
        ("slots", "Slots and hours", joined([timeline(story), hours(story)])),
        ("troubles", "What went wrong", troubles(story)),
        ("advice", "What to ask for the next time", _advice(story)),
        ("again", "To do it again", _again(story)),
    ]
    links = contents([(name, title) for name, title, _ in parts])
    sections = [section(name, title, body) for name, title, body in parts]
    return page(story.name, links, _finder(story), *sections, subtitle=_subtitle(story))


def _subtitle(story: Story) -> str:
    began = story.board.began
    since = "" if began is None else time.strftime(", %Y-%m-%d %H:%M", time.localtime(began))
    return f"{story.config.env.id}, {story.status.state}{since}"


def _tiles(story: Story) -> Markup:
    """The numbers that are asked for first."""
    best, status = story.best, story.status
    tiles = []
    if best is not None:
        interval = f"[{number(best.low)}, {number(best.high)}]" if best.episodes > 1 else ""
        tiles.append((number(best.mean), f"mean return {interval} on {best.seeds_words}"))
        first = ", first of the ensemble that is delivered" if best.ensemble else ""
        word = f"the winner{first}" if story.board.winner else "leads so far"
        tiles.append((best.pod, word))
    tiles += [
        (count(story.board.env_steps), "environment steps"),
        (duration(60 * status.minutes), "wall time"),
        (number(status.gpu_hours or status.core_hours), story.device_hours),
        (str(status.copies), f"copies among {len(story.board.pods)} pods"),
    ]
    return tag("ul", *(
        tag("li", tag("strong", value), " ", tag("span", text)) for value, text in tiles
    ), class_="tiles")  # fmt: skip


def _finder(story: Story) -> Markup:
    """A list by which a reader marks one pod in all figures; the script shows it."""
    pods = sorted(story.rounds, key=lambda pod: (pod not in story.kin, pod))[:MOST_NAMES]
    options = [tag("option", "none", value=""), *(tag("option", pod, value=pod) for pod in pods)]
    label = tag("label", "Mark one pod in every figure: ", tag("select", *options, id="mark"))
    return tag("p", label, tag("output", "", id="marked"), class_="finder", hidden=True)


def _advice(story: Story) -> Markup:
    """The resources that were asked for against what was used; a sentence if there is nothing."""
    if not story.advice:
        none = "Nothing to change by what was measured; of a short run nothing is said."
        return tag("p", none, class_="none")
    heads = ["about", "asked", "used", "because", "line of a configuration"]
    cells = [[a.about, a.asked, a.used, a.sentence, a.yaml] for a in story.advice]
    return table(heads, cells, "Asked for against used, as hpcpod advise says it")


def _again(story: Story) -> Markup:
    """The versions, the configuration and the command."""
    import yaml

    text = yaml.safe_dump(to_mapping(story.config), sort_keys=False, allow_unicode=True)
    versions = [[name, version] for name, version in story.versions.items()]
    name = f"{story.name}.yaml"
    command = f"hpcpod launch {shlex.quote(name)} --set {shlex.quote(f'name={story.name}-again')}"
    return joined([
        tag("p", f"Save the configuration below as {name}, and:"),
        tag("pre", tag("code", command)),
        tag("p", "A tournament depends on when its slots report, so it is not repeated to the bit;"
            " each round of a pod is, on the same versions and hardware."),
        table(["package", "version"], versions, "Versions that the run was launched with"),
        numbers("The configuration, resolved", tag("pre", tag("code", text), tabindex="0")),
    ])  # fmt: skip
