"""The order that a slot takes: its choice, and its claim."""

from __future__ import annotations

from collections.abc import Sequence

from hpcpod.records.records import Birth, Board, Order, Owner, Rescore
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.priorities import resting_pods


def take(
    folder: RunFolder,
    owner: Owner,
    open_orders: Sequence[Order],
    pod: str | None,
    board: Board,
) -> Order | None:
    """Claim the most urgent order that is free; of births that are as urgent, the owner's own pod.

    As urgent are births of the first one's algorithm and round: an allocator's order comes before
    what a slot has in memory, and a pod that rests has the last turn. Of a first round a slot has
    nothing.

    A claim of the owner's own, from before a requeue, is taken up again first.

    Args:
        folder: the run.
        owner: who takes it.
        open_orders: the most urgent first, see ``leaderboard.orders``.
        pod: the one that the owner has trained last.
        board: of the run.

    Returns:
        The order, or None if all are taken.
    """
    owners = folder.claims.owners(order.id for order in open_orders)
    for order in sorted(open_orders, key=lambda order: order.pod != pod):
        holder = owners.get(order.id)
        if holder is not None and (holder.slot, holder.job) == (owner.slot, owner.job):
            return order
    free = [order for order in open_orders if order.id not in owners]
    resting = resting_pods(board)
    births = [o for o in free if not isinstance(o, Rescore) and o.pod not in resting]

    def urgency(birth: Birth) -> tuple[str, int, bool]:
        return birth.algorithm, birth.round, bool(board.pods[birth.pod].rests)

    urgent = [birth for birth in births if urgency(birth) == urgency(births[0])]
    own = [birth for birth in urgent if birth.pod == pod and birth.round > 1]  # its buffer is here
    rescores: list[Order] = [order for order in free if isinstance(order, Rescore)]
    for order in [*rescores, *own, *births]:
        if folder.claims.take(order.id, owner):
            return order
    return None
