"""Tables of a run for a terminal: live ones, or plain lines where there is no terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcpod.records.records import Board, PodState
from hpcpod.run.leaderboard import ranking, rows
from hpcpod.run.population_scores import PodScore, believed
from hpcpod.run.snapshot_scores import SnapshotScore, caption
from hpcpod.run.status import Status
from hpcpod.run.text import interval as interval
from hpcpod.run.text import many, span, times
from hpcpod.run.text import number as number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


LONG_UNCOMPARED = 8
"""Rounds of each pod after which it is said that none was compared."""

_MOVED: Mapping[bool | None, str] = {
    True: "weights moved exactly", False: "weights did NOT move exactly",
}  # fmt: skip

_CONTROL = dict.fromkeys(
    # The last are halves of characters, which JSON and names of files can hold and no terminal can.
    (*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)),
    "\N{REPLACEMENT CHARACTER}",
)


def visible(text: str) -> str:
    """A text without what steers a terminal, but for tabs and ends of lines, or can't be shown:
    names and reasons come from files that others may have written."""
    return text.translate(_CONTROL)


def count(value: float) -> str:
    """A count of steps in few characters: ``12.3k``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}"


def headline(status: Status) -> str:
    """The run in one line."""
    parts = [
        f"{status.run}: {status.state}"
        + (f" ({status.stop_reason})" if status.stop_reason else ""),
        f"{many(status.pods, 'pod')}, {status.born} born, {many(status.copies, 'copy')}",
        f"{many(status.rounds, 'round')}, {count(status.env_steps)} env steps,"
        f" {status.minutes:.1f} min",
    ]
    if status.best is not None:
        best = status.best
        parts.append(f"best {interval(best.mean, best.low, best.high, best.episodes)}")
    if status.target is not None:
        tried = f", {status.attempts} tried" if status.attempts else ""
        parts.append(f"target {status.target:g}{tried}")
    return " | ".join(parts)


def summary(status: Status) -> str:
    """The run in two lines: the headline, and how it goes on."""
    lines = list(progress_lines(status))
    return visible("\n".join([headline(status), *([f"  {' | '.join(lines)}"] if lines else [])]))


def queue_line(queue: Mapping[str, int]) -> str:
    """Slots that wait, by reason: ``5 slots wait: Resources (4), Priority (1)``."""
    total = sum(queue.values())
    reasons = ", ".join(f"{reason} ({slots})" for reason, slots in queue.items())
    return f"{total} slot{'s wait' if total > 1 else ' waits'}: {reasons}"


def progress_lines(status: Status) -> Iterator[str]:
    """Slots, what they have used, and when the run ends: a line each, if there is something."""
    if status.state != "finished":
        yield slots_words(status)
        if status.full:
            yield status.full
        if status.cancelled:
            yield status.cancelled
        if status.idling:
            yield status.idling
        if status.scoring:
            yield status.scoring
    yield from status.extended
    used = [  # 0.005 h are 18 s: less is shown as 0.00
        f"{hours:.{0 if hours >= 100 else 2}f} {name}-hours used"
        for name, hours in (("GPU", status.gpu_hours), ("core", status.core_hours))
        if hours >= 0.005
    ]
    if status.requeues:
        used.append(f"requeued {times(status.requeues)}")
    if used:
        yield ", ".join(used)
    if status.state != "finished":
        ends = [words for words in (_limit_words(status), _target_words(status)) if words]
        if ends:
            yield f"ends {'; '.join(ends)}"
    if status.state == "running" and status.uncompared > LONG_UNCOMPARED * status.pods > 0:
        yield (
            f"no pod was compared with others in the last {status.uncompared} rounds, so none is"
            " replaced: too few of one algorithm come near one another"
        )


def slots_words(status: Status) -> str:
    """The number of slots, and of wanted ones: ``slots: 3 of 4 at work, 1 in the queue``."""
    wanted = "" if status.slots_wanted is None else f" of {status.slots_wanted}"
    parts = [f"slots: {status.slots_running}{wanted} at work"]
    if status.slots_pending:
        held = f" ({status.slots_held} held back, as wanted)" if status.slots_held else ""
        parts.append(f"{status.slots_pending} in the queue{held}")
    if status.coordinators == 0 and status.state in ("running", "finals", "waiting"):
        parts.append("no coordinator")
    return ", ".join(parts)


