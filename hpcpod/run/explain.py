"""Explanations in sentences: of a pod's state, and of slots that a run lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from hpcpod.launchers.base import Launcher
from hpcpod.launchers.factory import launcher_here
from hpcpod.launchers.identity import BY_HAND
from hpcpod.launchers.slurm.feasibility import Impossible, sentences
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.launchers.slurm.reasons import explain
from hpcpod.launchers.slurm.sacct import EndedJob
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Birth, Order
from hpcpod.run.extension_words import extensions_words
from hpcpod.run.fates import fate, origin
from hpcpod.run.idle_slots import at_barrier, idling
from hpcpod.run.pending_jobs import (
    cancelled_words,
    looks_for_nodes,
    reason_words,
    waiting_words,
)
from hpcpod.run.pod_history import Claim, claim_of, require_pod
from hpcpod.run.refused import refused
from hpcpod.run.snapshot import QUEUE_SECONDS, see
from hpcpod.run.snapshot_scores import scoring
from hpcpod.run.status import status_of
from hpcpod.run.text import duration, many, since
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import OrderStatus, SlotStatus, element
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.policy_snapshots import being_scored
from hpcpod.tournament.priorities import resting_pods, sidelined

_PURPOSES = {
    "confirm": "the target", "final": "the choice of the best finalist",
    "candidate": "the choice of what is delivered", "report": "the score that is reported",
    "snapshot": "a snapshot", "look": "a second look at a test that came close",
}  # fmt: skip


def why(folder: RunFolder, pod: str | None = None, *, ask: bool = True) -> list[str]:
    """Explain what a pod of a run does, or why the run has the slots that it has.

    Args:
        folder: the run's.
        pod: the pod's name; None explains the run.
        ask: ask the scheduler, too, if the run has one.

    Returns:
        Sentences.

    Raises:
        UserError: the run has no such pod.
    """
    seen = see(folder, ask=ask, failures=True)
    # Without an answer of squeue no more is asked: each command would wait for its timeout.
    launcher = None if seen.view is None else launcher_here(folder)
    seen = replace(seen, impossible=_impossible(launcher, seen))
    if pod is None:
        said = why_run(replace(seen, ended=_ended(launcher, _last_submission(seen))))
        full = status_of(folder, seen).full
        return [*filter(None, [full]), *said, *refused(folder, seen.board)]
    require_pod(seen.board, pod, seen.config.name)
    mine = [order.id for order in orders(seen.board) if order.pod == pod]
    claims = {order: claim for order in mine if (claim := claim_of(folder, order)) is not None}
    slots = {element(claim.owner.slot) for claim in claims.values()}
    gone = sorted(slots - seen.cluster.slots) if seen.view is not None else []
    said = why_pod(replace(seen, ended=_ended(launcher, gone)), pod, claims)
    return [*said, *refused(folder, seen.board, pod)]


def _impossible(launcher: Launcher | str | None, seen: Snapshot) -> tuple[Impossible, ...]:
    """Demands that no node could meet, of the jobs that wait for nodes."""
    waiting = [job for job in (*seen.waiting, *seen.coordinators) if looks_for_nodes(job)]
    if not waiting or not isinstance(launcher, SlurmLauncher):
        return ()
    return tuple(launcher.impossible(waiting, QUEUE_SECONDS))


def _last_submission(seen: Snapshot) -> list[str]:
    """The job of the last slots, if they have failed."""
    if not seen.backoff.failed_starts:
        return []
    made = [i.number for i in seen.intents if i.kind == "slots" and i.number in seen.submitted]
    return [seen.submitted[number] for number in made[-1:]]


def _ended(launcher: Launcher | str | None, jobs: Sequence[str]) -> dict[str, EndedJob]:
    found = launcher.history(jobs) if jobs and isinstance(launcher, SlurmLauncher) else None
    # A requeued job has a line of sacct for each time that it ran: the last one counts.
    return {ended.job: ended for ended in sorted(found or (), key=lambda each: each.ended)}


def why_run(seen: Snapshot) -> list[str]:
    """Reasons why a run goes on or does not, and why it has the slots that it has."""
    if seen.state == "finished":
        reason = seen.board.stop_reason
        logs = f"; `hpcpod logs {seen.word}` has the traceback"
        failure = f": {seen.board.failure}{logs}" if seen.board.failure else ""
        return [f"the run is finished ({reason}){failure}", *extensions_words(seen.board)]
    return [
        *_state(seen),
        *extensions_words(seen.board),
        *_failing(seen),
        *_slots(seen),
        *_submissions(seen),
        *_coordinator(seen),
        *_settings(seen),
    ]


def _state(seen: Snapshot) -> Iterator[str]:
    if seen.drain is not None:
        who = f": {seen.pause_reason}" if seen.pause_reason else ", as a person asked"
        goes_on = f"`hpcpod resume {seen.word}` goes on"
        if seen.slots:
            what = "checkpoint and leave" if seen.drain.now else "finish a round"
            left = f"{many(len(seen.slots), 'slot')} still to {what}"
            yield f"the run pauses{who}: {left}; {goes_on}"
        else:
            yield f"the run is paused{who}; {goes_on}"
    elif seen.state == "interrupted":
        missing = "no process runs its slots" if seen.local else "it has no job in the queue"
        yield f"no process runs it, {missing}; `hpcpod resume {seen.word}` goes on"
    elif seen.doubt:
        yield f"no process is seen to run it, but {seen.doubt}; look again in two minutes"
    if seen.refused:
        yield f"a slot could do nothing for it: {seen.refused}"
    if seen.board.phase == "finals":
        left = scoring(seen.board)
        if being_scored(seen.board.rescores):
            ended = f"it has ended ({seen.board.stop_reason}), {seen.board.winner} is the winner"
            yield f"{ended}: {left}; `hpcpod stop {seen.word} --now` ends it without"
        elif seen.board.stop_reason == "user":
            yield f"a person ends it: {left}; `hpcpod stop {seen.word} --now` ends it without"
        else:
            yield f"it has met its limit ({seen.board.stop_reason}): {left}"


def _failing(seen: Snapshot) -> Iterator[str]:
    """Pods that can't finish a round, by the last attempt of one of them."""
    failing = [pod for pod in seen.board.living if pod.failure]
    if failing:
        worst = max(failing, key=lambda pod: pod.failures)
        yield (
            f"{many(len(failing), 'pod')} failed in the last attempt; {worst.id} {worst.algorithm},"
            f" {worst.failure}; `hpcpod logs {seen.word} {worst.id}` has the traceback"
        )


