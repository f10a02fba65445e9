"""A DQN that is taught by a PPO, beside one from scratch: ``python -m benchmarks.distilling``.

For each seed a PPO is trained, then two DQNs of one seed and equally many environment steps: of the
first, the PPO acts in the first of these (``population.start_from.distill``); the other has no
teacher. Each run is one pod, so that nothing is copied. Printed are the means of the panels of each
round, and the policies that the runs deliver, on fresh seeds. What the PPO itself has cost is no
part of the students' steps.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import hpcpod
from hpcpod.run.run import Run


def trained(
    home: Path, name: str, agent: str, seed: int, rounds: int, options: argparse.Namespace,
    **population: Any,
) -> Run:  # fmt: skip
    """A run of one pod, finished."""
    config = {
        "name": f"{name}-{seed}", "seed": seed, "env": {"id": options.env, "num_envs": 8},
        "population": {"algorithms": {agent: 1}, "pods": {"min": 1, "max": 1}, **population},
        "round": {"env_steps": options.round, "episodes": 16},
        "stop": {"rounds": rounds, "finalists": 1, "confirm_episodes": 64},
    }  # fmt: skip
    run = hpcpod.launch(config, runs=home, detach=False)
    status = run.wait()
    assert status.state == "finished", status
    return run


def panels(run: Run) -> list[float]:
    """Mean return of each round's panel, by round."""
    rounds = run.rounds()
    return list(rounds[rounds["purpose"] == "round"].sort_values("round")["mean"])


def delivered(run: Run) -> str:
    best = run.best()
    assert best is not None
    return f"{best.mean:.1f} [{best.low:.1f}, {best.high:.1f}] (round {best.round})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--round", type=int, default=5_000, help="environment steps of a round")
    parser.add_argument("--rounds", type=int, default=6, help="of each DQN")
    parser.add_argument("--teacher-rounds", type=int, default=8, help="of the PPO")
    parser.add_argument("--distill", type=int, default=5_000, help="steps in which the PPO acts")
    options = parser.parse_args()
    rounds = range(1, options.rounds + 1)
    heads = ["seed", "DQN", *(f"{n * options.round:,} steps" for n in rounds), "delivered"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    # a run's coordinator may still be writing its last lines
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for seed in options.seeds:
            ppo = trained(home, "ppo", "ppo", seed, options.teacher_rounds, options)
            start = {"run": str(ppo.path), "distill": options.distill}
            rows = {
                "taught": trained(
                    home, "taught", "dqn", seed, options.rounds, options, start_from=start
                ),
                "from scratch": trained(home, "scratch", "dqn", seed, options.rounds, options),
            }
            for name, run in rows.items():
                shown = " | ".join(f"{each:.1f}" for each in panels(run))
                print(f"| {seed} | {name} | {shown} | {delivered(run)} |", flush=True)
            print(f"| {seed} | (its PPO) |{' |' * options.rounds} {delivered(ppo)} |", flush=True)


if __name__ == "__main__":
    main()
