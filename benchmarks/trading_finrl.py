"""FinRL's environment and agents beside ours: ``python benchmarks/trading_finrl.py PEERS``.

PEERS is where ``pip install --no-deps --target PEERS stable-baselines3==2.9.2 finrl==0.3.7
stockstats==0.6.10`` has put them. ``--parity``: FinRL's ``StockTradingEnv`` and the preset
``finrl_parity`` step by step through equal closes, by equal orders: the largest differences.
``--agents``: FinRL's ``DRLAgent`` trained in its own environment on its own terms, and hpcpod's PPO
in hpcpod's, on the days before the holdout of one daily market with a planted signal, for equal
seconds of processor time; each account is compared with buy-and-hold on the holdout.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from trading import PPO, trained

from hpcpod.trading.backtest import backtest, hold
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.files import write_bars
from hpcpod.trading.metrics import gaps, performance, stationary_bootstrap
from hpcpod.trading.panel import Floats, MarketPanel, SourceCard
from hpcpod.trading.synthetic import SyntheticMarket, weekdays
from hpcpod.trading.task import Task, task_of
from hpcpod.trading.verdict import RIVAL

STOCKS, DAYS = 10, 2000
CAPITAL, COST = 1_000_000, 0.001
FEATURES = ["signal", "macd", "percent_b", "rsi_30", "cci_30", "dx_30", "sma_30", "sma_60"]
"""The signal, and what FinRL's own eight indicators tell."""
TASK: dict[str, Any] = {
    "features": FEATURES, "sessions": 40, "selection": 0.7, "holdout": 0.75, "embargo": 1,
}  # fmt: skip
EQUAL = "hpcpod's PPO, FinRL's account"
OWN: Mapping[str, Any] = {
    "gamma": PPO["gamma"], "learning_rate": PPO["learning_rate"],
    "batch_size": PPO["minibatch_size"], "n_steps": 2048,
}  # fmt: skip
"""hpcpod's hyperparameters of these benchmarks, by the names of Stable-Baselines3."""


def loaded(peers: Path) -> ModuleType:
    """FinRL's agents, without what the ``__init__`` of its packages and its download import."""
    sys.path.append(str(peers))
    for name in ("finrl", "finrl.meta", "finrl.meta.preprocessor", "finrl.agents"):
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(peers / name.replace(".", "/"))]
    download: Any = ModuleType("finrl.meta.preprocessor.yahoodownloader")
    download.YahooDownloader = None
    sys.modules[download.__name__] = download
    return importlib.import_module("finrl.agents.stablebaselines3.models")


def finrl_env(models: ModuleType, frame: Any, names: list[str], capital: int, hmax: int) -> Any:
    """``StockTradingEnv`` as FinRL's tutorials make it, without turbulence."""
    stocks = len(frame.tic.unique())
    return models.StockTradingEnv(
        df=frame, stock_dim=stocks, hmax=hmax, initial_amount=capital,
        num_stock_shares=[0] * stocks, buy_cost_pct=[COST] * stocks, sell_cost_pct=[COST] * stocks,
        reward_scaling=1e-4, state_space=1 + (2 + len(names)) * stocks, action_space=stocks,
        tech_indicator_list=names, print_verbosity=10**9,
    )  # fmt: skip


def frame_of(panel: MarketPanel) -> Any:
    """Bars as FinRL's tables have them."""
    import pandas as pd

    days, stocks = panel.shape
    columns = {name: getattr(panel, name) for name in ("open", "high", "low", "close", "volume")}
    flat = {name: each.ravel() for name, each in {**columns, **panel.extra}.items()}
    date = panel.dates[panel.sessions].astype(str).repeat(stocks)
    return pd.DataFrame({"date": date, "tic": list(panel.tickers) * days, **flat})


def panel_of(close: Floats, **more: Any) -> MarketPanel:
    """A panel of daily bars; ``more`` are its other prices, volume and numbers."""
    days, stocks = close.shape
    dates = weekdays(np.datetime64("2000-01-03"), days)
    given = {"open": close, "high": close, "low": close, "volume": np.full_like(close, 1e6)} | more
    return MarketPanel(
        tuple(f"S{i:02d}" for i in range(stocks)), dates.astype("datetime64[s]"), np.arange(days),
        dates, close=close, member=np.ones(close.shape, bool),
        card=SourceCard("made here", "none", "none"), **given,
    )  # fmt: skip


