"""Judgements of two nodes by the facts that their tasks have seen of each other: pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpcpod.doctor.finding import Finding, decide
from hpcpod.doctor.probes.files import judge_clock
from hpcpod.doctor.probes.locks import judge as judge_locks
from hpcpod.doctor.probes.locks import summary
from hpcpod.doctor.probes.peers import NAMES, PairFacts

GROUP = "two nodes"


def met(tasks: Sequence[PairFacts]) -> bool:
    """True if both have heard all that the other said."""
    return {facts.task for facts in tasks} == {0, 1} and not any(facts.error for facts in tasks)


def judge(tasks: Sequence[PairFacts]) -> list[Finding]:
    """Findings from what both tasks have seen."""
    both = {facts.task: facts for facts in tasks}
    if set(both) != {0, 1}:
        then = "a run needs a folder that all nodes see: name another one (--runs DIR)"
        return [Finding(GROUP, "exchange", "problem", "not both of them have answered", then)]
    first, second = both[0], both[1]
    findings = [_judge_nodes(first, second)]
    error = first.error or second.error
    if error:
        then = "slots would wait for each other's reports: name another place for runs (--runs DIR)"
        return [*findings, Finding(GROUP, "exchange", "problem", error, then)]
    findings += [
        _judge_names(first),
        judge_clock(GROUP, "clocks", _sure(first), second.node, first.node),
        *judge_locks(GROUP, _lock_summaries(first, second), "nodes"),
        _judge_replacing(second),
        _judge_renaming(second),
    ]
    return [*findings, _judge_race(first, second)] if first.read and second.read else findings


def _sure(first: PairFacts) -> float:
    """What of the clocks' difference is beyond the error of its measurement."""
    beyond = max(0.0, abs(first.ahead) - first.ahead_error)
    return math.copysign(beyond, first.ahead)


def _judge_nodes(first: PairFacts, second: PairFacts) -> Finding:
    found = f"{first.node} and {second.node}"
    return decide(
        GROUP, "nodes",
        (first.boot and first.boot == second.boot, "note", f"{found} are one machine",
         "what follows says nothing of two machines"),
        (True, "ok", found, "what follows was tried between them"),
    )  # fmt: skip


def _judge_names(first: PairFacts) -> Finding:
    found = f"a new name is seen within {_duration(first.seen_after)}"
    return decide(
        GROUP, "names",
        (first.seen_after < 5.0, "ok", found, "reports and orders are seen at once"),
        (True, "note", found,
         "reports and orders are seen so much later: let rounds take minutes (round.env_steps)"),
    )  # fmt: skip


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _lock_summaries(first: PairFacts, second: PairFacts) -> dict[str, str]:
    mine, theirs = dict(first.locks), dict(second.locks)
    return {kind: summary(mine[kind], theirs[kind], theirs[f"{kind} again"]) for kind in mine}


def _judge_replacing(second: PairFacts) -> Finding:
    return decide(
        GROUP, "replacing",
        (not second.torn, "ok", f"a file that is replaced was whole in {second.reads} reads",
         "what is replaced is seen old or new"),
        (True, "problem",
         f"{second.torn} of {second.reads} reads of a file that was being replaced failed",
         "use another filesystem: name another place for runs (--runs DIR)"),
    )  # fmt: skip


def _judge_renaming(second: PairFacts) -> Finding:
    tried = "a folder renamed onto another node's, which is not empty, is"
    return decide(
        GROUP, "renaming",
        (second.kept, "ok", f"{tried} refused", ""),
        (True, "note", f"{tried} not refused", "names can't be published by folders here"),
    )  # fmt: skip


def _judge_race(first: PairFacts, second: PairFacts) -> Finding:
    twice = set(first.won) & set(second.won)
    never = {str(number) for number in range(NAMES)} - set(first.won) - set(second.won)
    differ = sum(a != b for a, b in zip(first.read, second.read, strict=True))
    return decide(
        GROUP, "publishing",
        (not (twice or never or differ), "ok",
         f"both published the same {NAMES} names at once: each has one publisher"
         f" ({len(first.won)} and {len(second.won)})",
         "nothing counts twice, and nothing is lost"),
        (True, "problem",
         f"of {NAMES} names that both published at once, {len(twice)} have two publishers,"
         f" {len(never)} have none, and {differ} read differently on the two",
         "no run is safe here: name another place for runs (--runs DIR)"),
    )  # fmt: skip
