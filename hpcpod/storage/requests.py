"""Requests in a run folder: what a person, or the run itself, asks of all its processes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hpcpod.records.records import decode, encode
from hpcpod.storage.checksummed import pack
from hpcpod.storage.layout import plain
from hpcpod.storage.store import OwnedStore


class Request:
    """A request that stands in ``control/<name>.json``: its fields are the payload there.

    Every field has a default. One that is None is not written.
    """

    name: ClassVar[str]


@dataclass(frozen=True)
class Stop(Request):
    """The run has ended: slots stop."""

    name: ClassVar[str] = "stop"
    reason: str | None = None
    """The limit that was met, or ``user``."""
    extensions: int | None = None
    """Extensions of the run before this end; None: none."""


@dataclass(frozen=True)
class Finals(Request):
    """The run scores its finalists: slots discard rounds."""

    name: ClassVar[str] = "finals"
    reason: str | None = None
    """The limit that was met, or ``user``."""
    extensions: int | None = None
    """As of ``Stop``."""


@dataclass(frozen=True)
class Drain(Request):
    """The run pauses: slots drain, or stop."""

    name: ClassVar[str] = "drain"
    now: bool | None = None
    """Slots stop; else they drain."""
    reason: str | None = None
    """The reason why the coordinator has paused the run; empty or None if a person did."""


@dataclass(frozen=True)
class Scale(Request):
    """A person wants so many slots at once."""

    name: ClassVar[str] = "scale"
    slots: int | None = None


@dataclass(frozen=True)
class Resumed(Request):
    """A person has changed the run: earlier submissions did not fail, should they be gone."""

    name: ClassVar[str] = "resumed"
    intents: int = 0
    """Submissions before it."""
    time: float = 0.0
    """Unix time, in seconds."""


@dataclass(frozen=True)
class SlotRefused(Request):
    """A slot can do nothing for the run: it pauses, and a person has to look."""

    name: ClassVar[str] = "refused"
    reason: str = ""


@dataclass(frozen=True)
class Refusals(Request):
    """Submissions that the scheduler has refused, since the last that it took."""

    name: ClassVar[str] = "refusals"
    count: int = 0
    last: float = 0.0
    """Unix time of the last one, in seconds."""
    why: str = ""
    """The scheduler's own words."""


R = TypeVar("R", bound=Request)


def readable(kind: type[R], payload: Mapping[str, Any]) -> R:
    """The request in a payload, which another version, or a person, may have written.

    A field that is unknown or not of its type counts as not written: the request itself stands.
    """
    values = {}
    for name in (field.name for field in fields(kind)):  # type: ignore[arg-type]
        with contextlib.suppress(KeyError, TypeError, ValueError):
            values[name] = getattr(decode(kind, {name: payload[name]}), name)
    return kind(**values)


class Requests(OwnedStore):
    """The requests of a run; each kind stands once, until it is withdrawn.

    Only the owner's processes may write here: each method that writes raises ``UserError`` in
    a process of another user.
    """

    def publish(self, request: Request) -> None:
        """Ask for something; asking again changes nothing."""
        self._owner.require_mine()
        self._disk.publish(self._path(type(request)), _bytes(request))

    def replace(self, request: Request) -> None:
        """Ask for something with a new payload, whether or not it was asked for before."""
        self._owner.require_mine()
        path = self._path(type(request))
        if path.is_dir():  # as a name is published where hard links fail
            self._disk.remove(path)
        self._disk.replace(path, _bytes(request))

    def read(self, kind: type[R]) -> R | None:
        """The request of a kind; None if it does not stand."""
        payload = self._quarantine.sound(dict[str, Any], self._path(kind))
        return None if payload is None else readable(kind, payload)

    def read_or_default(self, kind: type[R]) -> R:
        """The request of a kind; one of defaults if it does not stand."""
        return self.read(kind) or kind()

    def withdraw(self, kind: type[Request]) -> None:
        """Take a request back, if it stands."""
        self._owner.require_mine()
        self._disk.remove(self._path(kind))

    def changed(self) -> int:
        """A number that changes with every request that comes or goes; 0 without any."""
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _path(self, kind: type[Request]) -> Path:
        return self._folder / (plain(kind.name) + ".json")


def _bytes(request: Request) -> bytes:
    return pack({name: value for name, value in encode(request).items() if value is not None})
