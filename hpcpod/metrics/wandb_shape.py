"""Libraries of Weights & Biases' shape: ``init``, ``log``, ``finish``."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping

from hpcpod.metrics.logger import Logged


class WandbShape:
    """A logger by a library that has W&B's ``init``: each pod is a run of a project."""

    library = "wandb"
    """Module of the library."""

    def __init__(self, logged: Logged) -> None:
        init = importlib.import_module(self.library).init
        wanted = {
            "project": logged.run, "name": logged.pod, "group": logged.algorithm,
            "config": dict(logged.hyperparameters), "id": logged.key, "resume": "allow",
            "dir": str(logged.folder), "mode": self._mode(online=logged.online),
            "auto_log_cpu": False, "auto_log_gpu": False,
        }  # fmt: skip
        logged.folder.mkdir(parents=True, exist_ok=True)  # wandb would write to /tmp else
        # Trackio 0.43 has no id, dir or mode.
        takes = inspect.signature(init).parameters
        self._run = init(**{name: value for name, value in wanted.items() if name in takes})

    @staticmethod
    def _mode(*, online: bool) -> str:
        """W&B's mode: as the user says, else offline where there may be no network."""
        return os.environ.get("WANDB_MODE") or ("online" if online else "offline")

    def log(self, row: Mapping[str, float], step: int) -> None:
        """See ``Logger.log``."""
        self._run.log(dict(row), step=step)

    def close(self) -> None:
        """See ``Logger.close``."""
        self._run.finish()


class Trackio(WandbShape):
    """The same by Trackio, whose database is on this machine."""

    library = "trackio"
