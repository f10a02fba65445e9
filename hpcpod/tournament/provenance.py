"""A policy of a run with its score, and the set of seeds that the score is on, as JSON."""

from __future__ import annotations

from typing import Any, Literal

from hpcpod.config.resolved import Resolved, code_in
from hpcpod.errors import Corrupt
from hpcpod.records.records import Board, Candidate, Confirmed, Entry, encode
from hpcpod.tournament.statistics import interval, mean
from hpcpod.tournament.stopping import allowed, leader

SeedSet = Literal["panel", "target", "select", "confirm", "report"]
"""The seeds of a score: the ``panel`` by which a row of the leaderboard was chosen; fresh ones that
confirmed the ``target``; or a set of the final evaluation, see ``tournament.finals``. Those of
``report`` alone decided nothing."""

_SETS: dict[str, SeedSet] = {
    "confirm": "target", "final": "select", "candidate": "confirm", "report": "report",
}  # fmt: skip


def seed_set(row: Confirmed | Entry) -> SeedSet:
    """The seeds of a score."""
    return _SETS[row.purpose] if isinstance(row, Confirmed) else "panel"


def score(board: Board, row: Confirmed | Entry) -> dict[str, Any]:
    """A score with its interval and its seeds."""
    low, high, candidates = allowed(board, row)
    return {
        "mean": row.mean, "low": low, "high": high, "episodes": row.episodes,
        "fresh_seeds": isinstance(row, Confirmed), "best_of": candidates, "set": seed_set(row),
    }  # fmt: skip


def score_of(board: Board, pod: str, round_number: int) -> dict[str, Any]:
    """The score of a pod's policy: on fresh seeds if it was scored there; empty if it is on no
    row."""
    scores: list[Confirmed | Entry] = [
        each for each in reversed(board.confirmed) if each.episodes > 0 and not each.rule
    ]
    named = (pod, round_number)
    row = next((s for s in (*scores, *board.entries) if (s.pod, s.round) == named), None)
    return {} if row is None else score(board, row)


def provenance(board: Board, row: Confirmed | Entry) -> dict[str, Any]:
    """The facts of a policy; of the one that a final evaluation delivers also how that was
    decided."""
    pod = board.pods[row.pod]
    found = {
        "pod": row.pod,
        "round": row.round,
        "checkpoint": row.checkpoint.core,
        "hyperparameters": dict(pod.hyperparameters),
        "algorithm": pod.algorithm,
        "score": score(board, row),
    }
    finals = board.finals
    decided = isinstance(row, Confirmed) and row.purpose in ("candidate", "report")
    if finals.delivered is None or not decided or row != leader(board):
        return found
    delivered = finals.candidates[finals.delivered]
    if delivered.rule:
        found["ensemble"] = _named(delivered)
    if finals.trials or finals.verdict:
        found["verdict"] = finals.verdict
        found["candidates"] = [_with_score(each) for each in finals.candidates]
        found["tests"] = [vars(trial) for trial in finals.trials]
    return found


def _named(candidate: Candidate) -> dict[str, Any]:
    members = [
        {
            "pod": member.pod, "round": member.round, "algorithm": member.algorithm,
            "checkpoint": member.checkpoint.core, "hyperparameters": dict(member.hyperparameters),
        }
        for member in candidate.members
    ]  # fmt: skip
    return {"rule": candidate.rule, "members": members}


def _with_score(candidate: Candidate) -> dict[str, Any]:
    """A candidate with its score on the confirm set and the plain 95 % interval of that."""
    pods = [member.pod for member in candidate.members]
    about = {"rule": candidate.rule, "members": pods, "failure": candidate.failure}
    if not candidate.returns:
        return {**about, "mean": None, "low": None, "high": None, "episodes": 0}
    low, high = interval(candidate.returns)
    centre, episodes = mean(candidate.returns), len(candidate.returns)
    return {**about, "mean": centre, "low": low, "high": high, "episodes": episodes}


def strange_code(data: bytes, resolved: Resolved) -> list[str]:
    """Names of code in a policy's file that its run's configuration does not name.

    Others of a group may write a run's blobs. In a copy that is the owner's own file all that it
    names would be taken for the owner's.
    """
    from hpcpod.storage.blobs import decode_blob  # h5py: once, when a run ends

    try:
        meta = decode_blob(data, "the policy")[1]
    except Corrupt:
        return []  # whoever reads it refuses it
    members = meta.get("members")
    all_of_it = [meta, *(members if isinstance(members, list) else [])]
    own = {*code_in({"env": encode(resolved.config.env)})}
    own |= {f"agent: {space.agent}" for space in resolved.algorithms.values()}
    try:
        named = [
            code
            for each in all_of_it
            if isinstance(each, dict)
            for part, kind in (("agent", str), ("env", dict))
            if isinstance(each.get(part), kind)
            for code in code_in({part: each[part]})
        ]
    except RecursionError:
        return ["an environment that is nested too deeply"]
    return [code for code in dict.fromkeys(named) if code not in own]
