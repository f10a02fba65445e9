"""The tables, of orders and what came of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gates.estimates import estimate

from fusing.orders import LEARNERS, TARGET, Extent, Learners, learning

Point = Mapping[str, Any]
Curve = Sequence[Point]
Done = tuple[dict[str, Any], dict[str, Any]]
"""An order and its result."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown; empty if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])


def size(count: float) -> str:
    """Bytes in words."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def epochs(done: Iterable[Done]) -> str:
    """Bytes and seconds of an epoch."""
    rows = []
    for order, result in done:
        if order["kind"] == "epochs":
            least, most = min(result["seconds"]), max(result["seconds"])
            apart = f"{milliseconds(least)} to {milliseconds(most)}" if least else "0"
            rows.append(
                [
                    order["model"], order["backend"], str(order["ranks"]),
                    order["scheme"] if order["ranks"] > 1 else "alone",
                    size(result["bytes"]), f"{result['exchanges']:.0f}", apart,
                    milliseconds(max(result["epoch"])),
                ]
            )  # fmt: skip
    head = [
        "model", "backend", "ranks", "scheme", "bytes of a rank", "exchanges",
        "ms in exchanges (least to most of the ranks)", "ms of the epoch",
    ]  # fmt: skip
    return table(head, rows)


def bandwidth(done: Iterable[Done]) -> str:
    """A fusion's exchange beside the backend's own."""
    rows = []
    for order, result in done:
        if order["kind"] == "fuse":
            exchange, bare = result["exchange"][0], result["bare"][0]
            rows.append(
                [
                    order["model"], order["backend"], str(order["ranks"]), size(result["bytes"]),
                    *(
                        ", ".join(milliseconds(seconds) for seconds in result[name])
                        for name in ("exchange", "bare", "warm")
                    ),
                    f"{100 * bare / exchange:.0f}%", f"{size(result['bytes'] / exchange)}/s",
                    ", ".join(milliseconds(seconds) for seconds in result["whole"]),
                ]
            )  # fmt: skip
    head = [
        "model", "backend", "ranks", "vector", "ms in fuse's all-reduce", "ms bare",
        "ms bare, warm", "of the backend's bandwidth", "bytes / time", "ms of fuse in all",
    ]  # fmt: skip
    return table(head, rows)


def curves(done: Iterable[Done], task: str, learners: Learners, extent: Extent) -> list[Curve]:
    """Of all seeds that were trained so."""
    plain = learning(task, learners, 0, extent)
    return [
        result["curve"]
        for order, result in done
        if order["kind"] == "learn" and {**order, "seed": 0} == plain
    ]


def interval(scores: Sequence[float]) -> str:
    """Interquartile mean and its 95 % bootstrap interval over seeds."""
    if not scores:
        return ""
    found = estimate(scores)
    return f"{found.iqm:.0f} [{found.low:.0f}, {found.high:.0f}]"


def at_samples(curve: Curve, env_steps: float) -> float:
    """The score of the first evaluation with so many samples or more; of the last one else."""
    return float(_point(curve, env_steps)["score"])


def at_seconds(curve: Curve, seconds: float, clock: str) -> float | None:
    """The score of the last evaluation by then; None: there was none yet."""
    before = [p["score"] for p in curve if p[clock] <= seconds]
    return float(before[-1]) if before else None


def reached(curve: Curve, what: str) -> float:
    """Samples, or seconds, at the first evaluation at the target; infinite: at none."""
    return next((float(p[what]) for p in curve if p["score"] >= TARGET), float("inf"))


def _median(numbers: Sequence[float], say: Callable[[float], str]) -> str:
    middle = statistics.median(numbers)
    return "never" if middle == float("inf") else say(middle)


def samples(done: Sequence[Done], task: str, extent: Extent) -> str:
    """Return against samples of all ranks together, and what was exchanged for it."""
    rows = []
    for learners in LEARNERS[task]:
        found = curves(done, task, learners, extent)
        if found:
            total = learning(task, learners, 0, extent)["env_steps"]
            parts = [[at_samples(c, share * total) for c in found] for share in (0.25, 0.5, 1.0)]
            rows.append(
                [
                    learners.words, str(len(found)), *(interval(scores) for scores in parts),
                    _median([reached(c, "env_steps") for c in found], lambda n: f"{n / 1e3:.0f}k"),
                    size(statistics.fmean(c[-1]["bytes"] for c in found)),
                ]
            )  # fmt: skip
    head = [
        "learners", "seeds", "a quarter of the samples", "half", "all", f"samples to {TARGET:g}",
        "bytes of a rank",
    ]  # fmt: skip
    return table(head, rows)


def seconds(done: Sequence[Done], task: str, extent: Extent) -> str:
    """Return against time, by both clocks.

    It is read when one learner has done as many iterations as most ranks of the task need for all
    samples.
    """
    rows = []
    total = learning(task, Learners(1), 0, extent)["env_steps"]
    share = total / max(learners.ranks for learners in LEARNERS[task])
    one = curves(done, task, Learners(1), extent)
    until = {
        clock: statistics.median(_point(c, share)[clock] for c in one) if one else 0.0
        for clock in ("cpu", "seconds")
    }
    for learners in LEARNERS[task]:
        found = curves(done, task, learners, extent)
        if found:
            each = learners.ranks * learners.envs
            cells = [learners.words, interval([at_samples(c, share * each) for c in found])]
            for clock, moment in until.items():
                then = [at_seconds(c, moment, clock) for c in found]
                cells += [
                    interval([score for score in then if score is not None]),
                    f"{statistics.median(c[-1][clock] for c in found):.1f}",
                    _median([reached(c, clock) for c in found], lambda s: f"{s:.1f}"),
                ]
            rows.append(cells)
    head = ["learners", "at equal iterations"]
    for clock, name in (("cpu", "CPU s"), ("seconds", "wall s")):
        limit = f"{until[clock]:.1f}" if one else "equal"
        head += [f"at {limit} {name}", f"{name} of all", f"{name} to {TARGET:g}"]
    return table(head, rows)


def _point(curve: Curve, env_steps: float) -> Point:
    """The first evaluation with so many samples or more; the last one else."""
    return next((p for p in curve if p["env_steps"] >= env_steps), curve[-1])


def apart(done: Sequence[Done], task: str, extent: Extent) -> str:
    """What becomes of learners that were never fused when their parameters are averaged once."""
    rows = []
    for learners in LEARNERS[task]:
        found = curves(done, task, learners, extent) if learners.scheme == "none" else []
        if found:
            total = learning(task, learners, 0, extent)["env_steps"]
            for share in (0.1, 0.5, 1.0):
                at = [_point(c, share * total) for c in found]
                rows.append(
                    [
                        learners.words, f"{100 * share:.0f}%",
                        interval([statistics.fmean(p["members"]) for p in at]),
                        interval([max(p["members"]) for p in at]),
                        interval([p["averaged"] for p in at]),
                    ]
                )  # fmt: skip
    head = ["learners", "samples", "members' mean return", "the best member's", "of their average"]
    return table(head, rows)