def _slots(seen: Snapshot) -> Iterator[str]:
    """The number of slots, the wanted number, and what the others wait for."""
    if seen.drain is not None:
        return
    wanted = ""
    if seen.wanted is not None:
        wanted = f", {seen.wanted} wanted: {seen.wanted_by}"
    yield f"{many(seen.running, 'slot')} at work{wanted}"
    if waits := idling(seen):
        yield waits
    elif seen.wanted is not None and (count := len(seen.open_orders)) < seen.wanted:
        yield f"{many(count, 'order')} open now: more slots would find nothing to do"
    yield from waiting_words(seen.waiting, seen.now, seen.impossible)
    if cancelled := cancelled_words(seen):
        yield cancelled
    if seen.unknown:
        yield f"what waits in the queue can't be told here: {seen.unknown}"


def _submissions(seen: Snapshot) -> Iterator[str]:
    """Reasons why the coordinator asks for no more slots."""
    backoff, now = seen.backoff, seen.now
    if backoff.refusals.count:
        yield f"the scheduler refused {_last(backoff.refusals.count)}: {backoff.refusals.why}"
    if backoff.failed_starts:
        logs = f"see `hpcpod logs {seen.word}`"
        yield f"{_last(backoff.failed_starts)} ended without any progress; {logs}"
        for job, ended in sorted(seen.ended.items())[:3]:
            yield f"slot {job} ended {_how(ended)}"
    if backoff.pause():
        if seen.drain is None:
            yield f"no more are made until a person has looked: `hpcpod resume {seen.word}` goes on"
    elif backoff.wait(now) > 0:
        yield f"the next one is made in {duration(backoff.wait(now))} at the earliest"


