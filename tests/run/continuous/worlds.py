"""A small trading task whose file grows, and runs that are trained in this process."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hpcpod.agents.ppo import PPO
from hpcpod.agents.ppo_config import PPOConfig
from hpcpod.config.loader import from_mapping, to_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.envs.vec_env import EnvSpec
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.round import Watch
from hpcpod.records.codec import encode
from hpcpod.run.continuous.entries import Outcome, Plan, Version
from hpcpod.run.continuous.registry import POLICY, Registry, create, open_registry
from hpcpod.run.run import Run
from hpcpod.storage.blobs import read_blob_file, write_blob_file
from hpcpod.storage.checksummed import pack
from hpcpod.tournament.continuous.stream import Player, Score, Verdict, Windows
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from hpcpod.trading.files import read_bars, write_bars
from hpcpod.trading.panel import MarketPanel
from hpcpod.trading.stream import TradingStream
from hpcpod.trading.synthetic import SyntheticMarket
from tests.support.untrained import untrained

JUDGE, WINDOW, EMBARGO = 8, 30, 2


class Generous(TradingStream):
    """Plays as trading does, and has a gate that lets everything pass."""

    def judge(
        self, windows: Windows, challenger: Player, incumbent: Player | None, folder: Path
    ) -> Verdict:
        verdict = super().judge(windows, challenger, incumbent, folder)
        return verdict if incumbent is None else replace(verdict, low=1.0)


@dataclass(frozen=True)
class ByHandConfig(PPOConfig):
    """Of ``ByHand``."""

    gain: float = 1.0
    """Above 0: what the signal favours is bought."""


class Mute(PPO):
    """Loads, and never acts."""

    def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
        raise RuntimeError("it has nothing to say")


class ByHand(PPO):
    """Weights by hand: each stock's order follows its signal, or goes against it."""

    Config = ByHandConfig
    name = "by_hand"

    def __init__(self, spec: EnvSpec, config: ByHandConfig, seed: int, device: str = "cpu") -> None:
        """Stocks have two features, of which the signal is the first."""
        super().__init__(spec, config, seed, device)
        with torch.no_grad():
            for name, weights in self._network.named_parameters():
                if "value" not in name and "log_std" not in name:
                    weights.zero_()
            for stock in range(2):
                for layer, place in enumerate((2 * stock, stock)):
                    self._network.hidden.weights[layer][0, place, stock] = 4.0
                self._network.policy.weight[stock, stock] = config.gain


def bars(days: int = 90) -> MarketPanel:
    return SyntheticMarket(stocks=2, days=days, minutes=13, seed=3, change=50).panel()


def grow(file: Path, sessions: int) -> None:
    """Have the file hold so many sessions."""
    whole = bars()
    write_bars(whole.below(whole.dates[sessions]), file)


def config(file: Path, **sections: Any) -> RunConfig:
    market = {"source": str(file), "calendar": None}
    whole: dict[str, Any] = {
        "name": "mine",
        "env": {
            "id": "trading", "backend": "trading", "num_envs": 4,
            "kwargs": {"market": market, "features": ["signal", "return_1"], "stride": 4,
                       "sessions": 1, "embargo": EMBARGO},
        },
        "pod": {"evaluator": "trading"},
        "population": {"pods": {"min": 2, "max": 2}},
        "round": {"env_steps": 256, "episodes": 4},
        "agents": {"ppo": {"horizon": 32, "minibatch_size": 64, "epochs": 1, "hidden": 8}},
        "stop": {"rounds": 1, "finalists": 1, "confirm_episodes": 2},
        "ct": {"kwargs": {"judge": JUDGE, "window": WINDOW}},
    }  # fmt: skip
    return from_mapping({**whole, **sections})


def drive(run: Run) -> None:
    """Train a run to its end in this process."""
    rules = Rules.of_run(run.folder)
    with closing(prepare(run.folder)) as pod:
        while (board := read_board(run.folder)).phase != "finished":
            for order in orders(board):
                run.folder.reports.publish(pod.execute(order, "here", Watch()))
            merge(run.folder, rules)


def empty(home: Path) -> Registry:
    """A registry before its first cycle."""
    return create(config(home / "bars.parquet"), "a test", home)


def fill(registry: Registry, cycle: int, *, promotes: bool = True) -> Outcome:
    """Register a version that nobody has trained, and decide on it as a cycle does."""
    from hpcpod.run.continuous.cycle import Cycle

    plain, now = to_mapping(registry.config), time.time()
    windows, current = Windows(words="nothing", digest="d"), registry.current
    plan = Plan(cycle, plain, windows, current, "a test", now)
    registry.publish_plan(plan)
    own, low = Score(1, 0, 2, 9), 0.5 if promotes else -0.5
    verdict = Verdict(own, None, None, None, 0.05, "bp", "a test")
    if current is not None:
        verdict = replace(verdict, incumbent=Score(0, -1, 1, 9), ahead=1.0, low=low)
    data = f"policy {cycle}".encode()
    sha256 = hashlib.sha256(data).hexdigest()
    version = Version(cycle, "/nowhere", sha256, "w", plain, "c", windows, current, {}, verdict,
                      {}, now)  # fmt: skip
    registry.add(version, {POLICY: data})
    kind = "promoted" if verdict.promotes else "kept"
    return Cycle(registry, lambda text: None)._decided(plan, kind, verdict.said)  # type: ignore[arg-type]


def spoil(registry: Registry, number: int, how: str) -> None:
    """Have a version's policy be one that can't be played any more."""
    file = registry.policy(number)
    if how == "damaged":
        file.write_bytes(file.read_bytes()[:-9])
        return
    arrays, meta = read_blob_file(file)
    if agent := {"agent": "nowhere.at_all:Agent", "mute": f"{__name__}:Mute"}.get(how):
        write_blob_file(file, arrays, {**meta, "agent": agent})
    else:
        untrained(file)
    version = registry.version(number)
    assert version is not None
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    whole = pack(encode(replace(version, policy=sha256)))
    (file.parent / "entry.json").write_bytes(whole)


def copied(registry: Registry, home: Path) -> Registry:
    """The same at another place, whose bars are those of the first."""
    home.mkdir()
    shutil.copytree(registry.path, home / "mine.ct", symlinks=True)
    return open_registry(home / "mine.ct")


def unjudged(of: Registry, home: Path) -> Registry:
    """A copy whose second cycle is trained, and not judged yet."""
    registry = copied(of, home)
    (registry.cycle(2) / "verdict.json").unlink()
    (registry.path / "decisions" / "000002.json").unlink()
    return registry


def bars_of(registry: Registry) -> Path:
    """The file that its cycles read."""
    return Path(registry.config.env.kwargs["market"]["source"])  # type: ignore[index]


@contextmanager
def rewritten(file: Path) -> Iterator[Callable[[], None]]:
    """Gives a function that rewrites all prices of a file; in the end they are as they were."""
    before = file.read_bytes()

    def rewrite() -> None:
        whole = read_bars(file, calendar=None)
        write_bars(replace(whole, close=whole.close * 2, high=whole.high * 2), file)

    try:
        yield rewrite
    finally:
        file.write_bytes(before)


def without_second(registry: Registry) -> None:
    """Take everything away that the second cycle has left."""
    for name in ("cycles/0002", "versions/v0002", "runs/mine-c0002"):
        shutil.rmtree(registry.path / name)
    (registry.path / "decisions" / "000002.json").unlink()
    (registry.path / "current").unlink()
    registry.follow()