def daily(seed: int) -> MarketPanel:
    """The days of a synthetic market with a planted signal."""
    panel = SyntheticMarket(stocks=STOCKS, days=DAYS, minutes=13, seed=seed).panel()
    ends = np.flatnonzero(panel.is_last)
    starts = np.append(0, ends[:-1] + 1)
    return panel_of(
        panel.close[ends], open=panel.open[starts], high=np.maximum.reduceat(panel.high, starts),
        low=np.minimum.reduceat(panel.low, starts), volume=np.add.reduceat(panel.volume, starts),
        extra={"signal": panel.extra["signal"][ends]},
    )  # fmt: skip


def orders(draw: np.random.Generator, stocks: int, ties: bool) -> np.ndarray:
    """Actions that are orders of whole shares, float32; without ties no two are equal."""
    whole = draw.choice(np.arange(-60, 100), stocks, replace=ties)
    return np.asarray((whole + 0.5 * np.sign(whole)) / 100, np.float32)


TIES = {"none": "no equal orders", "some": "equal orders", "stable": "equal orders, sorted stably"}
"""Orders of a day that are equal, and FinRL's sort of them."""


@contextlib.contextmanager
def sorting(models: ModuleType, ties: str) -> Iterator[None]:
    """FinRL's environment with a stable ``argsort``, if this is asked for."""
    module: Any = sys.modules[models.StockTradingEnv.__module__]
    numpy: Any = ModuleType("numpy")
    numpy.__dict__.update(np.__dict__)
    if ties == "stable":
        numpy.argsort = partial(np.argsort, kind="stable")
    module.np = numpy
    try:
        yield
    finally:
        module.np = np


def stepped(
    models: ModuleType, stocks: int, capital: int, seed: int, ties: str
) -> tuple[int, int, list[float]]:
    """Steps, those with a buy that cash has cut, and the largest difference of cash, of shares and
    of the value as a share of it."""
    draw = np.random.default_rng([seed, stocks])
    close = 50 * np.exp(np.cumsum(0.01 * draw.standard_normal((500, stocks)), axis=0))
    with tempfile.TemporaryDirectory() as folder:
        write_bars(panel_of(close), Path(folder) / "bars.parquet")
        market = {"source": f"{folder}/bars.parquet", "calendar": None}
        ours = TradingVecEnv("trading", 1, kwargs={
            "market": market, "preset": "finrl_parity", "features": ["return_1"], "sessions": 0,
            "selection": 0.9, "holdout": 0.95, "embargo": 0, "capital": capital,
        })  # fmt: skip
        ours.reset()
    steps = int(ours.spec.max_episode_steps or 0) - 1  # at the last one ours begins anew
    first = int(ours._starts[0])
    seen = ours._tables.mark[first : first + steps + 1].numpy()
    frame = models.data_split(frame_of(panel_of(seen)), "1999", "2099")
    theirs = finrl_env(models, frame.assign(none=0.0), ["none"], capital, 100)
    theirs.reset()
    cut, worst = 0, np.zeros(3)
    for _ in range(steps):
        action = orders(draw, stocks, ties != "none")
        asked = (action * 100).astype(int)
        with sorting(models, ties):
            theirs.step(action.copy())
        cut += bool((theirs.actions_memory[-1] < asked)[asked > 0].any())
        ours.step(torch.from_numpy(action)[None])
        cash, shares, value = (each[0].numpy() for each in ours.account)
        held = np.array(theirs.state[1 + stocks : 1 + 2 * stocks])
        total = theirs.asset_memory[-1]
        apart = abs(cash - theirs.state[0]), abs(shares - held).max(), abs(value / total - 1)
        worst = np.maximum(worst, apart)
    return steps, cut, worst.tolist()


def parity(models: ModuleType, seeds: int) -> None:
    for stocks, capital, ties in product((6, 30), (CAPITAL, 20_000), TIES):
        found = [stepped(models, stocks, capital, seed, ties) for seed in range(1, seeds + 1)]
        steps, cut = sum(each[0] for each in found), sum(each[1] for each in found)
        cash, shares, value = np.max([each[2] for each in found], axis=0)
        print(
            f"{stocks:2} stocks, {capital:9,} of money, {TIES[ties]}: {steps:,} steps, {cut:,} of"
            f" them with a buy that cash has cut, at most {cash:.1e} of cash apart, {shares:g}"
            f" shares, {value:.1e} of the value",
            flush=True,
        )


