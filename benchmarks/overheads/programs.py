"""hpcpod's tournament of a program, as a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import hpcpod
from overheads.gaps import gaps_of
from overheads.population import EPISODES, PODS


def main() -> None:
    folder, rounds = sys.argv[1], int(sys.argv[2])
    log = Path(folder, "steps.jsonl")
    trainee = Path(__file__).with_name("trainee.py")
    config = {
        "name": "ours",
        "program": {"command": [sys.executable, str(trainee), str(log), *sys.argv[3:]],
                    "search": {"rate": {"log_uniform": [1e-5, 1e-2]}}},
        "population": {
            "pods": {"min": PODS, "max": PODS}, "controls": 0, "updater": "ranking",
            "generator": "ranking", "allocator": "fair",
        },
        "round": {"env_steps": 100, "episodes": EPISODES},
        "stop": {"env_steps": PODS * rounds * 100},
        "cluster": {"slots": 1},
    }  # fmt: skip
    hpcpod.launch(config, runs=folder, progress=False).wait(timeout=600, poll=0.5, progress=False)
    print(json.dumps(gaps_of(log)))


if __name__ == "__main__":
    main()
