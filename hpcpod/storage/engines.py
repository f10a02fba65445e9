"""Engines of a run: the first simulator that computed scores computes all that are compared."""

from __future__ import annotations

from hpcpod.errors import StorageError
from hpcpod.storage.checksummed import pack
from hpcpod.storage.layout import plain
from hpcpod.storage.store import OwnedStore


class Engines(OwnedStore):
    """The engines of a run, by the kind of scores that they compute."""

    def agree(self, scores: str, engine: str) -> str:
        """The engine of all ``scores`` of a kind, such as ``panel``: that of the first that asked.

        Raises:
            StorageError: it can't be recorded.
        """
        path = self._folder / (plain(scores) + ".json")
        for _ in range(2):
            # Read first: each order of each rank had written a file to learn it.
            agreed = self._quarantine.sound(dict[str, str], path)
            if agreed is not None and "engine" in agreed:
                return agreed["engine"]
            if self._disk.publish(path, pack({"engine": engine})):
                return engine
        raise StorageError(f"the engine of {scores} scores can't be recorded")

    def forget(self) -> None:
        """Let the next slot that asks decide anew.

        Raises:
            UserError: the run is another user's.
        """
        self._owner.require_mine()
        for path in self._folder.glob("*.json"):
            self._disk.remove(path)
