"""The ledger of holdouts: each opening is a file, and none is ever taken back.

The more strategies have been tried on a holdout, the better the best of them looks by chance. So
every opening is counted, by whomever, for all runs that keep their ledger in the same folder. Two
openings are of the same holdout if they have a stock and dates in common, and the name of a source
or the growth of a stock on a date is the same in both: another name of the file, another embargo, a
day more or a column more begins no new count. Two files of one name count as one, which is the safe
side. Under another name a small overlap, or prices that were rounded anew, may be missed: a line
keeps a part of the growth alone, and those of older versions none.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hpcpod.errors import StorageError, UserError
from hpcpod.storage.disk import Disk, probe
from hpcpod.storage.os_errors import explain

LEDGERS = "holdouts"
"""Folder beside runs, in which every opening of a holdout of theirs is counted."""


@dataclass(frozen=True)
class Opening:
    """A look at a holdout."""

    run: str
    """The run that was judged, by its name."""
    policy: str
    """SHA-256 of its policy; empty of an ensemble that was shown beside it."""
    sources: tuple[str, ...]
    """Names of the sources of its bars, one of each market."""
    tickers: tuple[str, ...]
    """Stocks of all its markets."""
    first: str
    """The first and the last date that were judged."""
    last: str
    sharpe: float
    """Daily Sharpe ratio of the policy."""
    time: float = field(default_factory=time.time)
    """Unix time in seconds."""
    beside: str = ""
    """The run beside which it was shown; empty: the holdout was opened for it."""
    marks: tuple[str, ...] = ()
    """Digests of days of its stocks, whatever their file is called; empty of older versions, and
    where no price has moved."""

    def overlaps(self, other: Opening) -> bool:
        """True if both have looked at a bar of the same stock, as far as their lines tell."""
        return (
            bool(set(self.sources) & set(other.sources) or set(self.marks) & set(other.marks))
            and bool(set(self.tickers) & set(other.tickers))
            and self.first <= other.last
            and other.first <= self.last
        )


def distinct(openings: Iterable[Opening]) -> list[Opening]:
    """One opening for each policy and stretch of days: the same look twice is no further trial,
    also where another run delivered that policy."""
    found = {}
    for each in openings:  # the last digits of a ratio differ between its two ways of computing
        found[each.policy or each.run, f"{each.sharpe:.9g}"] = each
    return list(found.values())


def digest_of(policies: Iterable[Path]) -> str:
    """The beginnings of the SHA-256 of policies' files, as ``Opening.policy`` has them.

    Raises:
        OSError: one can't be read.
    """
    return "+".join(hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in policies)


class Ledger:
    """The openings that a folder has."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def openings(self) -> list[Opening]:
        """All so far, in their order.

        Raises:
            StorageError: one can't be read.
        """
        found = []
        for path in self.path.glob("*.json"):
            try:
                line = json.loads(Disk().read(path) or b"")
                line.setdefault("marks", [])  # older lines have none
                lists = ("sources", "tickers", "marks")
                names = {key: tuple(map(str, line.pop(key))) for key in lists}
                numbers = {key: float(line.pop(key)) for key in ("sharpe", "time")}
                words = {key: str(value) for key, value in line.items()}
                found.append(Opening(**names, **numbers, **words))  # type: ignore[arg-type]
            except (StorageError, ValueError, TypeError, LookupError, AttributeError) as error:
                raise StorageError(f"{path} is no line of a ledger: {error}") from error
        return sorted(found, key=lambda each: each.time)

    def write(self, line: Opening) -> str:
        """Add an opening, complete or not at all; its name.

        Raises:
            UserError: the ledger can't be written.
        """
        name = uuid.uuid4().hex
        self._put(f"{name}.json", line)
        return name

    def keep(self, name: str, verdict: Any) -> None:
        """Keep the verdict of an opening beside it, for reports.

        Args:
            name: of the opening.
            verdict: a dataclass.

        Raises:
            UserError: it can't be written.
        """
        self._put(f"{name}.verdict", verdict)

    def _put(self, name: str, what: Any) -> None:
        data = json.dumps(asdict(what), indent=1).encode()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            disk = Disk()
            disk.scheme = probe(disk, self.path)
            disk.publish(self.path / name, data)
        except (OSError, StorageError) as error:
            reason = explain(error) if isinstance(error, OSError) else str(error)
            raise UserError(f"can't write the ledger {self.path}: {reason}") from error
