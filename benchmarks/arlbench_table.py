"""ARLBench's seven tables, replayed by hpcpod's own fold and allocators: no training.

    python benchmarks/arlbench_table.py --data DIR                 # all, 100 replicates
    python benchmarks/arlbench_table.py --data DIR --arms halving replicates --replicates 20

DIR has the tables of github.com/automl/arlbench (branch ``experiments``), or is named by
HPCPOD_ARLBENCH. A run of hpcpod has a population of configurations from the table and the budget of
96 trainings that random search spends on 32 configurations with 3 seeds each. What it delivers is
the configuration that it believes to be the best; the score is the mean return over four training
seeds that no arm has seen. ``shown`` is what an arm claims for its choice, and ``over`` by how much
that exceeds the score. ``everything`` spends 576 trainings, six seeds of each of 96. Differences
are to random search with the same configurations in the same replicate. Of published optimisers no
unseen seed is known: their choice by two of their three seeds is scored by the third (the mean over
the three); their error is that of their five runs.

Each cell (a task and an arm) is kept in a file, so that the command goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from arlbench_replay.replay import Draw, Outcome, everything, random_search, replayed
from arlbench_replay.tables import Table, left_one_out, read, tasks
from asked import ended, number, plugin
from selection_scenarios.measures import Number, mean

HERE = Path(__file__).parent
RANDOM = "random search"
WITHOUT_RUN = {RANDOM: random_search, "everything": everything}
ARMS = (*WITHOUT_RUN, "halving", "replicates", "ocba", "thompson")
PODS = 96


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    done: list[Task] = []
    for name in options.tasks or tasks(options.data):
        table = read(options.data, name)
        arms = dict.fromkeys((RANDOM, *options.arms))
        done.append(Task(table, {arm: cell(table, arm, options) for arm in arms}))
    print(render(done))
    return 0


@dataclass(frozen=True)
class Task:
    """The outcomes of all arms on a task, by replicate."""

    table: Table
    outcomes: Mapping[str, Sequence[Outcome]]

    def scores(self, arm: str) -> Number:
        """The mean score of what an arm chose."""
        return mean(each.true for each in self.outcomes[arm])

    def over(self, arm: str) -> Number:
        """The mean of what it claims beyond that."""
        return mean(each.shown - each.true for each in self.outcomes[arm])

    def gain(self, arm: str) -> Number:
        """The mean score beyond random search's in the same replicate."""
        pairs = zip(self.outcomes[arm], self.outcomes[RANDOM], strict=True)
        return mean(one.true - other.true for one, other in pairs)

    @property
    def published(self) -> dict[str, Number]:
        """The mean score of each published optimiser's choice, without its luck."""
        runs = self.table.published
        return {name: mean(map(left_one_out, each)) for name, each in runs.items()}


def render(done: Sequence[Task]) -> str:
    """The table, and for each arm on how many tasks it is ahead."""
    lines = [_line("task", "arm", "score", "beyond random search", "shown less score")]
    lines.append(_line(*["---"] * 5))
    for task in done:
        for arm in task.outcomes:
            gain = "" if arm == RANDOM else str(task.gain(arm))
            lines.append(_line(task.table.task, arm, task.scores(arm), gain, task.over(arm)))
        for name, score in task.published.items():
            shown = mean(float(run.mean(axis=1).max()) for run in task.table.published[name])
            over = f"{shown.value - score.value:.1f}"
            lines.append(_line(task.table.task, f"{name}, published", score, "", over))
    for arm in [arm for arm in done[0].outcomes if arm != RANDOM]:
        lines.append("")
        lines.append(verdict(arm, done))
    return "\n".join(lines)


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def verdict(arm: str, done: Sequence[Task]) -> str:
    """An arm beside random search and the published optimisers, in a sentence."""
    above = [task for task in done if task.gain(arm).value > 0]
    sure = [task for task in done if task.gain(arm).low > 0]
    others = [task for task in done if task.published]
    first = [
        task
        for task in others
        if task.scores(arm).value >= max(each.value for each in task.published.values())
    ]
    small = [task for task in done if abs(task.over(arm).value) <= abs(task.over(RANDOM).value) / 4]
    return (
        f"{arm}: above random search on {len(above)} of {len(done)} (by more than 1.96 errors on"
        f" {len(sure)}), at or above the best published on {len(first)} of {len(others)}, shown"
        f" less score at most a quarter of random search's on {len(small)} of {len(done)}."
    )


def cell(table: Table, arm: str, options: argparse.Namespace) -> list[Outcome]:
    """The outcomes of an arm on a task, from its file as far as they are there."""
    path = options.cells / f"{table.task}.{arm.replace(' ', '_')}.{options.pods}.json"
    known = [Outcome(**each) for each in json.loads(path.read_text())] if path.is_file() else []
    for replicate in range(len(known), options.replicates):
        draw = Draw(table, replicate)
        if arm in WITHOUT_RUN:
            known.append(WITHOUT_RUN[arm](draw))
        else:
            known.append(replayed(draw, arm, options.pods, replicate))
        if replicate % 10 == 9 or replicate == options.replicates - 1:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps([asdict(each) for each in known]))
            print(f"{table.task}, {arm}: {replicate + 1}", file=sys.stderr, flush=True)
    return known[: options.replicates]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("HPCPOD_ARLBENCH"), metavar="DIR")
    add("--tasks", nargs="+", metavar="TASK", help="by default all whose tables are there")
    every = f"allocators by name, or {', '.join(WITHOUT_RUN)}; by default {', '.join(ARMS)}"
    add("--arms", nargs="+", type=arm_of, default=list(ARMS), metavar="ARM", help=every)
    add("--pods", type=number(int, 1), default=PODS, help="of a run")
    add("--replicates", type=int, default=100)
    add("--cells", type=Path, default=HERE / "data" / "arlbench", help="the folder for cells")
    options = parser.parse_args(arguments)
    if not options.data:
        parser.error("--data: name the folder of the tables of github.com/automl/arlbench")
    options.data = Path(options.data)
    if not options.data.is_dir():
        parser.error(f"--data: no such folder: {options.data}")
    known = tasks(options.data)
    if not known:
        parser.error(f"--data: no tables, sobol_TASK.csv.gz, in {options.data}")
    unknown = [name for name in options.tasks or () if name not in known]
    if unknown:
        parser.error(f"--tasks: {unknown[0]} is none of {', '.join(known)}")
    if options.replicates < 2:
        parser.error("--replicates: an error needs at least 2")
    return options


def arm_of(name: str) -> str:
    """The name of an arm, for ``argparse``."""
    return name if name in WITHOUT_RUN else plugin("allocators")(name)


if __name__ == "__main__":
    sys.exit(ended(main))
