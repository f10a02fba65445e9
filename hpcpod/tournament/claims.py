"""Taking an order: who works on what."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hpcpod.records import Order, Owner, Rescore
from hpcpod.storage.run_folder import RunFolder


def take(
    folder: RunFolder,
    owner: Owner,
    open_orders: Sequence[Order],
    pod: str | None,
    asleep: Collection[str] = (),
) -> Order | None:
    """Claim the open order with the least experience; among equals, the owner's own pod.

    A claim of the owner's own, from before a requeue, is taken up again first.

    Args:
        folder: the run.
        owner: who takes it.
        open_orders: the most urgent first, see ``leaderboard.orders``.
        pod: the one that the owner has trained last.
        asleep: pods whose rounds are not begun now.

    Returns:
        The order, or None if all are taken.
    """
    births = [o for o in open_orders if not isinstance(o, Rescore) and o.pod not in asleep]
    least = min((birth.round for birth in births), default=0)

    def preference(order: Order) -> tuple[bool, bool]:
        return not isinstance(order, Rescore), order.pod != pod or order.round > least

    owners = {}
    wanted = sorted(open_orders, key=preference)
    for order in wanted:
        owners[order.id] = holder = folder.claim_owner(order.id)
        if holder is not None and (holder.slot, holder.job) == (owner.slot, owner.job):
            return order
    for order in wanted:
        resting = order.pod in asleep and not isinstance(order, Rescore)
        if not resting and owners[order.id] is None and folder.claim(order.id, owner):
            return order
    return None