def _limit_words(status: Status) -> str:
    limit = status.forecast
    if limit is None:
        return ""
    when = span(limit.low, limit.high)
    if status.state == "finals":
        return f"in {when} ({'snapshots' if 'snapshots:' in status.scoring else 'finals'})"
    return f"{'at the latest ' if limit.limit == 'minutes' else ''}in {when} (stop.{limit.limit})"


def _target_words(status: Status) -> str:
    if status.target is None or status.state == "finals":  # it has stopped: by a limit, or by it
        return ""
    if status.showable is not None:
        return (
            f"not at the target of {status.target:g}: returns that are hardly above it can't show"
            f" that their mean is; {status.showable:.6g} could be shown"
        )
    if status.best is None or status.distance is None:
        return f"at the target of {status.target:g}, nobody can tell when"
    if status.distance == 0:
        return f"at the target of {status.target:g}, which {status.best.pod} seems to have reached"
    return (
        f"at the target of {status.target:g}, nobody can tell when: {status.best.pod}'s lower"
        f" bound is {number(status.distance)} below it"
    )


def slots_table(status: Status) -> Table:
    """The present work of each slot."""
    from rich.table import Table

    table = Table(title="slots", title_justify="left", pad_edge=False)
    for column in ("slot", "state", "pod", "algorithm"):
        table.add_column(column)
    for column in ("round", "return", "steps/s", "env steps"):
        table.add_column(column, justify="right")
    for name, slot in sorted(status.slots.items()):
        _slot_row(table, name, slot)
        if "scoring" in slot:  # beside what it trains
            _slot_row(table, "", slot["scoring"])
    return table


def _slot_row(table: Table, name: str, shown: Mapping[str, Any]) -> None:
    from rich.text import Text

    mean = shown.get("mean_return", math.nan)
    words = [name, *(str(shown.get(key, "")) for key in ("state", "pod", "algorithm", "round"))]
    table.add_row(
        *(Text(visible(word)) for word in words),
        "" if math.isnan(mean) else number(mean),
        count(shown["steps_per_second"]) if "steps_per_second" in shown else "",
        count(shown["env_steps"]) if "env_steps" in shown else "",
    )  # fmt: skip


