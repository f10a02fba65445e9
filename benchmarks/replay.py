"""A checkpoint with a million transitions in its replay: ``python benchmarks/replay.py``.

Bytes and seconds of the first checkpoint, of the next one (a round has added 20,000 transitions),
of reading all of it, and of the next round of the same pod, which reads none.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from hpcpod import plugins
from hpcpod.agents.base import Agent, Buffer
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, Step
from hpcpod.pod.checkpoint import Checkpoints
from hpcpod.records.records import Checkpoint
from hpcpod.storage.blobs import Blobs
from hpcpod.storage.disk import Disk
from hpcpod.storage.quarantine import Quarantine

NUM_ENVS = 8
ROUND = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| agent | what | seconds | MB written | MB held |")
    print("|---|---|---|---|---|")
    measure("sac", {}, options.transitions)
    measure("dqn", {}, options.transitions)
    measure("dqn", {"priority_exponent": 0.6, "n_steps": 3}, options.transitions)


def measure(name: str, options: dict[str, Any], transitions: int) -> None:
    """Save, add a round, save, load."""
    label = f"{name}, prioritised" if options else name
    action = Box((6,), -1.0, 1.0) if name == "sac" else Discrete(4)
    spec = EnvSpec("Task", Box((17,), -1.0, 1.0), action, NUM_ENVS, "cpu", 1000, "none")
    cls = plugins.resolve("agents", name)
    config = cls.Config(**options, buffer_size=transitions)
    agent: Agent = cls(spec, config, 0)
    buffer = agent.make_buffer()
    fill(agent, buffer, transitions)
    with tempfile.TemporaryDirectory() as folder:
        blobs = Blobs(Disk(), Path(folder), Quarantine(Disk(), Path(folder)))
        checkpoints = Checkpoints(blobs, {"kind": "benchmark"})
        first, seconds = timed(lambda: checkpoints.save(agent, buffer, transitions))
        report(label, "first checkpoint", seconds, bytes_of(blobs, first), bytes_of(blobs, first))
        fill(agent, buffer, ROUND)
        second, seconds = timed(lambda: checkpoints.save(agent, buffer, transitions + ROUND))
        new = {blob for blob in second.blobs() if blob not in first.blobs()}
        written = sum(blobs.path(blob).stat().st_size for blob in new)
        report(label, f"{ROUND:,} transitions later", seconds, written, bytes_of(blobs, second))
        other, empty = cls(spec, config, 1), agent.make_buffer()
        reader = Checkpoints(blobs, {})

        def read(into: Buffer, *, kept: bool) -> None:
            reader.load(second, other)
            reader.fill(into, spec.num_envs, kept=kept)

        _, seconds = timed(lambda: read(empty, kept=False))
        report(label, "read by another process", seconds, 0, bytes_of(blobs, second))
        _, seconds = timed(lambda: read(buffer, kept=True))
        report(label, "next round of the same pod", seconds, 0, bytes_of(blobs, second))


def fill(agent: Agent, buffer: Buffer, transitions: int) -> None:
    """Add made-up steps, episodes of 1,000."""
    generator = torch.Generator().manual_seed(buffer.rows)
    no = torch.zeros(NUM_ENVS, dtype=torch.bool)
    obs = torch.randn(NUM_ENVS, 17, generator=generator)
    action = agent.act(obs, explore=True)
    for _ in range(transitions // NUM_ENVS):
        after = torch.randn(NUM_ENVS, 17, generator=generator)
        cut = ~no if buffer.rows % 1000 == 999 else no
        buffer.add(obs, action, Step(after, after[:, 0], no, cut, after, ~no))
        obs = after


def timed(work: Any) -> tuple[Any, float]:
    """What it gives, and its wall time."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def bytes_of(blobs: Blobs, checkpoint: Checkpoint) -> int:
    """Of all blobs that a checkpoint needs."""
    return sum(blobs.path(blob).stat().st_size for blob in checkpoint.blobs())


def report(label: str, what: str, seconds: float, written: int, held: int) -> None:
    """Print a row."""
    print(f"| {label} | {what} | {seconds:.2f} | {written / 1e6:.1f} | {held / 1e6:.1f} |")


if __name__ == "__main__":
    main()
