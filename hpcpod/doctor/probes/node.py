"""A task of the probe's job: ``python -m hpcpod.doctor.probes.node FOLDER``, one on each node."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from hpcpod.doctor.probes.disk_space import SpaceFacts, measure_space
from hpcpod.doctor.probes.machine import MachineFacts, look, node_name
from hpcpod.doctor.probes.peers import leave, meet, staying
from hpcpod.records.codec import decode
from hpcpod.storage.disk import Scheme

ORDER = "order.json"
"""File with the tasks' ``Order``."""


@dataclass(frozen=True)
class Order:
    """The doctor's order to the tasks."""

    scheme: Scheme | None
    """Way in which a run would publish names; None if it can't."""


@dataclass(frozen=True)
class NodeFacts:
    """Facts of one node."""

    machine: MachineFacts
    space: SpaceFacts
    """Of the filesystem on which the runs are."""


def main(folder: Path) -> None:
    """Do what the order says, and leave what was seen in the folder."""
    task = int(os.environ.get("SLURM_PROCID", "0"))
    # SLURM_NTASKS is the job's: this step has one task a node.
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", os.environ.get("SLURM_NTASKS", "1")))
    text = staying(folder).read(folder / ORDER)
    if text is None:
        # at once: its partner would wait a minute
        sys.exit(f"error: {node_name()} does not see {folder}")
    order = decode(Order, json.loads(text))
    if tasks > 1:
        pair = meet(folder / "pair", task, order.scheme)
        leave(folder, f"pair-{task}", pair)
    leave(folder, f"node-{task}", NodeFacts(look(), measure_space(folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