@dataclass(frozen=True)
class Account:
    """An account on the holdout."""

    arm: str
    seed: int
    moves: Floats
    """Its daily returns."""
    rival: Floats
    """Those of buy-and-hold by the same rules."""
    steps: int
    spent: float
    """Seconds of processor time of its training."""

    @property
    def words(self) -> str:
        own, rival = (performance(np.cumprod([1.0, *(1 + m)])) for m in (self.moves, self.rival))
        return (
            f"{self.arm}, market {self.seed}: {lead([self])} against buy-and-hold, return"
            f" {own.cumulative_return:+.1%} and {rival.cumulative_return:+.1%}, Sharpe"
            f" {own.sharpe:.2f} ± {own.sharpe_error:.2f} and {rival.sharpe:.2f} ±"
            f" {rival.sharpe_error:.2f}; {self.steps:,} steps in {self.spent:.0f} core s"
        )


def lead(accounts: Iterable[Account]) -> str:
    """The lead over their rivals, over all days of some accounts."""
    apart = np.concatenate([gaps(each.moves, each.rival) for each in accounts])
    mean, low, high = stationary_bootstrap(apart)
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}] bp a day"


def timed(train: Callable[[int], Any], probe: int, seconds: float) -> tuple[Any, int, float]:
    """Train for about these seconds of processor time, by the rate of a short training.

    Returns:
        What ``train`` gives, the steps that it was asked for, its seconds.
    """
    began = time.process_time()
    train(probe)
    steps = int(probe * seconds / (time.process_time() - began))
    began = time.process_time()
    return train(steps), steps, time.process_time() - began


def played(task: Task, strategies: Mapping[str, Any], *agents: str) -> list[Floats]:
    """Daily returns on the holdout."""
    [found] = backtest(replace(task, part="holdout"), strategies, frozenset(agents))
    return [each.moves for each in found]


def theirs(
    peers: Path, agent: str, changed: Mapping[str, Any], hmax: int, bars: Path, seed: int,
    seconds: float,
) -> Account:  # fmt: skip
    """An agent of FinRL's, trained and replayed in FinRL's environment."""
    models = loaded(peers)
    preprocessors = importlib.import_module("finrl.meta.preprocessor.preprocessors")
    config = importlib.import_module("finrl.config")
    names = [*config.INDICATORS, "signal"]
    task = task_of("trading", kwargs_of(bars, preset="finrl_parity"))
    [market] = replace(task, part="holdout", sessions=0).windows(bars=True).markets
    given = {**models.MODEL_KWARGS[agent], **changed}

    def train(steps: int) -> Any:
        env, _ = finrl_env(models, before, names, CAPITAL, hmax).get_sb_env()
        own = models.DRLAgent(env=env)
        model = own.get_model(agent, model_kwargs=dict(given), verbose=0, seed=seed)
        return own.train_model(model, agent, total_timesteps=steps)

    with contextlib.redirect_stdout(io.StringIO()):
        maker = preprocessors.FeatureEngineer(tech_indicator_list=config.INDICATORS)
        frame = maker.preprocess_data(frame_of(daily(seed)))
        before = models.data_split(frame, "1999", market.date)
        model, _, spent = timed(train, 2048, seconds)
        after = finrl_env(
            models, models.data_split(frame, market.date, "2099"), names, CAPITAL, hmax
        )
        values, _ = models.DRLAgent.DRL_prediction(model, after)
    account = values["account_value"].to_numpy()
    [rival] = played(task, {RIVAL: hold})  # a backtest has no last day, on which nothing is filled
    moves = (account[1:] / account[:-1] - 1)[: len(rival)]
    return Account("", seed, moves, rival, model.num_timesteps, spent)


def kwargs_of(bars: Path, **rules: Any) -> dict[str, Any]:
    """The task on the bars of a file."""
    return {**TASK, **rules, "market": {"source": str(bars), "calendar": None}}


