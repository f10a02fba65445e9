"""The policy of a run, or of one of its pods: found, ready to be loaded."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcpod.errors import StorageError, UserError
from hpcpod.records.records import Keep
from hpcpod.run.pod_history import require_pod
from hpcpod.run.status import best_of
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.policy_snapshots import in_order
from hpcpod.tournament.provenance import score, score_of
from hpcpod.tournament.statistics import mean, measured
from hpcpod.tournament.stopping import leader

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """A policy of a run."""

    checkpoint: Path
    """A file that ``load_policy`` reads."""
    about: Mapping[str, Any]
    """Facts of the run about it: ``score``, as in ``best.json``; empty of a row that is gone."""


def kept(folder: RunFolder, pod: str | None = None, keep: Keep = "best") -> Kept:
    """The policy of a run, or of one of its pods, for ``load_policy``: see ``chosen``.

    Raises:
        UserError: the pods are of a user's program, whose files hpcpod can't play; or see there.
    """
    if folder.resolved.config.program is not None:
        raise UserError(
            f"{folder.resolved.config.name} trains a program of its own, whose files hpcpod does"
            f" not read: `hpcpod export {shlex.quote(str(folder.path))} -o FOLDER` writes what its"
            " best pod has saved"
        )
    return chosen(folder, pod, keep)


def chosen(folder: RunFolder, pod: str | None = None, keep: Keep = "best") -> Kept:
    """The policy of a run, or of one of its pods.

    Args:
        folder: the run's.
        pod: None: the winner, or the leader so far.
        keep: which of the pod's policies.

    Raises:
        UserError: the run has no such pod, or that has no policy yet.
        StorageError: the board is lost, and so is ``best.h5``, or that is not what is asked for.
    """
    name = folder.resolved.config.name
    try:
        board = read_board(folder)
    except StorageError as error:  # a finished run that lost its board still has best.h5
        exported = folder.path / "best.h5"
        if pod is not None or keep == "last" or not exported.is_file():
            raise
        log.warning("%s; that policy is taken", error)
        return Kept(exported, {"score": _exported_score(folder)})
    best = best_of(folder, board)
    if best is None:
        raise UserError(f"{name} has no policy yet: no round was reported")
    if pod is None and keep == "best":
        row = leader(board)
        return Kept(best.checkpoint, {} if row is None else {"score": score(board, row)})
    pod = pod or best.pod
    require_pod(board, pod, name)
    state = board.pods[pod]
    # A dead pod's history is gone, but it may lead the board, and be a member of an ensemble.
    seen = state.history or (() if state.best is None or keep == "last" else (state.best,))
    if not seen and state.best is not None:
        raise UserError(f"{pod} of {name} is dead ({state.fate}): its best policy alone is kept")
    if not seen:
        raise UserError(f"{pod} of {name} has no policy yet: no round of it was reported")
    last = seen[-1]
    one = state.best if keep == "best" and state.best is not None else last
    found = score_of(board, pod, one.round)
    if keep == "last" and not found:
        low, high, _ = measured(last.returns, last.metrics)
        found = {"mean": mean(last.returns), "low": low, "high": high}
    return Kept(blob_path(folder.path / "blobs", one.checkpoint.core), {"score": found})


def every_policy(folder: RunFolder) -> dict[str, Path]:
    """The best policy of every pod and the policy snapshots of a run, by name, as far as they are
    still there: what the run's own was chosen from."""
    board, found = read_board(folder), dict[str, Path]()
    best = {pod: each.best for pod, each in board.pods.items() if each.best is not None}
    for name, core in [
        *((pod, each.checkpoint.core) for pod, each in best.items()),
        *((f"snapshot {row.number}", row.checkpoint.core) for row in in_order(board)),
    ]:
        path = blob_path(folder.path / "blobs", core)
        if path.is_file() and path not in found.values():
            found[name] = path
    return found


def best_of_algorithms(folder: RunFolder) -> dict[str, Path]:
    """The policy of the first pod of each algorithm on the leaderboard, by the algorithm's and the
    pod's name; empty if fewer than two algorithms rank."""
    best: dict[str, str] = {}
    for entry in read_board(folder).entries:
        best.setdefault(entry.algorithm, entry.pod)
    members = {
        f"{algorithm.rpartition(':')[2]} {pod}": kept(folder, pod).checkpoint
        for algorithm, pod in sorted(best.items())
    }
    return members if len(members) > 1 else {}


def _exported_score(folder: RunFolder) -> dict[str, Any]:
    """The score that stands beside an exported policy; empty if it can't be read."""
    try:
        found = json.loads(folder.disk.read(folder.path / "best.json") or b"")["score"]
    except (StorageError, ValueError, LookupError, TypeError, RecursionError):
        return {}  # another user may have written it: deeply nested JSON is a RecursionError
    return found if isinstance(found, dict) else {}
