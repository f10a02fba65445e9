"""The gain of a choice by hand: ``python benchmarks/auto.py``.

``launch --env`` beside a file of ``configs/``, whose target is taken out. Both get the same minutes
and two slots. The delivered policy plays 128 episodes on seeds that no run has used. Measuring and
choosing are not part of the minutes; their seconds are a column.

With ``--json`` each run is appended as a line, and an interrupted benchmark goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from evolution import mean_and_error

HERE = Path(__file__).parent
EPISODES = 128
TASKS = {
    "CartPole-v1": (1.0, 300_000, "classic/cartpole"),
    "Pendulum-v1": (2.0, 150_000, "classic/pendulum"),
    "LunarLander-v3": (5.0, 1_000_000, "classic/lunar_lander"),
}
"""Of each task the minutes, the environment steps, and its file in ``configs/``."""


@dataclass(frozen=True)
class Run:
    """One run, and what its policy is worth."""

    task: str
    way: str
    seed: int
    budget: str
    score: float
    minutes: float
    claimed: float
    env_steps: int
    rounds: int
    winner: str
    before: float
    """Seconds before the first slot began: measuring, choosing, trying."""


def main() -> None:
    options = parse(sys.argv[1:])
    known = read(options.json)
    for task, way, seed in () if options.report else orders(options):
        if any((run.task, run.way, run.seed) == (task, way, seed) for run in known):
            continue
        known.append(play(task, way, seed, steps=options.steps))
        print(known[-1], file=sys.stderr)
        if options.json is not None:
            with options.json.open("a") as file:
                file.write(json.dumps(asdict(known[-1])) + "\n")
    print(render(known))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--ways", nargs="+", default=["auto", "file"],
                        help="auto, file, or auto:FIELD=VALUE for another choice")  # fmt: skip
    parser.add_argument("--steps", action="store_true",
                        help="a budget of steps: where others use the cores")  # fmt: skip
    parser.add_argument("--report", action="store_true", help="launch nothing: the table alone")
    parser.add_argument("--seeds", type=int, default=3, help="1 to this number (default: 3)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="append each run, a line each")
    return parser.parse_args(arguments)


def read(path: Path | None) -> list[Run]:
    if path is None or not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def orders(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for way in options.ways:
                yield task, way, seed


def budget_of(task: str, *, steps: bool) -> str:
    """The option that limits a run."""
    minutes, env_steps, _ = TASKS[task]
    return f"--env-steps={env_steps}" if steps else f"--minutes={minutes:g}"


def words_of(task: str, way: str, seed: int, *, steps: bool) -> list[str]:
    """The command line of one run."""
    budget, file = budget_of(task, steps=steps), TASKS[task][2]
    given = [budget, "--slots=2", f"--set=seed={seed}", "--set=name=run"]
    if way == "file":
        only = ["--set=stop.target=null", "--set=stop.rounds=null"]
        only += ["--set=stop.minutes=null"] if steps else []
        return ["launch", str(HERE.parent / "configs" / f"{file}.yaml"), *given, *only]
    field = way.partition(":")[2]
    return ["launch", "--env", task, *given, *([f"--set={field}"] if field else [])]


def play(task: str, way: str, seed: int, *, steps: bool) -> Run:
    """Launch a run in a process of its own, and score its policy in another."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(HERE.parent.absolute()), "HPCPOD_RUNS": folder}
        command = [sys.executable, "-m", "hpcpod"]
        began = time.time()
        subprocess.run(
            [*command, *words_of(task, way, seed, steps=steps)], env=env, cwd=folder, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        scored = subprocess.run(
            [sys.executable, "-c", _SCORE, str(Path(folder) / "run"), task],
            env=env, cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
    found = json.loads(scored.stdout)
    before = found.pop("began") - began
    budget = budget_of(task, steps=steps).removeprefix("--")
    return Run(task, way, seed, budget, before=before, **found)


_SCORE = f"""
import json, sys
import gymnasium
import hpcpod
run = hpcpod.open_run(sys.argv[1])
policy, total = hpcpod.load_policy(run), 0.0
env = gymnasium.make(sys.argv[2])
for episode in range({EPISODES}):
    obs, _ = env.reset(seed=1_000_000_007 + episode)
    ended = False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total += float(reward)
        ended = terminated or truncated
board, best = run.board(), run.best()
print(json.dumps({{
    "score": total / {EPISODES}, "claimed": best.mean, "env_steps": board.env_steps,
    "rounds": board.rounds, "winner": best.algorithm, "began": board.began,
    "minutes": run.status().minutes,
}}))
"""


def render(runs: list[Run]) -> str:
    """A table: a line for each task and way, with means over seeds and their standard errors."""
    head = (
        "task", "budget", "way", "each seed", "mean", "env steps", "minutes", "delivered by",
        "s before",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for task, way in dict.fromkeys((run.task, run.way) for run in runs):
        mine = sorted((r for r in runs if (r.task, r.way) == (task, way)), key=lambda r: r.seed)
        cells = (
            mine[0].budget,
            way,
            ", ".join(f"{run.score:.0f}" for run in mine),
            mean_and_error([run.score for run in mine]),
            f"{statistics.fmean(run.env_steps for run in mine) / 1e6:.2f} M",
            f"{statistics.fmean(run.minutes for run in mine):.1f}",
            ", ".join(run.winner for run in mine),
            f"{statistics.fmean(run.before for run in mine):.0f}",
        )
        lines.append(f"| {' | '.join((task, *cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
