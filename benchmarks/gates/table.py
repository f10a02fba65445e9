"""Tables of single runs: each row's score, its speed, and its opponent."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gates.estimates import Estimate, estimate
from gates.rows import ROWS, Row

OURS, PEER = "hpcpod", "sb3"
LIBRARIES = OURS, PEER


@dataclass(frozen=True)
class Run:
    """One seed of one library on one row."""

    row: str
    library: str
    order: Mapping[str, Any]
    """What it was asked to do: ``Row.order``."""
    curve: Sequence[Mapping[str, float]] = ()
    """``env_steps``, ``score`` and ``seconds`` of training at each evaluation; empty: failed."""
    failure: str = ""

    @property
    def score(self) -> float:
        """Mean return of the evaluation at the end."""
        return self.curve[-1]["score"]

    def first(self, threshold: float, what: str) -> float:
        """``env_steps`` or ``seconds`` at the first evaluation that reached it; inf: none did."""
        return next((p[what] for p in self.curve if p["score"] >= threshold), math.inf)

    def json(self) -> dict[str, Any]:
        """As plain data, the arguments of ``Run``."""
        return asdict(self)


def render(runs: Iterable[Run]) -> str:
    """The tables as Markdown: rows with a threshold, then the curves of those without."""
    by_row: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        by_row.setdefault(run.row, {}).setdefault(run.library, []).append(run)
    found = {name: by_row[name] for name in ROWS if name in by_row}
    gates = [
        line
        for name, libraries in found.items()
        if ROWS[name].threshold is not None
        for line in _gate(ROWS[name], name, libraries)
    ]
    curves = [
        line
        for name, libraries in found.items()
        if ROWS[name].threshold is None
        for line in _curves(ROWS[name], name, libraries)
    ]
    failures = [
        f"{run.row} {run.library} seed {run.order['seed']}: {run.failure}"
        for libraries in found.values()
        for each in libraries.values()
        for run in each
        if run.failure
    ]
    parts = (_headed(gates), curves, failures)
    return "\n\n".join("\n".join(part).rstrip() for part in parts if part)


def _headed(lines: list[str]) -> list[str]:
    columns = ["row", "steps", "library", "at the end: IQM [95 %]", "target", "seeds at the end"]
    columns += ["seeds ever", "steps to it", "seconds to it", "verdict"]
    return [_line(columns), _line(["---"] * len(columns)), *lines] if lines else []


def _gate(row: Row, name: str, libraries: Mapping[str, list[Run]]) -> Iterable[str]:
    threshold = row.threshold
    assert threshold is not None
    for library in LIBRARIES:
        runs = libraries.get(library, [])
        done = [run for run in runs if run.curve]
        if not done:
            continue
        middle = estimate([run.score for run in done])
        steps = statistics.median(run.first(threshold, "env_steps") for run in done)
        seconds = statistics.median(run.first(threshold, "seconds") for run in done)
        reached = sum(run.score >= threshold for run in done)
        ever = sum(run.first(threshold, "env_steps") < math.inf for run in done)
        yield _line(
            [
                name, _amount(done[0].curve[-1]["env_steps"]), library, words(middle),
                f"{threshold:g}", f"{reached} of {len(runs)}", f"{ever} of {len(runs)}",
                _amount(steps), "never" if math.isinf(seconds) else f"{seconds:.1f}",
                verdict(middle, threshold, libraries if library == OURS else {}),
            ]
        )  # fmt: skip


def _curves(row: Row, name: str, libraries: Mapping[str, list[Run]]) -> Iterable[str]:
    head: list[str] = []
    for library in LIBRARIES:
        done = [run for run in libraries.get(library, []) if run.curve]
        if not done:
            continue
        points = list(zip(*[run.curve for run in done], strict=False))
        if not head:
            head = ["row", "library", "seeds", *[_amount(p[0]["env_steps"]) for p in points]]
            yield _line([*head, "verdict"])
            yield _line(["---"] * (len(head) + 1))
        told = [words(estimate([each["score"] for each in point])) for point in points]
        middle = estimate([run.score for run in done])
        said = verdict(middle, row.threshold, libraries if library == OURS else {})
        yield _line([name, library, f"{len(done)} of {len(libraries[library])}", *told, said])
    yield ""


def verdict(middle: Estimate, threshold: float | None, libraries: Mapping[str, list[Run]]) -> str:
    """Whether the target is reached, and how the score stands to the peer's interval."""
    said = []
    if threshold is not None:
        said.append("passed" if middle.iqm >= threshold else "failed")
    scores = [run.score for run in libraries.get(PEER, []) if run.curve]
    if scores:
        peer = estimate(scores)
        where = "below" if middle.iqm < peer.low else "above" if middle.iqm > peer.high else "in"
        said.append(f"{where} {PEER}'s interval")
    return ", ".join(said)


def words(found: Estimate) -> str:
    """``-150.2 [-160.1, -140.0]``."""
    return f"{found.iqm:.1f} [{found.low:.1f}, {found.high:.1f}]"


def _amount(number: float) -> str:
    return (
        "never"
        if math.isinf(number)
        else f"{number / 1000:.0f}k"
        if number >= 1e4
        else (f"{number:.0f}")
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
