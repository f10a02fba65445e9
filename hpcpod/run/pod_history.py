"""The history of a pod: its claims, and the slots that made them."""

from __future__ import annotations

from dataclasses import dataclass

from hpcpod.errors import UserError
from hpcpod.records.records import Board, Owner
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Claim:
    """An order that a slot has taken."""

    order: str
    owner: Owner
    at: float
    """Unix time, in seconds, by the filesystem's clock."""


def claims_of(folder: RunFolder, pod: str) -> list[Claim]:
    """Every claim of an order of this pod, oldest first."""
    names = [path.name for path in (folder.path / "claims").glob(f"*/{pod}-*")]
    found = [claim for name in names if (claim := claim_of(folder, name)) is not None]
    return sorted(found, key=lambda claim: (claim.at, claim.order))


def claim_of(folder: RunFolder, order: str) -> Claim | None:
    """The claim of an order; None if no slot has it."""
    owner = folder.claims.owner(order)
    if owner is None:
        return None
    try:
        at = sharded(folder.path / "claims", order).stat().st_mtime
    except FileNotFoundError:  # given up in between
        return None
    return Claim(order, owner, at)


def require_pod(board: Board, pod: str, run: str) -> None:
    """See to it that a run has a pod.

    Raises:
        UserError: it has none of this name.
    """
    if pod not in board.pods:
        names = sorted(board.pods)
        raise UserError(f"{run} has no pod {pod}; it has {names[0]} to {names[-1]}")
