"""The panes of the screen, each a list of lines made of what is known of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from hpcpod.cli.screen.text import (
    Column,
    Elastic,
    Part,
    bar,
    line,
    table,
    window,
    wrapped,
)
from hpcpod.cli.screen.watcher import Event, Scene
from hpcpod.records.records import PodState
from hpcpod.run.costs import progress
from hpcpod.run.leaderboard import origin
from hpcpod.run.score_curves import sparkline
from hpcpod.run.tables import (
    count,
    interval,
    lineage_lines,
    number,
    progress_lines,
    slots_words,
)
from hpcpod.run.text import duration, many, span
from hpcpod.storage.slots import OrderStatus
from hpcpod.tournament.leaderboard import lineage

if TYPE_CHECKING:
    from rich.text import Text

PANES = ("leaderboard", "slots", "events", "pod")
PROMISE = "reads files; asks the scheduler nothing"
_STATES = {
    "running": "bold green", "finals": "bold green", "waiting": "bold yellow",
    "draining": "bold yellow", "paused": "bold yellow", "interrupted": "bold red",
}  # fmt: skip
_CURVE = 32
"""Columns of a curve at most."""


def header(scene: Scene, pane: int, columns: int, rows: int) -> list[Text]:
    """The run in a few lines, and the names of the panes."""
    tabs: list[Part] = [" "]
    for at, name in enumerate(PANES):
        tabs += [(f"{at + 1} {name}", "reverse" if at == pane else "dim"), " "]
    room = columns - sum(len(part if isinstance(part, str) else part[0]) for part in tabs)
    tabs.append((" " * max(0, room - len(PROMISE)) + PROMISE, "dim"))
    if rows < 14:
        return [_state(scene), line(*tabs)]
    return [_state(scene), _best(scene), _counts(scene), _curves(scene, columns), line(*tabs)]


def _state(scene: Scene) -> Text:
    status = scene.status
    reason = scene.board.stop_reason or ""
    if scene.state == "waiting" and not scene.seen.local:  # files do not tell the one of the other
        reason = "queued, or gone: `hpcpod status` asks"
    parts: list[Part] = [
        " ", (status.run, "bold"), " ", (scene.state, _STATES.get(scene.state, "bold")),
        f" ({reason})" if reason else "", f" | {duration(60 * scene.minutes)} so far",
    ]  # fmt: skip
    ends = status.forecast
    if ends is not None and scene.state != "finished":
        past = scene.now - scene.status_at
        left = span(max(0.0, ends.low - past), max(0.0, ends.high - past))
        most = "at most " if ends.limit == "minutes" else ""
        parts.append(f" | {most}{left} left (stop.{ends.limit})")
    elif scene.state in ("running", "finals"):
        parts.append(" | time left unknown")
    return line(*parts)


def _best(scene: Scene) -> Text:
    best, status = scene.best, scene.status
    said = "none yet"
    if best is not None:
        who = best.ensemble or f"{best.pod} {best.algorithm}"
        said = f"{who} {interval(best.mean, best.low, best.high, best.episodes)}"
    target = "" if status.target is None else f" | target {status.target:g}"
    rate = scene.steps_per_second
    used = [f"{status.core_hours:.2f} core-h"]
    if status.gpu_hours:
        used.append(f"{status.gpu_hours:.2f} GPU-h")
    speed = "-" if rate is None else count(rate)
    return line(" best ", (said, "bold"), f"{target} | {speed} env steps/s | {', '.join(used)}")


def _counts(scene: Scene) -> Text:
    """The population, or what is wrong."""
    status, board = scene.status, scene.board
    trouble = scene.trouble or board.failure or status.failure or status.doubt
    if trouble:
        return line(" ", (trouble, "red"))
    return line(
        f" {many(status.pods, 'pod')}, {len(board.pods)} born, {many(status.copies, 'copy')}"
        f" | {many(board.rounds, 'round')} | {count(board.env_steps)} env steps"
        f" | {many(len(scene.slots), 'slot')} at work"
    )


def _curves(scene: Scene, columns: int) -> Text:
    """The best and the median of the living pods by round, on one scale."""
    room = max(2, min(60, (columns - 46) // 2))
    best, middle = scene.curves.population(room)
    if not best:
        return line(" no round was reported yet", style="dim")
    scale = [*best, *middle]
    last = [number(curve[-1]) for curve in (best, middle)]
    return line(
        " best ", (sparkline(best, scale), "green"), f" {last[0]}  median ",
        (sparkline(middle, scale), "cyan"), f" {last[1]}  rounds 1 to {scene.curves.rounds}",
    )  # fmt: skip


def leaderboard(scene: Scene, chosen: str | None, columns: int, rows: int) -> list[Text]:
    """The pods: those of the leaderboard first."""
    names, ranked, wide = scene.names, {row.pod: row for row in scene.rows}, columns >= 100
    at = names.index(chosen) if chosen in names else 0
    top = window(len(names), at, rows - 1)
    shown = names[top : top + rows - 1]
    cells = []
    for place, name in enumerate(shown, start=top + 1):
        pod, row = scene.board.pods[name], ranked.get(name)
        last = pod.history[-1] if pod.history else None
        cells.append(
            [
                str(place) if row else "-", name, pod.algorithm,
                str(row.round if row else last.round if last else 0),
                interval(row.mean, row.low, row.high, row.episodes) if row else "-",
                number(sum(last.returns) / len(last.returns)) if last else "-",
                *([origin(pod)] if wide else []), row.fate if row else pod.fate,
            ]
        )  # fmt: skip
    heads = (
        Column("#", right=True), Column("pod"), Column("algorithm", most=max(9, columns // 8)),
        Column("round", right=True), Column("return [95 %]", right=True),
        Column("last", right=True), *([Column("origin")] if wide else []), Column("fate"),
    )  # fmt: skip
    curve = Elastic(
        "panel means", 4, _CURVE, lambda row, room: sparkline(scene.curves.pod(shown[row], room)), 6
    )
    return _marked(table(heads, cells, curve, columns), at - top)


def _marked(lines: Sequence[str], chosen: int) -> list[Text]:
    head, *body = lines
    styles = ["reverse" if row == chosen else "" for row in range(len(body))]
    return [
        line(head, style="dim"),
        *(line(words, style=style) for words, style in zip(body, styles, strict=True)),
    ]


def slot_rows(scene: Scene) -> list[tuple[str, OrderStatus]]:
    """The rows of the slots' pane: of a slot that trains and scores, two."""
    return [(name, part) for name, shown in sorted(scene.slots.items()) for part in shown.orders]


