"""A slot that is lost while it scores the snapshots of a run: nothing is lost, nothing is twice."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from hpcpod.records.records import Board
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.policy_snapshots import being_scored, in_order, policies
from hpcpod.tournament.rules import Rules
from tests.support.slots import SlotProcess
from tests.support.small_runs import SLOW, create, wait_for

KEPT: dict[str, Any] = {
    **SLOW, "stop": {"rounds": 3}, "round": {"env_steps": 2048, "episodes": 2},
    "snapshots": {"seconds": 1, "episodes": 24},
}  # fmt: skip
"""Three rounds of more than a second each, so that two leaders or more are kept."""


def until_scoring(slot: SlotProcess) -> str:
    """Wait until a slot scores a snapshot; the order."""

    def there() -> bool:
        assert slot.process.poll() is None, slot.log
        return "-snapshot" in slot.status().get("order", "")

    wait_for("a snapshot's turn", there)
    return str(slot.status()["order"])


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose slot was killed in a snapshot's score."""
    folder = create(tmp_path_factory.mktemp("killed"), **KEPT)
    slot = SlotProcess(folder)
    order = until_scoring(slot)
    slot.process.kill()
    assert slot.end() == -signal.SIGKILL
    board = read_board(folder)
    assert board.phase == "finals" and being_scored(board.rescores), slot.log
    assert folder.reports.read(order) is None
    (folder.path.parent / "order").write_text(order)
    return folder.path


def killed_while_scoring(killed: Path, home: Path) -> tuple[RunFolder, Board, str]:
    """A copy of that run, its board when the slot was killed, and the order."""
    shutil.copytree(killed, home / killed.name, symlinks=True)
    folder = RunFolder.open(home / killed.name)
    return folder, read_board(folder), (killed.parent / "order").read_text()


def assert_all_scored(folder: RunFolder, before: Board) -> None:
    board = read_board(folder)
    rows = in_order(board)
    assert board.phase == "finished" and (folder.path / "best.h5").exists()
    assert [(r.number, r.checkpoint) for r in rows] == [
        (r.number, r.checkpoint) for r in in_order(before)
    ]
    assert all(len(row.returns) == 24 and not row.failure for row in rows)
    assert (board.winner, board.stop_reason, board.stopped, board.confirmed) == (
        before.winner, before.stop_reason, before.stopped, before.confirmed,
    )  # fmt: skip
    # each policy has counted one report
    assert board.reports == before.reports + len(before.rescores)
    assert len(before.rescores) <= len(policies(board))


@pytest.mark.long
def test_a_slot_that_comes_back_takes_the_score_up_again(killed: Path, tmp_path: Path) -> None:
    folder, board, order = killed_while_scoring(killed, tmp_path)
    again = SlotProcess(folder)
    assert again.end() == 0, again.log
    assert_all_scored(folder, board)
    assert folder.reports.read(order) is not None


@pytest.mark.long
def test_one_that_does_not_leaves_it_to_another_and_its_late_report_counts_for_nothing(
    killed: Path, tmp_path: Path
) -> None:
    folder, board, order = killed_while_scoring(killed, tmp_path)
    merge(folder, Rules.of_run(folder), lost=[order])
    other = SlotProcess(folder, slot="other", job="k")
    assert other.end() == 0, other.log
    assert_all_scored(folder, board)
    assert folder.reports.read(order) is None
    report = folder.reports.read(f"{order[:-2]}-2")
    assert report is not None and report.slot == "other"
