"""The environment: its contract, what a step does, and who may see which rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod.envs.vec_env import VecEnv
from hpcpod.errors import Diverged, UserError
from hpcpod.testing import EnvContract
from hpcpod.trading import account
from hpcpod.trading.env import PERCENT, TradingVecEnv
from hpcpod.trading.tables import decisions
from hpcpod.trading.task import task_of
from tests.trading.small import market

MARKET = {"stocks": 3, "days": 60, "minutes": 13, "seed": 4}
SMALL: dict[str, Any] = {
    "market": MARKET, "sessions": 2, "stride": 4, "features": ["signal", "return_1"],
}  # fmt: skip
PARITY: dict[str, Any] = {"preset": "finrl_parity"}


def env(n: int = 4, **changed: Any) -> TradingVecEnv:
    return TradingVecEnv("trading", n, kwargs={**SMALL, **changed})


def seeds(n: int = 4) -> Tensor:
    return torch.arange(n) + 100


class TestTrading(EnvContract):
    def make_env(self, num_envs: int) -> VecEnv:
        return env(num_envs)


class TestTradingByOrders(EnvContract):
    def make_env(self, num_envs: int) -> VecEnv:
        market = {**MARKET, "days": 120, "markets": 2}  # turbulence is known from day 62 on
        return env(num_envs, preset="strict", mode="orders", market=market)


def test_who_does_not_trade_keeps_the_cash() -> None:
    made = env(mode="orders")
    made.reset(seeds())
    for _ in range(5):
        step = made.step(torch.zeros(4, 3))
        assert (step.reward == 0).all()
    assert (made.account.value == 1_000_000.0).all()


def test_who_buys_everything_grows_with_the_market_less_the_fee() -> None:
    made = env(1, fee_bps=50.0, lot=0)
    made.reset(seeds(1))
    tables, at = made._tables, int(made._batch.at)  # type: ignore[union-attr]
    step = made.step(torch.tensor([[1.0, 0.0, 0.0]]))
    grown = tables.mark[at + 1, 0] / tables.fill[at, 0] / 1.005
    assert step.reward.item() == pytest.approx(PERCENT * float(grown.log()), rel=1e-5)


def test_actions_matter() -> None:
    """A published environment replaces them by ones."""
    totals = []
    for stock in range(3):
        made = env()
        made.reset(seeds())
        action = torch.zeros(4, 3)
        action[:, stock] = 1.0
        totals.append(sum(made.step(action).reward for _ in range(6)))
    assert len({tuple(each.tolist()) for each in totals}) == 3  # type: ignore[union-attr]


def test_a_policy_that_follows_the_signal_beats_its_opposite() -> None:
    gained = []
    for sign in (1.0, -1.0):
        made, total = env(64, fee_bps=0.0), torch.zeros(64)
        obs = made.reset(seeds(64))
        for _ in range(8):
            step = made.step(sign * obs[:, 0:6:2])
            total, obs = total + step.reward, step.obs
        gained.append(total.mean().item())
    assert gained[0] > gained[1] + 0.2


def test_the_reward_is_the_growth_of_the_logarithm_in_percent() -> None:
    made = env()
    made.reset(seeds())
    total = torch.zeros(4)
    for _ in range(7):
        total += made.step(torch.rand(4, 3)).reward
    assert total.tolist() == pytest.approx(
        (PERCENT * (made.account.value / 1e6).log()).tolist(), abs=1e-4
    )


def test_a_day_has_its_decisions_also_if_it_is_short() -> None:
    panel = market(days=250)
    rows = decisions(panel, 10)
    within = rows - np.searchsorted(panel.sessions, panel.sessions[rows])
    assert set(within) == {0, 10, 20, 30}
    short = np.flatnonzero(np.bincount(panel.sessions) == 21)[0]
    assert within[panel.sessions[rows] == short].tolist() == [0, 10, 20]


def test_training_sees_no_row_of_selection_or_holdout() -> None:
    whole = task_of("trading", SMALL)
    lengths = {}
    for part in ("fit", "selection", "holdout"):
        windows = task_of("trading", {**SMALL, "part": part}).windows()
        lengths[part] = len(windows.tables.mark)
        session = windows.tables.sessions[windows.starts.numpy()]
        lengths[part + " from"], lengths[part + " to"] = int(session.min()), int(session.max())
    assert lengths["fit"] < lengths["selection"] < lengths["holdout"]
    assert lengths["fit to"] < 36 <= lengths["selection from"] - whole.embargo
    assert lengths["selection to"] < 48 <= lengths["holdout from"] - whole.embargo


@pytest.mark.parametrize("rules", [{"preset": "paper"}, {"preset": "strict"}, PARITY])
def test_no_step_away_from_the_cpu_reads_a_number_of_the_device(rules: dict[str, Any]) -> None:
    """Tensors of torch's device ``meta`` have no numbers: ``item``, ``bool``, ``cpu``, a mask as an
    index and the like raise there what makes the host wait for a GPU."""
    market = {**MARKET, "days": 120}  # turbulence is known from day 62 on
    made = TradingVecEnv("trading", 8, "meta", kwargs={**SMALL, "market": market, **rules})
    obs = made.reset()
    for _ in range(3):
        step = made.step(torch.zeros(8, 3, device="meta"))
    assert step.obs.device == obs.device == torch.device("meta")
    with pytest.raises(RuntimeError):
        step.truncated.any().item()


def test_portfolios_that_are_computed_in_blocks_end_in_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def played() -> list[Tensor]:
        made, draw = env(7), torch.Generator().manual_seed(1)
        seen = [made.reset(seeds(7))]
        for _ in range(30):  # episodes end on the way
            step = made.step(torch.rand(7, 3, generator=draw) * 2 - 1)
            seen += [step.obs, step.next_obs, step.reward]
        return seen

    whole = played()
    monkeypatch.setattr(account, "BLOCK", 3)
    assert all(torch.equal(one, other) for one, other in zip(played(), whole, strict=True))


def test_nobody_trains_or_plays_in_the_holdout() -> None:
    with pytest.raises(UserError, match="the holdout is no environment: it is opened, and counted"):
        env(part="holdout")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"part": "test"}, "part is one of fit, selection, holdout, got 'test'"),
        ({"selection": 0.9, "holdout": 0.5}, "fit, selection and holdout follow one another"),
        ({"selection": "1999-01-01"}, "follow one another"),
        ({"sessions": 400}, "part fit has [0-9]+ decisions, an episode of 400 sessions takes"),
        ({"sessions": -1}, "sessions is a whole number from 0, got -1"),
        ({"windows": 3}, "trading has no argument 'windows'"),
        ({"market": {"source": "nowhere"}}, "there is no market 'nowhere'"),
        ({"market": {"stoks": 3}}, "a synthetic market has no 'stoks', did you mean|no 'stoks'"),
        ({"market": {**MARKET, "markets": 0}}, "markets is a whole number from 1, got 0"),
        ({"features": ["return_390"], "market": {**MARKET, "days": 45}}, "too few for the warm-up"),
        ({"holdout": True}, "holdout: expected a date or a share of the sessions"),
        ({"selection": "yesterday"}, "selection: expected a date such as 2019-05-13"),
        ({"market": ["bars.parquet"]}, "market is a mapping such as"),
        ({"market": "nowhere.csv"}, "there is no file nowhere"),
        ({"features": "signal"}, "features is a list of names, got 'signal'"),
    ],
)  # fmt: skip
def test_a_task_that_can_t_be_is_one_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        env(**wrong)


def test_an_id_that_names_another_market_than_the_source_is_refused() -> None:
    kwargs = {"market": {"source": "mine.csv"}}
    with pytest.raises(
        UserError, match=r"env\.id skfolio:sp500 is another market than .* mine\.csv"
    ):
        task_of("skfolio:sp500", kwargs)
    assert task_of("mine.csv", kwargs).market == task_of("trading", kwargs).market


def test_an_action_that_is_no_number_ends_the_step() -> None:
    made = env()
    made.reset(seeds())
    with pytest.raises(Diverged, match="an action is not finite"):
        made.step(torch.full((4, 3), float("nan")))
