"""A program that sleeps for 0.3 s a round and saves 2 MB: ``trainee.py LOG [--kept]``."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import hpcpod

BYTES = 2_000_000


def play(pod: hpcpod.program.session.Session, log: Path) -> None:
    """Train one round, and note when."""
    began = time.time()
    of = pod.checkpoint / "of.txt" if pod.checkpoint else None
    copied = of is not None and of.read_text(encoding="ascii") != pod.pod
    if pod.checkpoint:
        (pod.checkpoint / "weights").read_bytes()
    time.sleep(0.3)
    with log.open("a", encoding="ascii") as file:
        print(json.dumps([began, time.time(), copied]), file=file)
    (pod.save_to / "weights").write_bytes(os.urandom(BYTES))
    (pod.save_to / "of.txt").write_text(pod.pod, encoding="ascii")
    chance = int.from_bytes(os.urandom(4), "big") / 2**32
    pod.report(returns=[chance] * len(pod.panel_seeds), steps=pod.train_steps_left)


def main() -> None:
    log = Path(sys.argv[1])
    if "--kept" in sys.argv:
        for pod in hpcpod.sessions():
            play(pod, log)
    else:
        play(hpcpod.session(), log)


if __name__ == "__main__":
    main()
