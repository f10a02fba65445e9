"""Trading beside others' environments and learners: ``python benchmarks/trading_peers.py PEERS``.

PEERS is where ``pip install --no-deps --target PEERS stable-baselines3==2.9.2 finrl==0.3.7
elegantrl==0.3.6`` has put them. ``--speed``: steps a second of one thread, by processor time, of
each environment on its own terms over equal numbers of stocks and days. ``--learn``: PPO of
Stable-Baselines3 and of hpcpod with equal hyperparameters on the same environment, judged on the
holdouts of fresh markets.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from trading import ENVS, MARKETS, PPO, PROOFS, TASK, market_of, portfolios, told, trained

from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.task import task_of

DAYS = 500


def rate(step: Callable[[], object], portfolios: int) -> float:
    """Steps of a portfolio a second of processor time, the best of three."""
    best = 0.0
    for _ in range(3):
        began, calls = time.process_time(), 0
        while time.process_time() - began < 1.0:
            step()
            calls += 1
        best = max(best, calls * portfolios / (time.process_time() - began))
    return best


def module(peers: Path, path: str) -> ModuleType:
    """A file of a package, without what the package's ``__init__`` imports."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, peers / path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def bars(stocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Closes [DAYS, stocks], and eight numbers of each, [DAYS, 8 * stocks]."""
    draw = np.random.default_rng(0)
    close = 50 * np.exp(np.cumsum(0.01 * draw.standard_normal((DAYS, stocks)), axis=0))
    return close, draw.standard_normal((DAYS, 8 * stocks))


def finrl_pandas(peers: Path, stocks: int) -> Callable[[], object]:
    """``StockTradingEnv``, as its tutorials make it."""
    import pandas as pd

    env_of = module(peers, "finrl/meta/env_stock_trading/env_stocktrading.py").StockTradingEnv
    close, tech = bars(stocks)
    names = [f"tech_{i}" for i in range(8)]
    day = np.repeat(np.arange(DAYS), stocks)
    frame = pd.DataFrame(tech.reshape(-1, 8), columns=names, index=day)
    frame["date"] = (np.datetime64("2020-01-01") + day).astype(str)
    frame["tic"] = np.tile([f"S{i:03d}" for i in range(stocks)], DAYS)
    frame["close"], frame["turbulence"] = close.ravel(), 0.0
    env = env_of(
        df=frame, stock_dim=stocks, hmax=100, initial_amount=1_000_000,
        num_stock_shares=[0] * stocks, buy_cost_pct=[0.001] * stocks,
        sell_cost_pct=[0.001] * stocks, reward_scaling=1e-4, state_space=1 + 10 * stocks,
        action_space=stocks, tech_indicator_list=names, turbulence_threshold=70,
        print_verbosity=10**9,
    )  # fmt: skip
    return gymnasium_steps(env, stocks)


def finrl_numpy(peers: Path, stocks: int) -> Callable[[], object]:
    env_of = module(peers, "finrl/meta/env_stock_trading/env_stocktrading_np.py").StockTradingEnv
    close, tech = bars(stocks)
    arrays = {"price_array": close, "tech_array": tech, "turbulence_array": np.zeros(DAYS)}
    return gymnasium_steps(env_of({**arrays, "if_train": True}), stocks)


def gymnasium_steps(env: Any, stocks: int) -> Callable[[], object]:
    actions = np.random.default_rng(1).uniform(-1, 1, (8, stocks)).astype(np.float32)
    calls = 0
    env.reset()

    def step() -> None:
        nonlocal calls
        calls += 1
        if env.step(actions[calls % 8])[2]:
            env.reset()

    return step


def stepping(env: Any, actions: Sequence[torch.Tensor]) -> Callable[[], None]:
    """A step by the next of some actions, over and over."""
    turns = itertools.cycle(actions)
    return lambda: env.step(next(turns))


