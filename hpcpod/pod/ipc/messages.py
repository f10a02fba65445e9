"""Messages between a slot and its child processes: work and commands in, replies out.

Each is a frozen dataclass here, and one line of JSON on a pipe.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Any, Literal

from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore, decode, encode

_log = logging.getLogger(__name__)

FailureKind = Literal["crash", "raised", "memory", "diverged", "corrupt", "storage", "engine"]
"""``Report.failure_kind``, and two that the slot keeps to itself: the filesystem refused, and this
machine's simulator is not the run's."""

BROKEN = ("crash", "raised", "memory")
"""Kinds of failure after which a process is not used again."""

Command = Literal["stop", "discard"]
"""``stop``: save what is being done, and end. ``discard``: what is being done counts for nothing;
drop it, and wait for other work."""

_COMMANDS: dict[Command, str] = {"stop": "stop", "discard": "give up"}  # words of 0.1.0
"""The word of each command on the pipe."""


@dataclass(frozen=True)
class Work:
    """An order, and what of it is to be done."""

    order: Order
    part: Literal["all", "train", "score"] = "all"
    """Of a birth: ``train`` leaves its panel to another process, ``score`` is that panel."""
    checkpoint: Checkpoint | None = None
    """The end of the training of the birth that is to be scored."""
    claimed: bool = True
    """False for a birth that the board has not ordered yet: until a slot has claimed it,
    nothing is saved of it to go on from."""

    @property
    def doing(self) -> Literal["training", "scoring"]:
        """The activity in a word; a process that does all of a birth trains first."""
        scored = isinstance(self.order, Rescore) or self.part == "score"
        return "scoring" if scored else "training"

    def log(self, what: Literal["begins", "ends"]) -> None:
        """Say in the log of this process where a piece of work begins and ends: by these lines
        ``hpcpod logs RUN POD`` finds what was said meanwhile."""
        ahead = "" if self.claimed else ", ahead of its order"
        _log.info("%s: %s %s%s", self.order.id, self.doing, what, ahead)

    def line(self) -> str:
        """One line of JSON: the inverse of ``parse``."""
        kind = "rescore" if isinstance(self.order, Rescore) else "birth"
        return json.dumps({"kind": kind, **encode(self)}) + "\n"

    @classmethod
    def parse(cls, line: str) -> Work:
        """The work in a line.

        Raises:
            TypeError: a field is missing or unknown, or its value is not of its type.
        """
        message = json.loads(line)
        # The line's ``kind`` tells the two sorts of order apart, which the codec does not.
        kind: Any = Rescore if message.pop("kind") == "rescore" else Birth
        order = decode(kind, message.pop("order"))
        return cls(order, **vars(decode(_Part, message)))


@dataclass(frozen=True)
class _Part:
    """The fields of ``Work`` beside its order."""

    part: Literal["all", "train", "score"] = "all"
    checkpoint: Checkpoint | None = None
    claimed: bool = True


def command_line(command: Command) -> str:
    """One line of JSON that gives a command."""
    return json.dumps({"kind": _COMMANDS[command]}) + "\n"


def parse_order(line: str) -> Work | Command:
    """Some work, or a command: the inverse of ``Work.line`` and of ``command_line``.

    Raises:
        TypeError: see ``Work.parse``.
    """
    kind = json.loads(line)["kind"]
    command = next((name for name, word in _COMMANDS.items() if word == kind), None)
    return command or Work.parse(line)


@dataclass(frozen=True)
class Progress:
    """The progress of a round."""

    pod: str
    round: int
    env_steps: int
    """Steps of experience of the agent."""
    target_steps: int
    """Steps at which the round ends."""
    mean_return: float
    """Mean return of the last training episodes; NaN before the first has ended."""
    steps_per_second: float


@dataclass(frozen=True)
class ProgressReply:
    """A heartbeat, with the progress of the round if it is new. More replies follow."""

    progress: Progress | None = None


@dataclass(frozen=True)
class ReportReply:
    """The report of the work."""

    report: Report


@dataclass(frozen=True)
class StopReply:
    """The work was stopped or discarded, as it was commanded."""

    stopped: bool = True
    signalled: bool = False
    """Slurm has signalled the ranks of a pod, and not always the slot's process."""


@dataclass(frozen=True)
class FailureReply:
    """The work failed."""

    failure: str
    """The reason, in one sentence."""
    kind: FailureKind


LastReply = ReportReply | StopReply | FailureReply
"""A reply that ends some work."""

Reply = ProgressReply | LastReply

_REPLIES: dict[str, Any] = {
    "progress": ProgressReply, "report": ReportReply, "stopped": StopReply,
    "failure": FailureReply,
}  # fmt: skip
"""The sort of a reply, by the field that no other has."""


def reply_line(reply: Reply) -> str:
    """One line of JSON: the inverse of ``parse_reply``."""
    # A heartbeat is an empty mapping, not null.
    data = {"progress": {}} if reply == ProgressReply() else encode(reply)
    return json.dumps(data) + "\n"


def parse_reply(line: bytes) -> Reply:
    """The reply in a line.

    Raises:
        ValueError: the line is no reply.
    """
    try:
        message = json.loads(line)
        if message == {"progress": {}}:
            return ProgressReply()
        kind = next(kind for field, kind in _REPLIES.items() if field in message)
        reply: Reply = decode(kind, message)
    except (TypeError, ValueError, StopIteration, RecursionError) as error:
        said = line[:80].decode(errors="replace")
        raise ValueError(f"expected a reply, got {said!r}") from error
    return reply


@dataclass(frozen=True)
class Ended:
    """Some work, and the reply that ended it."""

    work: Work
    reply: LastReply
    seconds: float = 0.0
    """Since the work was given to the process."""


def failed(ended: Ended, slot: str) -> Report:
    """The report of work that ended with a ``FailureReply``.

    A checkpoint that was damaged between training and scoring is none that its birth began
    from: the round is trained again, and the pod goes no further back.
    """
    order, reply = ended.work.order, ended.reply
    assert isinstance(reply, FailureReply)
    kind = reply.kind
    assert kind != "storage" and kind != "engine", "the slot keeps these to itself"
    if ended.work.part == "score" and kind == "corrupt":
        kind = "crash"
    return Report(
        order.id, order.pod, order.round, order.attempt, slot,
        wall_seconds=ended.seconds, failure=reply.failure, failure_kind=kind,
    )  # fmt: skip


def whole(trained: Report, scored: Report) -> Report:
    """The report of a round that one process has trained and another one scored."""
    if scored.failure_kind:
        return scored
    return replace(
        trained,
        returns=scored.returns,
        engine=scored.engine,
        wall_seconds=trained.wall_seconds + scored.wall_seconds,
        evaluate_seconds=trained.evaluate_seconds + scored.evaluate_seconds,
    )
