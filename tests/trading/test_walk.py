"""Folds that versions of other rows have judged, as one result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcpod.trading.holdout import judge
from hpcpod.trading.task import task_of
from hpcpod.trading.verdict import Verdict, verdicts
from hpcpod.trading.walk import walk

UNKNOWN = "unknown (not all folds were judged beside it)"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Verdicts of three folds with an edge, also over the row of a risk-off that never is."""
    path = tmp_path_factory.mktemp("folds")
    for fold in (1, 2, 3):
        task = task_of("trading", {
            "market": {"stocks": 4, "days": 250, "minutes": 13, "seed": 50, "alpha": 3.0},
            "stride": 4, "features": ["signal"], "risk_off": 1e9, "folds": 3, "fold": fold,
            "selection": 0.2, "holdout": 0.4, "purge": 5, "embargo": 0,
        })  # fmt: skip
        judge(task, {"a": lambda obs: (obs[:, :4] > 0).float()}, run=f"{fold}", ledger=path)
    return path


def read(ledger: Path, home: Path, left_out: Mapping[int, str]) -> dict[int, Verdict]:
    """Verdicts by fold, of which some were kept without a field."""
    for path in ledger.glob("*.verdict"):
        kept = json.loads(path.read_text())
        kept.pop(left_out.get(int(kept["openings"][-1]["run"]), ""), None)
        (home / path.name).write_text(json.dumps(kept))
    return {fold: verdicts(home, f"{fold}")[-1] for fold in (1, 2, 3)}


def test_there_is_no_edge_over_a_risk_off_beside_which_not_all_folds_were_judged(
    ledger: Path, tmp_path: Path
) -> None:
    whole = walk(read(ledger, tmp_path, {}))
    assert whole.edge and whole.risk_off == whole.hold
    part = walk(read(ledger, tmp_path, {2: "over_risk_off"}))
    assert not part.edge and part.risk_off is None and part.days == whole.days
    assert part.words.startswith(f"no edge: ahead of buy-and-hold by {whole.hold.words} bp a day, ")
    assert f", and not of buy-and-hold with risk-off: {UNKNOWN}, over 150 days" in part.words
    none = walk(read(ledger, tmp_path, dict.fromkeys((1, 2, 3), "over_risk_off")))
    assert none.edge and "risk-off" not in none.words


@pytest.mark.parametrize("folds", [(3,), (1, 2, 3)])
def test_folds_that_were_judged_before_cash_was_are_no_edge(
    ledger: Path, tmp_path: Path, folds: tuple[int, ...]
) -> None:
    found = walk(read(ledger, tmp_path, dict.fromkeys(folds, "over_cash")))
    assert not found.edge and found.cash is None and found.risk_off == found.hold
    assert f"bp a day, and not of cash: {UNKNOWN}, over 150 days" in found.words
