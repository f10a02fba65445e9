"""Continuous training through a year: ``python benchmarks/ct.py``, in about ten minutes.

A synthetic market whose signal comes to mean the opposite in the middle of the year is written to a
file, session by session; ``hpcpod ct`` is called each time that enough of them are new. What was
deployed then plays the sessions until the next call, beside the first policy, which stays as it is
(frozen). Told is the mean daily difference before and after the change, with its 95 % interval.

``--repeat``: then each version that was promoted is trained and judged once more, by what the
registry says: its data, configuration, seeds, and the policy that its pods start from. Weights are
compared to the bit, scores and verdicts to the last digit. Equal bits need one slot, so runs have
one then.

``--drift N``: instead, the share of N markets without a change on which drift is told falsely.
``--gate N``: the share of N markets on which the gate promotes one of two equally good policies.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.pod.policy import load_policy_file
from hpcpod.run.best_policy import kept
from hpcpod.run.continuous import cycle
from hpcpod.run.continuous.entries import Version, named
from hpcpod.run.continuous.incumbent import player_of
from hpcpod.run.continuous.registry import Registry, create
from hpcpod.run.continuous.training import repeat
from hpcpod.run.run import open_run
from hpcpod.tournament.continuous.drift import Sample, reference_of, shifts
from hpcpod.tournament.continuous.stream import Player, Verdict
from hpcpod.trading.backtest import Agent, backtest
from hpcpod.trading.features import compute
from hpcpod.trading.files import write_bars
from hpcpod.trading.holdout import agent_of
from hpcpod.trading.metrics import paired_bootstrap
from hpcpod.trading.panel import Floats, MarketPanel
from hpcpod.trading.synthetic import SyntheticMarket
from hpcpod.trading.task import Task, task_of

RATE = {"log_uniform": [5e-4, 3e-3]}


@dataclass(frozen=True)
class Year:
    """A simulated year."""

    stocks: int = 3
    minutes: int = 13
    alpha: float = 3.0
    """Strength of the signal: what is planted is meant to be found in a month of sessions."""
    history: int = 80
    """Sessions before the first cycle."""
    sessions: int = 250
    """Sessions after it."""
    change: int = 125
    """The session of these from which the signal means the opposite."""
    judge: int = 16
    window: int = 48
    episode: int = 4
    """Sessions of an episode."""
    seed: int = 1
    round_steps: int = 8192
    rounds: int = 3
    pods: int = 2
    warmup: int = 4
    """Sessions before a policy's first one, for its features."""

    def market(self) -> MarketPanel:
        """All bars that there will be."""
        days, change = self.history + self.sessions, self.history + self.change
        return SyntheticMarket(
            stocks=self.stocks, days=days, minutes=self.minutes, seed=self.seed, change=change,
            alpha=self.alpha,
        ).panel()  # fmt: skip

    def config(self, file: Path, **sections: Any) -> RunConfig:
        """The configuration of the cycles."""
        kwargs = {
            "market": {"source": str(file), "calendar": None}, "stride": self.minutes // 4,
            "features": ["signal", "return_1"], "sessions": self.episode, "fee_bps": 5.0,
            "embargo": 1,
        }  # fmt: skip
        whole = {
            "name": "year", "seed": self.seed,
            "env": {"id": "trading", "backend": "trading", "num_envs": 64, "kwargs": kwargs},
            "pod": {"evaluator": "trading"},
            "population": {"pods": {"min": 1, "max": self.pods}},
            "round": {"env_steps": self.round_steps, "episodes": 64},
            "agents": {
                "ppo": {"gamma": 0.9, "horizon": 32, "minibatch_size": 256, "learning_rate": RATE}
            },
            "stop": {"rounds": self.rounds, "finalists": 1, "confirm_episodes": 32},
            "ct": {"kwargs": {"judge": self.judge, "window": self.window, "selection": 0.3}},
        }  # fmt: skip
        return from_mapping({**whole, **sections})


@dataclass(frozen=True)
class Lived:
    """A year that was lived through: daily returns of what was deployed, and of the first."""

    live: Floats
    frozen: Floats
    changed: int
    """The day from which the signal means the opposite."""

    def ahead(self, after: bool) -> tuple[float, float, float]:
        """Mean daily difference in basis points, and its 95 % interval."""
        days = slice(self.changed, None) if after else slice(0, self.changed)
        return paired_bootstrap(self.live[days], self.frozen[days])


