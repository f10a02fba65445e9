"""The Hamiltonian term's ablation: ``python benchmarks/h_term.py``, an hour on two cores.

The rows of ``learning.py`` that are quick, without the term and with it (the papers' weight of
1/8, runs of 1 and of 4 steps), on the same seeds: the last score, and the mean over the curve,
which tells how soon something was learned.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from gates.estimates import Estimate, estimate
from gates.rows import ROWS, Row

HERE = Path(__file__).parent
TRIED = ("cartpole-ppo", "pendulum-ppo", "pendulum-sac", "pendulum-td3")
VARIANTS = {"without": {}, "1/8, K = 1": {"h_steps": 1}, "1/8, K = 4": {"h_steps": 4}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(TRIED), help="of benchmarks/learning.py")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=1.0, help="factor of the rows' steps")
    options = parser.parse_args()
    print("| row | term | last score | mean of the curve |")
    print("|---|---|---|---|")
    for name in options.rows.split(","):
        for label, row in variants(ROWS[name]):
            orders = [row.order(seed, options.budget, quick=False) for seed in range(options.seeds)]
            with ThreadPoolExecutor(options.jobs) as pool:
                curves = list(pool.map(train, map(json.dumps, orders)))
            last = estimate([curve[-1] for curve in curves])
            mean = estimate([fmean(curve) for curve in curves])
            print(f"| {name} | {label} | {words(last)} | {words(mean)} |", flush=True)


def variants(row: Row) -> Iterator[tuple[str, Row]]:
    """The row without the term, and with it."""
    for label, changes in VARIANTS.items():
        term = {"h_term": 0.125, **changes} if changes else {}
        yield label, replace(row, changes={**row.changes, **term})


def train(order: str) -> list[float]:
    """The scores of one run's curve; it has a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gates.hpcpod_run"],
        input=order,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
    )
    return [point["score"] for point in json.loads(done.stdout.splitlines()[-1])]


def words(score: Estimate) -> str:
    """An interquartile mean with its interval."""
    return f"{score.iqm:,.0f} ({score.low:,.0f} to {score.high:,.0f})"


if __name__ == "__main__":
    main()
