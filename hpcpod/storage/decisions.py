"""Decisions in a run folder: what each merge has decided, published once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpcpod.records.records import Decision, encode
from hpcpod.storage.checksummed import pack
from hpcpod.storage.disk import explained
from hpcpod.storage.layout import sharded
from hpcpod.storage.store import Store


@dataclass(frozen=True)
class Page:
    """The decisions of one merge."""

    decisions: Mapping[str, Decision] = field(default_factory=dict)


class Decisions(Store):
    """The decisions of a run, a file for each merge that made any.

    The newest may be on the board alone. Whoever publishes a board that replaces them puts them
    here before, so that none is lost, whatever dies; a slot does so while its next round is
    trained.
    """

    _last: Path | None = None
    """The file that this process has written last: it is on the disk."""

    def publish(self, decisions: Mapping[str, Decision]) -> None:
        """Keep decisions that a board is about to replace; again is no harm, and quick."""
        if not decisions:
            return
        path = sharded(self._folder, min(decisions), ".json")
        if path != self._last and self._disk.exists(path):
            with explained("keep", path):
                self._disk.sync(path.parent)  # whoever has written it may not have come so far
        elif path != self._last:
            self._disk.publish(path, pack(encode(Page(decisions))))
        self._last = path

    def all(self) -> dict[str, Decision]:
        """Every decision that is kept, by name, oldest first; damaged files go into quarantine."""
        pages = (self._quarantine.sound(Page, path) for path in self._folder.glob("*/[!.]*.json"))
        kept = {name: each for page in pages if page for name, each in page.decisions.items()}
        return dict(sorted(kept.items()))