def slots(scene: Scene, chosen: int, columns: int, rows: int) -> list[Text]:
    """The present work of each slot."""
    status, every = scene.status, slot_rows(scene)
    about = [*wrapped(f" {slots_words(status)}", columns)]
    for words in filter(None, (status.full, status.idling)):
        about += wrapped(f" {words}", columns)
    room = max(1, rows - 1 - len(about))
    top = window(len(every), chosen, room)
    shown = every[top : top + room]

    def done(row: int, width: int) -> str:
        part = shown[row][1]
        share = progress(part, scene.seen.config)
        return "" if share is None else f"{bar(share, width - 5)}{round(100 * share):4d}%"

    cells = []
    for name, part in shown:
        record, mean = scene.restarts.get(name), part.mean_return
        cells.append(
            [
                name, part.state or "", part.pod or "", part.algorithm or "",
                "" if part.round is None else str(part.round),
                "" if part.steps_per_second is None else count(part.steps_per_second),
                "" if mean is None or mean != mean else number(mean),
                str(record.restarts) if record is not None else "",
            ]
        )  # fmt: skip
    heads = (
        Column("slot", most=max(12, columns // 5)), Column("state"), Column("pod"),
        Column("algorithm", most=max(9, columns // 8)), Column("round", right=True),
        Column("steps/s", right=True), Column("return", right=True), Column("restarts", right=True),
    )  # fmt: skip
    made = table(heads, cells, Elastic("of the round", 10, 30, done, 5), columns)
    return [*about, *_marked(made, chosen - top)]


def events(scene: Scene, back: int, columns: int, rows: int) -> list[Text]:
    """Events in words, the last ones at the bottom.

    Args:
        scene: of the run.
        back: events at the end to leave out.
        columns: of the pane.
        rows: of the pane.
    """
    if not scene.events:
        return [line(" nothing has happened yet", style="dim")]
    lines: list[Text] = []
    for event in islice(reversed(scene.events), back, None):
        lines[:0] = _event(event, columns)
        if len(lines) >= rows:
            break
    return lines[-rows:]


def _event(event: Event, columns: int) -> Iterator[Text]:
    at = "earlier " if event.at is None else time.strftime("%H:%M:%S", time.localtime(event.at))
    style = "red" if " failed" in event.text else "green" if " is born" in event.text else ""
    return wrapped(f"{at} {event.text}", columns, style, " " * 9)


def pod(scene: Scene, name: str, why: Sequence[str], columns: int) -> list[Text]:
    """A pod: what it does, its lineage, its hyperparameters, the evidence for it.

    Args:
        scene: of the run.
        name: the pod.
        why: sentences on what it does or waits for, if they were asked for.
        columns: of the pane.
    """
    found = scene.board.pods[name]
    known = scene.curves.pod(name, min(_CURVE, columns // 2))
    lines = [
        line((f" {name}", "bold"), f" {found.algorithm}, {found.fate}, {_at(scene, found)}"),
        line(
            " panel means ", (sparkline(known) or "none", "green"), f" {number(known[-1])}"
            if known else "",
        ),
    ]  # fmt: skip

    def section(title: str, words: Sequence[str]) -> None:
        if words:
            lines.append(line(f" {title}", style="bold"))
            for each in words:
                lines.extend(wrapped(f"   {each}", columns, "", "     "))

    section("why", why)
    section("failure", [each for each in (found.fate_reason, found.failure) if each])
    section("compared with others", [found.verdict] if found.verdict else [])
    searched = scene.searched.get(found.algorithm, ())
    values = found.hyperparameters
    first = [key for key in searched if key in values]
    rest = [key for key in values if key not in first]
    section("searched", [", ".join(f"{key} {_short(values[key])}" for key in first)] * bool(first))
    ancestors = lineage(scene.board, name)
    section("lineage", list(lineage_lines(scene.board, ancestors, scene.searched)))
    section("fixed", [", ".join(f"{key} {_short(values[key])}" for key in rest)] * bool(rest))
    return lines


def _at(scene: Scene, found: PodState) -> str:
    """The present work of a pod, or its last round."""
    for name, part in slot_rows(scene):
        if part.pod == found.id:
            share = progress(part, scene.seen.config)
            done = "" if share is None else f", {100 * share:.0f} % of it done"
            return f"round {part.round}: {part.state} in slot {name}{done}"
    return f"{found.history[-1].round if found.history else 0} rounds reported, in no slot now"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def run_lines(scene: Scene, why: Sequence[str], columns: int) -> list[Text]:
    """The run: how it goes on, and why it has the slots that it has."""
    lines: list[Text] = []
    for each in (*progress_lines(scene.status), *why):
        lines += wrapped(f" {each}", columns, "", "   ")
    return lines
