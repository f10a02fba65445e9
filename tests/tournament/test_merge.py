"""The run folder after a merge, whichever process died: the best policy, ends made known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpcpod.errors import Corrupt
from hpcpod.records.records import (
    Birth,
    Board,
    Checkpoint,
    Decision,
    Entry,
    Order,
    PodState,
    Rescore,
)
from hpcpod.run.run import Run
from hpcpod.storage.board import writer_id
from hpcpod.storage.requests import Finals, Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.allocation import Allocation, Prospects
from hpcpod.tournament.allocators.fair import Fair
from hpcpod.tournament.leaderboard import fold, orders
from hpcpod.tournament.merge import after_merge, merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.slots import SlotProcess
from tests.support.small_runs import SLOW, create, wait_for
from tests.tournament.world import flat, order_of, report


def rules_of(folder: RunFolder) -> Rules:
    resolved = folder.resolved
    return Rules.of(resolved.config, resolved.algorithms)


def answer(folder: RunFolder, order: Order, returns: tuple[float, ...]) -> Board:
    """Report on an order, with a checkpoint that is there, and merge."""
    core = folder.blobs.put({"weights": np.ones(3)}, {"of": order.id})
    checkpoint = Checkpoint(core, 512 * order.round)
    folder.reports.publish(report(order, returns, checkpoint=checkpoint))
    return merge(folder, rules_of(folder))


def the_order(board: Board, kind: type[Birth] | type[Rescore]) -> Order:
    (order,) = [order for order in orders(board) if isinstance(order, kind)]
    return order


def publish(folder: RunFolder, change: Callable[[Board], Board]) -> Board:
    """A generation by a merger that dies right after."""
    found = folder.board.read()
    assert found is not None
    generation, old = found
    new = change(Board.from_document(old))
    assert folder.board.publish(generation, old, new.document(), writer_id())
    return new


@pytest.mark.parametrize("finish", [Run.tick, Run.wait, Run.stop])
def test_an_end_whose_merger_died_is_finished_by_the_next(
    finish: Callable[[Run], object], tmp_path: Path
) -> None:
    folder = create(tmp_path)
    answer(folder, orders(read_board(folder))[0], flat(1.0))
    publish(folder, lambda board: fold(board, [], rules_of(folder), now=1.0, stop="user"))
    assert not (folder.path / "best.h5").exists()
    finish(Run(folder))
    assert (folder.path / "best.h5").exists()
    assert folder.requests.read(Stop) == Stop(reason="user")


def test_an_end_is_exported_once(tmp_path: Path) -> None:
    folder = create(tmp_path)
    answer(folder, orders(read_board(folder))[0], flat(1.0))
    merge(folder, rules_of(folder), stop="user")
    (folder.path / "best.h5").unlink()  # taken away by a person
    merge(folder, rules_of(folder))
    assert not (folder.path / "best.h5").exists()


def test_an_end_that_is_lost_with_its_board_and_a_report_is_no_end(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"rounds": 2, "finalists": 1, "confirm_episodes": 16})
    first = answer(folder, the_order(read_board(folder), Birth), flat(6.0))
    second = the_order(first, Birth)
    finals = answer(folder, second, flat(7.0))
    assert finals.phase == "finals"
    board = answer(folder, the_order(finals, Rescore), flat(7.0, 16))
    assert board.phase == "finished"
    assert folder.requests.read(Finals) and folder.requests.read(Stop)

    folder = without_newest(folder, 1)
    assert merge(folder, rules_of(folder)).phase == "finished", "the reports say it again"

    folder = without_newest(folder, 3)
    next(folder.path.glob(f"reports/*/{second.id}.json")).write_bytes(b"torn")
    board = merge(folder, rules_of(folder))
    assert board.phase == "running"
    assert not folder.requests.read(Finals) and not folder.requests.read(Stop)
    finals = answer(folder, the_order(board, Birth), flat(8.0))
    board = answer(folder, the_order(finals, Rescore), flat(8.0, 16))
    assert board.phase == "finished" and folder.requests.read(Stop) == Stop(reason="rounds")


def test_a_person_s_end_is_one_also_when_its_board_is_lost(tmp_path: Path) -> None:
    folder = create(tmp_path)
    answer(folder, the_order(read_board(folder), Birth), flat(6.0))
    merge(folder, rules_of(folder), stop="user")
    folder = without_newest(folder, 1)
    assert read_board(folder).phase == "running"
    merge(folder, rules_of(folder))
    assert read_board(folder).stop_reason == "user"
    assert folder.requests.read(Stop) == Stop(reason="user")


def without_newest(folder: RunFolder, count: int) -> RunFolder:
    """The run as a newcomer opens it after its newest generations were torn."""
    found = folder.board.read()
    assert found is not None
    for number in range(found[0] - count + 1, found[0] + 1):
        folder.board.path(number).write_bytes(b"torn")
    return RunFolder.open(folder.path)


def exported(folder: RunFolder) -> tuple[str, int, bytes]:
    about = json.loads((folder.path / "best.json").read_text())
    return about["pod"], about["round"], (folder.path / "best.h5").read_bytes()


def test_a_winner_that_missed_an_older_attempt_is_exported_as_it_won(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"target": 5.0, "rounds": 3, "confirm_episodes": 16})
    board = answer(folder, the_order(read_board(folder), Birth), flat(6.0))
    board = answer(folder, the_order(board, Rescore), flat(0.0))
    board = answer(folder, the_order(board, Birth), flat(9.0))
    winning = the_order(board, Rescore)
    board = answer(folder, winning, flat(8.0, 16))
    assert (board.phase, board.stop_reason) == ("finished", "target")
    assert [score.passed for score in board.confirmed] == [False, True]
    assert isinstance(winning, Rescore)
    blob = folder.blobs.path(winning.checkpoint.core).read_bytes()
    assert exported(folder) == ("p0001", 2, blob)
    best = Run(folder).best()
    assert best is not None
    assert (best.round, best.mean, best.fresh) == (2, 8.0, True)


def test_a_finalist_that_missed_the_target_is_exported_by_its_final(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"target": 5.0, "rounds": 2, "confirm_episodes": 16})
    board = answer(folder, the_order(read_board(folder), Birth), flat(6.0))
    board = answer(folder, the_order(board, Rescore), flat(0.0))
    board = answer(folder, the_order(board, Birth), flat(4.0))
    final = the_order(board, Rescore)
    assert isinstance(final, Rescore) and (final.purpose, final.round) == ("report", 1)
    board = answer(folder, final, flat(2.0))
    assert (board.phase, board.stop_reason) == ("finished", "rounds")
    blob = folder.blobs.path(final.checkpoint.core).read_bytes()
    assert exported(folder) == ("p0001", 1, blob)
    best = Run(folder).best()
    assert best is not None and best.mean == 2.0


def test_a_round_that_the_finals_have_made_void_is_not_trained_to_its_end(tmp_path: Path) -> None:
    long = {**SLOW, "round": {"env_steps": 6144, "episodes": 2}}
    folder = create(tmp_path, **long, stop={"minutes": 600.0, "rounds": 9})
    slot = SlotProcess(folder)
    wait_for("the second round", lambda: slot.status().get("round") == 2)
    slot.until_in_mid_round()
    began = read_board(folder).began
    assert began is not None
    late = began + 36_000
    finals = publish(folder, lambda board: fold(board, [], rules_of(folder), now=late))
    assert finals.phase == "finals"
    after_merge(folder, finals)
    assert slot.end() == 0, slot.log
    board = read_board(folder)
    assert (board.phase, board.stop_reason) == ("finished", "minutes")
    assert folder.reports.read("p0001-00002-1") is None


def test_a_clock_that_is_hours_ahead_does_not_spend_the_run_s_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path, stop={"minutes": 10, "rounds": None})
    began = merge(folder, rules_of(folder), at_work=True).began
    assert began is not None
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + 3 * 3600)  # this node's
    assert merge(folder, rules_of(folder)).phase == "running"
    board = replace(read_board(folder), began=began - 601)  # the disk's own: ten minutes are over
    publish(folder, lambda _: board)
    assert merge(folder, rules_of(folder)).stop_reason == "minutes"


def forged(**fields: object) -> Callable[[Board], Board]:
    """The first pod with other fields."""

    def change(board: Board) -> Board:
        pod: PodState = replace(board.pods["p0001"], **fields)  # type: ignore[arg-type]
        return replace(board, pods={**board.pods, "p0001": pod})

    return change


NOBODY = Entry("p0009", "ppo", 1, 0.0, 0.0, 0.0, 8, Checkpoint("0" * 64, 1))
FORGERIES: list[Callable[[Board], Board]] = [
    forged(id="p0002"),
    forged(parent="p0001"),  # who looks for the first of its ancestors would look for ever
    forged(parent="p0009"),
    forged(replaces="p0001"),
    forged(replaces="p0009"),
    lambda board: replace(board, winner="p0009"),
    lambda board: replace(board, entries=(NOBODY,)),
]


@pytest.mark.parametrize("number", range(len(FORGERIES)))
def test_a_board_that_contradicts_itself_is_refused_in_a_sentence(
    number: int, tmp_path: Path
) -> None:
    folder = create(tmp_path)
    publish(folder, FORGERIES[number])
    for look in (read_board, lambda folder: merge(folder, rules_of(folder))):
        with pytest.raises(Corrupt, match=r"is none that this hpcpod wrote: .*p000"):
            look(folder)


class Hungry(Fair):
    """Has the first pod rest, a control, as soon as another is ahead of it."""

    def allocate(self, prospects: Prospects) -> Allocation:
        behind = [each.pod for each in prospects.scored[1:]]
        return Allocation(resting={"p0001": "it is behind"} if "p0001" in behind else {})


def test_an_allocator_that_starves_a_control_is_refused_and_the_control_trains(
    tmp_path: Path,
) -> None:
    rule = f"{__name__}:Hungry"
    population = {"pods": {"min": 1, "max": 3}, "allocator": rule}
    folder = create(tmp_path, population=population, stop={"rounds": 3})
    decided: dict[str, Decision] = {}
    for order in orders(read_board(folder)):  # the control is the worst
        decided |= answer(folder, order, flat(float(order.pod[1:]))).decisions
    decided |= answer(folder, order_of(read_board(folder), "p0001"), flat(1.0)).decisions
    board = read_board(folder)
    control = board.pods["p0001"]
    assert control.control and [each.round for each in control.evaluations] == [1, 2]
    kept = {**folder.decisions.all(), **board.decisions}
    refused = [each for each in kept.values() if each.kind == "refusal"]
    assert {(each.rule, each.outcome) for each in refused} == {
        (rule, "it leaves p0001 without a round, which leads or is a control")
    }
    assert kept == decided
    assert not control.rests and not [each for each in kept.values() if each.kind == "rest"]
