"""``python -m tests.preemption``: the whole matrix on real Slurms, as a table.

Each row is one way in which a site preempts: what became of the slot, how often Slurm restarted it,
the work that was lost (environment steps that were taken twice, and the seconds they took), the
seconds from the scheduler's start of the slot to its first training step, and all that it did not
train for. ``--only`` takes a part of the names, such as ``array-ranks4``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.preemption.cells import DEAF, EVERY, pairwise
from tests.preemption.matrix import Outcome, play_all


def main() -> int:
    """Play the cells; 1 if one of them lost more than it had to."""
    parser = argparse.ArgumentParser(prog="python -m tests.preemption", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the cells' names")
    parser.add_argument("--pairs", action="store_true", help="the selection that the tests play")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="cells at once")
    options = parser.parse_args()
    cells = [*(pairwise(EVERY) if options.pairs else EVERY), *DEAF]
    cells = [cell for cell in cells if options.only in str(cell)]
    bad = 0
    print("| cell | what happened | restarts | lost steps | lost s | back s | away s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory(prefix="hpcpod-preemption-") as home:
        for cell, outcome, _ in play_all(cells, Path(home), options.at_once):
            if not isinstance(outcome, Outcome):
                bad += 1
                print(f"| {cell} | {outcome!r} |", flush=True)
                continue
            good = outcome.saved and outcome.bystanders
            bad += not good or (cell.hears and outcome.lost_steps > 0)
            print(
                f"| {cell} | {outcome.what}{'' if good else ', NOT AS IT SHOULD'}"
                f" | {outcome.restarts} | {outcome.lost_steps} | {outcome.lost_seconds:.2f}"
                f" | {outcome.back_seconds:.1f} | {outcome.away_seconds:.1f} |",
                flush=True,
            )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
