"""The tree of births: a lane for each place of the population, a connector for each copy."""

from __future__ import annotations

from hpcpod.records.records import PodState
from hpcpod.report.axes import Axis, number
from hpcpod.report.markup import NOTHING, Markup, joined, tag
from hpcpod.report.plot import Plot, figure, numbers, table
from hpcpod.report.story import Story
from hpcpod.run.tables import changes
from hpcpod.run.text import many

MOST_LANES = 80
"""Places that are drawn."""
MOST_ROWS = 150
"""Births in the table."""


def tree(story: Story) -> Markup:
    """The figure of all births, and the evidence of each copy."""
    board = story.board
    if not board.pods:
        return NOTHING
    lanes, ends = lanes_of(story)
    shown = shown_lanes(story, lanes)
    row_of = {lane: float(len(shown) - i) for i, lane in enumerate(shown)}
    x = Axis("rounds that all pods together had finished", 0.0, max(1.0, board.rounds * 1.02))
    y = Axis("", 0.4, len(shown) + 0.6)
    step = 16 if len(shown) <= 24 else 9
    copies = [pod for pod in board.pods.values() if pod.cause == "copy"]
    plot = Plot(
        f"{story.name}: births", _said(story, len(copies)), x, y, max(90, step * len(shown)),
        rows=[(row_of[lane], _founder(story, lanes, lane)) for lane in shown]
        if step > 9 else [(row_of[shown[0]], "places")],
    )  # fmt: skip
    for pod in sorted(board.pods.values(), key=lambda pod: pod.id in story.kin):
        lane = lanes[pod.id]
        if lane not in row_of:
            continue
        at, kind = row_of[lane], _kind(story, pod)
        plot.line([(pod.born, at), (ends[pod.id], at)], kind, pod.id)
        parent = lanes.get(pod.parent or "")
        if parent in row_of:
            plot.whisker((pod.born, row_of[parent]), (pod.born, at), f"{kind} copy", pod.id)
            plot.dots([(pod.born, row_of[parent])], f"{kind} copy", pod.id)
        if pod.id in story.kin and pod.parent is not None:
            plot.note(pod.born, at, pod.id, "note birth")
        if pod.fate in ("failed", "given up"):
            plot.dots([(ends[pod.id], at)], "dead", pod.id)
    cut = "" if len(shown) == len(set(lanes.values())) else (
        f" Drawn are {len(shown)} of {len(set(lanes.values()))} places, the lineage's among them."
    )  # fmt: skip
    caption = (
        f"{many(len(board.pods), 'pod')} in {many(len(set(lanes.values())), 'place')}. A lane is a"
        " place in the population: where a pod ends and another begins, the new one has taken its"
        " place. A vertical line goes from the parent to its copy. Strong is the winner's lineage;"
        f" a cross-coloured dot ends a pod that failed or was given up.{cut}"
    ).replace("cross-coloured", "red")
    return figure("Births: who was copied into whose place", plot.markup(), caption,
                  numbers(f"The evidence of {_copies(len(copies))}", _evidence(story, copies)),
                  wide=True)  # fmt: skip


def lanes_of(story: Story) -> tuple[dict[str, int], dict[str, float]]:
    """The place of each pod, and the population's rounds at which it ended.

    A pod that took another's place has its lane; all others have one of their own.
    """
    pods = sorted(story.board.pods.values(), key=lambda pod: (pod.born, pod.id))
    lanes: dict[str, int] = {}
    ends = {pod.id: float(story.board.rounds) for pod in pods}
    taken = 0
    for pod in pods:
        if pod.replaces is not None and pod.replaces in lanes:
            lanes[pod.id] = lanes[pod.replaces]
            ends[pod.replaces] = min(ends[pod.replaces], float(pod.born))
        else:
            lanes[pod.id], taken = taken, taken + 1
    return lanes, ends


def shown_lanes(story: Story, lanes: dict[str, int]) -> list[int]:
    """The lanes that are drawn: all if they are few, else the lineage's and the first ones."""
    every = sorted(set(lanes.values()))
    if len(every) <= MOST_LANES:
        return every
    ours = sorted({lanes[pod] for pod in story.kin})[:MOST_LANES]
    others = [lane for lane in every if lane not in ours]
    return sorted([*ours, *others[: MOST_LANES - len(ours)]])


def moved(story: Story, pod: PodState) -> str:
    """The hyperparameters in which a copy differs from its parent, in words."""
    parent = story.board.pods.get(pod.parent or "")
    known = parent is not None and all(
        name in parent.hyperparameters and name in pod.hyperparameters for name in pod.mutated
    )
    return changes(story.board, pod) if known else "unknown"


def _founder(story: Story, lanes: dict[str, int], lane: int) -> str:
    return next(pod for pod in sorted(story.board.pods) if lanes[pod] == lane)


def _kind(story: Story, pod: PodState) -> str:
    strength = "win" if pod.id in story.kin else "each" if pod.fate == "alive" else "gone"
    return f"{story.hue(pod.algorithm)} {strength}"


def _said(story: Story, copies: int) -> str:
    way = " to ".join(pod.id for pod in story.lineage)
    return (
        f"{many(len(story.board.pods), 'pod')}, {_copies(copies)}. Winner's lineage: {way or '-'}"
    )


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"


def _evidence(story: Story, copies: list[PodState]) -> Markup:
    """A row for each copy, the lineage's first."""
    if not copies:
        return tag("p", "No pod was copied.")
    copies = sorted(copies, key=lambda pod: (pod.id not in story.kin, pod.born, pod.id))
    exact = {True: "exactly", False: "NOT exactly", None: "-"}
    rows = [
        [
            pod.id, pod.parent, pod.parent_round, pod.replaces or "-", number(pod.born),
            moved(story, pod), pod.evidence or "-",
            exact[pod.transfer_exact],
        ]
        for pod in copies[:MOST_ROWS]
    ]  # fmt: skip
    heads = ["copy", "of", "at its round", "in place of", "after rounds", "changed", "because",
             "scored as its parent"]  # fmt: skip
    cut = f", {MOST_ROWS} of {len(copies)}" if len(copies) > MOST_ROWS else ""
    note = tag(
        "p", "Where pods are equal the built-in gate finds a difference in about 5 % of cases"
        " (measured: 3 to 6 %), and a run makes many such tests: some of these copies are luck.",
    )  # fmt: skip
    caption = f"Copies and their evidence, the winner's lineage first{cut}"
    return joined([table(heads, rows, caption), note])
