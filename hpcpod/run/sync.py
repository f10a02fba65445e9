"""Sync: replay the curves of a run to loggers, from where there is a network."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from hpcpod.errors import Corrupt, HpcpodError, StorageError, UserError, in_words
from hpcpod.metrics.mirrors import FOLDER, logged_of, make_logger
from hpcpod.run.curves import counted_curves
from hpcpod.storage.checksummed import pack, unpack
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


def sync(
    folder: RunFolder, names: Sequence[str], say: Callable[[str], object] = log.info
) -> dict[str, int]:
    """Send the rows that each of these loggers has not got by ``sync`` yet.

    Args:
        folder: the run.
        names: loggers, by name or path.
        say: is told of each pod whose rows were sent.

    Returns:
        Rows that each logger got.

    Raises:
        UserError: a logger is unknown, can't be made, raised, or is another user's code.
    """
    folder.owner.require_code([name for name in names if ":" in name], "sync")
    return {name: _Sent(folder, name).send(say) for name in names}


class _Sent:
    """A logger, and the steps of each pod's last row that it got."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self._folder, self._name = folder, name
        self._path = folder.path / FOLDER / (name.replace(":", ".") + ".synced.json")
        self._steps = self._remembered()

    def send(self, say: Callable[[str], object]) -> int:
        sent = 0
        for pod in self._folder.curves.pods():
            if count := self._send(pod):
                sent += count
                self._remember()
                say(f"{self._name}: {count} rows of {pod}")
        return sent

    def _send(self, pod: str) -> int:
        known = self._steps.get(pod, -1)
        curves = [*counted_curves(self._folder, pod)]
        rows = [row for curve in curves for row in curve.rows if row.get("env_steps", -1) > known]
        if not rows:
            return 0
        first = int(rows[0]["env_steps"])
        logged = replace(logged_of(self._folder, curves[-1]), online=True, first_step=first)
        logger = make_logger(self._name, logged)
        try:
            with closing(logger):
                for row in rows:
                    logger.log(row, int(row["env_steps"]))
        except HpcpodError:
            raise
        except (Exception, SystemExit) as error:  # a user's class may raise whatever it likes
            raise UserError(
                f"{self._name} did not take the rows of {pod}: {in_words(error)}"
            ) from error
        self._steps[pod] = int(rows[-1]["env_steps"])
        return len(rows)

    def _remembered(self) -> dict[str, int]:
        try:
            data = self._folder.disk.read(self._path)
            found = {} if data is None else unpack(data, str(self._path))
        except Corrupt as error:
            log.warning("%s; all rows are sent again", error)
            found = {}
        steps: Mapping[str, object] = found if isinstance(found, dict) else {}
        return {pod: step for pod, step in steps.items() if isinstance(step, int)}

    def _remember(self) -> None:
        try:
            self._folder.disk.replace(self._path, pack(self._steps))
        except StorageError as error:
            log.warning("%s; the next sync sends the same rows again", error)
