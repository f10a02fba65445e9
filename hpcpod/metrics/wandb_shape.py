"""Libraries of Weights & Biases' shape: ``init``, ``log``, ``finish``."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from hpcpod.metrics.logger import Logged


class WandbShape:
    """A logger by a library of W&B's shape: each pod is a run, and hpcpod's run their project."""

    def __init__(self, library: str, logged: Logged, **more: Any) -> None:
        """``more`` are arguments of ``init`` that this library has, and others have not."""
        common = {
            "project": logged.run, "name": logged.pod, "group": logged.algorithm,
            "config": dict(logged.hyperparameters), "resume": "allow",
        }  # fmt: skip
        self._run = importlib.import_module(library).init(**common | more)

    def log(self, row: Mapping[str, float], step: int) -> None:
        """See ``Logger.log``."""
        # Trackio has this name for itself, and W&B's time is when a row came.
        self._run.log({name: v for name, v in row.items() if name != "time"}, step=step)

    def close(self) -> None:
        """See ``Logger.close``."""
        self._run.finish()


class Wandb(WandbShape):
    """A logger to W&B: as ``$WANDB_MODE`` says, else online for ``hpcpod sync`` alone.

    Without a network its files lie in the run folder.
    """

    def __init__(self, logged: Logged) -> None:
        logged.folder.mkdir(parents=True, exist_ok=True)  # it would write to /tmp else
        mode = os.environ.get("WANDB_MODE") or ("online" if logged.online else "offline")
        # By its default it would redirect all that the training process prints.
        settings = {"console": "off", "silent": True}
        super().__init__(
            "wandb", logged, id=logged.key, dir=str(logged.folder), mode=mode, settings=settings
        )


class Trackio(WandbShape):
    """A logger to Trackio: a database in ``$TRACKIO_DIR``, on this machine by default."""

    def __init__(self, logged: Logged) -> None:
        name = f"{logged.pod}-{logged.key[:6]}"  # Trackio 0.43 knows a run by its name alone
        super().__init__("trackio", logged, name=name, auto_log_cpu=False, auto_log_gpu=False)
