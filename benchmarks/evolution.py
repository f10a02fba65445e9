"""The gain of copies on real tasks: ``python benchmarks/evolution.py``.

PPO on Pendulum-v1 and Acrobot-v1: eight pods, twelve rounds of 5,120 steps, five hyperparameters
drawn from wide ranges, no controls. The delivered policy plays 128 episodes on seeds that no run
has used. Ways on the same seeds: the rules of this checkout, the same without copies (``NoCopies``:
a random search of eight), with a gate that finds a difference where there is none more often
(``LooserGate``), and another checkout, agents and all (``--against DIR``), with copies and without.

With ``--json`` each run is appended as a line, and an interrupted benchmark goes on where it
stopped. A run takes one to three minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
EPISODES = 128
TASKS = ("Pendulum-v1", "Acrobot-v1")
WAYS: dict[str, dict[str, str]] = {
    "copies": {},
    "no copies": {"generator": "looser_rules:NoCopies"},
    "looser gate": {"updater": "looser_rules:LooserGate"},
}
BEFORE: dict[str, dict[str, str]] = {
    "before": {},
    "before, no copies": {"generator": "looser_rules:NoCopies"},
}
"""Ways of the other checkout."""
NONE = {way: "before, no copies" if way in BEFORE else "no copies" for way in (*WAYS, *BEFORE)}
"""The way of the same checkout in which nobody is copied."""
SEARCHED = {
    "learning_rate": {"log_uniform": [1e-5, 1e-2]},
    "gamma": {"uniform": [0.8, 0.999]},
    "gae_lambda": {"uniform": [0.8, 0.99]},
    "epochs": {"int": [2, 20]},
    "clip": {"uniform": [0.05, 0.4]},
}
FIXED = {
    "horizon": 128, "minibatch_size": 64, "normalize_obs": True, "normalize_returns": False,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run, and what its policy is worth."""

    task: str
    way: str
    seed: int
    score: float
    copies: int
    minutes: float


def main() -> None:
    options = parse(sys.argv[1:])
    known = read(options.json)
    for task, way, seed in () if options.report else orders(options):
        if any((run.task, run.way, run.seed) == (task, way, seed) for run in known):
            continue
        known.append(play(task, way, seed, options.against))
        print(known[-1], file=sys.stderr)
        if options.json is not None:
            with options.json.open("a") as file:
                file.write(json.dumps(asdict(known[-1])) + "\n")
    print(render(known))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--report", action="store_true", help="launch nothing: the table alone")
    parser.add_argument("--seeds", type=int, default=5, help="1 to this number (default: 5)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="append each run, a line each")
    parser.add_argument("--against", type=Path, metavar="DIR", help="a checkout of other rules")
    return parser.parse_args(arguments)


def read(path: Path | None) -> list[Run]:
    if path is None or not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]


def orders(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    ways = [*WAYS, *(BEFORE if options.against is not None else ())]
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for way in ways:
                yield task, way, seed


def config_of(task: str, way: str, seed: int) -> dict[str, object]:
    return {
        "name": "run",
        "seed": seed,
        "env": {"id": task, "num_envs": 8},
        "population": {
            "pods": {"min": 1, "max": 8},
            "algorithms": {"ppo": 1},
            "controls": 0,
            **(WAYS | BEFORE)[way],
        },
        "round": {"env_steps": 5120, "episodes": 32},
        "agents": {"ppo": {**FIXED, **SEARCHED}},
        "stop": {"rounds": 12},
    }


def play(task: str, way: str, seed: int, against: Path | None) -> Run:
    """Launch a run in a process of its own, and score its policy in another."""
    checkout = against if way in BEFORE and against is not None else HERE.parent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yaml"
        path.write_text(yaml.safe_dump(config_of(task, way, seed)))
        paths = os.pathsep.join([str(checkout.absolute()), str(HERE.absolute())])
        env = {**os.environ, "PYTHONPATH": paths, "HPCPOD_RUNS": folder}
        launch = [sys.executable, "-m", "hpcpod", "launch", str(path)]
        subprocess.run(launch, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        asked = [sys.executable, "-m", "hpcpod", "status", "run", "--json"]
        done = subprocess.run(asked, env=env, cwd=folder, check=True, capture_output=True)
        status = json.loads(done.stdout)
        scored = subprocess.run(
            [sys.executable, "-c", _SCORE, str(Path(folder) / "run" / "best.h5"), task],
            env=env, cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
    return Run(task, way, seed, float(scored.stdout), status["copies"], status["minutes"])


_SCORE = f"""
import sys
import gymnasium
import hpcpod
policy, total = hpcpod.load_policy(sys.argv[1]), 0.0
env = gymnasium.make(sys.argv[2])
for episode in range({EPISODES}):
    obs, _ = env.reset(seed=1_000_000_007 + episode)
    ended = False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total += float(reward)
        ended = terminated or truncated
print(total / {EPISODES})
"""


def render(runs: list[Run]) -> str:
    """A table: a line for each task and way, with means over seeds and their standard errors.

    "Over none" is the mean difference from the same seeds of the same checkout without copies,
    which began with the same founders.
    """
    head = ("task", "way", "each seed", "mean", "over none", "copies", "minutes")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for task, way in dict.fromkeys((run.task, run.way) for run in runs):
        mine = sorted((r for r in runs if (r.task, r.way) == (task, way)), key=lambda r: r.seed)
        none = {r.seed: r.score for r in runs if (r.task, r.way) == (task, NONE[way])}
        apart = [run.score - none[run.seed] for run in mine if run.seed in none]
        cells = (
            ", ".join(f"{run.score:.0f}" for run in mine),
            mean_and_error([run.score for run in mine]),
            mean_and_error(apart) if way != NONE[way] else "",
            f"{statistics.fmean(run.copies for run in mine):.1f}",
            f"{statistics.fmean(run.minutes for run in mine):.1f}",
        )
        lines.append(f"| {' | '.join((task, way, *cells))} |")
    return "\n".join(lines)


def mean_and_error(values: list[float]) -> str:
    """A mean with its standard error; fewer than two values themselves."""
    if len(values) < 2:
        return ", ".join(f"{value:.0f}" for value in values)
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):.0f} ± {error:.0f}"


if __name__ == "__main__":
    main()
