"""Records that cross a process border: plain frozen data with a JSON form.

``encode`` and ``decode`` are exact inverses for every record here. A board is stored as a
*document*: named sections of named rows, so that storage can keep small deltas between
generations without knowing what a pod is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hpcpod.records.barrier import Barrier
from hpcpod.records.checkpoints import Checkpoint as Checkpoint
from hpcpod.records.checkpoints import Part as Part
from hpcpod.records.checkpoints import Segment as Segment
from hpcpod.records.codec import Json as Json
from hpcpod.records.codec import decode as decode
from hpcpod.records.codec import encode as encode
from hpcpod.records.decisions import Decision as Decision
from hpcpod.records.decisions import DecisionKind as DecisionKind
from hpcpod.records.decisions import PairTest as PairTest
from hpcpod.records.decisions import Verdict as Verdict
from hpcpod.records.evaluations import Evaluation as Evaluation
from hpcpod.records.evaluations import Milestone as Milestone
from hpcpod.records.evaluations import Motion as Motion
from hpcpod.records.extensions import Extension as Extension
from hpcpod.records.finals import Candidate as Candidate
from hpcpod.records.finals import Finals as Finals
from hpcpod.records.finals import Member as Member
from hpcpod.records.finals import Trial as Trial
from hpcpod.records.jobs import Intent as Intent
from hpcpod.records.jobs import Owner as Owner
from hpcpod.records.looks import Look as Look
from hpcpod.records.orders import Birth as Birth
from hpcpod.records.orders import FreshPurpose as FreshPurpose
from hpcpod.records.orders import Hyperparameters as Hyperparameters
from hpcpod.records.orders import Order as Order
from hpcpod.records.orders import Rescore as Rescore
from hpcpod.records.orders import order_name as order_name
from hpcpod.records.origins import Origin as Origin
from hpcpod.records.origins import Teacher as Teacher
from hpcpod.records.policy_snapshots import PolicySnapshot

Document = dict[str, dict[str, Json]]
"""Sections by name, rows by name: ``{"pods": {"p0001": {...}}, "run": {"phase": "running"}}``."""

Cause = Literal["fresh", "copy", "inherited", "taught"]
Fate = Literal["alive", "replaced", "failed", "given up"]
Phase = Literal["running", "finals", "finished"]
_SECTIONS = ("pods", "rescores", "decisions", "snapshots")
"""Parts of a board that are rows of a section of their own."""
Keep = Literal["best", "last"]
"""The policy of the best evaluation, or of the last one."""


@dataclass(frozen=True)
class Report:
    """A slot's answer to an order: it counts once, and only if its attempt is current."""

    order: str
    """``Birth.id`` or ``Rescore.id``."""
    pod: str
    round: int
    attempt: int
    slot: str
    returns: tuple[float, ...] = ()
    """Return of each episode, in the panel's order of seeds."""
    inherited_returns: tuple[float, ...] = ()
    """A copied child's returns on its parent's panel before its first training step."""
    checkpoint: Checkpoint | None = None
    trained_steps: int = 0
    """Environment steps trained for this order."""
    wall_seconds: float = 0.0
    """Of the order, in the process that trained it, and in the one that scored it, if another."""
    train_seconds: float = 0.0
    """Of these, collecting and learning."""
    evaluate_seconds: float = 0.0
    """Of these, evaluating."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    engine: str = ""
    """The simulator and its version."""
    rule: str = ""
    """Of an ensemble: the rule that joined its members, or that has refused them."""
    begins: float | None = None
    """Share of the run's budget that schedules followed from, as in ``Birth``; None if unknown."""
    ends: float | None = None
    """The share that they followed to."""
    failure: str = ""
    """Empty, or why the round failed, in one sentence."""
    failure_kind: Literal["", "crash", "raised", "memory", "diverged", "corrupt"] = ""
    """``raised``: an exception in the agent or the environment; ``crash``: a process that is gone,
    or that a machine or another process failed."""

    @property
    def cost(self) -> float:
        """Slot-seconds that the order took. The wall time of a round that was resumed counts only
        from there; the other two go on."""
        return max(self.wall_seconds, self.train_seconds + self.evaluate_seconds)


@dataclass(frozen=True)
class Last:
    """The last round of a pod that is dead, whose evaluations are gone."""

    round: int
    mean: float
    """Its mean return."""


