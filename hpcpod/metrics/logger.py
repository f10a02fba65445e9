"""The contract of a logger: it gets the rows of one pod's curve, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpcpod.config.space import Scalar


@dataclass(frozen=True)
class Logged:
    """The pod whose rows a logger gets."""

    run: str
    """The run's name."""
    pod: str
    algorithm: str
    hyperparameters: Mapping[str, Scalar]
    folder: Path
    """A folder for the files of this kind of logger, in the run folder; it may not be there yet."""
    key: str = ""
    """A name that no other pod of any run has, the same in every process."""
    first_step: int = 0
    """Steps of experience before the first row that follows: later rows of an earlier logger were
    of training that is done again."""
    online: bool = False
    """True for ``hpcpod sync``, which is called where there is a network."""


class Logger(Protocol):
    """A logger of one pod; ``logger_class(logged)`` makes one.

    It is called by a thread of its own beside training, and dropped, with a warning, as soon as it
    raises. Another process may make another one for the same pod, which goes on.
    """

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Take a row of the pod's curve.

        Args:
            row: finite numbers by name; see docs/metrics.md. Not every row has every name.
            step: the pod's environment steps of experience.
        """

    def close(self) -> None:
        """Write what is not written yet: no row follows."""
