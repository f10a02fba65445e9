"""Decisions of a run: none is lost, and each can be asked for."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.errors import StorageError, UserError
from hpcpod.records.records import Checkpoint, Decision
from hpcpod.run.events import events
from hpcpod.run.run import Run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.small_runs import create
from tests.tournament.world import flat, report


def play(folder: RunFolder, rounds: int) -> list[Decision]:
    """Rounds of four pods, merged one by one; every decision that a board has shown."""
    rules = Rules.of(folder.resolved.config, folder.resolved.algorithms)
    shown: dict[str, Decision] = {}
    for _ in range(rounds):
        for order in orders(read_board(folder)):
            core = hashlib.sha256(order.id.encode()).hexdigest()
            done = Checkpoint(core, env_steps=100 * order.round)
            returns = flat(float(order.pod[1:]), 16)
            folder.reports.publish(report(order, returns, checkpoint=done))
            shown |= merge(folder, rules).decisions
    return [shown[name] for name in sorted(shown)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    changes = {"pods": {"min": 1, "max": 4}, "warmup_rounds": 0}
    return Run(create(tmp_path, population=changes, stop={"rounds": 50}))


def test_each_decision_of_each_merge_is_kept(run: Run) -> None:
    shown = play(run.folder, 6)
    assert {each.kind for each in shown} >= {"comparison", "birth"}
    assert run.decisions() == shown
    birth = next(each for each in shown if each.kind == "birth")
    assert birth in run.decisions(birth.pod)
    assert all(birth.pod in (each.pod, *each.others) for each in run.decisions(birth.pod))


def test_a_merger_that_dies_before_it_publishes_loses_and_doubles_none(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = play(run.folder, 3)

    def dies(*_arguments: object) -> bool:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(run.folder.board, "publish", dies)
        with pytest.raises(StorageError, match="is gone"):
            play(run.folder, 1)
    assert run.decisions() == shown
    later = play(run.folder, 1)
    assert run.decisions()[-1] == later[-1]
    assert run.decisions()[: len(shown)] == shown


def test_a_damaged_file_costs_its_own_decisions_alone(run: Run) -> None:
    shown = play(run.folder, 4)
    first = min((run.path / "decisions").glob("*/*.json"), key=lambda path: path.name)
    held = first / "content" if first.is_dir() else first
    held.write_bytes(held.read_bytes()[:-9])
    left = run.decisions()
    assert 0 < len(left) < len(shown)
    assert left == shown[len(shown) - len(left) :]
    assert len(run.folder.quarantine.list()) == 1


def test_why_tells_the_last_comparison(run: Run) -> None:
    play(run.folder, 4)
    board = run.board()
    pod = next(pod for pod in board.living if pod.verdict)
    assert f"compared with others {pod.verdict}" in run.why(pod.id)


class Raising:
    """An updater with a bug."""

    def __init__(self, config: object) -> None:
        pass

    def judge(self, cohorts: object, report: object) -> None:
        raise KeyError("no such key")


def test_a_rule_of_the_user_s_that_raises_is_said_while_it_runs_and_by_why(tmp_path: Path) -> None:
    path = f"{__name__}:Raising"
    run = Run(create(tmp_path, population={"updater": path, "pods": {"min": 1, "max": 2}}))
    begun = run.board()
    play(run.folder, 2)
    [line] = events(None, replace(run.board(), pods={}), "mine")
    assert line == (
        f"{path}: its decision about p0002 is refused, and the built-in rule decides:"
        " KeyError: 'no such key'"
    )
    assert line in list(events(begun, run.board(), "mine"))
    assert line not in list(events(run.board(), run.board(), "mine")), "said once"
    assert (
        f"population.updater: 4 decisions by {path} refused, and made by the built-in rule; the"
        " last reason: KeyError: 'no such key'"
    ) in run.why()
    assert any(said.startswith("population.updater: 2 decisions") for said in run.why("p0001"))


def test_a_pod_that_is_none_is_refused(run: Run) -> None:
    with pytest.raises(UserError, match="has no pod p0099"):
        run.decisions("p0099")
