"""Claims in a run folder: the slot that works on each order."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hpcpod.records.records import Owner
from hpcpod.storage.disk import Disk
from hpcpod.storage.layout import sharded
from hpcpod.storage.quarantine import Quarantine
from hpcpod.storage.store import Store


class Claims(Store):
    """The claims of a run, by order; the first slot that asks has the order for good."""

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine) -> None:
        super().__init__(disk, folder, quarantine)
        self._seen: dict[str, Owner] = {}

    def take(self, order: str, owner: Owner) -> bool:
        """Take an order. True for one owner only, and for it again after a requeue.

        The same slot of the same job is the same owner, whatever its host and process. A crash of
        the machine may lose or tear a claim: whoever had made it is gone with it, or works on
        beside another, and one report of an order counts.
        """
        # Durable it took 15 % of the time between two rounds of a program.
        holder = self._first(Owner, self._path(order), owner, durable=False)
        return holder is not None and (holder.slot, holder.job) == (owner.slot, owner.job)

    def owner(self, order: str) -> Owner | None:
        """The owner of an order; None if it is free.

        A damaged claim goes into quarantine and holds nothing: else no slot could ever take
        the order. If its owner lives, the order is worked on twice, which costs time and
        nothing else: one report of an order counts.
        """
        return self._quarantine.sound(Owner, self._path(order))

    def owners(self, orders: Iterable[str]) -> dict[str, Owner]:
        """The owners of those orders that are taken.

        A claim that the last call has read is not read again: else N slots read N claims each at
        every look.
        """
        seen = {order: self._seen.get(order) or self.owner(order) for order in orders}
        self._seen = {order: owner for order, owner in seen.items() if owner is not None}
        return dict(self._seen)

    def _path(self, order: str) -> Path:
        return sharded(self._folder, order)
