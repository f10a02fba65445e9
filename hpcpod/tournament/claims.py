"""Taking an order: who works on what."""

from __future__ import annotations

from collections.abc import Sequence

from hpcpod.records import Order, Owner, Rescore
from hpcpod.storage.run_folder import RunFolder


def take(
    folder: RunFolder, owner: Owner, open_orders: Sequence[Order], pod: str | None
) -> Order | None:
    """Claim the open order with the least experience; among equals, the owner's own pod.

    A claim of the owner's own, from before a requeue, is taken up again first.

    Args:
        folder: the run.
        owner: who takes it.
        open_orders: the most urgent first, see ``leaderboard.orders``.
        pod: the one that the owner has trained last.

    Returns:
        The order, or None if all are taken.
    """
    least = min((o.round for o in open_orders if not isinstance(o, Rescore)), default=0)

    def preference(order: Order) -> tuple[bool, bool]:
        return not isinstance(order, Rescore), order.pod != pod or order.round > least

    owners = {}
    wanted = sorted(open_orders, key=preference)
    for order in wanted:
        owners[order.id] = holder = folder.claim_owner(order.id)
        if holder is not None and (holder.slot, holder.job) == (owner.slot, owner.job):
            return order
    for order in wanted:
        if owners[order.id] is None and folder.claim(order.id, owner):
            return order
    return None
