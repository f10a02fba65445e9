"""Learning curves of a task's hyperparameters, each drawn from its ranges and trained alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from arms.hpcpod_run import PLAIN, config
from arms.order import Order
from numpy.typing import NDArray

import hpcpod

Array = NDArray[np.float64]
SEED = 101
DRAWS = 64


@dataclass(frozen=True)
class Curves:
    """Curves of one task's draws."""

    returns: Array
    """(draws, rounds, episodes): the returns of each round's panel, whose seeds are common."""
    seconds: Array
    """(draws, rounds): what each round took, its panel included."""


def read(path: Path) -> Curves:
    """Curves that ``write`` has written; OSError, ValueError, KeyError: they are none."""
    with np.load(path) as file:
        return Curves(file["returns"].astype(np.float64), file["seconds"].astype(np.float64))


def write(path: Path, curves: Curves) -> None:
    """Keep curves, to a tenth of a return."""
    returns = np.round(curves.returns, 1).astype(np.float32)
    seconds = np.round(curves.seconds, 3).astype(np.float32)
    np.savez_compressed(path, returns=returns, seconds=seconds)


def recorded(task: str, rounds: int, draws: int = DRAWS) -> Curves:
    """Train the draws of a task on two slots: of 24 rounds a quarter of an hour or so. One that
    fails stays at its last score; one that fails in its first round is left out."""
    # slots that have heard of the end write a last word while the folder goes
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = config(Order(task, "no_evolution", SEED, "seconds", 2, folder))
        pods = {"pods": {"min": 1, "max": draws}, "allocator": "fair"}
        found["population"] = {**found["population"], **pods}
        found["stop"] = {**PLAIN, "rounds": rounds}
        run = hpcpod.launch(found, runs=folder, detach=False, progress=False)
        run.wait(poll=1.0, progress=False)
        # a coordinator whose folder goes before it has ended waits for it to come back
        every = psutil.process_iter(["cmdline"])
        own = [each for each in every if folder in " ".join(each.info["cmdline"] or ())]
        psutil.wait_procs(own, timeout=60)
        fresh = {name for name, pod in run.board().pods.items() if pod.cause == "fresh"}
        panels: dict[str, dict[int, list[float]]] = {}
        for row in _rows(run.table("episodes")):
            if row["pod"] in fresh and row["purpose"] == "round":
                of_round = panels.setdefault(row["pod"], {}).setdefault(row["round"], [])
                of_round.append(row["episode_return"])
        took = {
            (row["pod"], row["round"]): row["wall_seconds"]
            for row in _rows(run.rounds())
            if row["purpose"] == "round"
        }
    names = sorted(panels)
    reached = {name: [min(n, max(panels[name])) for n in range(1, rounds + 1)] for name in names}
    return Curves(
        np.array([[panels[name][n] for n in reached[name]] for name in names]),
        np.array([[took[name, n] for n in reached[name]] for name in names]),
    )


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of a run's table, in the order of their episodes."""
    rows = table if isinstance(table, list) else table.to_dict("records")
    yield from sorted(rows, key=lambda row: row.get("episode", 0))
