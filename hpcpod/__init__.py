"""hpcpod: tournament-based ensemble training of deep-RL agents on Slurm.

The public names are loaded on first use (PEP 562), so that ``import hpcpod`` is instant
and loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcpod._version import __version__ as __version__

if TYPE_CHECKING:
    from hpcpod.api import ensemble, launch, load_policy, make_env, train
    from hpcpod.program.session import session, sessions
    from hpcpod.report.write import write_report
    from hpcpod.run.compare import compare
    from hpcpod.run.continuous.python import ct
    from hpcpod.run.evaluation.evaluate import evaluate
    from hpcpod.run.policy_folder import export_policy
    from hpcpod.run.run import Run, open_run
    from hpcpod.run.sweeps.folder import open_sweep
    from hpcpod.run.sweeps.python import sweep

__all__ = [
    "Run", "compare", "ct", "ensemble", "evaluate", "export_policy", "launch", "load_policy",
    "make_env", "open_run", "open_sweep", "session", "sessions", "sweep", "train", "write_report",
]  # fmt: skip

_HOMES = {
    "Run": "hpcpod.run.run", "open_run": "hpcpod.run.run", "compare": "hpcpod.run.compare",
    "evaluate": "hpcpod.run.evaluation.evaluate", "ct": "hpcpod.run.continuous.python",
    "open_sweep": "hpcpod.run.sweeps.folder", "sweep": "hpcpod.run.sweeps.python",
    "export_policy": "hpcpod.run.policy_folder", "write_report": "hpcpod.report.write",
    "session": "hpcpod.program.session", "sessions": "hpcpod.program.session",
}  # fmt: skip
"""Modules of names that load less than ``hpcpod.api``, which loads what a launch needs."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hpcpod' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "hpcpod.api")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