@dataclass(frozen=True)
class PodState:
    """One agent of the population, alive or dead: its genealogy and its last evaluations."""

    id: str
    algorithm: str
    family: str
    hyperparameters: Hyperparameters
    seed: int
    cause: Cause
    control: bool = False
    born: int = 0
    """Rounds that the population had finished then."""
    restarts: int = 0
    """Restarts of the population that its place has seen: see ``generators.restarts``."""
    origin: Origin | None = None
    """The policy of another run that it started from, or that it has imitated."""
    parent: str | None = None
    parent_round: int = 0
    """The parent's round whose checkpoint was copied."""
    parent_returns: tuple[float, ...] = ()
    """The parent's returns then, kept until the child's first report is checked against it."""
    replaces: str | None = None
    """The pod whose place it took."""
    share: float = 0.0
    """Experience, on the axis of the run's budget, before which it neither rests nor gives way to a
    copy, by the slots that are asked for: see ``tournament.budget.due``."""
    repeats: str | None = None
    """The pod whose hyperparameters it trains again from scratch, with another seed."""
    mutated: tuple[str, ...] = ()
    """Hyperparameters that differ from the parent's."""
    transfer_exact: bool | None = None
    """True if a copied child scored its parent's panel exactly as its parent did."""
    evidence: str = ""
    """The reason for its birth: the gate's numbers, in words."""
    fate: Fate = "alive"
    fate_reason: str = ""
    rests: str = ""
    """Empty, or why others began to train instead, or first; see ``Board.resting``."""
    birth: Birth | None = None
    """Its next order; None once dead, or when it has trained all its rounds."""
    withdrawn: Birth | None = None
    """The order that the end of the run took back; an extension gives it out again."""
    judged: int = 0
    """The last round at which it was compared with its cohort."""
    verdict: str = ""
    """Empty, or what the updater found then, in words."""
    failures: int = 0
    """Failed attempts in a row."""
    failure: str = ""
    """The last of these, and why: ``round 1, attempt 2 on local-0-0 failed: ...``; else empty."""
    raised: str = ""  # pods whose update raised each time were born again until stop.minutes
    """The one exception that all of these raised, but for numbers in it; empty if there is none."""
    trained_steps: int = 0
    """Environment steps trained under this name."""
    history: tuple[Evaluation, ...] = ()
    """The last evaluations, oldest first."""
    milestones: tuple[Milestone, ...] = ()
    """Evaluations of rounds 1, 2, 4, 8 and so on that are older than these, its ancestors'
    included, oldest first."""
    best: Evaluation | None = None
    """The best evaluation so far, by its estimated mean return."""
    last: Last | None = None
    """Its last round, once it is dead; None of one that had finished none."""
    motion: Motion = field(default_factory=Motion)
    """Of its panels and its ancestors'."""
    cost: float = 0.0
    """Slot-seconds that its experience took, its ancestors' included."""
    lost: float = 0.0
    """Slot-seconds of its attempts that failed."""

    @property
    def evaluations(self) -> list[Evaluation | Milestone]:
        """All that is kept of its evaluations and its ancestors', oldest first."""
        return [*self.milestones, *self.history]


@dataclass(frozen=True)
class Entry:
    """One row of the leaderboard: a pod's best evaluation so far."""

    pod: str
    algorithm: str
    round: int
    mean: float
    low: float  # the plain interval of the first row held the truth in none of 40 runs
    """Lower end of the two-sided 95 % confidence interval of the mean, as if it had not been chosen
    among others: see ``tournament.statistics.chosen_interval``."""
    high: float
    episodes: int
    checkpoint: Checkpoint
    estimate: float | None = None
    """The mean shrunk towards the pod's neighbouring rounds: rows are in the order of these."""


@dataclass(frozen=True)
class Confirmed:
    """A score on seeds of which no evaluation before it knew; finals choose the winner by it."""

    pod: str
    """Of an ensemble its first member."""
    round: int
    purpose: FreshPurpose
    number: int
    mean: float
    low: float
    """Confirm: the one-sided lower bound at the level spent. Final, candidate: of an interval for
    the true means of all finalists, or candidates, at once; see
    ``tournament.statistics.chosen_interval``. Report: of the 95 % interval of one policy."""
    high: float
    """The upper end by the spread: rare good luck would fool it, and nothing is claimed by it."""
    episodes: int
    """Of all the attempt's sets of fresh seeds; 0 if it could not be scored: then the score stands
    for nothing."""
    passed: bool
    """Confirm: whether ``low`` reaches the target; a final passes or fails nothing: False."""
    checkpoint: Checkpoint
    engine: str = ""
    """The simulator and its version: gymnasium's own environment, where it has the task."""
    rule: str = ""
    """Of an ensemble its rule; empty of a single policy."""
    members: tuple[str, ...] = ()
    """Of an ensemble the pods of its members, best first."""


@dataclass(frozen=True)
class Ending:
    """An end of the run that an extension has taken back."""

    extension: Extension
    reason: str | None
    """``Board.stop_reason``; None if the newest board was damaged, and the run had not ended."""
    stopped: float | None  # Unix time, s
    winner: str | None
    env_steps: int
    rounds: int
    """Environment steps and rounds of the whole population then."""
    confirmed: tuple[Confirmed, ...] = ()
    """Scores on fresh seeds that count no more."""


