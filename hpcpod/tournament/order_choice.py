"""The order that a slot takes: its choice, and its claim."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hpcpod.records.records import Order, Owner, Rescore
from hpcpod.storage.run_folder import RunFolder


def take(
    folder: RunFolder,
    owner: Owner,
    open_orders: Sequence[Order],
    pod: str | None,
    resting: Collection[str] = (),
) -> Order | None:
    """Claim the most urgent order that is free; of births that are as urgent, the owner's own pod.

    As urgent are the births of one algorithm with the fewest rounds. Of a first round no slot has
    anything in memory.

    A claim of the owner's own, from before a requeue, is taken up again first.

    Args:
        folder: the run.
        owner: who takes it.
        open_orders: the most urgent first, see ``leaderboard.orders``.
        pod: the one that the owner has trained last.
        resting: pods whose rounds are not begun now.

    Returns:
        The order, or None if all are taken.
    """
    owners = {order.id: folder.claims.owner(order.id) for order in open_orders}
    for order in sorted(open_orders, key=lambda order: order.pod != pod):
        holder = owners[order.id]
        if holder is not None and (holder.slot, holder.job) == (owner.slot, owner.job):
            return order
    free = [order for order in open_orders if owners[order.id] is None]
    births = [o for o in free if not isinstance(o, Rescore) and o.pod not in resting]
    urgent = [birth for birth in births if birth.algorithm == births[0].algorithm]
    least = min((birth.round for birth in urgent), default=0)
    # its buffer is in memory
    own = [birth for birth in urgent if birth.pod == pod and birth.round == least > 1]
    rescores: list[Order] = [order for order in free if isinstance(order, Rescore)]
    for order in [*rescores, *own, *births]:
        if folder.claims.take(order.id, owner):
            return order
    return None