def _last(count: int) -> str:
    return "the last submission" if count == 1 else f"the last {count} submissions"


def _coordinator(seen: Snapshot) -> Iterator[str]:
    """The coordinator, if it does not act for the run."""
    if seen.local or seen.view is None or seen.drain is not None:
        return
    if not seen.config.cluster.coordinator:
        yield f"it has no coordinator (cluster.coordinator): only `hpcpod tick {seen.word}` submits"
    elif not seen.coordinators:
        still = "slots go on, but nothing" if seen.slots else "nothing"
        yield (
            f"no coordinator is in the queue: {still} is submitted or given out again;"
            f" `hpcpod tick {seen.word}` does that once, and submits a coordinator"
        )
    elif all(job.state == "pending" for job in seen.coordinators):
        first = seen.coordinators[0]
        demands = [each for each in seen.impossible if each.kind == "coordinator"]
        never = "; ".join(sentences(demands)) if looks_for_nodes(first) else ""
        why = f"and can't ever start: {never}" if never else reason_words(first.reason)
        yield f"its coordinator waits too: {why}; `hpcpod tick {seen.word}` acts meanwhile"


def _settings(seen: Snapshot) -> Iterator[str]:
    """The way to follow advice that names settings: a run's configuration never changes."""
    waiting = [job for job in seen.cluster.jobs if job.state == "pending"]
    kinds = {each.kind for each in seen.impossible}
    named = [job.job for job in waiting if job.kind in kinds and looks_for_nodes(job)]
    advice = [(job.job, explain(job.reason).advice) for job in waiting]
    named += [job for job, text in advice if "cluster." in text or "resources." in text]
    if named and seen.drain is None:
        yield (
            "the run keeps the settings that it was launched with: change each job that waits"
            f" (`scontrol update JobId={named[0]} TimeLimit=...`, Partition, Account, QOS), or"
            f" `hpcpod stop {seen.word}` and launch it anew, by another name"
        )


def why_pod(seen: Snapshot, name: str, claims: Mapping[str, Claim]) -> list[str]:
    """Sentences on one pod: what it does, and why.

    Args:
        seen: of its run.
        name: the pod.
        claims: the claim of each of its orders that has one, by the order's name.
    """
    pod = seen.board.pods[name]
    said = [origin(pod)]
    if pod.verdict:
        said.append(f"compared with others {pod.verdict}")
    if pod.fate != "alive":
        return [*said, fate(pod, seen.board, seen.word)]
    mine = [order for order in orders(seen.board) if order.pod == name]
    if seen.state == "finished":
        early = "" if pod.history else " before this pod had finished a round"
        over = f"the run is finished ({seen.board.stop_reason}){early}"
        rested = f"; it rested, as the allocator decided: {pod.rests}" if pod.rests else ""
        return [*said, f"{over}: nobody trains it any more{rested}"]
    if pod.failure:
        said.append(f"{pod.failure}; `hpcpod logs {seen.word} {name}` has the traceback")
    for order in mine:
        claim = claims.get(order.id)
        said += _held(seen, order, claim) if claim is not None else _free(seen, order)
    if not mine:
        rounds = seen.config.stop.rounds
        done = f"all {rounds} rounds of stop.rounds" if rounds else "what there was to train"
        said.append(f"it has trained {done}, and waits for the others")
    return said


def _task(order: Order) -> str:
    if isinstance(order, Birth):
        return f"round {order.round}"
    return f"round {order.round} on fresh seeds for {_PURPOSES[order.purpose]}"


def _held(seen: Snapshot, order: Order, claim: Claim) -> Iterator[str]:
    """The work of the slot that has an order."""
    slot = claim.owner.slot
    where = f"slot {slot} on {claim.owner.host}"
    shown = seen.slots.get(slot)
    doing = _in_hand(shown, order.id) if shown is not None else None
    if doing is not None:
        done = "scored" if doing.state == "scoring" else "trained"
        yield (
            f"{_task(order)} is being {done} by {where} {since(claim.at, seen.now)}"
            f"{_progress(doing)}"
        )
    elif shown is not None:
        yield f"{_task(order)} is in the hands of {where} {since(claim.at, seen.now)}"
    else:
        yield from _lost(seen, order, claim)