def moves(task: Task, panel: MarketPanel, policy: Path, days: slice, warmup: int) -> Floats:
    """Daily returns of a policy in sessions of a panel, from cash on."""
    first, past = days.start - warmup, days.stop
    end = str(panel.dates[past]) if past < len(panel.dates) else str(panel.dates[-1] + 1)
    part = panel.between(panel.dates[first], end)
    file = policy.parent / f"bars-{first}-{past}.parquet"
    write_bars(part, file)
    market = {"source": str(file), "calendar": None}
    own = replace(
        task, market=market, part="holdout", embargo=0,
        selection=str(part.dates[warmup // 2]), holdout=str(part.dates[warmup]),
    )  # fmt: skip
    agent = agent_of(load_policy_file(policy))
    [[found]] = backtest(own, {"policy": agent}, frozenset(["policy"]))
    file.unlink()
    return found.moves


def live(year: Year, home: Path, advance: Any, registry: Registry, file: Path) -> Lived:
    """Live through a year.

    Args:
        year: which.
        home: a folder.
        advance: does a cycle.
        registry: of the cycles.
        file: the bars that the cycles read.
    """
    panel = year.market()
    task = task_of("trading", year.config(file).env.kwargs)
    ours, frozen, first, changed = [], [], home / "first.h5", 0
    for now in range(year.history, len(panel.dates), year.judge):
        # With the next day's first bar: a half-day is known to be whole once a later one begins.
        write_bars(panel.first(int((panel.sessions < now).sum()) + 1), file)
        advance()
        deployed = registry.path / "current" / "policy.h5"
        if not first.exists():
            first.write_bytes(deployed.read_bytes())
        mine = home / "deployed.h5"
        mine.write_bytes(deployed.read_bytes())
        days = slice(now, min(now + year.judge, len(panel.dates)))
        if days.stop - days.start < 3:
            break
        ours.append(moves(task, panel, mine, days, year.warmup))
        frozen.append(moves(task, panel, first, days, year.warmup))
        if days.stop <= year.history + year.change:
            changed += len(ours[-1])
    return Lived(np.concatenate(ours), np.concatenate(frozen), changed)


def simulated(year: Year, home: Path, **sections: Any) -> tuple[Registry, Lived]:
    """Live through a year here, and tell of it.

    Args:
        year: which.
        home: a folder.
        sections: of the configuration, beside those of the year.
    """
    file = home / "bars.parquet"
    write_bars(year.market().first(500), file)
    registry = create(year.config(file, **sections), "benchmarks/ct.py", home)

    def advance() -> None:
        began = time.perf_counter()
        done = cycle.advance(registry, probe=False, progress=False)
        print(f"  {time.perf_counter() - began:5.1f} s  {done.kind}: {done.words}", flush=True)

    return registry, live(year, home, advance, registry, file)


@dataclass(frozen=True)
class Again:
    """A promoted version that was trained and judged once more."""

    version: Version
    same_bits: bool
    """Of its weights."""
    score: dict[str, Any]
    verdict: Verdict

    @property
    def same(self) -> bool:
        """True if nothing differs, to the last digit."""
        score, verdict = self.version.score, self.version.verdict
        return self.same_bits and (self.score, self.verdict) == (score, verdict)

    @property
    def words(self) -> str:
        """The comparison in a line."""
        then, bits = self.version, "the same" if self.same_bits else "OTHER"
        return (
            f"{named(then.number)} again: {'the same' if self.same else 'DIFFERS'}: {bits} bits,"
            f" score {self.score.get('mean')} (then {then.score.get('mean')}), ahead by"
            f" {self.verdict.ahead} (then {then.verdict.ahead})"
        )


def repeats(registry: Registry, to: Path) -> Iterator[Again]:
    """Train and judge each version that was promoted once more, in a folder of its own."""
    stream = cycle.stream_of(registry.config)
    promoted = {line.version for line in registry.decisions() if line.kind == "promoted"}
    for version in registry.versions():
        if version.number not in promoted:
            continue
        done = repeat(registry, version.number, to, stream, progress=False)
        policy = kept(open_run(done.run).folder)
        player = Player(policy.checkpoint, from_mapping(version.config).env)
        parent = None if version.parent is None else player_of(registry, version.parent)
        cycles = to / "again.ct" / "cycles" / "0001"  # its looks are in a ledger of their own
        verdict = stream.judge(version.windows, player, parent, cycles)
        yield Again(version, done.same_bits, dict(policy.about.get("score", {})), verdict)


def told(registry: Registry, to: Path) -> Iterator[bool]:
    """Tell of each promotion that is repeated; true of one that comes out the same."""
    began = time.perf_counter()
    for each in repeats(registry, to):
        print(f"  {time.perf_counter() - began:5.1f} s  {each.words}", flush=True)
        began = time.perf_counter()
        yield each.same


def told_falsely(count: int, names: Sequence[str], old: int = 60, new: int = 20) -> float:
    """Share of markets without a change in which a column is said to have drifted."""
    alarms = 0
    for seed in range(count):
        panel = SyntheticMarket(stocks=2, days=old + new + 20, minutes=13, seed=5000 + seed).panel()
        values = compute(panel, names).astype(np.float64)

        def sample(first: int, past: int, values: Floats, panel: MarketPanel) -> Sample:
            rows = (panel.sessions >= first) & (panel.sessions < past)
            blocks = np.repeat(panel.sessions[rows] - first, panel.shape[1])
            return Sample(tuple(names), values[rows].reshape(-1, len(names)), blocks)

        then = reference_of(sample(20, 20 + old, values, panel))
        found = shifts(then, sample(20 + old, 20 + old + new, values, panel))
        alarms += found[0].p is not None and found[0].p < 0.05
    return alarms / count


def promoted_falsely(count: int, home: Path, judge: int = 16, level: float = 0.05) -> float:
    """Share of markets without a signal on which a policy passes the gate against one that is as
    good: each holds weights that were drawn at random."""
    year, promoted = Year(history=20, alpha=0.0), 0
    for seed in range(count):
        file = home / "bars.parquet"
        market = replace(year, seed=7000 + seed, sessions=judge).market()
        write_bars(market, file)
        kwargs = {
            **year.config(file).env.kwargs, "part": "holdout", "selection": str(market.dates[10]),
            "holdout": str(market.dates[year.history]),
        }  # fmt: skip
        draw = np.random.default_rng(seed)
        agents = {name: holding(draw.dirichlet(np.ones(year.stocks))) for name in ("new", "old")}
        new, old = backtest(task_of("trading", kwargs), agents, frozenset(agents))[0]
        promoted += paired_bootstrap(new.moves, old.moves, level=1 - 2 * level)[1] > 0
    return promoted / count


def holding(weights: Floats) -> Agent:
    """An agent that always wants the same weights."""
    wanted = torch.from_numpy(weights.astype(np.float32))
    return lambda obs: wanted.expand(len(obs), -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="years, each its own market (3)")
    parser.add_argument("--repeat", action="store_true", help="each promotion of a year once more")
    parser.add_argument("--drift", type=int, metavar="N", help="the false alarms alone")
    parser.add_argument("--gate", type=int, metavar="N", help="false promotions alone")
    options = parser.parse_args()
    if options.gate:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            share = promoted_falsely(options.gate, Path(home))
        print(f"promoted on {share:.1%} of {options.gate} markets without an edge, level 5 %")
        return
    if options.drift:
        names = ["signal", "return_1", "return_5", "sma_30", "rsi_30", "volume_z"]
        share = told_falsely(options.drift, names)
        print(f"drift told on {share:.1%} of {options.drift} markets without one, level 5 %")
        return
    for seed in range(1, options.seeds + 1):
        print(f"year {seed}", flush=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            sections = {"cluster": {"slots": 1}} if options.repeat else {}
            registry, lived = simulated(Year(seed=seed), Path(home), **sections)
            again = [*told(registry, Path(home) / "again")] if options.repeat else []
        if again:
            print(f"year {seed}: {sum(again)} of {len(again)} promotions are repeated to the digit")
        for after in (False, True):
            mean, low, high = lived.ahead(after)
            when = "after " if after else "before"
            print(
                f"year {seed}, {when} the change: retrained ahead of frozen by {mean:+.1f}"
                f" [{low:+.1f}, {high:+.1f}] bp a day",
                flush=True,
            )


if __name__ == "__main__":
    main()
