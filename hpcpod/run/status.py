"""The status of a run as data; ``cli/inspect.py`` prints it for ``hpcpod status``."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.launchers.base import THROTTLED
from hpcpod.orchestrator.snapshot import RunState, Snapshot
from hpcpod.records.records import Board, Confirmed
from hpcpod.run.extension_words import extensions_words
from hpcpod.run.forecast import Forecast, forecast
from hpcpod.run.full_disk import full_words
from hpcpod.run.idle_slots import idling
from hpcpod.run.pending_jobs import cancelled_words
from hpcpod.run.snapshot_scores import scoring
from hpcpod.run.usage import used
from hpcpod.storage.freshness import BELIEVED_SECONDS
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.confirmation import highest_target
from hpcpod.tournament.delivery import BEST_FOLDER
from hpcpod.tournament.finals import ensemble_words
from hpcpod.tournament.provenance import SeedSet, seed_set
from hpcpod.tournament.stopping import allowed, leader


@dataclass(frozen=True)
class Best:
    """The winner, or the leader while there is no winner."""

    pod: str
    algorithm: str
    round: int
    mean: float
    low: float
    """Lower end of a 95 % interval that allows for ``candidates``; of a confirmed target the
    one-sided bound at the level that its attempt spent."""
    high: float
    episodes: int
    fresh: bool
    """The score is on seeds of which no evaluation before it knew."""
    candidates: int
    """Scores among which this one was chosen as the best: evaluations of the run, or finalists; 1
    of a score that chose nothing."""
    checkpoint: Path
    """A file that ``load_policy`` reads; of a program the folder that it has saved, once the run
    has finished."""
    hyperparameters: Mapping[str, Scalar]
    """Of the pod; an ensemble's first member is ``pod``."""
    seeds: SeedSet = "panel"
    """The set of seeds of the score: those of ``report`` decided nothing, all others did."""
    ensemble: str = ""
    """Of an ensemble its rule and its members, in words; else empty."""

    @property
    def title(self) -> str:
        """The policy in a few words: ``p0003 sac round 12``, or an ensemble."""
        return self.ensemble or f"{self.pod} {self.algorithm} round {self.round}"

    @property
    def seeds_words(self) -> str:
        """The seeds of the score in words."""
        if not self.fresh:
            return "the panel"
        decided = {
            "target": "they confirmed the target", "select": "select set",
            "confirm": "confirm set", "report": "report set",
        }  # fmt: skip
        return f"fresh seeds ({decided[self.seeds]})"


@dataclass(frozen=True)
class Status:
    """A run at one moment."""

    run: str
    path: str
    env: str
    """The environment's id."""
    started: float
    """Unix time of the launch, in seconds."""
    state: RunState
    """``waiting``: no slot works on it now; its slots are queued or starting. ``paused``: it was
    drained. ``interrupted``: the process that ran it on this machine is gone, or it has no job
    in the queue. ``hpcpod resume`` goes on with the last two."""
    stop_reason: str | None
    failure: str
    """Empty, or why the run was given up or has paused, in one sentence."""
    target: float | None
    distance: float | None
    """The distance from the lower end of the leader's interval to the target; None without both."""
    best: Best | None
    slots: Mapping[str, Mapping[str, Any]]
    """The slots at work, each with what it showed last and its ``restarts``."""
    queue: Mapping[str, int]
    """Slots that wait, by the scheduler's reason; empty unless it was asked."""
    unknown: str
    """The reason why the scheduler could not be asked, in one sentence; else empty."""
    doubt: str
    """The doubt about ``state``, in one sentence: what is seen may be old; else empty."""
    slots_wanted: int | None
    """None if unknown, or if no more are."""
    slots_running: int
    slots_pending: int | None
    """None where the scheduler was not asked."""
    slots_held: int | None
    """Of these, those that their array's throttle holds back: no more are wanted."""
    cancelled: str
    """The fate of slots that a person has cancelled lately (``scancel``), in one sentence;
    empty if there are none."""
    coordinators: int | None
    """Jobs of the coordinator in the queue; None where the scheduler was not asked."""
    requeues: int
    """Slots that the scheduler has started again."""
    forecast: Forecast | None
    """The limit that ends the run, if its target does not, and when: ``seconds`` from now, between
    ``low`` and ``high``. None if unknown."""
    idling: str
    """The reason why slots have no order, or why there are fewer than wanted, and for how long,
    where other slots have all that is left to do in hand; in one sentence, else empty."""
    full: str
    """The words on a filesystem that has no room for another checkpoint; else empty."""
    gpu_hours: float
    """GPU hours that slots had so far, at work or not."""
    core_hours: float
    pods: int
    """Pods alive."""
    born: int
    """Pods ever born."""
    copies: int
    """Of these, copies of another."""
    rounds: int
    """Rounds finished, over all pods."""
    uncompared: int
    """Of these, finished since a pod was last compared with others, or since the warm-up; 0 where
    there is one pod only."""
    env_steps: int
    """Environment steps trained, over all pods."""
    scoring: str
    """The scores on fresh seeds that the run waits for after its limit or its target, and how many
    are done; empty if it waits for none."""
    attempts: int
    """Attempts made at the target."""
    showable: float | None
    """The highest target that the best panel could show, if it can't show the run's."""
    minutes: float
    """Wall time since the first slot began to work, to the end or to now, but for what lay between
    an end and its extension."""
    extended: tuple[str, ...]
    """A sentence for each extension: the limits that changed, and the end before it."""
    quarantined: int
    """Damaged files that were set aside."""


