"""Entries of a registry: plans of cycles, versions, decisions, reports on drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hpcpod.config.loader import from_plain
from hpcpod.config.schema import CtConfig, RunConfig
from hpcpod.tournament.continuous.drift import Shift
from hpcpod.tournament.continuous.stream import Verdict, Windows

Kind = Literal["promoted", "kept", "failed", "rolled back"]
Ended = Literal["promoted", "kept", "failed", "not due", "busy"]


@dataclass(frozen=True)
class Plan:
    """A cycle, as it was decided on: all else follows from it."""

    cycle: int
    config: Mapping[str, object]
    """Of the run that is trained, whole."""
    windows: Windows
    parent: int | None
    """The version that was deployed then; None: nothing was."""
    why: str
    """The reason why it was due."""
    time: float
    """Unix time in seconds."""
    adopted: str = ""
    """The folder of a run that was there already, whose policy is taken instead; or empty."""
    remarks: tuple[str, ...] = ()
    """On its data, told when it ends: by then another process may work on it."""
    ct: Mapping[str, object] | None = None
    """The section of the configuration then, as plain data; None: an older version wrote it."""


@dataclass(frozen=True)
class Version:
    """A policy in the registry: ``versions/v0001/entry.json``."""

    number: int
    """Also that of its cycle."""
    run: str
    """The folder of the run that trained it."""
    policy: str
    """SHA-256 of ``policy.h5``."""
    weights: str
    """SHA-256 of its arrays alone: equal if it was trained again to the same bits."""
    config: Mapping[str, object]
    """Of that run, whole: with the seed, and the data's place."""
    config_sha256: str
    windows: Windows
    """The data, with their digest."""
    parent: int | None
    """The version that was deployed when it was trained, from which it may have inherited."""
    score: Mapping[str, object]
    """Of its run, as in ``best.json``; empty if that is not known."""
    verdict: Verdict
    """Of its judgement."""
    versions: Mapping[str, str]
    """Of the packages that trained it."""
    time: float
    """Unix time in seconds."""


@dataclass(frozen=True)
class Decision:
    """A line of the ledger."""

    number: int
    kind: Kind
    version: int | None
    """The one that it is about; None: the cycle has none."""
    current: int | None
    """The one that is deployed from then on."""
    why: str
    time: float
    """Unix time in seconds."""
    writer: str
    """Host, process and a random word."""
    cycle: int | None = None
    """The cycle that it ends; None: a person has decided."""
    unused: bool = False
    """True if the next cycle may have the data of that one: no policy came of its run, or they were
    changed before it was judged."""


@dataclass(frozen=True)
class Drift:
    """The report on drift of a cycle: ``drift.json``."""

    version: int
    """The deployed one, whose training is compared with."""
    shifts: tuple[Shift, ...]
    """The most shifted first; empty if nothing could be told."""
    words: str = ""
    """The reason why nothing could be told."""


@dataclass(frozen=True)
class Outcome:
    """The end of a call."""

    kind: Ended
    words: str
    cycle: int | None
    current: int | None
    """The version that is deployed now."""
    remarks: tuple[str, ...] = ()


def seen(plans: Sequence[Plan], ledger: Sequence[Decision]) -> Windows | None:
    """Windows of the last cycle that has used its data up; None: there is none.

    What a cycle left unused the next one has, but not the one after that: else what fails each time
    would be trained on for ever.
    """
    unused, last, again = {line.cycle for line in ledger if line.unused}, None, False
    for each in plans:
        again = each.cycle in unused and not again
        if not again:
            last = each.windows
    return last


def as_planned(config: RunConfig, plan: Plan) -> RunConfig:
    """A registry's configuration with the section ``ct`` that a cycle has begun with."""
    if plan.ct is None:
        return config
    return replace(config, ct=from_plain(CtConfig, plan.ct, f"the plan of cycle {plan.cycle}"))


def named(number: int) -> str:
    """A version's name: ``v0003``."""
    return f"v{number:04}"
