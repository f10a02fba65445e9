"""Explanations in sentences of every state that a pod or a run can be in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from hpcpod.config.schema import ClusterConfig
from hpcpod.launchers.base import Cancelled, ClusterView, JobView
from hpcpod.launchers.slurm.sacct import EndedJob
from hpcpod.orchestrator.backoff import Backoff, Refusals
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Board, FreshPurpose, Last, Order, Owner, Rescore
from hpcpod.run.explain import why_pod, why_run
from hpcpod.run.pod_history import Claim
from hpcpod.storage.requests import Drain
from hpcpod.tournament.leaderboard import begin, first_board, fold
from hpcpod.tournament.settle import as_dead
from tests.support.slots import statuses
from tests.tournament.world import by_number, failed, order_of, play_round, report, rules

GAME = rules(4)
BEGIN = first_board(GAME, 0.0)
NOW = 100_000.0
QUEUED = JobView("7_1", "7_1", "slots", "pending", "t", "Priority", submission="7")
COORDINATOR = JobView("8", "8", "coordinator", "running", "c")


def seen(board: Board = BEGIN, jobs: Any = (COORDINATOR,), **changes: Any) -> Snapshot:
    config = replace(GAME.config, cluster=ClusterConfig(launcher="slurm", slots=3))
    view = None if jobs is None else ClusterView(tuple(jobs))
    plain = Snapshot(Path("runs/test"), config, board, NOW, NOW, view, places=3)
    changes["slots"] = statuses(changes.get("slots", {}))
    return replace(plain, **changes)


def pod(name: str, of: Snapshot, claims: dict[str, Claim] | None = None, **changes: Any) -> str:
    return "\n".join(why_pod(replace(of, **changes), name, claims or {}))


def run(of: Snapshot, **changes: Any) -> str:
    return "\n".join(why_run(replace(of, **changes)))


def claimed(order: Order, slot: str = "7_0") -> dict[str, Claim]:
    return {order.id: Claim(order.id, Owner(slot, "7", "node4"), NOW - 180)}


def shown(order: Order, **more: Any) -> dict[str, Any]:
    """What slot 7_0 shows that trains it."""
    return {"7_0": {"state": "training", "order": order.id, "mtime": NOW, **more}}


def test_a_pod_in_training_has_its_slot_its_node_and_its_progress() -> None:
    order = order_of(BEGIN, "p0001")
    slots = shown(order, env_steps=4200, steps_per_second=1100.0)
    said = pod("p0001", seen(slots=slots), claimed(order))
    assert "p0001 ppo is a control" in said
    assert "round 1 is being trained by slot 7_0 on node4 since " in said
    assert said.endswith("(3 min), at 4,200 env steps, 1,100 steps/s")


def test_a_pod_that_is_scored_beside_another_is_said_to_be_scored() -> None:
    order, other = order_of(BEGIN, "p0001"), order_of(BEGIN, "p0002")
    beside = {"state": "scoring", "order": order.id}
    said = pod("p0001", seen(slots=shown(other, scoring=beside)), claimed(order))
    assert "round 1 is being scored by slot 7_0 on node4" in said
    said = pod("p0001", seen(slots=shown(other)), claimed(order))
    assert "round 1 is in the hands of slot 7_0 on node4" in said


def test_a_pod_whose_slot_was_requeued_waits_for_the_scheduler() -> None:
    order = order_of(BEGIN, "p0001")
    job = replace(QUEUED, slot="7_0", job="7_0", reason="BeginTime", restarts=1)
    said = pod("p0001", seen(jobs=[job, COORDINATOR]), claimed(order))
    assert "was taken by slot 7_0 on node4, which was requeued and goes on with it" in said
    assert "BeginTime: its earliest start is still to come" in said


def test_a_pod_whose_slot_is_gone_is_given_out_again() -> None:
    order = order_of(BEGIN, "p0001")
    said = pod("p0001", seen(), claimed(order))
    assert "which is gone; it goes on from its checkpoint in another" in said
    assert "`hpcpod tick runs/test`" in said
    life = EndedJob("7_0", "OUT_OF_MEMORY", 0, 125, 90.0, NOW, "node4")
    said = pod("p0001", seen(), claimed(order), ended={"7_0": life})
    assert "which is gone (OUT_OF_MEMORY by signal 125 after 2 min on node4)" in said
    said = pod("p0001", seen(jobs=None, unknown="no squeue"), claimed(order))
    assert "whether it is in the queue can't be told here" in said
    running = replace(QUEUED, slot="7_0", state="running")
    assert "starting or stuck" in pod("p0001", seen(jobs=[running]), claimed(order))
    paused = seen(drain=Drain(now=True))
    assert "once the run does: hpcpod resume" in pod("p0001", paused, claimed(order))


def test_a_pod_that_nobody_has_waits_behind_others_and_for_the_reasons_of_the_queue() -> None:
    order = order_of(BEGIN, "p0001")
    said = pod("p0003", seen(jobs=[QUEUED, COORDINATOR], slots=shown(order)))
    assert "p0003 ppo is a fresh draw" in said
    assert "round 1 waits for a slot\n1 order will be taken before it" in said
    assert "0 slots at work, 3 wanted: cluster.slots says so" in said
    assert "1 slot waits: Priority: jobs of a higher priority come first; wait" in said


def test_advice_that_names_settings_says_how_those_of_a_run_are_changed() -> None:
    keeps = "the run keeps the settings that it was launched with"
    held = replace(QUEUED, reason="PartitionTimeLimit")
    said = run(seen(jobs=[held, COORDINATOR]))
    assert "lower cluster.minutes" in said
    assert keeps in said
    assert "`scontrol update JobId=7_1 TimeLimit=...`" in said
    assert "`hpcpod stop runs/test` and launch it anew, by another name" in said
    assert keeps not in run(seen(jobs=[QUEUED, COORDINATOR]))
    assert keeps not in run(seen(jobs=[held, COORDINATOR], drain=Drain(now=True)))


def test_a_run_without_jobs_is_not_said_to_have_slots_that_go_on() -> None:
    assert "slots go on" not in run(seen(jobs=[]))
    assert "slots go on" in run(seen(jobs=[], slots=shown(order_of(BEGIN, "p0001"))))


def test_a_pod_whose_next_round_was_begun_ahead_says_so() -> None:
    order = order_of(BEGIN, "p0002")
    said = pod("p0002", seen(slots=shown(order, ahead=True)))
    assert "round 1 has been begun by slot 7_0 already, ahead of its order" in said


def test_a_pod_without_prospects_rests_while_there_are_few_slots() -> None:
    small = replace(play_round(BEGIN, GAME, by_number), size=2)
    said = pod("p0002", seen(small))
    assert "it rests before round 2: 2 pods may be in training now" in said


def test_a_pod_that_repeats_a_training_says_whose() -> None:
    again = replace(BEGIN.pods["p0002"], repeats="p0001", evidence="p0001 is among the best")
    board = replace(BEGIN, pods={**BEGIN.pods, "p0002": again})
    said = pod("p0002", seen(board))
    assert "is p0001's training again with another seed: p0001 is among the best" in said
    dead = replace(BEGIN.pods["p0003"], fate="replaced", birth=None, last=Last(7, 1.0))
    board = replace(board, pods={**board.pods, "p0002": replace(again, replaces="p0003")})
    said = pod("p0003", seen(replace(board, pods={**board.pods, "p0003": dead})))
    assert "it was replaced by p0002 after round 7, since its place could be spared: p0001" in said


def test_a_pod_that_failed_says_why_and_one_that_is_dead_too() -> None:
    first = order_of(BEGIN, "p0002")
    once = fold(BEGIN, [failed(first, why="it broke")], GAME, now=1.0)
    said = pod("p0002", seen(once))
    assert "attempt 1 on s1 failed: it broke; `hpcpod logs runs/test p0002`" in said
    dead = fold(once, [failed(order_of(once, "p0002"))], GAME, now=2.0)
    assert dead.pods["p0002"].fate == "failed"
    said = pod("p0002", seen(dead))
    assert "it is dead: " in said
    heir = next(p.id for p in dead.pods.values() if p.replaces == "p0002")
    assert f"it was replaced by {heir}" in said


def test_a_replaced_pod_and_its_heir_have_the_evidence() -> None:
    board = BEGIN
    for _ in range(4):
        board = play_round(board, GAME, lambda order: 100 * by_number(order))
    old = next(p for p in board.pods.values() if p.fate == "replaced" and not p.control)
    heir = next(p for p in board.pods.values() if p.replaces == old.id)
    assert heir.evidence
    said = pod(old.id, seen(board))
    assert old.last is not None
    assert f"it was replaced by {heir.id} after round {old.last.round}, because" in said
    assert f", because {heir.evidence}" in said
    said = pod(heir.id, seen(board))
    assert f"{heir.id} ppo is a copy of {heir.parent} at round " in said
    assert f"in place of {old.id}, because {heir.evidence}" in said


def test_a_pod_that_was_given_up_is_not_said_to_be_replaced() -> None:
    ended = as_dead(BEGIN.pods["p0002"], "its curve is flat", "given up")
    said = pod("p0002", seen(replace(BEGIN, pods={**BEGIN.pods, "p0002": ended})))
    assert "it was given up, and nothing took its place: its curve is flat" in said
    assert "replaced" not in said


def test_a_later_fresh_draw_says_why_it_was_born() -> None:
    drawn = replace(BEGIN.pods["p0002"], replaces="p0001", evidence="the best stand still")
    said = pod("p0002", seen(replace(BEGIN, pods={**BEGIN.pods, "p0002": drawn})))
    assert "p0002 ppo is a fresh draw: the best stand still" in said
    control = replace(drawn, control=True, evidence="in place of p0001, which failed: nan")
    said = pod("p0002", seen(replace(BEGIN, pods={**BEGIN.pods, "p0002": control})))
    assert "its hyperparameters never change; in place of p0001, which failed: nan" in said


def test_a_pod_that_is_scored_on_fresh_seeds_says_what_for() -> None:
    board = play_round(BEGIN, GAME, by_number)
    best = board.entries[0]
    order = Rescore("confirm", 1, best.pod, 1, "ppo", {}, best.checkpoint, best.round)
    board = replace(board, rescores={best.pod: order})
    said = pod(best.pod, seen(board, slots=shown(order, state="scoring")), claimed(order))
    assert "round 1 on fresh seeds for the target is being scored by slot 7_0" in said
    assert "round 2 waits for a slot" in said


def test_a_pod_that_has_trained_all_its_rounds_waits_for_the_others() -> None:
    board = replace(BEGIN, pods={**BEGIN.pods, "p0001": replace(BEGIN.pods["p0001"], birth=None)})
    assert "it has trained what there was to train" in pod("p0001", seen(board))


def test_a_finished_run_needs_no_more() -> None:
    board = fold(BEGIN, [], GAME, now=1.0, stop="user")
    assert run(seen(board)) == "the run is finished (user)"
    assert pod("p0001", seen(board)).endswith(
        "the run is finished (user) before this pod had finished a round: nobody trains it any more"
    )
    later = fold(play_round(BEGIN, GAME, by_number), [], GAME, now=1.0, stop="user")
    assert pod("p0001", seen(later)).endswith("finished (user): nobody trains it any more")


@pytest.mark.parametrize(
    ("drain", "slots", "words"),
    [
        (Drain(), {}, "the run is paused, as a person asked; `hpcpod resume runs/test` goes on"),
        (Drain(reason="sbatch refused"), {}, "the run is paused: sbatch refused; `hpcpod"),
        (Drain(now=True), {"7_0": {}}, "pauses, as a person asked: 1 slot still to checkpoint"),
        (Drain(), {"7_0": {}}, "1 slot still to finish a round"),
    ],
)
def test_a_run_that_pauses_says_how_it_goes_on(
    drain: Drain, slots: dict[str, Any], words: str
) -> None:
    assert words in run(seen(drain=drain, slots=slots))


def test_a_run_without_a_coordinator_says_what_does_its_work() -> None:
    running = replace(QUEUED, state="running")
    assert "no coordinator is in the queue" in run(seen(jobs=[running], slots={"7_1": {}}))
    waits = replace(COORDINATOR, state="pending", reason="Resources")
    said = run(seen(jobs=[running, waits], slots={"7_1": {}}))
    assert "its coordinator waits too: Resources: " in said
    assert "coordinator" not in run(seen(jobs=[running, COORDINATOR], slots={"7_1": {}}))


def test_a_run_without_any_job_is_interrupted() -> None:
    assert "it has no job in the queue; `hpcpod resume runs/test` goes on" in run(seen(jobs=()))


def test_a_braked_run_says_when_it_tries_again() -> None:
    backoff = Backoff(Refusals(2, NOW - 60, "invalid partition"), failed_starts=1, last_start=NOW)
    said = run(seen(), backoff=backoff)
    assert "the scheduler refused the last 2 submissions: invalid partition" in said
    assert "the last submission ended without any progress" in said
    assert "the next one is made in 14 min at the earliest" in said
    given_up = run(seen(), backoff=Backoff(Refusals(10, NOW, "invalid partition")))
    assert "no more are made until a person has looked: `hpcpod resume" in given_up
    assert "the next one is made" not in given_up


def test_hopeless_reasons_say_so_and_more_slots_than_work_are_explained() -> None:
    job = replace(QUEUED, reason="InvalidAccount")
    board = replace(BEGIN, size=1)
    said = run(seen(board, jobs=[job, COORDINATOR]))
    assert "it won't start by itself; set cluster.account to another" in said
    assert "1 order open now: more slots would find nothing to do" in said
    job = replace(QUEUED, starts=NOW + 7200)
    assert "expected to start in 2 h" in run(seen(jobs=[job]))


def test_what_cannot_be_told_here_is_said() -> None:
    said = run(seen(jobs=None, unknown="there is no squeue on this machine", slots={"7_0": {}}))
    assert "what waits in the queue can't be told here: there is no squeue" in said
    assert "coordinator" not in said


def lost(*slots: str, ago: float = 20.0, replaced: bool = False) -> Any:
    return tuple((Cancelled(slot, slot.partition("_")[0], NOW - ago), replaced) for slot in slots)


def test_a_slot_that_somebody_cancelled_comes_back_unless_fewer_are_asked_for() -> None:
    working = [replace(QUEUED, slot=f"7_{n}", state="running") for n in range(2)]
    looked = seen(jobs=[*working, COORDINATOR], slots=shown(order_of(BEGIN, "p0001")))
    assert "cancelled" not in run(looked)
    assert (
        "1 slot was cancelled 20 s ago (7_2) and comes back: 3 wanted, and its coordinator asks for"
        " them within 5 min; to have fewer, `hpcpod scale runs/test 2`"
    ) in run(replace(looked, cancelled=lost("7_2")))
    said = run(replace(looked, cancelled=lost("7_2", "7_3", "7_4", "7_5")))
    assert "4 slots were cancelled 20 s ago (7_2, 7_3, 7_4, ...) and come back" in said
    assert "to have fewer, `hpcpod pause runs/test`" in said
    waits = replace(COORDINATOR, state="pending", reason="Resources")
    said = run(replace(looked, view=ClusterView((*working, waits)), cancelled=lost("7_2")))
    assert "its coordinator, once that runs, or the next `hpcpod tick runs/test` asks" in said
    # The third is there again.
    full = ClusterView((*working, replace(QUEUED, slot="9_0", submission="9"), COORDINATOR))
    said = run(replace(looked, view=full, cancelled=lost("7_2", ago=90, replaced=True)))
    assert "(7_2), and another was asked for in its place: 3 wanted; to have fewer" in said
    assert "1 slot was cancelled 2 min ago" in said
    # What the coordinator itself had too many of does not come back.
    assert "cancelled" not in run(replace(looked, view=full, cancelled=lost("7_2")))
    assert "cancelled" not in run(replace(looked, drain=Drain(now=True), cancelled=lost("7_2")))


def test_a_pod_at_a_barrier_says_for_whom_it_waits_and_for_how_long() -> None:
    game = rules(4, scheme="generational")
    population = replace(game.config.population, deadline=2.0)
    game = replace(game, config=replace(game.config, population=population))
    board = first_board(game, NOW - 30.0)
    for name, now in (("p0001", NOW - 20.0), ("p0002", NOW - 10.0)):
        board = fold(begin(board, NOW - 30.0), [report(order_of(board, name))], game, now=now)
    of = replace(seen(board), config=replace(game.config, cluster=GAME.config.cluster))
    said = pod("p0001", of)
    assert said.endswith("before round 2 it waits for p0003 and p0004 at the barrier of round 1")
    assert "waits for a slot" in pod("p0004", of)
    board = fold(board, [report(order_of(board, "p0004"))], game, now=NOW - 6.0)
    said = pod("p0001", replace(of, board=board))  # the quorum took 24 s
    assert said.endswith("it waits for p0003 at the barrier of round 1, 18 s more at most")  # of 48


def test_a_pod_that_its_allocator_lets_rest_says_its_reason() -> None:
    board = play_round(BEGIN, GAME, by_number)
    resting = replace(board.pods["p0002"], rests="it is number 4 of 4")
    board = replace(board, pods={**board.pods, "p0002": resting})
    decided = "it rests before round 2, as the allocator decided at first: it is number 4 of 4"
    assert decided in pod("p0002", seen(board))
    late = replace(board, turns=("p0004", "p0002"))  # the last turn, where the budget is in seconds
    said = pod("p0002", seen(late))
    assert "round 2 waits for a slot that finds nothing better to train, as the allocator" in said
    assert "decided at first: it is number 4 of 4\n3 orders will be taken before it" in said
    small = pod("p0002", seen(replace(late, size=2)))
    assert "it rests before round 2: 2 pods may be in training now" in small


@pytest.mark.parametrize("purpose", get_args(get_type_hints(Rescore)["purpose"]))
def test_every_use_of_fresh_seeds_has_its_words(purpose: Any) -> None:
    board = play_round(BEGIN, GAME, by_number)
    best = board.entries[0]
    order = Rescore(purpose, 1, best.pod, 1, "ppo", {}, best.checkpoint, best.round)
    said = pod(best.pod, seen(replace(board, rescores={best.pod: order})))
    assert "round 1 on fresh seeds for " in said


def test_every_purpose_of_a_score_is_one_of_an_order() -> None:
    assert {*get_args(FreshPurpose)} < {*get_args(get_type_hints(Rescore)["purpose"])}