def elegantrl(peers: Path, stocks: int, portfolios: int) -> Callable[[], object]:
    """``StockTradingVecEnv`` over our bars: it reads a file of that name and place."""
    close, tech = bars(stocks)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("elegantrl/envs").mkdir(parents=True)
            np.savez("elegantrl/envs/China_A_shares.numpy.npz", close_ary=close, tech_ary=tech)
            env_of = module(peers, "elegantrl/envs/StockTradingEnv.py").StockTradingVecEnv
            env = env_of(num_envs=portfolios, gpu_id=-1, end_idx=DAYS)
        finally:
            os.chdir(here)
    env.reset()
    actions = [torch.rand(portfolios, stocks) * 2 - 1 for _ in range(8)]
    return stepping(env, actions)


def ours(stocks: int, count: int) -> Callable[[], object]:
    env, actions = portfolios(stocks, count)
    return stepping(env, actions)


def speed(peers: Path) -> None:
    for stocks in (30, 100):
        rows: list[tuple[str, int, Callable[[], Callable[[], object]]]] = [
            ("hpcpod", 1024, lambda: ours(stocks, 1024)),  # noqa: B023 (called at once)
            ("hpcpod", 1, lambda: ours(stocks, 1)),  # noqa: B023
            ("ElegantRL, batched", 1024, lambda: elegantrl(peers, stocks, 1024)),  # noqa: B023
            ("FinRL, numpy", 1, lambda: finrl_numpy(peers, stocks)),  # noqa: B023
            ("FinRL, pandas", 1, lambda: finrl_pandas(peers, stocks)),  # noqa: B023
        ]
        for name, count, make in rows:
            found = rate(make(), count)
            print(f"{stocks:3} stocks, {count:5,} at once: {name:18} {found:12,.0f} steps/s")


def sb3_policy(kwargs: dict[str, Any], env_steps: int, seed: int) -> Callable[..., Any]:
    """Train Stable-Baselines3's PPO with ``PPO`` by its names; the policy as a backtest's agent."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.vec_env import VecNormalize
    from trading_sb3 import Adapter

    env = VecNormalize(
        Adapter(TradingVecEnv("trading", ENVS, kwargs=kwargs), seed), gamma=PPO["gamma"]
    )
    model = sb3.PPO(
        "MlpPolicy", env, seed=seed, device="cpu", learning_rate=PPO["learning_rate"],
        n_steps=PPO["horizon"], batch_size=PPO["minibatch_size"], n_epochs=PPO.get("epochs", 10),
        gamma=PPO["gamma"], gae_lambda=PPO.get("gae_lambda", 0.95),
        policy_kwargs={"log_std_init": PPO.get("log_std_init", 0.0)},
    )  # fmt: skip
    model.learn(env_steps)

    def agent(obs: torch.Tensor) -> torch.Tensor:
        action, _ = model.predict(env.normalize_obs(obs.numpy()), deterministic=True)
        return torch.from_numpy(action)

    return agent


def learn(env_steps: int, seeds: int, markets: int) -> None:
    alpha, seen = PROOFS["planted"]
    for seed in range(1, seeds + 1):
        kwargs = {**TASK, "features": seen, "market": market_of(alpha, MARKETS, 100 * seed)}
        fresh = market_of(alpha, markets, 100_000 + 1000 * seed)
        task = task_of("trading", {**kwargs, "market": fresh})
        for name, train in (("hpcpod's PPO", trained), ("SB3's PPO", sb3_policy)):
            began = time.process_time()
            agent = train(kwargs, env_steps, seed)
            spent = time.process_time() - began
            print(f"{name:13} seed {seed}: {told(task, agent)}; {spent:.0f} core s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("peers", type=Path, help="the folder with their packages")
    parser.add_argument("--speed", action="store_true", help="the speed alone")
    parser.add_argument("--learn", action="store_true", help="the learners alone")
    parser.add_argument("--steps", type=int, default=400_000, help="of a training (400,000)")
    parser.add_argument("--seeds", type=int, default=3, help="1 to this number (default: 3)")
    parser.add_argument("--markets", type=int, default=24, help="fresh ones (default: 24)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)  # of ElegantRL's, about functorch
    peers = options.peers.resolve()
    sys.path.append(str(peers))
    if options.speed or not options.learn:
        speed(peers)
    if options.learn or not options.speed:
        learn(options.steps, options.seeds, options.markets)


if __name__ == "__main__":
    main()
