"""Real runs to their ends: three sets of seeds, ensembles that are scored, and one delivered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.stopping import EnsembleRule
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.pod import Pod
from hpcpod.pod.round import Watch
from hpcpod.records.records import Order, Report, Rescore
from hpcpod.storage.policy_blobs import RULES
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import needed_checkpoints, orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.small_runs import create

OBSERVATIONS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


def test_a_run_plays_each_set_and_quotes_the_one_that_decided_nothing(finished_run: Path) -> None:
    run = hpcpod.open_run(finished_run)
    board, status = run.board(), run.status()
    single, both = board.finals.candidates
    assert (single.rule, both.rule) == ("", "vote"), "auto, where actions are choices"
    assert len(single.returns) == len(both.returns) == 4 and not both.failure
    purposes = [score.purpose for score in board.confirmed]
    assert purposes == ["final", "final", "candidate", "candidate", "report"]
    assert status.best is not None
    assert (status.best.seeds, status.best.episodes, status.best.candidates) == ("report", 4, 1)
    told = json.loads((finished_run / "best.json").read_text())
    assert (told["score"]["set"], told["score"]["mean"]) == ("report", board.confirmed[-1].mean)
    assert told["verdict"] == board.finals.verdict
    assert [each["members"] for each in told["candidates"]][1] == [m.pod for m in both.members]
    scored = run.folder.blobs.path(board.confirmed[3].checkpoint.core)
    ensemble = hpcpod.load_policy(scored)
    assert ensemble.about["rule"] == "vote"
    assert ensemble(OBSERVATIONS).shape == (64,)


class Played:
    """A run that this process plays, an order after another."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.pod: Pod = prepare(folder)

    def until(self, ended: Callable[[], bool], told: Callable[[Order, Report], Report]) -> None:
        """Execute orders, each report as ``told`` says, until something holds."""
        while not ended():
            for order in orders(read_board(self.folder)):
                report = self.pod.execute(order, "here", Watch())
                self.folder.reports.publish(told(order, report))
            merge(self.folder, Rules.of_run(self.folder))


def test_an_ensemble_that_wins_is_best_h5_and_says_how_it_was_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = {"rounds": 1, "finalists": 2, "confirm_episodes": 4}
    folder = create(tmp_path, "ppo", "dqn", stop=stop)
    played = Played(folder)
    real: dict[str, tuple[float, ...]] = {}

    def told(order: Order, report: Report) -> Report:
        real[order.id] = report.returns
        joined = isinstance(order, Rescore) and order.rule == "auto"  # else it would be no winner
        better = tuple(1000.0 + i for i in range(4))
        return replace(report, returns=better) if joined else report

    played.until(lambda: read_board(folder).phase == "finished", told)
    played.pod.close()
    board, run = read_board(folder), hpcpod.open_run(folder.path)
    assert "is shown to be better than" in board.finals.verdict
    assert (board.finals.delivered, board.confirmed[-1].rule) == (1, "vote")
    reported = next(name for name in real if "-report" in name)
    assert board.confirmed[-1].mean == sum(real[reported]) / 4, "of the report set alone"

    folder.prune(needed_checkpoints(board), 0.0)
    policy = hpcpod.load_policy(run)
    members = board.finals.candidates[1].members
    assert [each["pod"] for each in policy.about["members"]] == [m.pod for m in members]
    singles = [hpcpod.load_policy(folder.blobs.path(m.checkpoint.core)) for m in members]
    # of two votes that differ the better finalist's counts
    assert (policy(OBSERVATIONS) == singles[0](OBSERVATIONS)).all()

    told_of = json.loads((folder.path / "best.json").read_text())
    assert told_of["ensemble"]["rule"] == "vote"
    assert [each["pod"] for each in told_of["ensemble"]["members"]] == [m.pod for m in members]
    assert policy.about["score"] == told_of["score"] and told_of["score"]["set"] == "report"
    assert main(["status", str(folder.path)]) == 0
    names = ", ".join(m.pod for m in members)
    assert f"best: the ensemble (vote) of {names}: " in " ".join(capsys.readouterr().out.split())
    (row,) = hpcpod.compare([run]).to_dict("records")
    assert (row["seeds"], row["ensemble"]) == ("report", f"the ensemble (vote) of {names}")


def test_members_that_do_not_fit_cost_no_process_and_the_run_goes_on(tmp_path: Path) -> None:
    tried = {"rules": ["mean"]}
    stop = {"rounds": 1, "finalists": 2, "confirm_episodes": 2, "ensembles": tried}
    folder = create(tmp_path, "ppo", "dqn", stop=stop)
    played = Played(folder)
    attempts: list[str] = []

    def told(order: Order, report: Report) -> Report:
        attempts.extend([order.id] if "-candidate1-" in order.id else [])
        return report

    played.until(lambda: read_board(folder).phase == "finished", told)
    played.pod.close()
    board = read_board(folder)
    assert len(attempts) == 1, "it is not tried again"
    assert board.finals.verdict.endswith(
        ": rule mean is not for the discrete actions of CartPole-v1: use vote or product or"
        " q_weighted"
    )
    assert board.confirmed[-1].purpose == "report" and not board.confirmed[-1].rule


def test_the_rules_that_a_configuration_may_name_are_those_of_ensembles() -> None:
    assert get_args(EnsembleRule) == ("auto", *RULES)