def _in_hand(shown: SlotStatus, order: str) -> OrderStatus | None:
    """The status of an order that a slot trains or scores."""
    return next((part for part in shown.orders if part.order == order), None)


def _progress(doing: OrderStatus) -> str:
    if doing.env_steps is None or doing.state == "scoring":
        return ""
    rate = doing.steps_per_second
    speed = f", {rate:,.0f} steps/s" if rate is not None else ""
    return f", at {doing.env_steps:,.0f} env steps{speed}"


def _lost(seen: Snapshot, order: Order, claim: Claim) -> Iterator[str]:
    """The fate of an order whose slot shows nothing any more."""
    slot = claim.owner.slot
    head = f"{_task(order)} was taken by slot {slot} on {claim.owner.host}"
    ended = seen.ended.get(element(slot))
    gone = f"which is gone ({_how(ended)})" if ended is not None else "which is gone"
    job = next((job for job in seen.cluster.jobs if job.slot in (slot, element(slot))), None)
    again = f"`hpcpod tick {seen.word}` gives it out again at once"
    if job is not None and job.state == "pending":
        (words,) = waiting_words([job], seen.now, seen.impossible)
        yield f"{head}, which was requeued and goes on with it: {words}"
    elif job is not None:
        # A slot shows itself before it claims: this one has been requeued, or hangs.
        yield f"{head}, which is starting or stuck: it shows nothing"
    elif seen.drain is not None:
        yield f"{head} and goes on from its checkpoint once the run does: hpcpod resume"
    elif seen.view is None and not seen.local:
        yield f"{head}, of which nothing is seen; whether it is in the queue can't be told here"
    elif slot.startswith(BY_HAND) or seen.local:
        # No scheduler knows it: it counts as gone by its silence alone.
        yield f"{head}, of which nothing is seen; its round is given out again soon"
    else:
        yield f"{head}, {gone}; it goes on from its checkpoint in another: {again}"


def _free(seen: Snapshot, order: Order) -> Iterator[str]:
    """The reason why an order without a slot waits."""
    if order.pod in resting_pods(seen.board) and isinstance(order, Birth):  # a rescore never rests
        yield _resting(seen, order)
        return
    begun = [slot for slot, shown in seen.slots.items() if shown.ahead and shown.order == order.id]
    if begun:
        yield f"{_task(order)} has been begun by slot {begun[0]} already, ahead of its order"
        return
    rests = seen.board.pods[order.pod].rests if isinstance(order, Birth) else ""
    late = f" that finds nothing better to train, as the allocator decided at first: {rests}"
    yield f"{_task(order)} waits for a slot{late if rests else ''}"
    if seen.drain is not None:
        yield from _state(seen)
        return
    before = _before(seen, order)
    if before:
        yield f"{many(before, 'order')} will be taken before it"
    yield from why_run(seen)


def _resting(seen: Snapshot, order: Order) -> str:
    if order.pod not in sidelined(seen.board):
        return f"before {_task(order)} it waits for {at_barrier(seen)}"
    if order.pod in seen.board.resting:
        reason = f", as the allocator decided at first: {seen.board.pods[order.pod].rests}"
    else:
        room = f"{many(seen.board.size or 0, 'pod')} may be in training now"
        reason = f": {room}, and others have better prospects"
    return f"it rests before {_task(order)}{reason}"


def _how(ended: EndedJob) -> str:
    """The end of a slot, by the site's accounting."""
    code = f" with exit code {ended.exit_code}" if ended.exit_code else ""
    signal = f" by signal {ended.signal}" if ended.signal else ""
    node = f" on {ended.node}" if ended.node else ""
    return f"{ended.state}{code}{signal} after {duration(ended.seconds)}{node}"


def _before(seen: Snapshot, order: Order) -> int:
    """Orders that a slot would take first."""
    before = takewhile(lambda other: other.id != order.id, seen.open_orders)
    return sum(other.id not in seen.held for other in before)
