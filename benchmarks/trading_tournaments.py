"""Trading by tournaments: ``python benchmarks/trading_tournaments.py FOLDER --arms --slots 1 2``.

``--arms``: ``configs/trading.yaml``'s three families, the same with PPO alone, and vanilla PPO,
which is one pod, so that nothing is copied: on one slot, for as long as the others' two slots have
together. Each arm's policy, and of the first also the best pod of each family as three accounts, is
judged on the holdouts of fresh markets. ``--panels``: so, too, on real prices, each arm judged on
the holdout of the panel that it was trained on: days that come after all that it saw.
``--alpha``: of the synthetic markets; at 0 there is no signal, and an edge is a false one.
``--slots``: the return of the best so far against time, with each of these numbers of slots. With
more of them than cores, slots share cores, and the lines tell how the machine divides its time.
Runs stay in FOLDER.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import torch
import yaml
from trading import market_of, told

from hpcpod.pod.policy import load_policy_file
from hpcpod.run.best_policy import best_of_algorithms, kept
from hpcpod.run.run import Run, open_run
from hpcpod.trading.backtest import Agent
from hpcpod.trading.holdout import agent_of
from hpcpod.trading.task import Task, task_of

CONFIG = Path(__file__).parents[1] / "configs" / "trading.yaml"
ARMS = {
    "ppo-sac-td3": (["ppo", "sac", "td3"], {"min": 3, "max": 6}),
    "ppo": (["ppo"], {"min": 3, "max": 6}),
    "vanilla": (["ppo"], {"min": 1, "max": 1}),
}
"""The algorithms of an arm, and how many pods it may have."""
DAYS = {
    "features": ["return_1", "return_5", "return_30", "sma_30", "rsi_30", "percent_b", "macd"],
    "stride": 1, "sessions": 60, "fee_bps": 10,
}  # fmt: skip
"""The task of an account that decides once a day."""
PANELS: Mapping[str, Mapping[str, Any]] = {
    "sp500": {**DAYS, "market": {"source": "skfolio:sp500"}},
    "nyse_o": {**DAYS, "market": {"source": "universal-portfolios:nyse_o"}},
}
"""Tasks of real prices that anybody can have."""


def planted(alpha: float) -> dict[str, Any]:
    """The file's ``env.kwargs``, with a signal of this strength."""
    kwargs: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["env"]["kwargs"]
    return {**kwargs, "market": {**kwargs["market"], "alpha": alpha}}


def launched(
    folder: Path, name: str, minutes: float, seed: int, slots: int, arm: str,
    kwargs: Mapping[str, Any],
) -> Run:  # fmt: skip
    """A tournament of so many slots, to its end, on the markets of these ``env.kwargs``."""
    algorithms, pods = ARMS[arm]
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["env"]["kwargs"] = dict(kwargs)
    config |= {"name": name, "seed": seed, "stop": {"minutes": minutes}}
    config |= {"cluster": {**config.get("cluster", {}), "slots": slots}}
    config["population"] |= {"pods": pods, "algorithms": dict.fromkeys(algorithms, 1)}
    config["agents"] = {each: config["agents"][each] for each in algorithms}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "hpcpod", "launch", str(path), "--runs", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return open_run(folder / name)


def agent(run: Run, pod: str | None = None) -> Agent:
    return agent_of(load_policy_file(kept(run.folder, pod).checkpoint))


def families(run: Run) -> list[Agent]:
    """The best pod of each family, by what pods themselves have scored: none saw a holdout."""
    return [agent_of(load_policy_file(path)) for path in best_of_algorithms(run.folder).values()]


def fresh(seed: int, markets: int, alpha: float) -> Task:
    """The configuration's task on markets that no arm has seen."""
    market = market_of(alpha, markets, 100_000 + 1000 * seed)
    return task_of("trading", {**planted(alpha), "market": market})


def lead_of(alpha: float) -> str:
    """The beginning of the names of runs on such markets; those of before have none."""
    return "" if alpha == 1 else f"alpha{alpha:g}"


