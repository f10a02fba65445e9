"""Messages of a slot to one of its processes: an order, or a part of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore, decode, encode

_log = logging.getLogger(__name__)

BROKEN = ("crash", "raised", "memory")
"""Kinds of failure after which a process is not used again."""


@dataclass(frozen=True)
class Work:
    """An order, and what of it is to be done."""

    order: Order
    part: Literal["all", "train", "score"] = "all"
    """Of a birth: ``train`` leaves its panel to another process, ``score`` is that panel."""
    checkpoint: Checkpoint | None = None
    """Where the training of the birth that is to be scored has ended."""
    claimed: bool = True
    """False for a birth that the board has not ordered yet: until somebody has claimed it,
    nothing is saved of it to go on from."""

    @property
    def doing(self) -> Literal["training", "scoring"]:
        """What is done with it, in a word; who does all of it trains first."""
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
            TypeError: a field of the order is missing or unknown.
        """
        message = json.loads(line)
        kind: Any = Rescore if message["kind"] == "rescore" else Birth
        checkpoint = message.get("checkpoint")
        return cls(
            decode(kind, message["order"]),
            message.get("part", "all"),
            None if checkpoint is None else decode(Checkpoint, checkpoint),
            message.get("claimed", True),
        )


def failed(work: Work, slot: str, reply: Mapping[str, Any]) -> Report:
    """The report of work that failed: ``reply`` says why, of what kind that is, and after how long.

    A checkpoint that was damaged between training and scoring is none that its birth began
    from: the round is trained again, and the pod goes no further back.
    """
    order, kind = work.order, reply["kind"]
    if work.part == "score" and kind == "corrupt":
        kind = "crash"
    return Report(
        order.id, order.pod, order.round, order.attempt, slot,
        wall_seconds=reply.get("seconds", 0.0), failure=reply["failure"], failure_kind=kind,
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
