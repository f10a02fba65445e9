"""Three proofs in small, by the winners of tournaments of two pods that take three seconds each:
what was planted is found, a leak is exploited, and where there is nothing the verdict says so. In
full they are in ``benchmarks/trading.py`` and ``benchmarks/trading_tournaments.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpcpod.config.loader import from_mapping
from hpcpod.pod.policy import load_policy_file
from hpcpod.run.best_policy import kept
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.run.run import open_run
from hpcpod.trading.holdout import agent_of, judge
from hpcpod.trading.task import task_of
from hpcpod.trading.verdict import RIVAL, Verdict
from tests.run.continuous.worlds import drive


def proof(home: Path, feature: str, alpha: float, env_steps: int, fee_bps: float = 10.0) -> Verdict:
    """The verdict on four fresh markets about the winner of a tournament on two others."""
    market = {"stocks": 2, "days": 150, "minutes": 13, "alpha": alpha, "leak": 4, "seed": 0}
    kwargs: dict[str, Any] = {"stride": 4, "sessions": 5, "features": [feature], "fee_bps": fee_bps}
    config = from_mapping({
        "name": "proof", "pod": {"evaluator": "trading"},
        "env": {"id": "trading", "backend": "trading", "num_envs": 64,
                "kwargs": {**kwargs, "market": {**market, "markets": 2}}},
        "population": {"pods": {"min": 1, "max": 2}, "algorithms": {"ppo": 1}},
        "round": {"env_steps": env_steps // 4, "episodes": 16},
        "stop": {"env_steps": env_steps, "finalists": 1, "confirm_episodes": 8},
        "agents": {"ppo": {"gamma": 0.5, "horizon": 32, "epochs": 6, "hidden": 16,
                           "learning_rate": {"log_uniform": [2e-3, 4e-3]}}},
    })  # fmt: skip
    folder = create_run(check(config, probe=False).resolved, home)
    drive(open_run(folder.path))
    policy = load_policy_file(kept(folder).checkpoint)
    fresh = task_of("trading", {**kwargs, "market": {**market, "seed": 1000, "markets": 4}})
    return judge(fresh, {"won": agent_of(policy)})


def test_an_oracle_beats_buy_and_hold_by_far(tmp_path: Path) -> None:
    """It sees the return that an order will get: without this a null result means nothing."""
    told = proof(tmp_path, "tomorrow", 0.0, 40_960)
    assert told.edge
    low = told.row(RIVAL).low
    assert low is not None
    assert low > 20  # basis points a day


def test_what_was_planted_is_found(tmp_path: Path) -> None:
    told = proof(tmp_path, "signal", 3.0, 20_480)
    assert told.edge
    assert told.words.startswith("ahead of buy-and-hold by +")


def test_where_nothing_was_planted_a_trained_policy_has_no_edge(tmp_path: Path) -> None:
    told = proof(tmp_path, "signal", 0.0, 20_480, fee_bps=0.0)  # with fees it learns to hold cash
    assert not told.edge
    assert told.words.startswith("no edge: against buy-and-hold ")
    assert told.rows[0].turnover > 0.05  # it trades, and does not merely sit in cash
