"""Intents: submissions announced before they are made, so that each counts once."""

from __future__ import annotations

from pathlib import Path

from hpcpod.errors import Corrupt, StorageError
from hpcpod.records.records import Intent, encode
from hpcpod.storage.checksummed import pack, unpack_record
from hpcpod.storage.disk import Disk
from hpcpod.storage.ownership import Ownership
from hpcpod.storage.quarantine import Quarantine
from hpcpod.storage.store import OwnedStore


class Intents(OwnedStore):
    """The intents of a run, by number, and the job that carries out each of them.

    Only the owner's processes may write here: ``publish`` and ``record`` raise ``UserError`` in
    a process of another user.
    """

    def __init__(self, disk: Disk, folder: Path, quarantine: Quarantine, owner: Ownership) -> None:
        super().__init__(disk, folder, quarantine, owner)
        self._known: list[Intent | None] = []

    def publish(self, intent: Intent) -> bool:
        """Announce a submission before it is made; one of those who want its number wins.

        Only the winner may submit. A winner that dies before it submits
        leaves an intent without jobs, which is found by its token in the queue.
        """
        self._owner.require_mine()
        return self._disk.publish(self._intent(intent.number), pack(encode(intent)))

    def all(self) -> list[Intent]:
        """Every intent that was announced, by number; damaged ones are left out."""
        self.count()
        return [intent for intent in self._known if intent is not None]

    def count(self) -> int:
        """The next free number for an intent."""
        while True:
            path = self._intent(len(self._known))
            try:
                data = self._disk.read(path)
                if data is None:
                    return len(self._known)
                self._known.append(unpack_record(Intent, data, path))
            except Corrupt as error:
                self._quarantine.copy(path, str(error))
                self._known.append(None)

    def record(self, number: int, job: str) -> str:
        """Record that ``job`` carries out an intent; return the job that does.

        The first one recorded wins, for ever. A job that gets another's name here is a
        duplicate, submitted by a coordinator that didn't see the first: it must exit.
        """
        self._owner.require_mine()
        recorded = self._first(dict[str, str], self._submission(number), {"job": job})
        if recorded is None:
            raise StorageError(f"the job of intent {number} can't be recorded")
        return recorded["job"]

    def submission(self, number: int) -> str | None:
        """The job that carries out an intent; None while none is recorded."""
        payload = self._quarantine.sound(dict[str, str], self._submission(number))
        return None if payload is None else payload["job"]

    def _intent(self, number: int) -> Path:
        return self._folder / f"{number:06d}.json"

    def _submission(self, number: int) -> Path:
        return self._folder / f"{number:06d}.job"