def plain_table(title: str | None = None, caption: str | None = None) -> Table:
    """An empty table without a frame, with a caption below."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=title, title_justify="left", caption=Text(caption) if caption else None,
        caption_justify="left", box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), show_edge=False, pad_edge=False,
    )  # fmt: skip


def leaderboard_table(board: Board, most: int | None = None) -> Table:
    """The leaderboard, best first: the evaluation by which a pod ranks, and its last one; what
    ranks stands below.

    A row is one line, of 80 columns if the terminal has no more: an agent's path is cut to fit.
    """
    from rich.text import Text

    table = plain_table("leaderboard", ranking(board))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("pod", no_wrap=True)
    table.add_column("algorithm")
    for column in ("round", "return", "last"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("origin", "fate"):
        table.add_column(column, no_wrap=True)
    for place, row in enumerate(rows(board, most), start=1):
        table.add_row(
            str(place), Text(visible(row.pod)),
            Text(visible(row.algorithm), no_wrap=True, overflow="ellipsis"), str(row.round),
            interval(row.mean, row.low, row.high, row.episodes),
            number(row.last),
            Text(visible(row.origin)), row.fate,
        )  # fmt: skip
    return table


def scores_table(scores: Sequence[PodScore]) -> RenderableType:
    """The living pods side by side, the highest shrunk mean first, with a caption; below, each
    other one beside the first."""
    from rich.console import Group
    from rich.text import Text

    table = plain_table("scores", believed(scores))
    beside = plain_table("beside the first", "Correlations are of returns on common seeds.")
    for each in (table, beside):
        each.add_column("pod", no_wrap=True)
    table.add_column("algorithm")
    for column in ("round", "mean", "sd", "shrunk", "above\n(95 %)", "IQM", "P(best)", "a round"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("P(> first)", "correlation"):
        beside.add_column(column, justify="right", no_wrap=True)
    for row in scores:
        slope = "-"
        if row.slope is not None and row.slope_error is not None:
            slope = f"{number(row.slope)} ± {number(row.slope_error)}"
        table.add_row(
            Text(visible(row.pod)), Text(visible(row.algorithm), no_wrap=True, overflow="ellipsis"),
            str(row.round), number(row.mean), number(row.sd), number(row.shrunk), number(row.low),
            interval(row.iqm, row.iqm_low, row.iqm_high), f"{row.best:.2f}", slope,
        )  # fmt: skip
        if row.improves is not None:
            beside.add_row(
                Text(visible(row.pod)),
                f"{row.improves:.2f} [{row.improves_low:.2f}, {row.improves_high:.2f}]",
                "-" if row.correlation is None else f"{row.correlation:.2f}",
            )
    return Group(table, "", beside) if beside.rows else table


def snapshots_table(scores: Sequence[SnapshotScore], over: bool) -> Table:
    """A run's snapshots in order of time, with a caption; ``over``: the run has ended."""
    from rich.text import Text

    table = plain_table("snapshots", caption(scores, over))
    for column in ("seconds", "env steps", "return", "sd", "error", "episodes"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("pod", no_wrap=True)
    table.add_column("algorithm")
    table.add_column("round", justify="right", no_wrap=True)
    for row in scores:
        shown = map(number, (row.mean, row.sd, row.error))
        table.add_row(
            f"{row.seconds:g}", count(row.env_steps), *shown, str(row.episodes),
            Text(visible(row.pod)), Text(visible(row.algorithm), no_wrap=True, overflow="ellipsis"),
            str(row.round),
        )  # fmt: skip
    return table


def screen(status: Status, board: Board) -> RenderableType:
    """The whole live picture: headline, slots, leaderboard."""
    from rich.console import Group
    from rich.text import Text

    progress = Text("\n".join(progress_lines(status)), style="dim")
    return Group(
        Text(headline(status)), progress, slots_table(status), leaderboard_table(board, 10)
    )


def changes(board: Board, pod: PodState) -> str:
    """The changes of a mutation: ``learning_rate 0.001 -> 0.0013``."""
    parent = board.pods.get(pod.parent or "")  # a damaged board may lack it
    if parent is None or not pod.mutated:
        return "hyperparameters unchanged"
    old, new = parent.hyperparameters, pod.hyperparameters
    return ", ".join(f"{n} {setting(old.get(n))} -> {setting(new.get(n))}" for n in pod.mutated)


def setting(value: object) -> str:
    """A hyperparameter's value in few characters."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def founded(pod: PodState, searched: Mapping[str, Collection[str]]) -> str:
    """A pod without a parent in its run, with its values of hyperparameters that have a range."""
    kind = "control" if pod.control else "fresh draw"
    if pod.origin is not None:
        moved = _MOVED.get(pod.transfer_exact)
        kind = pod.origin.begun + (f" ({moved})" if moved else "")
    values = ", ".join(
        f"{name}={setting(value)}"
        for name, value in sorted(pod.hyperparameters.items())
        if name in searched.get(pod.algorithm, ())
    )
    return f"{pod.id} {pod.algorithm}, {kind}: {values or 'nothing to search'}"


def lineage_lines(
    board: Board, ancestors: list[PodState], searched: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """The winner's way from its founder, a line a generation, and how often the gate errs.

    ``searched`` names, by algorithm, the hyperparameters that have a range: the others are
    the same for every pod.
    """
    for depth, pod in enumerate(ancestors):
        lead = "  " * depth
        if pod.parent is None:
            yield f"{lead}{founded(pod, searched)}"
        else:
            moved = _MOVED.get(pod.transfer_exact)
            yield (
                f"{lead}{pod.id} copy of {pod.parent} at round {pod.parent_round}, in place of"
                f" {pod.replaces}: {changes(board, pod)}" + (f" ({moved})" if moved else "")
            )
            if pod.evidence:
                yield f"{lead}  because {pod.evidence}"
    if any("mean difference" in pod.evidence for pod in ancestors):
        yield (
            "Where pods are equal such a test finds a difference in about 5 % of cases (measured: 3"
            " to 6 %), and a run makes many."
        )
