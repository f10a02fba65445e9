"""Ray Tune's population-based training of a function that sleeps, as a process of its own."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ray import tune

from overheads.ray_pbt import measure

BYTES = 2_000_000


def train(config: dict[str, Any]) -> None:
    """Sleep for 0.3 s an iteration, and save 2 MB."""
    mine = tune.get_context().get_trial_id()
    checkpoint, copied = tune.get_checkpoint(), False
    if checkpoint:
        with checkpoint.as_directory() as folder:
            Path(folder, "weights").read_bytes()
            copied = Path(folder, "of.txt").read_text(encoding="ascii") != mine
    while True:
        began = time.time()
        time.sleep(0.3)
        with Path(config["log"]).open("a", encoding="ascii") as file:
            print(json.dumps([began, time.time(), copied]), file=file)
        copied = False
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "weights").write_bytes(os.urandom(BYTES))
            Path(folder, "of.txt").write_text(mine, encoding="ascii")
            chance = int.from_bytes(os.urandom(4), "big") / 2**32
            tune.report({"score": chance}, checkpoint=tune.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    measure(train)
