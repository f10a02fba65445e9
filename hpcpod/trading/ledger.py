"""The ledger of a holdout: each opening is a file, and none is ever taken back.

The more strategies have been tried on a holdout, the better the best of them looks by chance. So
every opening is counted, by whomever, for all runs that keep their ledger in the same folder.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hpcpod.errors import StorageError, UserError
from hpcpod.storage.os_errors import explain


@dataclass(frozen=True)
class Opening:
    """A look at a holdout."""

    run: str
    """The run that was judged, by its name."""
    policy: str
    """SHA-256 of its policy."""
    holdout: str
    """SHA-256 of the holdout's bars."""
    sharpe: float
    """Daily Sharpe ratio of the policy."""
    time: float
    """Unix time in seconds."""


class Ledger:
    """The openings of one holdout."""

    def __init__(self, folder: Path, holdout: str) -> None:
        self.path = folder / holdout[:16]

    def openings(self) -> list[Opening]:
        """All so far, in their order.

        Raises:
            StorageError: one can't be read.
        """
        found = []
        for path in sorted(self.path.glob("*.json")):
            try:
                found.append(Opening(**json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError) as error:
                raise StorageError(f"{path} is no line of a ledger: {error}") from error
        return found

    def write(self, run: str, policy: str, holdout: str, sharpe: float) -> Opening:
        """Add an opening.

        Raises:
            UserError: the ledger can't be written.
        """
        line = Opening(run, policy, holdout, sharpe, time.time())
        text = json.dumps(asdict(line), indent=1)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            number = len(list(self.path.glob("*.json"))) + 1
            while True:
                try:
                    with (self.path / f"{number:05d}.json").open("x", encoding="utf-8") as file:
                        file.write(text)
                    return line
                except FileExistsError:  # somebody else's, at the same moment
                    number += 1
        except OSError as error:
            raise UserError(f"can't write the ledger {self.path}: {explain(error)}") from error