def ours(rules: Mapping[str, Any], bars: Path, seed: int, seconds: float) -> Account:
    """hpcpod's PPO, trained and replayed in hpcpod's environment."""
    kwargs = kwargs_of(bars, **rules)
    train = partial(trained, kwargs, seed=seed)
    agent, steps, spent = timed(train, 200_000, seconds)
    moves, rival = played(task_of("trading", kwargs), {"own": agent, RIVAL: hold}, "own")
    return Account("", seed, moves, rival, steps, spent)


def rule(rules: Mapping[str, Any], bars: Path, seed: int, _seconds: float) -> Account:
    """Buy what has a signal above 0 and sell the rest, each as much as an order can be."""
    task = task_of("trading", kwargs_of(bars, **rules))

    def agent(obs: torch.Tensor) -> torch.Tensor:
        return obs[:, : STOCKS * len(FEATURES)].reshape(-1, STOCKS, len(FEATURES))[..., 0].sign()

    moves, rival = played(task, {"own": agent, RIVAL: hold}, "own")
    return Account("", seed, moves, rival, 0, 0.0)


def arms(peers: Path, hmax: int) -> dict[str, Callable[[Path, int, float], Account]]:
    """The trainings, by their names."""
    of_finrl = {"preset": "finrl_parity", "max_shares": hmax}
    own = {"preset": "plain"}
    return {
        "a rule by the signal's sign, FinRL's account": partial(rule, of_finrl),
        "the same, hpcpod's account": partial(rule, own),
        "FinRL's PPO": partial(theirs, peers, "ppo", {}, hmax),
        EQUAL: partial(ours, of_finrl),
        "hpcpod's PPO, its own account": partial(ours, own),
        "FinRL's A2C": partial(theirs, peers, "a2c", {}, hmax),
        "FinRL's PPO, hpcpod's hyperparameters": partial(theirs, peers, "ppo", OWN, hmax),
        "FinRL's SAC": partial(theirs, peers, "sac", {}, hmax),
    }


def one(peers: Path, hmax: int, arm: str, seed: int, seconds: float) -> Account:
    """An arm on a market, in another process."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of pandas's and Stable-Baselines3's, about their future
    with tempfile.TemporaryDirectory() as folder:
        bars = Path(folder) / "bars.parquet"
        write_bars(daily(seed), bars)
        account = arms(peers, hmax)[arm](bars, seed, seconds)
    account = replace(account, arm=arm)
    print(account.words, flush=True)
    return account


def agents(peers: Path, hmax: int, seeds: int, seconds: float, at_once: int) -> None:
    print(f"{STOCKS} stocks, {DAYS} days, orders of at most {hmax} shares in FinRL's account")
    jobs = [(arm, seed) for arm in arms(peers, hmax) for seed in range(1, seeds + 1)]
    with ProcessPoolExecutor(at_once, get_context("spawn")) as pool:
        found = [pool.submit(one, peers, hmax, *job, seconds) for job in jobs]
        summed([each.result() for each in found])


def summed(accounts: list[Account]) -> None:
    """Tell each arm over all markets, and hpcpod's PPO in FinRL's account less it."""
    arms = {name: [each for each in accounts if each.arm == name]
            for name in dict.fromkeys(each.arm for each in accounts)}  # fmt: skip
    equal = arms[EQUAL]
    for arm, own in arms.items():
        gap = lead(replace(a, rival=b.moves) for a, b in zip(equal, own, strict=True))
        print(f"all markets, {arm}: {lead(own)} against buy-and-hold; {EQUAL}, less it: {gap}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("peers", type=Path, help="the folder with their packages")
    parser.add_argument("--parity", action="store_true", help="the environments alone")
    parser.add_argument("--agents", action="store_true", help="the agents alone")
    parser.add_argument("--seconds", type=float, default=60, help="of a training (default: 60)")
    parser.add_argument("--seeds", type=int, default=3, help="1 to this number (default: 3)")
    parser.add_argument("--hmax", type=int, default=100, help="FinRL's largest order (100 shares)")
    parser.add_argument("--at-once", type=int, default=1, help="trainings at once (default: 1)")
    options = parser.parse_args()
    peers = options.peers.resolve()
    if options.parity or not options.agents:
        parity(loaded(peers), options.seeds)
    if options.agents or not options.parity:
        agents(peers, options.hmax, options.seeds, options.seconds, options.at_once)


if __name__ == "__main__":
    main()
