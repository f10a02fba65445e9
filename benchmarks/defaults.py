"""Agents with nothing said, beside Stable-Baselines3's: ``python benchmarks/defaults.py``.

A row is an agent on a task: by ``hpcpod.train(agent, env, env_steps=, seed=)`` without a
hyperparameter, and by Stable-Baselines3's class without one. A row that ends in "tuned" is a
preset of ``configs/`` beside rl-baselines3-zoo's hyperparameters. Both train the same steps on the
same seeds, each in an environment of its own library's making, and are scored 20 times, evenly, on
the same 20 episodes without exploring. The score of a run is the mean of its *last five*
evaluations: a policy that was good once and fell back is not good.

A row is passed when ours is not worse beyond doubt. "P(better)" is the share of pairs of seeds in
which ours is the better one, ties counted half (Agarwal et al. 2021, arXiv:2108.13264); a
difference is shown where that lies so far from 1/2 that a permutation test says p <= 0.05. The
bootstrap intervals (95 %) of the interquartile means are too narrow for a handful of seeds.

Ten seeds of everything take about a day of one core by an estimate from the first ones, most of it
Stable-Baselines3's part. Results are kept in ``benchmarks/data/defaults.jsonl``, a line a run, and
only what is missing is trained; ``--report`` trains nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gates.contests import CONTESTS, Contest
from gates.duel import Result, render
from gates.running import append, interpreters, lines, measure
from gates.table import LIBRARIES, Run

HERE = Path(__file__).parent


def main() -> None:
    options = parse(sys.argv[1:])
    contests = asked(options)
    known = [Result(**each) for each in lines(options.json)]
    if not options.report:
        missing = list(orders(options, contests, known))
        pythons = interpreters(missing, options.sb3_python, options.venvs)
        try:
            for run in measure(missing, pythons, options.jobs):
                if not run.failure:
                    result = Result.of(run, contests[run.row].made(run.library))
                    append(options.json, result.json())
                    known.append(result)
        except KeyboardInterrupt:
            print("interrupted: this is what there is", file=sys.stderr)
    print(render(known, contests.values()))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rows", type=_rows, default=list(CONTESTS),
        help=f"names or parts of names, comma-separated: {', '.join(CONTESTS)}",
    )  # fmt: skip
    parser.add_argument("--libraries", type=_libraries, default=list(LIBRARIES))
    parser.add_argument("--seeds", type=int, default=10, help="1 to this number (default: 10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument("--budget", type=float, default=1.0, help="factor of all steps")
    parser.add_argument(
        "--json", type=Path, default=HERE / "data" / "defaults.jsonl", help="the results"
    )
    parser.add_argument("--report", action="store_true", help="train nothing: the tables alone")
    parser.add_argument("--sb3-python", type=Path, help="a Python that has stable-baselines3")
    parser.add_argument(
        "--venvs", type=Path, default=HERE / ".venvs", help="where one is made, if none is given"
    )
    return parser.parse_args(arguments)


def _rows(text: str) -> list[str]:
    words = text.split(",")
    found = {word: [word] if word in CONTESTS else _with(word) for word in words}
    for word, names in found.items():
        if not names:
            raise argparse.ArgumentTypeError(f"{word} is in none of {', '.join(CONTESTS)}")
    return [name for name in CONTESTS if any(name in names for names in found.values())]


def _with(word: str) -> list[str]:
    return [name for name in CONTESTS if word in name]


def _libraries(text: str) -> list[str]:
    for word in text.split(","):
        if word not in LIBRARIES:
            raise argparse.ArgumentTypeError(f"{word} is none of {', '.join(LIBRARIES)}")
    return text.split(",")


def asked(options: argparse.Namespace) -> dict[str, Contest]:
    """The rows that are asked for, by their names."""
    rows = {name: CONTESTS[name] for name in options.rows}
    return {
        name: replace(row, env_steps=max(1, round(row.env_steps * options.budget)))
        for name, row in rows.items()
    }


def orders(
    options: argparse.Namespace, contests: Mapping[str, Contest], known: list[Result]
) -> Iterator[Run]:
    """Every run that is asked for and missing: a seed of every row, then the next one."""
    done = {result.key for result in known}
    for seed in range(1, options.seeds + 1):
        for name, contest in contests.items():
            for library in options.libraries:
                if (name, library, seed, contest.made(library)) not in done:
                    yield contest.run(library, seed)


if __name__ == "__main__":
    main()
