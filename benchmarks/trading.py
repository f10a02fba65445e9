"""Trading: speed, memory, and three proofs: ``python benchmarks/trading.py``.

``--speed``: environment steps a second of one thread, by processor time, 8 features a stock, and
what a process holds with one portfolio and with many. ``--features``: seconds and memory of the
features of 100 stocks over five years of minutes. ``--proofs``: PPO alone, trained on several
markets and judged on fresh ones beside buy-and-hold: a market with a planted signal (it must be
ahead by its interval), one without (it must not), and one without whose next return is leaked as a
feature (it must be ahead by far, within minutes). ``--shuffled``: the planted one, so, too, beside
the same agent on shuffled days. ``--null``: how often policies without skill are said to have an
edge, where the market rises, stays or falls. ``--scores``: how often the interval of a pod's score
holds what it would return on other days.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpcpod.api import train_config
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.vec_env import random_seeds
from hpcpod.pod.evaluator import play, scored
from hpcpod.pod.factory import EnvFactory
from hpcpod.tournament.statistics import interval
from hpcpod.trading.backtest import Agent, at_random, backtest, cash, hold
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.evaluator import SelectionEvaluator
from hpcpod.trading.features import compute
from hpcpod.trading.holdout import agent_of, judge
from hpcpod.trading.metrics import paired_bootstrap
from hpcpod.trading.panel import MarketPanel, SourceCard
from hpcpod.trading.synthetic import weekdays
from hpcpod.trading.task import Task, task_of
from hpcpod.trading.verdict import CASH, RIVAL

EIGHT = ["return_1", "return_5", "return_30", "sma_30", "percent_b", "rsi_30", "cci_30", "macd"]
MARKET = {"stocks": 4, "days": 250, "minutes": 39, "leak": 10}
TASK: dict[str, Any] = {"stride": 10, "sessions": 10, "fee_bps": 10.0}
ENVS, MARKETS = 256, 8
"""Portfolios, and markets, of a training."""
PPO: dict[str, Any] = {"gamma": 0.9, "horizon": 16, "learning_rate": 1e-3, "minibatch_size": 2048}
PROOFS: Mapping[str, tuple[float, list[str]]] = {
    "planted": (1.0, ["signal", "return_1", "return_5"]),
    "null": (0.0, ["signal", "return_1", "return_5"]),
    "oracle": (0.0, ["tomorrow", "return_1", "return_5"]),
}
"""Alpha of the market, and what the policy sees."""
DAILY: Mapping[str, Any] = {"stride": 2, "fill": "close", "sessions": 40}
"""One decision a day, at the first of two bars, filled at the end of the second: nothing of what is
earned lies within the day of the decision."""
GIB = 2**30


def speed() -> None:
    for stocks in (30, 100):
        env, actions = portfolios(stocks, 1024)
        best, steps = 0.0, 24_000 // stocks
        for _ in range(3):
            began = time.process_time()
            for i in range(steps):
                env.step(actions[i % 8])
            best = max(best, 1024 * steps / (time.process_time() - began))
        print(f"{stocks} stocks, 1,024 portfolios: {best:,.0f} steps/s, the best of three")
    for count in (1, 64, 1024, 8192):
        code = f"import trading; trading.memory({count})"
        subprocess.run([sys.executable, "-c", code], cwd=sys.path[0], check=True)


def memory(count: int) -> None:
    """In a process of its own: what it holds with so many portfolios of 100 stocks."""
    one, _ = portfolios(100, 1)
    market = resident()
    env, actions = portfolios(100, count)  # the same market, whose tables both share
    for action in actions:
        step = env.step(action)
    mib, numbers = 1024 * (resident() - market), step.obs.nbytes / 2**20
    print(
        f"100 stocks, {count:,} portfolios: {mib:.0f} MiB beside the {1024 * market:.0f} of torch"
        f" and the market; an observation and a set of actions of all are {numbers:.0f} MiB and"
        f" {actions[0].nbytes / 2**20:.1f} MiB"
    )
    assert one.spec.num_envs == 1  # it lives until here


def portfolios(
    stocks: int, count: int, device: str = "cpu"
) -> tuple[TradingVecEnv, list[torch.Tensor]]:
    """An environment that has begun, and actions for it."""
    market = {"stocks": stocks, "days": 40}
    kwargs = {"market": market, "embargo": 1, "features": EIGHT, "sessions": 1}
    env = TradingVecEnv("trading", count, device, kwargs=kwargs)
    env.reset(random_seeds("speed", count=count))
    return env, [torch.rand(count, stocks, device=device) * 2 - 1 for _ in range(8)]


def resident() -> float:
    """The memory that this process holds now, in GiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / GIB


