"""Ensembles beside their best member: ``python benchmarks/ensembles.py RUN``, in a minute.

A finished run's best policy, the first rows of its leaderboard and of each of its algorithms, and
the ensembles of each of these groups, by every rule that fits. All play the same fresh episodes, in
the environment that the run trains in. A difference is that of paired returns to the run's best
policy, which was chosen before, on other seeds. Nothing is chosen here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing

import torch
from torch import Tensor

import hpcpod
from hpcpod.pod.ensemble import ensemble_of, rules_for
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.numerics import numerics
from hpcpod.pod.policy import Policy
from hpcpod.run.run import Run
from hpcpod.tournament.statistics import Returns, interval, mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a finished run's folder or name")
    parser.add_argument("--top", type=int, default=3, help="members of an ensemble at most")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0, help="of the episodes")
    options = parser.parse_args()
    run = hpcpod.open_run(options.run)
    config = run.folder.resolved.config
    print("| policy | return, 95 % | minus the best's, 95 % |")
    print("|---|---|---|")
    with numerics(config), closing(PanelEvaluator(EnvFactory(config.env, "cpu"))) as evaluator:
        best: Returns | None = None
        for name, policy in policies(run, options.top):
            panel = "benchmarks/ensembles", options.seed
            returns = evaluator.evaluate(policy.agent, *panel, episodes=options.episodes)
            best = best or returns
            gaps = [a - b for a, b in zip(returns, best, strict=True)]
            apart = words(gaps) if any(gaps) else "0"
            print(f"| {name} | {words(returns)} | {apart} |", flush=True)


def policies(run: Run, top: int) -> Iterator[tuple[str, Policy]]:
    """The run's best, the first rows, one of each pod, then the ensembles."""
    best = run.best()
    rows = list({row.pod: row for row in run.leaderboard()}.values())
    rows.sort(key=lambda row: best is None or row.pod != best.pod)
    groups = {"all": rows[:top]}
    for algorithm in dict.fromkeys(row.algorithm for row in rows):
        groups[algorithm] = [row for row in rows if row.algorithm == algorithm][:top]
    members = {row.pod: hpcpod.load_policy(run, pod=row.pod) for row in rows}
    shown = {row.pod: row for group in groups.values() for row in group}
    for pod, row in shown.items():
        yield f"{pod}, {row.algorithm}", members[pod]
    tried: list[list[str]] = []
    for name, group in groups.items():
        pods = [row.pod for row in group]
        if pods in tried:
            continue
        tried.append(pods)
        for rule in rules_for([members[pod] for pod in pods]):
            joined = ensemble_of([members[pod] for pod in pods], rule)
            yield f"{rule} of {name}: {' '.join(pods)}", joined
            if rule == "mean" and len(pods) > 2:
                median = Policy(Median([members[pod] for pod in pods]), joined.spec, {})
                yield f"(median of {name}: {' '.join(pods)})", median


class Median:
    """The median of each number of the members' actions: no rule of hpcpod's, to show why."""

    def __init__(self, members: list[Policy]) -> None:
        self._members = members

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        actions = [member.agent.act(obs, explore=explore) for member in self._members]
        return torch.stack(actions).quantile(0.5, dim=0)


def words(returns: Returns) -> str:
    """A mean with its interval."""
    low, high = interval(returns)
    return f"{mean(returns):.1f} [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    main()
