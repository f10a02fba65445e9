"""Trading: speed, and three proofs: ``python benchmarks/trading.py``, in about ten minutes.

``--speed``: environment steps a second of one thread, by processor time, 8 features a stock.
``--proofs``: PPO alone, trained on several markets and judged on fresh ones beside buy-and-hold: a
market with a planted signal (it must be ahead by its interval), one without (it must not), and one
without whose next return is leaked as a feature (it must be ahead by far, within minutes).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import torch

from hpcpod.api import train_config
from hpcpod.config.loader import from_mapping
from hpcpod.envs.vec_env import random_seeds
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.holdout import RIVAL, agent_of, judge
from hpcpod.trading.task import task_of

EIGHT = ["return_1", "return_5", "return_30", "sma_30", "percent_b", "rsi_30", "cci_30", "macd"]
MARKET = {"stocks": 4, "days": 250, "minutes": 39, "leak": 10}
TASK: dict[str, Any] = {"stride": 10, "sessions": 10, "fee_bps": 10.0}
PROOFS: Mapping[str, tuple[float, list[str]]] = {
    "planted": (1.0, ["signal", "return_1", "return_5"]),
    "null": (0.0, ["signal", "return_1", "return_5"]),
    "oracle": (0.0, ["tomorrow", "return_1", "return_5"]),
}
"""Alpha of the market, and what the policy sees."""


def speed() -> None:
    for stocks in (30, 100):
        market = {"stocks": stocks, "days": 40}
        kwargs = {"market": market, "embargo": 1, "features": EIGHT, "sessions": 1}
        env = TradingVecEnv("trading", 1024, kwargs=kwargs)
        env.reset(random_seeds("speed", count=1024))
        actions = [torch.rand(1024, stocks) * 2 - 1 for _ in range(8)]
        best, steps = 0.0, 24_000 // stocks
        for _ in range(3):
            began = time.process_time()
            for i in range(steps):
                env.step(actions[i % 8])
            best = max(best, 1024 * steps / (time.process_time() - began))
        print(f"{stocks} stocks, 1,024 environments: {best:,.0f} steps/s, the best of three")


def proof(name: str, env_steps: int, seed: int, markets: int) -> None:
    alpha, features = PROOFS[name]
    market = {**MARKET, "alpha": alpha, "markets": 8, "seed": 100 * seed}
    given = {**TASK, "features": features}
    config = from_mapping(
        {
            "name": name,
            "env": {"id": "trading", "backend": "trading", "num_envs": 64,
                    "kwargs": {**given, "market": market}},
            "pod": {"evaluator": "trading"},
            "population": {"algorithms": {"ppo": 1}},
            "round": {"env_steps": env_steps // 8, "episodes": 64},
            "agents": {"ppo": {"gamma": 0.9, "horizon": 64, "learning_rate": 1e-3}},
            "seed": seed,
        }
    )  # fmt: skip
    began = time.perf_counter()
    policy = train_config(config, env_steps=env_steps).policy
    spent = time.perf_counter() - began
    fresh = {**MARKET, "alpha": alpha, "markets": markets, "seed": 100_000 + 1000 * seed}
    told = judge(task_of("trading", {**given, "market": fresh}), {"ppo": agent_of(policy)})
    rival = next(row for row in told.rows if row.name == RIVAL)
    print(
        f"{name:8} seed {seed}: {rival.ahead:+7.2f} [{rival.low:+.2f}, {rival.high:+.2f}] bp a day"
        f" against buy-and-hold, Sharpe {told.rows[0].sharpe:.2f} ± {told.rows[0].sharpe_error:.2f}"
        f" and {rival.sharpe:.2f}, {'edge' if told.edge else 'no edge'}; trained in {spent:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--speed", action="store_true", help="the speed alone")
    parser.add_argument("--proofs", action="store_true", help="the proofs alone")
    parser.add_argument("--steps", type=int, default=400_000, help="of a training (400,000)")
    parser.add_argument("--seeds", type=int, default=3, help="1 to this number (default: 3)")
    parser.add_argument("--markets", type=int, default=12, help="fresh ones (default: 12)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.speed or not options.proofs:
        speed()
    if options.proofs or not options.speed:
        for name in PROOFS:
            for seed in range(1, options.seeds + 1):
                proof(name, options.steps, seed, options.markets)


if __name__ == "__main__":
    main()
