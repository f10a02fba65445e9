"""A plan is pure: what follows from what was observed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from hpcpod.launchers.base import RELEASE_SECONDS, ClusterView, JobView
from hpcpod.orchestrator.backoff import Backoff, Refusals, failed_starts
from hpcpod.orchestrator.plan import (
    COORDINATORS,
    Cancel,
    Merge,
    Pause,
    Record,
    Release,
    Retire,
    Submit,
    Throttle,
)
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.barrier import Barrier
from hpcpod.records.records import Checkpoint, Intent, Owner, Rescore
from tests.orchestrator.situations import (
    board,
    carried_out,
    configured,
    coordinator,
    intent,
    job,
    observed,
    planned,
)


def new(number: int, count: int, reports: int = 0, target: int = 3) -> Submit:
    return Submit(Intent(number, "new", "slots", count, reports, 0.0, target))


def test_missing_slots_are_submitted_as_one_intent() -> None:
    assert planned(observed()) == [new(0, 3), Merge()]
    one_left = observed([job(0)], [intent(0, 3)], [0], on=board(reports=7))
    assert planned(one_left) == [new(1, 2, 7), Merge()]


def test_no_more_slots_are_submitted_than_there_are_orders() -> None:
    assert planned(observed(on=board(2)))[0] == new(0, 2)
    assert planned(observed(on=board(0))) == [Merge()]


def test_slots_that_share_a_gpu_need_fewer_elements() -> None:
    for pods, slots in ((5, 3), (3, 2)):
        what = observed(on=board(pods), pods=(1, 5), lanes=2)
        assert planned(what)[0] == new(0, slots)


def test_with_every_place_taken_nothing_is_submitted() -> None:
    jobs = [job(0, i, state) for i, state in enumerate(("running", "pending", "running"))]
    assert planned(observed(jobs, [intent(0, 3)], [0])) == [Merge()]


def test_the_number_of_an_intent_that_is_damaged_is_not_taken_again() -> None:
    damaged = observed([], [intent(0, 3)], [0], numbered=3, on=board(reports=7))
    assert planned(damaged)[0] == new(3, 3, 7)


def test_more_than_an_array_holds_is_split() -> None:
    actions = planned(observed(on=board(9), places=7, pods=(1, 9), largest=3))
    assert actions == [new(0, 3, 0, 7), new(1, 3, 0, 7), new(2, 1, 0, 7), Merge()]


def test_an_unrecorded_intent_that_is_in_the_queue_is_recorded() -> None:
    jobs = [job(0, i, submission="4711") for i in range(3)]
    assert planned(observed(jobs, [intent(0, 3)])) == [Record(0, "4711"), Merge()]


def test_an_unrecorded_intent_that_is_not_in_the_queue_is_submitted_itself() -> None:
    assert planned(observed([], [intent(0, 3)])) == [Submit(intent(0, 3)), Merge()]
    unwanted = intent(0, kind="coordinator")
    assert planned(observed([], [unwanted], on=board(0))) == [Merge()]


def test_an_announced_intent_that_no_array_can_hold_is_passed_over() -> None:
    what = observed([], [intent(0, 3)], largest=2)
    assert planned(what) == [new(1, 2), new(2, 1), Merge()]


def test_the_slots_of_a_duplicate_submission_are_cancelled_and_do_not_count() -> None:
    winners = [job(0, i) for i in range(3)]
    doubles = [job(0, i, submission="late") for i in range(3)]
    (cancel, merge) = planned(observed([*winners, *doubles], [intent(0, 3)], [0]))
    assert isinstance(cancel, Cancel) and cancel.jobs == tuple(double.job for double in doubles)
    assert merge == Merge()


def test_orders_whose_slots_are_gone_are_lost() -> None:
    claims = {"p0-00001-1": Owner("job0_0", "job0"), "p1-00001-1": Owner("job0_1", "job0")}
    jobs = [job(0, 1), job(0, 2), job(0, 3)]
    assert planned(observed(jobs, [intent(0, 3)], [0], claims=claims)) == [Merge(("p0-00001-1",))]


@pytest.mark.parametrize(
    "reason", ["JobArrayTaskLimit", "JobHeldUser", "launch failed requeued held"]
)
def test_what_a_slot_had_in_hand_that_is_held_back_is_given_out_again(reason: str) -> None:
    # Else the slot that runs would idle beside it, as long as the scheduler lets it.
    claims = {"p0-00001-1": Owner("job0_0+1", "job0"), "p1-00001-1": Owner("job0_1", "job0")}
    jobs = [
        job(0, 0, "pending", restarts=1, reason=reason),
        job(0, 1, "pending", restarts=1, reason="Resources"),
        job(0, 2),
    ]
    actions = planned(observed(jobs, [intent(0, 3)], [0], on=board(2), claims=claims))
    assert Merge(("p0-00001-1",)) in actions


def test_episodes_of_a_slot_that_waits_to_come_back_are_given_out_again() -> None:
    # Else the end of a run waited for days beside slots that ran.
    score = Rescore("final", 1, "p0", 1, "ppo", {}, Checkpoint("c", 1), 1)
    claims = {score.id: Owner("job0_0", "job0"), "p1-00001-1": Owner("job0_0", "job0")}
    late = job(0, 0, "pending", restarts=1, reason="Priority")
    on = board(2, rescores={"p0": score})

    def given_out(*others: JobView) -> tuple[str, ...]:
        actions = planned(observed([late, *others], [intent(0, 2)], [0], on=on, claims=claims))
        return next(action.lost for action in actions if isinstance(action, Merge))

    assert given_out(job(0, 1)) == (score.id,), "its round goes on from its checkpoint"
    assert given_out() == (), "nobody could play them"


def test_a_finished_run_ends_its_jobs_and_submits_nothing() -> None:
    jobs = [job(0), coordinator(2), coordinator(3, "pending")]
    intents = [intent(0), intent(1)]
    ended = observed(jobs, intents, [0], on=board(phase="finished"), coordinated=True)
    (merge, cancel) = planned(ended)
    assert merge == Merge()
    assert isinstance(cancel, Cancel) and cancel.jobs == ("job0_0", "job3_0")


def test_a_draining_run_submits_nothing_and_cancels_only_what_waits() -> None:
    jobs = [job(0, 0), job(0, 1, "pending"), coordinator(2), coordinator(3, "pending")]
    what = observed(jobs, [intent(0, 3), intent(1)], [0], draining=True, coordinated=True)
    (merge, cancel) = planned(what)
    assert merge == Merge()
    assert isinstance(cancel, Cancel) and cancel.jobs == ("job0_1", "job3_0")


# --- elastic -------------------------------------------------------------------------------


SIX = [job(0, index) for index in range(6)]


def six(scale: int) -> Snapshot:
    """Six slots on six pods, of which p5 scores best; ``scale`` of them are wanted."""
    on = board(6, scores=[0.0, 3.0, 1.0, 2.0, 4.0, 5.0])
    claims = {f"p{pod}-00002-1": Owner(slot.slot, "job0") for pod, slot in enumerate(SIX)}
    return observed(SIX, [intent(0, 6)], [0], on, places=6, pods=(2, 6), scale=scale, claims=claims)


def test_fewer_slots_retire_those_with_the_worst_prospects_and_their_pods_rest() -> None:
    retire, merge = planned(six(4))
    assert retire == Retire(("job0_0", "job0_2"), True, "no more than 4 are wanted now")
    assert merge == Merge(size=4)


def test_slots_stay_while_their_pods_wait_at_a_barrier() -> None:
    what = six(6)
    on = replace(what.board, barrier=Barrier(1))
    assert planned(replace(what, board=on, claims={})) == [Merge()]
    assert replace(what, board=on).open_orders == []


def test_a_slot_without_work_goes_first() -> None:
    what = six(5)
    claims = {order: owner for order, owner in what.claims.items() if "p4" not in order}
    retire = planned(replace(what, claims=claims))[0]
    assert isinstance(retire, Retire) and retire.slots == ("job0_4",)


def test_controls_go_last_and_after_their_round() -> None:
    what = six(1)
    pods = {n: replace(pod, control=n in ("p0", "p3")) for n, pod in what.board.pods.items()}
    at_once, later, merge = planned(
        replace(
            what, board=replace(what.board, pods=pods), config=configured((1, 6), coordinator=False)
        )
    )
    why = "no more than 1 are wanted now"
    assert at_once == Retire(("job0_2", "job0_1", "job0_4", "job0_5"), True, why)  # worst first
    assert later == Retire(("job0_0",), False, why)
    assert merge == Merge(size=1)


def test_waiting_slots_are_held_back_by_the_throttle_of_their_array() -> None:
    jobs = [*SIX[:2], *[job(0, index, "pending") for index in range(2, 6)]]
    what = six(3)
    what = replace(what, view=ClusterView(tuple(jobs)), claims={})
    assert planned(what)[0] == Throttle("job0", 3)
    held = replace(what, view=ClusterView(tuple(jobs), {"job0": 3}))
    assert [a for a in planned(held) if not isinstance(a, Merge)] == []
    more = replace(held, scale=6)
    assert planned(more)[0] == Throttle("job0", 0)


def test_a_throttle_that_could_not_be_told_is_lifted_all_the_same() -> None:
    """Only so many arrays are asked for theirs at a tick, and an answer may fail."""
    slots = [job(0), job(0, 1, "pending", reason="JobArrayTaskLimit")]
    what = observed(slots, [intent(0, 2)], [0], places=2)
    assert Throttle("job0", 0) in planned(what)
    waiting = [replace(view, reason="Resources" if view.reason else "") for view in slots]
    free = replace(what, view=ClusterView(tuple(waiting)))
    assert not [action for action in planned(free) if isinstance(action, Throttle)]


def test_an_array_of_which_nothing_may_run_is_cancelled_for_no_throttle_is_zero() -> None:
    jobs = [*SIX[:2], job(1, 0, "pending"), job(1, 1, "pending")]
    what = replace(six(2), view=ClusterView(tuple(jobs)), claims={})
    assert Cancel(("job1_0", "job1_1"), "no more than 2 are wanted now") in planned(what)


def test_of_two_arrays_that_wait_the_older_one_stays() -> None:
    jobs = [job(n, i, "pending", number) for n, number in enumerate(("99", "100")) for i in (0, 1)]
    what = replace(six(2), view=ClusterView(tuple(jobs)), claims={}, submitted={})
    assert Cancel(("100_0", "100_1"), "no more than 2 are wanted now") in planned(what)


def test_who_has_been_told_to_leave_is_not_told_again_and_does_not_count() -> None:
    what = replace(six(4), leaving=frozenset({"job0_0", "job0_2"}))
    assert not [a for a in planned(what) if isinstance(a, Retire)]
    grown = replace(what, scale=6)
    assert planned(grown)[0] == new(1, 2, target=6)


def test_who_is_to_leave_and_came_back_to_the_queue_is_cancelled_and_does_not_count() -> None:
    jobs = [*SIX[1:5], job(0, 0, "pending", restarts=1)]
    what = replace(six(5), view=ClusterView(tuple(jobs)), leaving=frozenset({"job0_0"}))
    cancel, submit, *_ = planned(what)
    assert cancel == Cancel(("job0_0",), "no more than 5 are wanted now")
    assert submit == new(1, 1, target=5)


def test_requeued_slots_are_released() -> None:
    back = job(0, 1, "pending", restarts=1, reason="BeginTime")
    others = [job(0), job(0, 2, "pending", reason="BeginTime")]  # that one is for the user to say
    actions = planned(observed([back, *others], [intent(0, 3)], [0]))
    assert actions == [Release(("job0_1",)), Merge()]
    late, soon = replace(back, starts=100.0), replace(back, starts=RELEASE_SECONDS)
    assert planned(observed([late, *others], [intent(0, 3)], [0]))[0] == Release(("job0_1",))
    assert planned(observed([soon, *others], [intent(0, 3)], [0])) == [Merge()]


@pytest.mark.parametrize(
    "held",
    [
        "launch failed requeued held",
        "launch failure limit exceeded requeued held",
        "JobHoldMaxRequeue",
    ],
)
def test_what_a_broken_node_could_not_start_is_replaced(held: str) -> None:
    """Slurm holds it, and it would count as waiting: a run without a coordinator for ever."""
    jobs = [coordinator(1, "pending"), job(0), job(0, 1, "pending"), job(0, 2)]
    jobs[0], jobs[2] = (
        replace(jobs[0], reason=held),
        replace(jobs[2], reason=held.replace(" ", "_")),
    )
    intents = [intent(0, 3), intent(1, kind="coordinator")]
    cancel, submit, slots, merge = planned(observed(jobs, intents, [0, 1], coordinated=True))
    assert isinstance(cancel, Cancel) and cancel.jobs == ("job1_0", "job0_1")
    assert isinstance(submit, Submit) and submit.intent.kind == "coordinator"
    assert slots == new(3, 1) and merge == Merge()


def test_a_backlog_of_one() -> None:
    waits = observed([job(0, 0, "pending")], [intent(0, 1)], [0])
    assert planned(waits) == [Merge()]
    begun = observed([job(0), job(1, 0, "pending")], [intent(0, 1), intent(1, 1)], [0, 1])
    assert planned(begun) == [Merge()]
    requeued = job(0, 0, "pending", restarts=1)
    assert planned(observed([requeued], [intent(0, 1)], [0]))[0] == new(1, 2)
    more = replace(waits, scale=4)  # than were wanted when it was submitted
    assert planned(more)[0] == new(1, 3, target=4)


def test_slots_that_may_not_wait_are_asked_for_as_there_is_room() -> None:
    polite = partial(observed, on=board(9), places=8, pods=(2, 9), waiting=1)
    assert planned(polite(room=3))[0] == new(0, 4, target=8)
    assert planned(polite(room=None))[0] == new(0, 2, target=8)
    running = [job(0, i) for i in range(4)]
    at_work = polite(running, [intent(0, 4)], [0], room=0)
    assert planned(at_work)[0] == new(1, 1, target=8)
    one_waits = polite([*running, job(0, 4, "pending")], [intent(0, 5)], [0], room=3)
    assert planned(one_waits)[0] == new(1, 3, target=8)


@pytest.mark.parametrize(
    ("scale", "plan", "target", "population"),
    [(None, None, 6, 12), (3, None, 3, 6), (3, 5, 3, 6), (None, 5, 5, 10), (1, None, 1, 2),
     (None, 1, 1, 2), (99, None, 12, 12), (8, None, 8, 12)],
)  # fmt: skip
def test_how_many_slots_and_pods(
    scale: int | None, plan: int | None, target: int, population: int
) -> None:
    what = observed(places=6, pods=(2, 12), scale=scale, scheduled=plan)
    assert (what.target, what.population) == (target, population)


# --- coordinators --------------------------------------------------------------------------


def test_a_running_coordinator_has_a_successor() -> None:
    full = [job(0, i) for i in range(3)]
    alone = observed([*full, coordinator(1)], [intent(0, 3), intent(1, kind="coordinator")], [0, 1])
    alone, uncoordinated = replace(alone, config=configured()), alone
    submit = planned(alone)[0]
    assert isinstance(submit, Submit)
    assert (submit.intent.kind, submit.intent.number) == ("coordinator", 2)
    assert planned(carried_out(alone, planned(alone))) == [Merge()]
    assert planned(uncoordinated) == [Merge()]


def test_one_successor_is_enough() -> None:
    full = [job(0, i) for i in range(3)]
    ours = [intent(n, kind="coordinator") for n in (1, 2)]
    jobs = [*full, coordinator(2, "pending"), coordinator(1, "pending")]
    what = observed(jobs, [intent(0, 3), *ours], [0, 2], coordinated=True)
    assert planned(what)[0] == Cancel(("job1_0",), "another coordinator waits already")


def test_coordinators_that_die_at_once_are_not_submitted_for_ever() -> None:
    ours = [intent(n, kind="coordinator", time=100.0) for n in range(COORDINATORS)]
    what = observed([], ours, range(COORDINATORS), on=board(0), coordinated=True, now=101.0)
    assert planned(what) == [Merge()]
    assert isinstance(planned(replace(what, now=1e6))[0], Submit)


# --- backoff --------------------------------------------------------------------------------


@pytest.mark.parametrize(("failures", "minutes"), list(enumerate([0, 1, 15, 30, 60, 60])))
def test_after_each_refusal_the_next_submission_comes_later(failures: int, minutes: int) -> None:
    backoff = Backoff(Refusals(failures, 1000.0, "no"))
    too_early = observed(backoff=backoff, now=1000.0 + 60 * minutes - 1)
    in_time = observed(backoff=backoff, now=1000.0 + 60 * minutes)
    assert any(isinstance(a, Submit) for a in planned(in_time))
    assert any(isinstance(a, Submit) for a in planned(too_early)) == (failures == 0)


def test_after_each_failed_start_the_next_submission_comes_later() -> None:
    for failures, minutes in ((1, 1), (2, 15)):
        backoff = Backoff(failed_starts=failures, last_start=1000.0)
        assert backoff.wait(1000.0) == 60 * minutes
        assert backoff.wait(1000.0 + 60 * minutes) == 0
    assert Backoff(failed_starts=1, last_start=1000.0, delays=()).wait(1000.0) == 0


def test_a_clock_that_was_set_back_stops_nobody_for_ever() -> None:
    # Each tick asks anew: a delay that does not shrink has no end.
    assert Backoff(failed_starts=1, last_start=1e9).wait(0.0) == 0


def test_ten_refusals_or_three_failed_starts_pause_the_run() -> None:
    refused = Backoff(Refusals(10, 0.0, "sbatch failed: no"))
    (merge, pause) = planned(observed(backoff=refused, now=1e9))
    said = "the scheduler refused 10 submissions in a row: sbatch failed: no"
    assert (merge, pause) == (Merge(), Pause(said))
    assert any(isinstance(a, Submit) for a in planned(
        observed(backoff=replace(refused, refusals=Refusals(9, 0.0, "no")), now=1e9)))  # fmt: skip
    started = Backoff(failed_starts=3)
    assert planned(observed(backoff=started, now=1e9))[-1] == Pause(
        "3 submissions in a row ended without any progress; see `hpcpod logs`"
    )
    why = planned(observed(backoff=started, refused="another simulator"))[-1]
    assert why == Pause("another simulator")
    at_work = observed([job(0)], [intent(0)], [0], backoff=started)  # it may still bring something
    assert planned(at_work) == [Merge()]


def test_a_failed_start_is_a_submission_that_is_gone_and_brought_nothing() -> None:
    made = [intent(n, reports=5, time=60.0 * n) for n in range(4)]
    none: frozenset[int] = frozenset()
    assert failed_starts(made, 5, none, none) == 4
    assert failed_starts(made, 6, none, none) == 0  # a report has come since
    assert failed_starts(made, 5, frozenset({1}), none) == 2
    assert failed_starts(made, 5, none, frozenset({3})) == 3
    assert failed_starts([], 0, none, none) == 0
    split = [replace(each, time=60.0) for each in made[1:]]  # by MaxArraySize
    assert failed_starts([made[0], *split], 5, none, none) == 2
