"""Situations of a run, written down; and what becomes of one when a plan is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcpod.config.schema import (
    ClusterConfig,
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    ResourcesConfig,
    RunConfig,
)
from hpcpod.launchers.base import ClusterView, JobView
from hpcpod.orchestrator.plan import (
    Action,
    Cancel,
    Merge,
    Record,
    Release,
    Retire,
    Submit,
    Throttle,
    plan,
)
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.records import Birth, Board, Checkpoint, Evaluation, Intent, Owner, PodState
from hpcpod.storage.requests import Drain


def board(pods: int = 4, scores: Sequence[float] = (), **fields: Any) -> Board:
    """A running board with an open birth for each pod; ``scores`` are their last means."""
    states = {}
    for number in range(pods):
        name = f"p{number}"
        history: tuple[Evaluation, ...] = ()
        if number < len(scores):
            history = (Evaluation(1, (scores[number],) * 2, Checkpoint(f"{number}", 1)),)
        birth = Birth(name, 1 + len(history), 1, "ppo", {}, number)
        states[name] = PodState(
            name, "ppo", "ppo", {}, number, "fresh", birth=birth, history=history
        )
    return replace(Board(0.0, pods=states), **fields)


def job(
    number: int, index: int = 0, state: str = "running", submission: str = "", **fields: Any
) -> JobView:
    """A slot of intent ``number``; by default of the job that is recorded for it."""
    submission = submission or f"job{number}"
    name = f"{submission}_{index}"
    view = JobView(
        name, name, "slots", "pending" if state == "pending" else "running", f"t{number}",
        "", submission,
    )  # fmt: skip
    return replace(view, **fields)


def coordinator(number: int, state: str = "running") -> JobView:
    """The coordinator of intent ``number``."""
    return job(number, 0, state, f"job{number}", kind="coordinator")


def intent(number: int, count: int = 1, reports: int = 0, **fields: Any) -> Intent:
    """A submission of slots."""
    return replace(Intent(number, f"t{number}", "slots", count, reports, target=3), **fields)


def configured(pods: tuple[int, int] = (1, 4), lanes: int = 1, **cluster: Any) -> RunConfig:
    """The configuration of a run on a cluster, with so many pods, of which ``lanes`` share a slot's
    array element."""
    return RunConfig(
        "run", EnvConfig("Task-v0"),
        cluster=ClusterConfig(launcher="slurm", **cluster),
        population=PopulationConfig(pods=PodsConfig(*pods)),
        resources=ResourcesConfig(gpus_per_pod=1, pods_per_gpu=lanes),
    )  # fmt: skip


def observed(
    jobs: Sequence[JobView] = (),
    intents: Sequence[Intent] = (),
    submitted: Sequence[int] = (),
    on: Board | None = None,
    *,
    pods: tuple[int, int] = (1, 4),
    lanes: int = 1,
    waiting: int | None = None,
    room: int | None = None,
    coordinated: bool = False,
    draining: bool = False,
    largest: int | None = None,
    **fields: Any,
) -> Snapshot:
    """A situation with three places and four pods."""
    whole = Snapshot(
        path=Path("run"),
        config=configured(pods, lanes, waiting=waiting, coordinator=coordinated),
        board=on or board(),
        view=ClusterView(tuple(jobs), room=room, max_array_size=largest),
        drain=Drain() if draining else None,
        places=3,
        intents=tuple(intents),
        submitted={number: f"job{number}" for number in submitted},
    )
    return replace(whole, **fields)


def owned(pods: Sequence[int], slots: Sequence[JobView]) -> dict[str, Owner]:
    """Claims: the first pod's round by the first slot, and so on."""
    return {
        f"p{pod}-{1:05d}-1": Owner(slot.slot, slot.submission)
        for pod, slot in zip(pods, slots, strict=True)
    }


def planned(what: Snapshot) -> list[Action]:
    """The plan; whatever is new is called so."""
    return plan(what, lambda: "new")


def carried_out(what: Snapshot, actions: Sequence[Action]) -> Snapshot:
    """The world after a plan, by a scheduler and slots that do as they are told at once."""
    jobs, intents, submitted = list(what.cluster.jobs), list(what.intents), dict(what.submitted)
    throttles = dict(what.cluster.throttles)
    for action in actions:
        if isinstance(action, Cancel):
            jobs = [view for view in jobs if view.job not in action.jobs]
        elif isinstance(action, Retire):
            jobs = [view for view in jobs if view.slot not in action.slots]
        elif isinstance(action, Throttle):
            throttles[action.array] = action.limit
        elif isinstance(action, Release):
            jobs = [replace(v, reason="") if v.job in action.jobs else v for v in jobs]
        elif isinstance(action, Record):
            submitted[action.number] = action.job
        elif isinstance(action, Submit):
            made = replace(action.intent, token=f"t{action.intent.number}")
            intents = [*[i for i in intents if i.number != made.number], made]
            submitted[made.number] = f"job{made.number}"
            if made.kind == "slots":
                jobs += [job(made.number, index) for index in range(made.count)]
            else:
                jobs.append(coordinator(made.number, "pending"))
        elif isinstance(action, Merge) and action.size is not None:
            most = what.config.population.pods.max
            size = action.size if action.size < most else None
            what = replace(what, board=replace(what.board, size=size))
    view = replace(what.cluster, jobs=tuple(jobs), throttles=throttles)
    return replace(what, view=view, intents=tuple(intents), submitted=submitted)
