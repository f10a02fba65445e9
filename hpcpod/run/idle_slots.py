"""Slots that are alive and have no order: the reason, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Birth, Order
from hpcpod.run.forecast import forecast, last_rounds
from hpcpod.run.text import duration, listed, many, span
from hpcpod.tournament.barrier import awaited, deadline
from hpcpod.tournament.policy_snapshots import being_scored


def idling(seen: Snapshot) -> str:
    """The reason why slots have no order, or why there are fewer slots than wanted, and for how
    long, where other slots have all that is left to do in hand.

    Returns:
        One sentence; empty if it is not so.
    """
    if not seen.slots or seen.drain is not None or seen.board.phase == "finished":
        return ""
    idle = sorted(name for name, shown in seen.slots.items() if shown.state == "idle")
    found, held = seen.open_orders, seen.held
    if not found or any(order.id not in held for order in found):
        return ""
    awaited = _awaited(seen, found)
    if idle:
        one = len(idle) == 1
        who = f"slot {idle[0]} has" if one else f"slots {listed(idle)} have"
        return f"{who} no order: {'it waits' if one else 'they wait'} for {awaited}"
    if seen.running < (seen.wanted or 0):
        return f"more slots would find nothing to do: all that is left is {awaited}"
    return ""


def at_barrier(seen: Snapshot) -> str:
    """The pods for which a barrier waits, and for how long at most."""
    end = deadline(seen.board, seen.config)
    most = "" if end is None else f", {duration(max(0.0, end - seen.clock))} more at most"
    return f"{listed(awaited(seen.board))} at the barrier of round {seen.board.barrier.round}{most}"


def _awaited(seen: Snapshot, found: Sequence[Order]) -> str:
    """The work that other slots have in hand, and when it ends."""
    pods = sorted({order.pod for order in found})
    if seen.board.phase == "finals":
        ends = forecast(seen)
        when = f"; the run ends in {span(ends.low, ends.high)}" if ends is not None else ""
        kind = "snapshot" if being_scored(seen.board.rescores) else "final"
        return f"the {kind} {'scores' if len(found) > 1 else 'score'} of {listed(pods)}{when}"
    if awaited(seen.board):
        return at_barrier(seen)
    births = [order for order in found if isinstance(order, Birth)]
    rounds = seen.config.stop.rounds
    if rounds is None or not births:
        return f"{many(len(found), 'order')} of {listed(pods)} that others have in hand"
    left = max(rounds - birth.round + 1 for birth in births)
    what = "last round" if left == 1 else f"last {left} rounds"
    ends_of = [end for pod, end in last_rounds(seen).items() if pod in pods]
    when = ""
    if ends_of:
        low, high = max(end[0] for end in ends_of), max(end[1] for end in ends_of)
        verb = "ends" if left == 1 and len(pods) == 1 else "end"
        when = f", which {verb} in {span(low, high)}; then come the finals"
    return f"the {what} of {listed(pods)}{when}"
