"""Rollback: another version that was deployed before is deployed again."""

from __future__ import annotations

import re

from hpcpod.errors import UserError
from hpcpod.run.continuous.entries import Decision, named
from hpcpod.run.continuous.registry import Registry, writable


def rolled_back(registry: Registry, wanted: int | None = None) -> Decision:
    """Deploy an earlier version again; the ledger's new line.

    Args:
        registry: the registry.
        wanted: the version; None: the one that was deployed before today's was promoted.

    Raises:
        UserError: there is none, or it was never deployed, or is deployed.
        StorageError: the version is damaged, or the filesystem refuses; nothing is changed.
    """
    writable(registry)
    while True:
        ledger = registry.decisions()
        current = ledger[-1].current if ledger else None
        if current is None:
            raise UserError(f"{registry.name} has deployed nothing yet")
        target = _before(ledger, current) if wanted is None else wanted
        deployed = {each.current for each in ledger}
        if target is None:
            raise UserError(f"{named(current)} was the first: there is nothing to go back to")
        if target == current:
            raise UserError(f"{named(current)} is deployed already")
        if target not in deployed:
            registry.verify(target)
            raise UserError(
                f"{named(target)} was never deployed: the gate has kept it out, and a rollback"
                " goes back"
            )
        why = f"from {named(current)} to {named(target)}"
        if registry.decide("rolled back", target, target, why, number=len(ledger) + 1):
            return registry.decisions()[len(ledger)]


def number_of(word: str) -> int:
    """The number of a version: ``v0003``, ``3``.

    Raises:
        UserError: it is none.
    """
    found = re.fullmatch(r"v?0*([1-9]\d{0,8})", word)
    if found is None:
        raise UserError(f"expected a version such as v0003, got '{word}'")
    return int(found[1])


def _before(ledger: list[Decision], current: int) -> int | None:
    """The version that was deployed when this one was promoted."""
    at = next(i for i, each in enumerate(ledger) if each.current == current)
    return ledger[at - 1].current if at else None
