"""Three proofs in small, by policies that are trained in two seconds each: what was planted is
found, a leak is exploited, and where there is nothing the verdict says so. In full they are in
``benchmarks/trading.py``."""

from __future__ import annotations

from typing import Any

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.pod.standalone import train
from hpcpod.trading.holdout import agent_of, judge
from hpcpod.trading.task import task_of
from hpcpod.trading.verdict import RIVAL, Verdict


def proof(feature: str, alpha: float, env_steps: int, fee_bps: float = 10.0) -> Verdict:
    """The verdict on four fresh markets about a policy that was trained on two others."""
    market = {"stocks": 2, "days": 150, "minutes": 13, "alpha": alpha, "leak": 4, "seed": 0}
    kwargs: dict[str, Any] = {"stride": 4, "sessions": 5, "features": [feature], "fee_bps": fee_bps}
    config = from_mapping({
        "name": "proof", "pod": {"evaluator": "trading"},
        "env": {"id": "trading", "backend": "trading", "num_envs": 64,
                "kwargs": {**kwargs, "market": {**market, "markets": 2}}},
        "round": {"env_steps": env_steps // 2, "episodes": 16}, "stop": {"confirm_episodes": 16},
        "population": {"algorithms": {"ppo": 1}},
        "agents": {"ppo": {"gamma": 0.5, "horizon": 32, "epochs": 6, "learning_rate": 3e-3,
                           "hidden": 16}},
    })  # fmt: skip
    [space] = resolve_algorithms(config).values()
    policy = train(config, space, space.unmutated(), env_steps=env_steps).policy
    fresh = task_of("trading", {**kwargs, "market": {**market, "seed": 1000, "markets": 4}})
    return judge(fresh, {"trained": agent_of(policy)})


def test_an_oracle_beats_buy_and_hold_by_far() -> None:
    """It sees the return that an order will get: without this a null result means nothing."""
    told = proof("tomorrow", 0.0, 40_960)
    assert told.edge
    low = told.row(RIVAL).low
    assert low is not None
    assert low > 20  # basis points a day


def test_what_was_planted_is_found() -> None:
    told = proof("signal", 3.0, 20_480)
    assert told.edge
    assert told.words.startswith("ahead of buy-and-hold by +")


def test_where_nothing_was_planted_a_trained_policy_has_no_edge() -> None:
    told = proof("signal", 0.0, 20_480, fee_bps=0.0)  # with fees it learns to hold cash
    assert not told.edge
    assert told.words.startswith("no edge: against buy-and-hold ")
    assert told.rows[0].turnover > 0.05  # it trades, and does not merely sit in cash
