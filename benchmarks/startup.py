"""The start of the command line: ``python benchmarks/startup.py``, in about 20 s.

Whole processes, from start to exit, as a person at a login node waits for them. The peer is
an interpreter that does nothing, and one that imports torch.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

import hpcpod

CONFIG = {
    "name": "startup",
    "env": {"id": "CartPole-v1", "num_envs": 2},
    "population": {"pods": {"min": 1, "max": 2}},
    "round": {"env_steps": 64, "episodes": 2},
    "agents": {"ppo": {"horizon": 8, "minibatch_size": 16}},
    "stop": {"rounds": 1, "confirm_episodes": 2},
}


def seconds(command: list[str], times: int) -> list[float]:
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        spent.append(time.perf_counter() - started)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=11, help="runs of each (default: 11)")
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory(prefix="hpcpod-startup-") as folder:
        run = hpcpod.launch(CONFIG, runs=folder)
        run.wait(timeout=120)
        python = sys.executable
        commands = {
            "python -c pass": [python, "-c", "pass"],
            "hpcpod --help": [python, "-m", "hpcpod", "--help"],
            "hpcpod status RUN": [python, "-m", "hpcpod", "status", str(run.path)],
            "hpcpod status RUN --json": [python, "-m", "hpcpod", "status", str(run.path), "--json"],
            "hpcpod leaderboard RUN": [python, "-m", "hpcpod", "leaderboard", str(run.path)],
            "python -c 'import torch'": [python, "-c", "import torch"],
        }
        for name, command in commands.items():
            spent = seconds(command, times)
            print(f"{name:26} {statistics.median(spent):6.3f} s  (slowest {max(spent):.3f})")


if __name__ == "__main__":
    main()
