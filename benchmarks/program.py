"""Boundaries of a program's rounds beside Ray Tune's: ``python benchmarks/program.py``, 3 minutes.

A population of four on one slot trains a script that sleeps and saves 2 MB; both copy by truncation
without a test. Printed are the milliseconds between two pieces of the slot's work, from the end of
one's training to the begin of the next one's: the save, its report, what it decides, and the next
task with its checkpoint read. Where a process is started anew, its own start is printed beside,
which is that of the same Python importing what the script imports, and nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from beside_ray import run
from contenders.venvs import NotInstalled, python_of

HERE = Path(__file__).parent
WAYS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "hpcpod, a process a round": ("overheads.programs", "", ()),
    "hpcpod, kept": ("overheads.programs", "", ("--kept",)),
    "ray tune function, reused": ("overheads.ray_function", "raytune", ("--reuse",)),
    "ray tune function": ("overheads.ray_function", "raytune", ()),
}
"""Each way's module, the environment that it needs, and its options."""


def start_seconds(times: int) -> float:
    """Median time of a process that imports what the script does."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import hpcpod; hpcpod.session"], check=True)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def told(seconds: Sequence[float]) -> str:
    """Median, 90th percentile and number."""
    if not seconds:
        return "none"
    high = sorted(seconds)[int(0.9 * (len(seconds) - 1))]
    return f"{1e3 * statistics.median(seconds):.0f}, {1e3 * high:.0f} ({len(seconds)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each pod (default: 20)")
    parser.add_argument("--venvs", type=Path, default=HERE / ".venvs", help="their folder")
    options = parser.parse_args()
    print(f"{'ms: median, 90 % (n)':28}{'goes on':>20}{'copied':>20}{'own start':>12}")
    for name, (module, venv, words) in WAYS.items():
        try:
            python = python_of(venv, options.venvs) if venv else Path(sys.executable)
        except NotInstalled as error:
            print(f"{name:28}{error}")
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            gaps, _ = run(module, python, [folder, str(options.rounds), *words])
        own = f"{1e3 * start_seconds(9):.0f}" if name.endswith("a round") else "-"
        print(f"{name:28}{told(gaps['on']):>20}{told(gaps['copied']):>20}{own:>12}", flush=True)


if __name__ == "__main__":
    main()
