"""The preset ``paper`` by numbers that were worked by hand, and the paper's five metrics."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpcpod.cli.parser import main
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check, read_config
from hpcpod.run.run import Run
from hpcpod.trading.backtest import backtest
from hpcpod.trading.env import PERCENT, TradingVecEnv
from hpcpod.trading.files import write_bars
from hpcpod.trading.holdout import judge
from hpcpod.trading.metrics import performance
from hpcpod.trading.task import task_of
from hpcpod.trading.verdict import RIVAL
from tests.run.continuous.worlds import drive
from tests.trading.small import daily
from tests.trading.test_splits import RUN


def kwargs(file: Path, jump: float = 101.0, **changed: Any) -> dict[str, Any]:
    """The paper's rules on 90 days that close at 100 and 101 in turns, but for day 69."""
    closes = np.where(np.arange(90) % 2, 101.0, 100.0)[:, None]
    closes[69] = jump
    panel = daily(closes)
    write_bars(panel, file)
    return {
        "market": {"source": str(file), "calendar": None}, "preset": "paper", "embargo": 0,
        "features": ["return_1"], "sessions": 0, "selection": str(panel.dates[66]),
        "holdout": str(panel.dates[78]), **changed,
    }  # fmt: skip


def begun(file: Path, jump: float) -> TradingVecEnv:
    """One account that decides for the first time on day 66."""
    env = TradingVecEnv("trading", 1, kwargs=kwargs(file, jump, part="selection"))
    env.reset()
    return env


def test_an_order_of_the_paper_s_rules_by_hand(tmp_path: Path) -> None:
    """Of 1,000,000 a fifth at most, sized by the close, filled at the next one, for 0.2 %; sold out
    two days after a day of turbulence 5.14, which is (ln 1.023 / ln 1.01)^2 x 59 / 60."""
    env = begun(tmp_path / "bars.csv", 102.3)
    reward = env.step(torch.ones(1, 1)).reward.item()
    # 2,000 shares by the 100 of day 66, for 101 each on day 67: 202,000, and 404 of it.
    assert env.account.cash.tolist() == [pytest.approx(797_596.0, abs=1e-6)]
    assert env.account.value.tolist() == [pytest.approx(999_596.0, abs=1e-6)]
    assert reward == pytest.approx(PERCENT * math.log(0.999596), rel=1e-5)
    env.step(torch.zeros(1, 1))
    env.step(torch.full((1, 1), -0.25))
    # A twentieth of 997,596 by the 100 of day 68 are 498 shares, for 102.3 each: 50,945.40, less
    # 101.8908.
    assert env.account.shares.tolist() == [[1502.0]]
    assert env.account.cash.tolist() == [pytest.approx(848_439.5092, abs=1e-6)]
    env.step(torch.zeros(1, 1))
    env.step(torch.ones(1, 1))
    # Whatever the action: 1,502 shares for the 101 of day 71, 151,702, less 303.404.
    assert env.account.shares.tolist() == [[0.0]]
    assert env.account.value.tolist() == [pytest.approx(999_838.1052, abs=1e-6)]


def test_a_turbulence_below_five_sells_nothing(tmp_path: Path) -> None:
    """(ln 1.022 / ln 1.01)^2 x 59 / 60 is 4.70."""
    env = begun(tmp_path / "bars.csv", 102.2)
    held = []
    for _ in range(5):
        env.step(torch.ones(1, 1))
        held.append(env.account.shares.item())
    assert held[0] == 2000.0 and held == sorted(held) and held[4] > held[3]


def test_rows_of_a_holdout_have_the_paper_s_five_metrics(tmp_path: Path) -> None:
    task = task_of("trading", kwargs(tmp_path / "bars.csv", part="holdout"))
    [[test]] = backtest(task, {"all": bought}, frozenset(["all"]))
    # Ten daily returns and the start are eleven rows.
    total, known = test.values[-1] / test.values[0], performance(test.values, paper=True)
    assert len(test.values) == 11 and known.annual_return == pytest.approx(total ** (252 / 11) - 1)
    told = judge(task, {"a": bought})
    row = told.rows[0]
    assert (row.cumulative_return, row.annual_of_paper, row.annual_volatility, row.max_drawdown,
            row.sharpe) == pytest.approx((
        known.cumulative_return, known.annual_return, known.annual_volatility, known.max_drawdown,
        known.sharpe,
    ))  # fmt: skip
    assert row.annual_return != pytest.approx(row.annual_of_paper, rel=1e-3)
    assert told.row(RIVAL).annual_of_paper != row.annual_of_paper


def test_of_several_markets_it_is_told_what_the_paper_s_metrics_are_of(tmp_path: Path) -> None:
    rules = {"preset": "paper", "features": ["return_1"], "sessions": 2}
    for count in (1, 2):
        market = {"days": 300, "minutes": 2, "stocks": 1, "markets": count}
        task = task_of("trading", {"market": market, **rules})
        said = judge(task, {"a": bought}, ledger=tmp_path).of_paper(rules)
        assert said.startswith("The paper's cumulative return")
        assert ("of these 2 the returns are of equal capital" in said) == (count == 2)


def bought(obs: torch.Tensor) -> torch.Tensor:
    return torch.ones(len(obs), 1)


@pytest.mark.parametrize("preset", ["paper", "strict"])
def test_the_paper_s_metrics_are_told_of_a_run_by_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], preset: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = kwargs(tmp_path / "bars.csv", sessions=3, preset=preset)
    Path("short.yaml").write_text(RUN.format(kwargs=json.dumps(given)), encoding="utf-8")
    checked = check(read_config("short.yaml"), probe=False)
    drive(Run(create_run(checked.resolved, tmp_path / "runs")))
    assert main(["evaluate", "short", "--holdout"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert main(shlex.split("report short -o short.html")) == 0
    page = Path("short.html").read_text(encoding="utf-8")
    said = "The paper's cumulative return, annual return, annual volatility, max drawdown and"
    assert [said in told, said.replace("'", "&#x27;") in page] == [preset == "paper"] * 2
