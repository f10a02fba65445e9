"""hpcpod's tournament, with its ranking updater and generator, as a process of its own."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import hpcpod
from overheads.population import EPISODES, HIDDEN, PODS, ROUND


def main() -> None:
    folder, rounds = sys.argv[1], int(sys.argv[2])
    config = {
        "name": "ours",
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "population": {
            "pods": {"min": PODS, "max": PODS}, "controls": 0, "updater": "ranking",
            "generator": "ranking", "allocator": "fair",
        },
        "round": {"env_steps": ROUND, "episodes": EPISODES},
        "agents": {
            "ppo": {"hidden": HIDDEN, "horizon": 32, "learning_rate": {"log_uniform": [1e-5, 1e-2]}}
        },
        "stop": {"env_steps": PODS * rounds * ROUND, "finalists": 1, "confirm_episodes": 2},
        "cluster": {"slots": 1},
    }  # fmt: skip
    run = hpcpod.launch(config, runs=folder, progress=False)
    run.wait(timeout=600, poll=0.5, progress=False)
    told = []
    for path in Path(run.path, "reports").rglob("p*.json"):
        report = run.folder.reports.read(path.stem)
        if report is not None and report.checkpoint is not None:
            told.append((path.stat().st_mtime, report))
    told.sort(key=lambda each: each[0])
    gaps: dict[str, list[float]] = {"on": [], "copied": []}
    for (before, _), (after, report) in itertools.pairwise(told):
        kind = "copied" if report.inherited_returns else "on"
        gaps[kind].append(after - before - report.train_seconds - report.evaluate_seconds)
    first = told[0][0] - told[0][1].train_seconds - told[0][1].evaluate_seconds
    print(json.dumps({"first": first, **gaps}))


if __name__ == "__main__":
    main()
