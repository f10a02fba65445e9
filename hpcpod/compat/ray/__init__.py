"""Ray Tune's function API over a run: write ``hpcpod.compat.ray`` for ``ray`` in import lines.

In a run ``Tuner.fit`` plays the run's tasks: the function's ``config`` is the pod's
hyperparameters, ``tune.report`` ends a round (``round.env_steps`` counts reports), and
``tune.get_checkpoint`` gives the pod's last save, or its parent's. Ray need not be installed.
Outside of a run everything is Ray's own. ``python -m hpcpod.compat train.py`` prints the section
``program`` of a configuration, from ``param_space``.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from hpcpod.compat import rounds
from hpcpod.compat.ray import stand_in

_OURS = rounds.in_run() or rounds.recording


def _found(name: str) -> ModuleType:
    """A module of Ray's."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f"outside of a run hpcpod.compat.ray is Ray itself: {error}") from error


# Under these names import lines find them, whatever they are here.
tune = sys.modules[f"{__name__}.tune"] = stand_in if _OURS else _found("ray.tune")
sys.modules[f"{__name__}.tune.schedulers"] = (
    stand_in.schedulers if _OURS else _found("ray.tune.schedulers")
)


def __getattr__(name: str) -> Any:
    """``ray.init`` and ``ray.shutdown``, which do nothing in a run; outside of one all of Ray."""
    if not _OURS:
        return getattr(_found("ray"), name)
    if name in ("init", "shutdown"):
        return stand_in.Options
    raise AttributeError(f"hpcpod.compat.ray has no {name} in a run")
