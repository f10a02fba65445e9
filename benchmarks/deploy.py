"""Exported policies: ``python benchmarks/deploy.py``, in about two minutes.

Times of one action at batch 1 of a network of 2 x 256 that observes 105 numbers and acts by 8, as
Ant's: by ONNX Runtime, by the NumPy reader, by hpcpod's own policy with torch. All in one process
and one thread, in turns, so that a busy neighbour meets all of them; medians of turns, by the clock
and of the processor. Then the seconds of an export, from a policy to a checked folder, and how
often ``play.check_score`` refuses a true export.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpcpod._student_t import t_quantile
from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.checks import Differs, onnx_policy
from hpcpod.deploy.export import export_policy
from hpcpod.deploy.numpy_policy import Policy as NumpyPolicy
from hpcpod.deploy.play import check_score
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import Box, EnvSpec
from hpcpod.pod.factory import make_agent
from hpcpod.pod.policy import Policy, policy_meta

TURNS, CALLS = 40, 200


def wide(agent: str) -> Policy:
    """A policy of 105 numbers in, 2 x 256 units, 8 numbers out."""
    spec = EnvSpec(
        "Wide-v0", Box((105,), -np.inf, np.inf), Box((8,), -1.0, 1.0), 1, "cpu", None, "",
        (-1.0, 1.0),
    )  # fmt: skip
    given: dict[str, Any] = {"hidden": 256, "normalize_obs": True}
    return Policy(make_agent(agent, spec, given, 0, "cpu"), spec, {})


def acting() -> dict[str, list[tuple[float, float]]]:
    """Microseconds of one action, by turn: by the clock, and of the processor."""
    obs = np.random.default_rng(0).normal(size=105).astype(np.float32)
    calls: dict[str, Callable[[], object]] = {}
    for agent in ("ppo", "sac"):
        policy = wide(agent)
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home) / "policy"
            export_policy(policy, folder)
            session = onnx_policy((folder / "policy.onnx").read_bytes())
            reader = NumpyPolicy(folder / "policy.h5")
        calls |= {
            f"{agent}, ONNX Runtime": partial(session, {"observation": obs[None]}),
            f"{agent}, policy.py": partial(reader, obs),
            f"{agent}, hpcpod with torch": partial(policy, obs),
        }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            call()
            begun = time.perf_counter(), time.process_time()
            for _ in range(CALLS):
                call()
            ended = time.perf_counter(), time.process_time()
            wall, processor = ((b - a) / CALLS * 1e6 for a, b in zip(begun, ended, strict=True))
            times[name].append((wall, processor))
    return times


def exporting() -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of whole exports, the process's children left out."""
    found = {}
    for agent, env_id in (("ppo", "CartPole-v1"), ("sac", "Pendulum-v1")):
        env = make_env(env_id, 1)
        about = policy_meta(env.spec, EnvConfig(env_id), agent, {})
        policy = Policy(make_agent(agent, env.spec, {}, 0, "cpu"), env.spec, about)
        with tempfile.TemporaryDirectory() as home:
            begun = time.perf_counter(), time.process_time()
            export_policy(policy, Path(home) / "policy")
            ended = time.perf_counter(), time.process_time()
        found[f"{agent} {env_id}"] = (ended[0] - begun[0], ended[1] - begun[1])
    return found


SHAPES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "minus exponential": lambda rng, n: -rng.exponential(size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "fails in 1 %": lambda rng, n: -1.0 * (rng.random(n) < 0.01),
    "fails in 20 %": lambda rng, n: -1.0 * (rng.random(n) < 0.2),
    "succeeds in 2 %": lambda rng, n: 1.0 * (rng.random(n) < 0.02),
}
"""Returns of which one policy could be."""


def false_refusals(tries: int) -> dict[tuple[str, int], float]:
    """Share of true exports that the rule refuses, by returns and episodes of the run's score."""
    found = {}
    for name, draw in SHAPES.items():
        for episodes in (8, 32, 128):
            rng, refused = np.random.default_rng(0), 0
            for _ in range(tries):
                of_run, own = draw(rng, episodes), draw(rng, min(16, episodes))
                half = t_quantile(0.975, episodes - 1) * of_run.std(ddof=1) / episodes**0.5
                mean = float(of_run.mean())
                score = {"mean": mean, "low": mean - half, "high": mean + half}
                try:
                    check_score(tuple(own.tolist()), {**score, "episodes": episodes})
                except Differs:
                    refused += 1
            found[name, episodes] = refused / tries
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tries", type=int, default=10_000, help="exports per kind of returns")
    given = options.parse_args()
    torch.set_num_threads(1)
    print(
        "| one action, 105 - 2 x 256 - 8 | median | processor | fastest turn |\n|---|---|---|---|"
    )
    for name, turns in acting().items():
        wall, processor = (statistics.median(column) for column in zip(*turns, strict=True))
        print(f"| {name} | {wall:.0f} µs | {processor:.0f} µs | {min(turns)[0]:.0f} µs |")
    print("\n| export | wall | processor |\n|---|---|---|")
    for name, (wall, processor) in exporting().items():
        print(f"| {name} | {wall:.1f} s | {processor:.1f} s |")
    print(
        f"\n| true exports refused, of {given.tries} | 8 episodes | 32 | 128 |\n|---|---|---|---|"
    )
    rates = false_refusals(given.tries)
    for name in SHAPES:
        print(f"| {name} | " + " | ".join(f"{rates[name, n]:.2%}" for n in (8, 32, 128)) + " |")


if __name__ == "__main__":
    main()