def cost(run: Run) -> str:
    """Steps and time of slots, as the run has them."""
    use, rounds = run.usage(), run.rounds()
    steps = rounds["total_steps"].max() / 1e6
    return f"{steps:.2f} M steps, {60 * use['slot_seconds'].sum() / 3600:.1f} slot minutes"


def arms(
    folder: Path, minutes: float, seed: int, task: Task, kwargs: Mapping[str, Any], lead: str,
    names: Iterable[str],
) -> None:  # fmt: skip
    """Arms of a seed, judged on the holdouts of a task.

    Args:
        folder: of the runs.
        minutes: of two slots.
        seed: of the runs.
        task: that they are judged on.
        kwargs: ``env.kwargs`` that they train by.
        lead: begins the runs' names, if it is not empty.
        names: of the arms.
    """
    for name in names:
        slots = 1 if name == "vanilla" else 2
        said = "-".join(filter(None, (lead, name, str(seed))))
        run = launched(folder, said, 2 * minutes / slots, seed, slots, name, kwargs)
        print(f"{run.name}: {told(task, agent(run))}; {cost(run)}", flush=True)
        members = families(run)
        if len(members) > 1:
            print(f"  {len(members)} accounts: {told(task, *members)}", flush=True)


def slots(
    folder: Path, minutes: float, seeds: Iterable[int], counts: Iterable[int], alpha: float
) -> None:
    marks = [minutes * part / 4 for part in (1, 2, 3, 4)]
    print("the best selection score so far, %, after " + ", ".join(f"{m:g} min" for m in marks))
    for seed in seeds:
        for count in counts:
            name = "-".join(filter(None, (lead_of(alpha), f"slots{count}-{seed}")))
            kwargs = planted(alpha)
            run = launched(folder, name, minutes, seed, count, "ppo-sac-td3", kwargs)
            rounds = run.rounds()
            rounds = rounds[(rounds["purpose"] == "round") & rounds["counted"]]
            best = [rounds.loc[rounds["seconds"] <= 60 * mark, "mean"].max() for mark in marks]
            line = "  ".join(f"{each:6.2f}" for each in best)
            print(f"{count} slots, seed {seed}: {line}; {cost(run)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the runs are kept; without them as yet")
    parser.add_argument("--arms", action="store_true", help="the arms on synthetic markets")
    parser.add_argument(
        "--panels", nargs="+", choices=PANELS, default=(), help="the arms on real prices"
    )
    parser.add_argument(
        "--slots", nargs="+", type=int, default=(), help="so many slots, such as 1 2"
    )
    parser.add_argument("--minutes", type=float, default=6, help="of two slots (default: 6)")
    parser.add_argument("--seeds", type=int, default=1, help="1 to this number (default: 1)")
    parser.add_argument(
        "--alpha", type=float, default=1.0,
        help="strength of the signal of the synthetic markets; 0: none (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--only", nargs="+", choices=ARMS, default=list(ARMS), help="these arms (default: all)"
    )
    parser.add_argument("--markets", type=int, default=24, help="fresh ones (default: 24)")
    options = parser.parse_args()
    if not (options.arms or options.panels or options.slots):
        parser.error("say which: --arms, --panels sp500 nyse_o, --slots 1 2")
    torch.set_num_threads(1)
    folder, minutes = options.folder, options.minutes
    seeds = range(1, options.seeds + 1)
    alpha, names = options.alpha, options.only
    if options.arms:
        print(
            f"{options.markets} fresh markets for each seed, trained and judged at alpha {alpha:g}"
        )
        for seed in seeds:
            task = fresh(seed, options.markets, alpha)
            arms(folder, minutes, seed, task, planted(alpha), lead_of(alpha), names)
    for seed, panel in product(seeds, options.panels):
        kwargs = PANELS[panel]
        arms(folder, minutes, seed, task_of("trading", kwargs), kwargs, panel, names)
    if options.slots:
        print(f"trained and scored at alpha {alpha:g}")
        slots(folder, minutes, seeds, options.slots, alpha)


if __name__ == "__main__":
    main()
