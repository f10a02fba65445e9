"""The genealogy of a run: the tree of all births, as text, for Graphviz, or as plain data."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hpcpod.records.records import Board, PodState, encode
from hpcpod.run.lineage_schedule import Schedule
from hpcpod.run.tables import changes, count, founded, number, visible
from hpcpod.tournament.statistics import mean

Searched = Mapping[str, Collection[str]]
"""Hyperparameters that have a range, by algorithm."""


def tree_lines(board: Board, kin: Collection[str], searched: Searched) -> Iterator[str]:
    """The tree of births: founders at the left, below each pod the copies of it, oldest first.

    Args:
        board: of the run.
        kin: pods that are marked with a star, such as the winner's lineage.
        searched: the hyperparameters to show of founders.
    """
    children = _children(board)
    # A stack, not a recursion: a lineage may have more generations than Python has frames.
    stack = [(pod, "", "") for pod in reversed(children[None])]
    while stack:
        pod, lead, below = stack.pop()
        yield f"{lead}{_described(board, pod, pod.id in kin, searched)}"
        born = children.get(pod.id, [])
        for child in reversed(born):
            corner, line = ("└─ ", "   ") if child is born[-1] else ("├─ ", "│  ")
            stack.append((child, below + corner, below + line))


def _children(board: Board) -> dict[str | None, list[PodState]]:
    """The copies of each pod, oldest first; of None the pods without a parent on the board."""
    children: dict[str | None, list[PodState]] = {None: []}
    pods = sorted(board.pods.values(), key=lambda pod: (pod.born, pod.id))
    for pod in pods:
        parent = pod.parent if pod.parent in board.pods else None
        children.setdefault(parent, []).append(pod)
    # A damaged board may have a circle of parents, which no founder leads to.
    reached, left = set[str](), list(children[None])
    while left:
        pod = left.pop()
        reached.add(pod.id)
        left += children.get(pod.id, [])
    stray = [pod for pod in pods if pod.id not in reached]
    for each in children.values():
        each[:] = [pod for pod in each if pod not in stray]
    children[None] += stray
    return children


def _described(board: Board, pod: PodState, marked: bool, searched: Searched) -> str:
    star = "*" if marked else ""
    said = founded(pod, searched)
    if pod.parent is not None:
        said = f"{pod.id} at round {pod.parent_round}: {changes(board, pod)}"
    name, _, rest = said.partition(" ")
    return f"{name}{star} {rest}{_end(board, pod)}"


def _end(board: Board, pod: PodState) -> str:
    """A pod's best panel and its fate, as the end of a line."""
    best = ""
    if pod.best is not None:
        best = f"; best {number(mean(pod.best.returns))} at round {pod.best.round}"
    fate = "the winner" if pod.id == board.winner else pod.fate
    return f"{best}; {fate}"


def dot(board: Board, name: str, pods: Iterable[PodState], kin: Collection[str]) -> str:
    """The tree in the language of Graphviz: ``dot -Tsvg`` draws it.

    Args:
        board: of the run.
        name: the run's.
        pods: those to draw.
        kin: pods that are drawn strong.
    """
    lines = [f"digraph {_quoted(name)} {{", "  rankdir=LR; node [shape=box, fontname=Helvetica];"]
    shown = {pod.id: pod for pod in pods}
    for pod in shown.values():
        best = "" if pod.best is None else f"\nbest {number(mean(pod.best.returns))}"
        fate = "winner" if pod.id == board.winner else pod.fate
        strong = ", penwidth=3" if pod.id in kin else ""
        label = _quoted(f"{pod.id} {pod.algorithm}{best}\n{fate}")
        lines.append(f"  {_quoted(pod.id)} [label={label}{strong}];")
    for pod in shown.values():
        if pod.parent in shown and pod.parent is not None:
            label = _quoted(f"round {pod.parent_round}\n" + changes(board, pod).replace(", ", "\n"))
            ends = f"{_quoted(pod.parent)} -> {_quoted(pod.id)}"
            strong = ", penwidth=3" if {pod.id, pod.parent} <= {*kin} else ""
            lines.append(f"  {ends} [label={label}{strong}];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    """A text as a string of Graphviz: names may be another user's."""
    return json.dumps(visible(text), ensure_ascii=False)


def tree_data(board: Board, name: str, kin: Collection[str]) -> dict[str, Any]:
    """The tree as plain data: each pod with its parent, by name."""
    pods = [
        {
            "pod": pod.id, "algorithm": pod.algorithm, "cause": pod.cause, "parent": pod.parent,
            "parent_round": pod.parent_round, "replaces": pod.replaces, "born": pod.born,
            "mutated": pod.mutated, "hyperparameters": dict(pod.hyperparameters),
            "evidence": pod.evidence, "fate": pod.fate, "leads_to_best": pod.id in kin,
            "best": None if pod.best is None else
            {"round": pod.best.round, "mean": mean(pod.best.returns)},
        }
        for _, pod in sorted(board.pods.items())
    ]  # fmt: skip
    return {"run": name, "winner": board.winner, "pods": pods}


def schedule_lines(schedule: Schedule) -> Iterator[str]:
    """The schedule of a lineage, a line for each stretch."""
    first = schedule.stretches[0].hyperparameters
    for stretch in schedule.stretches:
        rounds = [each.round for each in stretch.rounds]
        named = {name: stretch.hyperparameters.get(name) for name in sorted(stretch.mutated)}
        values = ", ".join(f"{name}={_short(value)}" for name, value in named.items())
        how = "from scratch" if stretch.parent is None else f"from {stretch.parent}"
        how += ", weights shrunk and perturbed" if stretch.shrink else ""
        first_last = f"rounds {rounds[0]} to {rounds[-1]}" if rounds[1:] else f"round {rounds[0]}"
        yield (
            f"{count(stretch.first_step):>7} to {count(stretch.last_step):<7} env steps,"
            f" {first_last}: {stretch.pod} {how}"
            + (f", {values}" if values else "" if stretch.parent is None else ", unchanged")
        )
    if len(schedule.stretches) == 1 and first:
        yield "its hyperparameters never changed: it is no copy"
    yield from schedule.lost


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def schedule_data(schedule: Schedule) -> dict[str, Any]:
    """A schedule as plain data; ``decode(Schedule, ...)`` is the inverse."""
    data: dict[str, Any] = encode(schedule)
    return data
