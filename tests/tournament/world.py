"""A population without agents: orders are answered with numbers, everything else is real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.schema import (
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RunConfig,
    StopConfig,
)
from hpcpod.config.space import AlgorithmSpace, Choice, Int, LogUniform, Uniform
from hpcpod.records.records import Board, Checkpoint, Order, Report
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules

SPACE = AlgorithmSpace(
    agent="ppo",
    values={
        "learning_rate": LogUniform(1e-4, 1e-2),
        "gamma": Uniform(0.9, 0.999),
        "epochs": Int(1, 10),
        "batch_size": Choice((64, 128, 256)),
        "width": Choice((32, 64)),
        "clip": 0.2,
    },
    defaults={
        "learning_rate": 3e-4,
        "gamma": 0.99,
        "epochs": 4,
        "batch_size": 128,
        "width": 64,
        "clip": 0.1,
    },
    structural=("width",),
    near_one=("gamma",),
)


def rules(
    pods: int = 8,
    algorithms: Mapping[str, float] | None = None,
    *,
    stop: StopConfig | None = None,
    seed: int = 0,
    space: AlgorithmSpace = SPACE,
    max_restarts: int = 1,
    controls: int = 1,
    warmup_rounds: int = 1,
    capacity: int = 16,
    scheme: Literal["tournament", "generational"] = "tournament",
) -> Rules:
    """The rules of a run with the built-in updater and generator."""
    algorithms = algorithms or {"ppo": 1.0}
    config = RunConfig(
        name="test",
        env=EnvConfig("Test-v0"),
        seed=seed,
        population=PopulationConfig(
            pods=PodsConfig(min=1, max=pods),
            algorithms=algorithms,
            updater="hpcpod.tournament.updaters:PairedGate",
            generator="hpcpod.tournament.generators.gentle_truncation:GentleTruncation",
            controls=controls,
            warmup_rounds=warmup_rounds,
            capacity=capacity,
            scheme=scheme,
        ),
        stop=stop or StopConfig(),
        cluster=ClusterConfig(max_restarts=max_restarts),
    )
    return Rules.of(config, dict.fromkeys(algorithms, space))


def report(order: Order, returns: Sequence[float] = (0.0, 0.0), **fields: object) -> Report:
    """A good report on an order."""
    done = Report(
        order.id,
        order.pod,
        order.round,
        order.attempt,
        slot="s1",
        returns=tuple(returns),
        checkpoint=Checkpoint(f"core of {order.id}", env_steps=100 * order.round),
        trained_steps=100,
    )
    return replace(done, **fields)  # type: ignore[arg-type]


def failed(order: Order, kind: str = "crash", why: str = "it broke") -> Report:
    """A report of a failure."""
    return report(order, (), checkpoint=None, trained_steps=0, failure=why, failure_kind=kind)


def order_of(board: Board, pod: str) -> Order:
    """The open order of a pod."""
    return next(order for order in orders(board) if order.pod == pod)


def flat(value: float, episodes: int = 4) -> tuple[float, ...]:
    """Returns around a value: the same spread for all, so that pairs differ by a constant."""
    return tuple(value + (1 if e % 2 else -1) for e in range(episodes))


def play_round(
    board: Board,
    the_rules: Rules,
    score: Callable[[Order], float],
    *,
    now: float = 1.0,
    seconds: float = 0.0,
) -> Board:
    """Every open order is answered, and merged at once; each took some ``seconds`` of a slot."""
    reports = [report(order, flat(score(order)), wall_seconds=seconds) for order in orders(board)]
    return fold(board, reports, the_rules, now=now)


def by_number(order: Order) -> float:
    """A score that tells the first pods apart for good: p0001 1, p0002 2, and so on."""
    return float(order.pod[1:])


@dataclass(frozen=True)
class Merge:
    """One merge of a random run."""

    before: Board
    reports: tuple[Report, ...]
    lost: tuple[str, ...]
    after: Board


def random_run(the_rules: Rules, seed: int, merges: int) -> Iterator[Merge]:
    """A run with slots that come in any number, failures, lost orders and stale reports."""
    rng = Random(seed)
    board = first_board(the_rules, 0.0)
    old: list[Report] = []
    for now in range(1, merges + 1):
        waiting = orders(board)
        answered = rng.sample(waiting, rng.randint(0, len(waiting)))
        reports = [_random_report(order, rng) for order in answered]
        stale = rng.sample(old, min(len(old), 2))
        lost = tuple(order.id for order in waiting if rng.random() < 0.1)
        mixed = [*reports, *stale, *reports[:1]]
        rng.shuffle(mixed)
        after = fold(board, mixed, the_rules, now=float(now), lost=lost)
        yield Merge(board, tuple(mixed), lost, after)
        old += reports
        board = after


def _random_report(order: Order, rng: Random) -> Report:
    if rng.random() < 0.15:
        return failed(order, rng.choice(["crash", "raised", "memory", "diverged", "corrupt"]))
    level = rng.gauss(10 * order.round, 5)
    return report(order, tuple(rng.gauss(level, 3) for _ in range(4)))