@dataclass(frozen=True)
class Board:
    """The whole state of a tournament: a fold of reports, one immutable generation of it."""

    started: float
    """Unix time of the first generation, in seconds."""
    began: float | None = None  # by the disk's clock: a node's, hours ahead, ended the run
    """Unix time at which the first slot began to work, in seconds: ``stop.minutes`` count from
    then, and a queue costs none."""
    halted: float | None = None
    """Unix time of the end that an extension has taken back, until a slot works again."""
    idle: float = 0.0
    """Seconds between such ends and the next slot at work: ``stop.minutes`` do not count them."""
    phase: Phase = "running"
    stop_reason: str | None = None
    """``target``, ``env_steps``, ``minutes``, ``rounds``, ``user`` or ``failed``."""
    failure: str = ""
    """Empty, or why the run was given up, in one sentence."""
    stopped: float | None = None
    """Unix time at which the phase left ``running``, in seconds."""
    winner: str | None = None
    env_steps: int = 0
    """Environment steps trained by the whole population."""
    slot_seconds: float = 0.0
    """Cost of all reports that counted."""
    reports: int = 0
    """Reports that counted, of failures and of scores too."""
    rounds: int = 0
    """Rounds that pods have finished."""
    next_pod: int = 1
    size: int | None = None
    """Most pods in training at once; null: all. See ``tournament.priorities``."""
    attempts: int = 0
    """Checkpoints that the target was tried with so far."""
    confirmations: int = 0
    """Sets of fresh seeds that these attempts took."""
    worst: float | None = None
    """The lowest return that any episode of the run had, in panels and on fresh seeds."""
    floor: float | None = None
    """The lowest median of a panel that the run had: one strange episode does not move it."""
    compared: int = 0
    """``rounds`` when a pod was last compared with others."""
    compared_at: float | None = None
    """Unix time of that, in seconds."""
    peaks: tuple[float, ...] = ()
    """The best estimated mean return of a living pod whenever the population had finished as many
    rounds again as it has places; the last 256, oldest first."""
    turns: tuple[str, ...] = ()
    """Pods that train next, the first one first, as the allocator orders them; those that it does
    not name come after them."""
    barrier: Barrier = field(default_factory=Barrier)
    """The one at which pods wait, under scheme ``generational``."""
    pods: Mapping[str, PodState] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    """The leaderboard, best first."""
    rescores: Mapping[str, Rescore] = field(default_factory=dict)
    """Open orders to score on fresh seeds, by ``pod``; of candidates, snapshots and looks by pod
    and number."""
    looks: Mapping[str, Look] = field(default_factory=dict)
    """Second looks that are not judged yet, by the pod that was tested; see
    ``tournament.second_looks``."""
    looked: int = 0
    """Second looks that were begun."""
    confirmed: tuple[Confirmed, ...] = ()
    """Scores on fresh seeds, in the order in which they came."""
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """Those of the last merge that made any, by a name that counts up through the run. Earlier ones
    are in files of their own, see ``storage.decisions``."""
    snapshots: Mapping[str, PolicySnapshot] = field(default_factory=dict)
    """Policies at equal wall times, by number; see ``tournament.policy_snapshots``."""
    snapshot_times: int = 0
    """Times of snapshots that have come, those without a leader included."""
    finals: Finals = field(default_factory=Finals)
    """The final evaluation; see ``tournament.finals``."""
    endings: tuple[Ending, ...] = ()
    """Ends that extensions have taken back, oldest first: see ``tournament.reopening``."""

    def elapsed(self, now: float) -> float:
        """Seconds that count for ``stop.minutes`` at a Unix time; 0 until the first slot works."""
        until = now if self.halted is None else self.halted
        return 0.0 if self.began is None else until - self.began - self.idle

    @property
    def living(self) -> list[PodState]:
        """The pods that are alive, by name."""
        return [pod for _, pod in sorted(self.pods.items()) if pod.fate == "alive"]

    @property
    def resting(self) -> frozenset[str]:
        """Pods that no slot trains while the allocator has them rest. One that has a turn all the
        same trains when no other pod is left to take: so it is where the budget is in seconds."""
        return frozenset(pod.id for pod in self.living if pod.rests).difference(self.turns)

    def document(self) -> Document:
        """The board as sections of rows."""
        whole: dict[str, Json] = encode(self)
        return {**{name: whole.pop(name) for name in _SECTIONS}, "run": whole}

    @classmethod
    def from_document(
        cls, document: Document, before: tuple[Document, Board] | None = None
    ) -> Board:
        """The inverse of ``document``.

        Args:
            document: sections of rows.
            before: an earlier document and its board. The rows that are the very same objects in
                both are not decoded again: pods and decisions are most of the work.
        """
        sections = {name: document.get(name, {}) for name in _SECTIONS}
        kept: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
        if before is not None:
            for section, rows in sections.items():
                known, own = before[0].get(section, {}), getattr(before[1], section)
                kept[section] = {name: own[name] for name in rows if known.get(name) is rows[name]}
        new = {
            section: {name: row for name, row in rows.items() if name not in kept[section]}
            for section, rows in sections.items()
        }
        board: Board = decode(cls, {**document["run"], **new})
        whole: dict[str, Any] = {
            name: {**getattr(board, name), **rows} for name, rows in kept.items() if rows
        }
        return replace(board, **whole) if whole else board


def seed_of(*parts: int | str) -> int:
    """The seed of an episode, in [0, 2**31), hashed from the parts: those of its set, and its place
    in it."""
    return stable_hash(*parts) % 2**31


def stable_hash(*parts: int | str) -> int:
    """A 63-bit key of its parts, equal on every machine and in every process."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    # hash() of a text differs from process to process (PYTHONHASHSEED).
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
