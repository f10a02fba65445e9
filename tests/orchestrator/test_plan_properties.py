"""Properties of every plan, whatever was observed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hpcpod.orchestrator.backoff import Backoff, Refusals
from hpcpod.orchestrator.plan import Cancel, Merge, Pause, Retire, Submit, Throttle
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.priorities import protected
from tests.orchestrator.situations import (
    board,
    carried_out,
    intent,
    job,
    observed,
    owned,
    planned,
)


@st.composite
def situations(draw: st.DrawFn) -> Snapshot:
    intents = [
        intent(
            number, draw(st.integers(1, 4)), draw(st.integers(0, 2)), target=draw(st.integers(0, 6))
        )
        for number in range(draw(st.integers(0, 4)))
    ]  # fmt: skip
    submitted = [i.number for i in intents if draw(st.booleans())]
    jobs = [
        job(
            i.number, index, draw(st.sampled_from(["pending", "running"])), submission,
            restarts=draw(st.integers(0, 1)), reason=draw(st.sampled_from(["", "BeginTime"])),
        )
        for i in intents
        for submission in draw(st.lists(st.sampled_from([f"job{i.number}", "late"]), unique=True))
        for index in range(draw(st.integers(0, i.count)))
    ]  # fmt: skip
    pods = draw(st.integers(0, 6))
    on = board(pods, draw(st.lists(st.floats(-1, 1), max_size=pods)), reports=2)
    controls = draw(st.sets(st.sampled_from(sorted(on.pods)))) if pods else set()
    on = replace(
        on, pods={n: replace(pod, control=n in controls) for n, pod in on.pods.items()},
        size=draw(st.none() | st.integers(1, 6)),
    )  # fmt: skip
    running = [view for view in jobs if view.state == "running"]
    claimed = draw(st.permutations(range(pods)))[: len(running)]
    throttled = draw(st.dictionaries(st.sampled_from(["job0", "job1", "late"]), st.integers(1, 3)))
    what = observed(
        jobs, intents, submitted, on,
        places=draw(st.integers(1, 5)), pods=(draw(st.integers(1, 2)), 6),
        scale=draw(st.none() | st.integers(1, 6)), scheduled=draw(st.none() | st.integers(1, 6)),
        waiting=draw(st.none() | st.integers(0, 3)), room=draw(st.none() | st.integers(0, 3)),
        claims=owned(claimed, running[: len(claimed)]),
        draining=draw(st.booleans()), largest=draw(st.none() | st.integers(1, 3)),
        leaving=frozenset(draw(st.sets(st.sampled_from([v.slot for v in jobs]))) if jobs else ()),
        refused=draw(st.sampled_from(["", "another simulator"])),
        coordinated=draw(st.booleans()), now=1e6,
        backoff=Backoff(
            Refusals(draw(st.integers(0, 11)), draw(st.floats(0, 2e6)), "no"),
            draw(st.integers(0, 4)), draw(st.floats(0, 2e6)),
        ),
    )  # fmt: skip
    return replace(what, view=replace(what.cluster, throttles=throttled))


@given(situations())
def test_a_plan_never_asks_for_more_slots_than_are_wanted(what: Snapshot) -> None:
    actions = planned(what)
    submits = [a.intent for a in actions if isinstance(a, Submit) and a.intent.kind == "slots"]
    cancelled = {name for action in actions if isinstance(action, Cancel) for name in action.jobs}
    stay = [v for v in what.cluster.jobs if v.job not in cancelled and v.slot not in what.leaving]
    if submits:
        wanted = min(what.target, len(orders(what.board)))
        assert len(stay) + sum(i.count for i in submits) <= wanted
        assert not what.backoff.pause() and what.backoff.wait(what.now) == 0
        assert all(i.count <= (what.largest or i.count) for i in submits if i.token == "new")
    assert sum(isinstance(a, Submit) and a.intent.kind == "coordinator" for a in actions) <= 1
    # Nothing that is in the queue or on record is submitted again.
    seen = {view.token for view in what.cluster.jobs}
    assert all(i.token not in seen and i.number not in what.submitted for i in submits)
    numbers = [a.intent.number for a in actions if isinstance(a, Submit)]
    assert len(set(numbers)) == len(numbers)
    assert sum(isinstance(a, Merge) for a in actions) == 1
    assert not (what.draining and any(isinstance(a, (Submit, Retire, Throttle)) for a in actions))


@given(situations())
def test_controls_and_the_leader_are_never_interrupted(what: Snapshot) -> None:
    safe = protected(what.board)
    owners = {owner.slot: order.split("-")[0] for order, owner in what.claims.items()}
    open_orders = {order.id for order in orders(what.board)}
    live = {owner.slot for order, owner in what.claims.items() if order in open_orders}
    for action in planned(what):
        if isinstance(action, Retire) and action.at_once:
            assert not [s for s in action.slots if s in live and owners.get(s) in safe]


@given(situations())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(what: Snapshot) -> None:
    after = what
    for _ in range(8):  # with cluster.waiting, slots are asked for one by one
        after = carried_out(after, planned(after))
        after = replace(after, claims={})
    left = [a for a in planned(after) if not isinstance(a, (Merge, Pause))]
    assert left == []
    if not (after.draining or what.backoff.pause() or what.backoff.wait(what.now) or what.leaving):
        running = [v for v in after.cluster.jobs if v.kind == "slots" and v.state == "running"]
        assert len(running) <= max(after.target, 0)
