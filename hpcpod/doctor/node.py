"""A task of the probe's job: ``python -m hpcpod.doctor.node FOLDER``, one on each node."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcpod.codec import decode, encode
from hpcpod.config.loading import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.doctor.asking import ask
from hpcpod.doctor.machine import MachineFacts, look, node_name
from hpcpod.doctor.peers import meet, staying
from hpcpod.doctor.space import SpaceFacts, measure_space
from hpcpod.launchers.cluster import own_words
from hpcpod.launchers.slurm import environment
from hpcpod.storage.disk import Scheme

ORDER = "order.json"
"""What the tasks are to do."""
SLOTS = "slots.sbatch"
"""A script that a coordinator would submit from a node."""

_SBATCH_SECONDS = 60.0


@dataclass(frozen=True)
class Order:
    """What the doctor asks of the tasks."""

    scheme: Scheme | None
    """How a run would publish names; None if it can't."""
    seconds: float
    """To wait for each word of the other task's."""
    config: Mapping[str, Any]
    """The configuration: it says what a Slurm command may see of the environment."""


@dataclass(frozen=True)
class NodeFacts:
    """What was seen on one node."""

    machine: MachineFacts
    space: SpaceFacts
    """Of the folder in which the runs are."""
    sbatch: str | None
    """Why sbatch does not take a slot's script there; empty if it does; None: not tried."""


def main(folder: Path) -> None:
    """Do what the order says, and leave what was seen in the folder."""
    task = int(os.environ.get("SLURM_PROCID", "0"))
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", os.environ.get("SLURM_NTASKS", "1")))
    disk = staying(folder)
    text = disk.read(folder / ORDER)
    if text is None:
        sys.exit(f"error: {node_name()} does not see {folder}")
    order = decode(Order, json.loads(text))
    if tasks > 1:
        pair = meet(folder / "pair", task, order.scheme, order.seconds)
        disk.replace(folder / f"pair-{task}.json", json.dumps(encode(pair)).encode())
    sbatch = _sbatch(folder / SLOTS, from_mapping(order.config)) if task == 0 else None
    facts = NodeFacts(look(), measure_space(folder.parent), sbatch)
    disk.replace(folder / f"node-{task}.json", json.dumps(encode(facts)).encode())


def _sbatch(script: Path, config: RunConfig) -> str | None:
    if not script.exists():
        return None
    outer = environment(os.environ, config)
    answer = ask(["sbatch", "--test-only", str(script)], _SBATCH_SECONDS, outer)
    return "" if answer.ok else own_words(answer.err) or "it gives no reason"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