def peak() -> float:
    """The most memory that this process has held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def features(gaps: bool) -> None:
    """In a process of its own: seconds and memory of ``EIGHT``."""
    panel = minutes(100, 5 * 252, gaps)
    held, began, spent = peak(), time.perf_counter(), time.process_time()
    found = compute(panel, EIGHT)
    wall, spent = time.perf_counter() - began, time.process_time() - spent
    print(
        f"features {list(found.shape)}, {'a bar in 100 missing' if gaps else 'no bar missing'}:"
        f" {spent:.0f} core s ({wall:.0f} s), {peak():.2f} GiB at most, of which the panel has"
        f" {held:.2f} and the result {found.nbytes / GIB:.2f}"
    )


def minutes(stocks: int, days: int, gaps: bool) -> MarketPanel:
    """A random walk in minute bars, made in little more memory than it takes."""
    draw = np.random.default_rng(0)
    shape = (390 * days, stocks)
    close = draw.standard_normal(shape)
    close *= 5e-4
    np.exp(np.cumsum(close, axis=0, out=close), out=close)
    close *= 50
    if gaps:
        for stock in range(stocks):
            close[draw.random(len(close)) < 0.01, stock] = np.nan
    opened, high, low = close.copy(), close * 1.0005, close * 0.9995
    opened[1:] = close[:-1]
    sessions = np.repeat(np.arange(days), 390)
    dates = weekdays(np.datetime64("2015-01-05"), days)
    times = dates[sessions].astype("datetime64[s]")
    times = times + (np.arange(len(sessions)) % 390 * 60).astype("timedelta64[s]")
    volume = draw.random(shape)
    volume *= 1e6
    return MarketPanel(
        tuple(f"S{i:03d}" for i in range(stocks)), times, sessions, dates, opened, high, low, close,
        volume, np.ones(shape, bool), SourceCard("a random walk", "none", "none"),
    )  # fmt: skip


def proof(name: str, env_steps: int, seed: int, markets: int) -> None:
    alpha, seen = PROOFS[name]
    kwargs = {**TASK, "features": seen, "market": market_of(alpha, MARKETS, 100 * seed)}
    proved(f"{name:8} seed {seed}", kwargs, env_steps, seed, markets)


def proved(name: str, kwargs: Mapping[str, Any], env_steps: int, seed: int, markets: int) -> None:
    """Train one PPO on the market of these ``env.kwargs``, and judge it on fresh ones."""
    began, spent = time.perf_counter(), time.process_time()
    agent = trained(kwargs, env_steps, seed)
    wall, spent = time.perf_counter() - began, time.process_time() - spent
    fresh = {**kwargs["market"], "markets": markets, "seed": 100_000 + 1000 * seed}
    said = told(task_of("trading", {**kwargs, "market": fresh}), agent)
    print(f"{name}: {said}; trained in {spent:.0f} core s ({wall:.0f} s)", flush=True)


def shuffled(env_steps: int, seed: int, markets: int) -> None:
    """The planted market with its days in order and in another one, at several decisions a day and
    at one."""
    alpha, seen = PROOFS["planted"]
    market = market_of(alpha, MARKETS, 100 * seed)
    daily = {**DAILY, "market": {**market, "minutes": 2, "days": 1000, "leak": None}}
    for often, given in (("four decisions a day", {"market": market}), ("one", daily)):
        for order in (None, seed):
            kwargs = {**TASK, "features": seen, **given, "shuffle": order}
            name = f"{often}, days {'in order' if order is None else 'shuffled'}, seed {seed}"
            proved(name, kwargs, env_steps, seed, markets)


def market_of(alpha: float, markets: int, seed: int) -> dict[str, Any]:
    """Synthetic markets; those of other seeds are others."""
    return {**MARKET, "alpha": alpha, "markets": markets, "seed": seed}


def trained(kwargs: Mapping[str, Any], env_steps: int, seed: int) -> Agent:
    """One PPO, trained on the fit part."""
    config = from_mapping(
        {
            "name": "alone",
            "env": {"id": "trading", "backend": "trading", "num_envs": ENVS, "kwargs": kwargs},
            "pod": {"evaluator": "trading"},
            "population": {"algorithms": {"ppo": 1}},
            "round": {"env_steps": env_steps // 8, "episodes": 64},
            "agents": {"ppo": PPO},
            "seed": seed,
        }
    )
    return agent_of(train_config(config, env_steps=env_steps).policy)


def told(task: Task, *agents: Agent) -> str:
    """The verdict on agents, as one ensemble, on the holdouts of a task."""
    found = judge(task, {str(i): agent for i, agent in enumerate(agents)})
    own, rival, cash = found.rows[0], found.row(RIVAL), found.row(CASH)
    return (
        f"{rival.ahead:+7.2f} [{rival.low:+.2f}, {rival.high:+.2f}] bp a day against buy-and-hold,"
        f" {cash.ahead:+.2f} [{cash.low:+.2f}, {cash.high:+.2f}] against cash,"
        f" Sharpe {own.sharpe:.2f} ± {own.sharpe_error:.2f} and {rival.sharpe:.2f} ±"
        f" {rival.sharpe_error:.2f}, turnover {own.turnover:.1f} a day:"
        f" {'edge' if found.edge else 'no edge'}"
    )


def null(fee_bps: float, drift: float, markets: int) -> None:
    """Policies without skill on the holdouts of markets without a signal: those that are ahead of
    buy-and-hold, and those that are said to have an edge."""
    count: dict[str, list[int]] = {}
    for seed in range(markets):
        given = {"stocks": 4, "days": 250, "minutes": 7, "seed": 3000 + seed, "alpha": 0.0}
        task = task_of("trading", {
            "market": {**given, "drift": drift}, "stride": 3, "features": ["signal", "return_1"],
            "part": "holdout", "fee_bps": fee_bps, "lot": 0,
        })  # fmt: skip
        blind = {f"untrained {i}": untrained(100 * seed + i) for i in range(8)}
        rules = {f"random {i}": at_random(seed + 5000 * i) for i in range(2)}
        [tests] = backtest(task, {**blind, **rules, CASH: cash, RIVAL: hold}, frozenset(blind))
        *ours, rival = tests
        for each in ours:
            low, over_cash = (
                paired_bootstrap(each.moves, other.moves)[1] for other in (rival, ours[-1])
            )
            row = count.setdefault(each.name.split()[0], [0, 0, 0])
            row[:] = row[0] + (low > 0), row[1] + (low > 0 and over_cash > 0), row[2] + 1
    for kind, (ahead, edges, of) in count.items():
        print(f"null, fee {fee_bps:g} bp, drift {drift:+g}, {kind:9} ahead of buy-and-hold {ahead},"
              f" edge {edges} of {of}", flush=True)  # fmt: skip


def scores(sessions: int, markets: int) -> None:
    """Intervals of 95 % of the score of one who holds all stocks, each of one market's selection
    part: those that hold the mean over all these markets. As a run's evaluator gives them, and of
    64 windows that are drawn with repeats."""
    once, drawn = [], []
    for seed in range(markets):
        market = {"stocks": 4, "days": 250, "minutes": 13, "seed": 1000 + seed}
        kwargs = {"market": market, "features": ["signal"], "stride": 3, "sessions": sessions}
        config = EnvConfig("trading", backend="trading", kwargs=kwargs)
        evaluator = SelectionEvaluator(EnvFactory(config, "cpu"))
        once.append(scored(evaluator, Holder(), seed, episodes=64))
        seeds = random_seeds(seed, count=64)
        drawn.append(play(evaluator.env(64), Holder(), seeds, longest=1000))
        evaluator.close()
    truth = float(np.mean([np.mean(each) for each in once]))
    for name, panels in (("each once", once), ("with repeats", drawn)):
        found = [interval(each) for each in panels]
        held = sum(low <= truth <= high for low, high in found)
        print(f"{len(once[0])} windows of {sessions} sessions, {name}: {held} of {markets} hold it,"
              f" width {np.mean([high - low for low, high in found]):.2f}", flush=True)  # fmt: skip


class Holder:
    """An agent that has equal parts in all stocks."""

    def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
        """See ``Acting``."""
        return torch.ones(len(obs), 4)


def untrained(seed: int) -> Agent:
    """A random linear map of the 18 numbers that are seen to the 4 stocks."""
    weights = 3 * torch.randn(18, 4, generator=torch.Generator().manual_seed(seed))
    return lambda obs: (obs @ weights).tanh()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--speed", action="store_true", help="the speed alone")
    parser.add_argument("--features", action="store_true", help="the features alone")
    parser.add_argument("--proofs", action="store_true", help="the proofs alone")
    parser.add_argument("--steps", type=int, default=400_000, help="of a training (400,000)")
    parser.add_argument("--seeds", type=int, default=3, help="as many (default: 3)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--markets", type=int, default=24, help="fresh ones (default: 24)")
    parser.add_argument("--shuffled", action="store_true", help="shuffled days alone")
    parser.add_argument("--null", action="store_true", help="policies without skill alone")
    parser.add_argument("--scores", action="store_true", help="intervals of scores alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    alone = ("speed", "features", "proofs", "shuffled", "null", "scores")
    every = not any(getattr(options, name) for name in alone)
    for sessions in (10, 5, 2) if options.scores or every else ():
        scores(sessions, 200)
    for fee, drift in product((0.0, 10.0), (1.0, 0.0, -1.0)) if options.null or every else ():
        null(fee, drift, 120)
    if options.speed or every:
        speed()
    for gaps in (False, True) if options.features or every else ():
        code = f"import trading; trading.features({gaps})"
        subprocess.run([sys.executable, "-c", code], cwd=sys.path[0], check=True)
    seeds = range(options.first, options.first + options.seeds)
    for name in PROOFS if options.proofs or every else ():
        for seed in seeds:
            proof(name, options.steps, seed, options.markets)
    for seed in seeds if options.shuffled or every else ():
        shuffled(options.steps, seed, options.markets)


if __name__ == "__main__":
    main()
