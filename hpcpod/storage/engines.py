"""Engines of a run: the first simulator that computed scores computes all that are compared."""

from __future__ import annotations

from hpcpod.errors import StorageError
from hpcpod.storage.layout import plain
from hpcpod.storage.store import OwnedStore


class Engines(OwnedStore):
    """The engines of a run, by the kind of scores that they compute."""

    def agree(self, scores: str, engine: str) -> str:
        """The engine of all ``scores`` of a kind, such as ``panel``: that of the first that asked.

        Raises:
            StorageError: it can't be recorded.
        """
        path, kind = self._folder / (plain(scores) + ".json"), dict[str, str]
        # Read first: each order of each rank had written a file to learn it.
        agreed = self._quarantine.sound(kind, path) or self._first(kind, path, {"engine": engine})
        if agreed is None or "engine" not in agreed:
            raise StorageError(f"the engine of {scores} scores can't be recorded")
        return agreed["engine"]

    def forget(self) -> None:
        """Let the next slot that asks decide anew.

        Raises:
            UserError: the run is another user's.
        """
        self._owner.require_mine()
        for path in self._folder.glob("*.json"):
            self._disk.remove(path)