def status_of(folder: RunFolder, seen: Snapshot) -> Status:
    """The status of a run, of what was seen of it."""
    board, config, asked = seen.board, seen.config, seen.view is not None
    end = board.stopped if board.stopped is not None else seen.clock
    used_up, pending = used(seen.restarts), seen.waiting
    best, target = best_of(folder, board), config.stop.target
    policy = None if best is None else best.checkpoint
    ended = seen.state in ("finished", "paused", "draining")
    return Status(
        run=config.name,
        path=str(folder.path),
        env=config.env.id,
        started=board.started,
        state=seen.state,
        stop_reason=board.stop_reason,
        failure=board.failure or (seen.pause_reason if seen.state == "paused" else ""),
        target=target,
        distance=None if target is None or best is None else max(0.0, target - best.low),
        best=best,
        slots={
            name: {
                **shown.document(),
                "restarts": seen.restarts[name].restarts if name in seen.restarts else 0,
            }
            for name, shown in seen.slots.items()
        },
        queue=dict(Counter(job.reason or "no reason yet" for job in pending)),
        unknown=seen.unknown,
        doubt=seen.doubt,
        slots_wanted=None if ended else seen.wanted,
        slots_running=seen.running,
        slots_pending=len(pending) if asked else None,
        slots_held=sum(job.reason == THROTTLED for job in pending) if asked else None,
        cancelled=cancelled_words(seen),
        coordinators=len(seen.coordinators) if asked else None,
        requeues=used_up.requeues,
        forecast=forecast(seen),
        idling=idling(seen),
        full="" if seen.state == "finished" else full_words(folder.path, policy),
        gpu_hours=used_up.gpu_hours,
        core_hours=used_up.core_hours,
        pods=len(board.living),
        born=len(board.pods),
        copies=sum(pod.cause == "copy" for pod in board.pods.values()),
        rounds=board.rounds,
        uncompared=_uncompared(board, config),
        env_steps=board.env_steps,
        scoring=scoring(board),
        attempts=board.attempts,
        # A search, so once a look: it was made for each candidate on the board.
        showable=highest_target(board, config.stop) if board.phase == "running" else None,
        minutes=max(0.0, board.elapsed(end)) / 60,
        extended=extensions_words(board),
        quarantined=len(folder.quarantine.list()),
    )


@dataclass
class Doubts:
    """The doubt about a run's state, from look to look."""

    since: float = math.inf
    """Moment from which it was doubted without a break, by the monotonic clock."""

    def settled(self, status: Status, *, known: bool) -> Status:
        """The status; interrupted once it was doubted for longer than old answers are believed.

        Args:
            status: the next one.
            known: whether a status without a doubt says that the run goes on.
        """
        if status.doubt:
            self.since = min(self.since, time.monotonic())
        elif known:
            self.since = math.inf
        alone = time.monotonic() - self.since > BELIEVED_SECONDS
        return replace(status, state="interrupted") if alone and status.doubt else status


def best_of(folder: RunFolder, board: Board) -> Best | None:
    """The winner, or the leader so far; None before the first report."""
    score = leader(board)
    if score is None:
        return None
    program = folder.resolved.config.program is not None
    exported = folder.path / (BEST_FOLDER if program else "best.h5")
    low, high, candidates = allowed(board, score)
    blob = blob_path(folder.path / "blobs", score.checkpoint.core)
    return Best(
        pod=score.pod,
        algorithm=board.pods[score.pod].algorithm,
        round=score.round,
        mean=score.mean,
        low=low,
        high=high,
        episodes=score.episodes,
        fresh=isinstance(score, Confirmed),
        candidates=candidates,
        checkpoint=exported if board.phase == "finished" and exported.exists() else blob,
        hyperparameters=dict(board.pods[score.pod].hyperparameters),
        seeds=seed_set(score),
        ensemble=ensemble_words(score),
    )


def _uncompared(board: Board, config: RunConfig) -> int:
    if config.population.pods.max == 1:  # nothing to compare, and nothing to warn of
        return 0
    warmup = config.population.warmup_rounds * len(board.living)
    return max(0, board.rounds - max(board.compared, warmup))
