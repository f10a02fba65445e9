"""Rounds are scored beside training: with the same bits, and nothing is lost on the way."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from hpcpod.cli.parser import main
from hpcpod.config.placement import scores_beside
from hpcpod.records.records import Report
from hpcpod.run.run import open_run
from hpcpod.run.tables import slots_table
from hpcpod.storage.requests import Drain, Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.pod.rounds import first_birth, onward, train
from tests.support.evaluators import GATED, GATES
from tests.support.slots import SlotProcess, gone
from tests.support.small_runs import SLOW, create, wait_for

pytestmark = pytest.mark.slow

FIRST, SECOND = "p0001-00001-1", "p0001-00002-1"


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a file of a round's number holds its scoring up."""
    folder = tmp_path / "gates"
    folder.mkdir()
    monkeypatch.setenv(GATES, str(folder))
    return folder


def slow_run(home: Path, **stop: Any) -> RunFolder:
    """A run of one pod with two rounds of seconds, which are scored beside training."""
    pod = {**SLOW["pod"], **GATED, "score_beside": True}
    return create(home, **{**SLOW, "pod": pod, **({"stop": stop} if stop else {})})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """Three rounds of ``slow_run``, in one process that nothing happens to."""
    folder = create(tmp_path_factory.mktemp("undisturbed"), **SLOW)
    birth, reports = first_birth(folder), list[Report]()
    for _ in range(3):
        reports.append(train(folder, birth))
        birth = onward(birth, reports[-1])
    return reports


def report_of(folder: RunFolder, order: str) -> Report:
    report = folder.reports.read(order)
    assert report is not None, order
    return report


def substance(report: Report) -> tuple[Any, ...]:
    """All of a report that is decided by its birth."""
    return (
        report.returns, report.inherited_returns, report.checkpoint, report.trained_steps,
        report.metrics, report.engine, report.failure,
    )  # fmt: skip


def assert_same(folder: RunFolder, orders: tuple[str, ...], undisturbed: list[Report]) -> None:
    for order, calm in zip(orders, undisturbed, strict=False):
        assert substance(report_of(folder, order)) == substance(calm)


def assert_finished(folder: RunFolder, slot: SlotProcess) -> None:
    assert slot.end() == 0, slot.log
    assert read_board(folder).phase == "finished", slot.log


def process(slot: SlotProcess, *, scorer: bool) -> psutil.Process:
    """The slot's trainer or its scorer, once there is one."""

    def chosen() -> list[psutil.Process]:
        assert slot.process.poll() is None, slot.log
        children = psutil.Process(slot.process.pid).children()
        return [child for child in children if ("--scorer" in child.cmdline()) == scorer]

    wait_for("the process", lambda: len(chosen()) > 0)
    return chosen()[0]


def until_ahead(slot: SlotProcess) -> None:
    """Wait until the second round is trained before it is ordered."""

    def ahead() -> bool:
        assert slot.process.poll() is None, slot.log
        shown = slot.status()
        return "ahead" in shown and "env_steps" in shown

    wait_for("a round that is trained ahead", ahead)


def test_a_tournament_that_is_scored_beside_training_has_the_same_reports_bit_by_bit(
    tmp_path: Path,
) -> None:
    algorithms = ("ppo", "dqn")
    reports: list[dict[str, tuple[Any, ...]]] = []
    for beside in (False, True):
        folder = create(
            tmp_path / str(beside), *algorithms,
            stop={"rounds": 4}, pod={"score_beside": beside}, resources={"cpus_per_pod": 2},
        )  # fmt: skip
        slot = SlotProcess(folder, slot=f"beside-{beside}")
        assert_finished(folder, slot)
        names = [path.stem for path in sorted((folder.path / "reports").glob("*/*.json"))]
        reports.append({name: substance(report_of(folder, name)) for name in names})
        finals = [name for name in names if "-report" in name]
        assert len(finals) == 1 and len(names) == len(algorithms) * 4 + 1
    assert reports[0] == reports[1]


def test_a_round_that_was_trained_ahead_counts_once_it_is_ordered(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    # Whoever is ahead leaves nothing: a checkpoint inside the round is due every 0.2 s.
    wait_for("the end of its training", lambda: slot.status()["state"] == "scoring")
    assert folder.claims.owner(SECOND) is None and folder.checkpoints.latest("p0001", 2) is None
    assert folder.checkpoints.trained("p0001", 2) is None
    trained = folder.checkpoints.trained("p0001", 1)
    assert trained is not None and trained.returns == ()
    (gates / "1").unlink()
    assert_finished(folder, slot)
    assert "is not ordered" not in slot.log
    assert_same(folder, (FIRST, SECOND), undisturbed)
    report = report_of(folder, FIRST)
    assert report.train_seconds > 0 and report.evaluate_seconds > 0
    assert list(folder.checkpoints.all()) == []


def test_what_was_begun_ahead_and_is_not_ordered_is_dropped_without_a_trace(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    trainer = process(slot, scorer=False).pid
    resolved = folder.resolved
    rules = Rules.of(resolved.config, resolved.algorithms)
    merge(folder, rules, lost=[FIRST])  # somebody has taken the slot for dead
    (gates / "1").unlink()
    wait_for("the second attempt", lambda: folder.claims.owner("p0001-00001-2") is not None)
    assert (
        folder.checkpoints.all().keys() <= {"p0001"}
        and folder.checkpoints.latest("p0001", 2) is None
    )
    wait_for("its end", lambda: folder.reports.exists("p0001-00001-2"))
    assert process(slot, scorer=False).pid == trainer
    assert_finished(folder, slot)
    assert f"{SECOND} was begun ahead and is not ordered" in slot.log
    assert "p0001-00001-2 is trained already" in slot.log
    assert folder.claims.owner(SECOND) is None
    assert_same(folder, ("p0001-00001-2", "p0001-00002-2"), undisturbed)


def test_a_slot_that_is_told_to_go_keeps_what_was_trained_and_not_scored(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    children = [process(slot, scorer=scorer).pid for scorer in (False, True)]
    slot.process.send_signal(signal.SIGTERM)
    assert slot.end() == 75, slot.log
    assert all(map(gone, children))
    assert folder.checkpoints.latest("p0001", 2) is None and folder.claims.owner(SECOND) is None
    assert not folder.reports.exists(FIRST)
    (gates / "1").unlink()
    last = SlotProcess(folder)
    assert_finished(folder, last)
    assert f"{FIRST} is trained already" in last.log
    assert_same(folder, (FIRST, SECOND), undisturbed)


def test_what_was_begun_ahead_is_resumed_if_it_was_ordered_before_the_slot_was_told_to_go(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    folder = slow_run(tmp_path, rounds=3, finalists=1, confirm_episodes=2)
    slot = SlotProcess(folder)
    slot.until_checkpointed(number=3)  # the scorer has long been there: it takes a moment
    slot.process.send_signal(signal.SIGTERM)
    assert slot.end() == 75, slot.log
    assert folder.checkpoints.latest("p0001", 3) is not None
    assert folder.claims.owner("p0001-00003-1") is not None
    last = SlotProcess(folder)
    assert_finished(folder, last)
    assert "p0001-00003-1 goes on at" in last.log
    assert_same(folder, (FIRST, SECOND, "p0001-00003-1"), undisturbed)


def test_a_draining_slot_scores_what_it_has_trained_and_drops_what_is_ahead(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    folder.requests.publish(Drain())
    wait_for("the drop", lambda: f"{SECOND} was begun ahead and is not ordered" in slot.log)
    (gates / "1").unlink()
    assert slot.end() == 0, slot.log
    assert substance(report_of(folder, FIRST)) == substance(undisturbed[0])
    assert read_board(folder).phase == "running" and folder.claims.owner(SECOND) is None


def test_a_killed_scorer_costs_an_attempt_and_no_training(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    process(slot, scorer=True).kill()
    (gates / "1").unlink()
    assert_finished(folder, slot)
    report = report_of(folder, FIRST)
    assert report.failure_kind == "memory" and "SIGKILL" in report.failure
    assert "p0001-00001-2 is trained already" in slot.log
    assert_same(folder, ("p0001-00001-2", "p0001-00002-2"), undisturbed)


def test_a_trainer_that_dies_ahead_costs_an_attempt_at_what_it_was_ahead_with(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    process(slot, scorer=False).kill()
    wait_for("its death", lambda: f"{SECOND}: the training process was killed" in slot.log)
    assert not folder.reports.exists(SECOND)
    (gates / "1").unlink()
    assert_finished(folder, slot)
    assert report_of(folder, SECOND).failure_kind == "memory"
    assert_same(folder, (FIRST, "p0001-00002-2"), undisturbed)


def test_a_killed_slot_takes_trainer_and_scorer_along(gates: Path, tmp_path: Path) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path)
    slot = SlotProcess(folder)
    until_ahead(slot)
    children = [process(slot, scorer=scorer) for scorer in (False, True)]
    left = [each for child in children for each in (child, *child.children(recursive=True))]
    slot.process.kill()
    assert slot.end() == -signal.SIGKILL
    for each in left:
        wait_for(f"the end of {each}", partial(gone, each.pid))


def test_a_run_that_ends_does_not_wait_for_what_is_ahead(gates: Path, tmp_path: Path) -> None:
    (gates / "1").touch()
    folder = slow_run(tmp_path, env_steps=3072, finalists=1, confirm_episodes=2)
    slot = SlotProcess(folder)
    until_ahead(slot)
    (gates / "1").unlink()
    assert_finished(folder, slot)
    assert f"{SECOND} was begun ahead and is not ordered" in slot.log
    assert read_board(folder).rounds == 1
    assert folder.claims.owner(SECOND) is None and not folder.reports.exists(SECOND)


def test_a_scorer_that_hangs_is_killed_and_only_its_score_is_done_again(
    undisturbed: list[Report], gates: Path, tmp_path: Path
) -> None:
    (gates / "1").touch()
    # A start, which is watched as well, takes half a minute on a busy machine.
    pod = {**SLOW["pod"], **GATED, "score_beside": True, "hang_seconds": 60.0}
    folder = create(tmp_path, **{**SLOW, "pod": pod})
    slot = SlotProcess(folder)
    until_ahead(slot)
    process(slot, scorer=True).suspend()
    (gates / "1").unlink()
    assert_finished(folder, slot)
    report = report_of(folder, FIRST)
    assert report.failure.startswith("the scoring process gave no sign of life for 60 s")
    assert_same(folder, ("p0001-00001-2", "p0001-00002-2"), undisturbed)


@pytest.mark.parametrize(
    ("wanted", "cores", "beside"),
    [(None, 1, False), (None, 2, True), (True, 1, True), (False, 2, False)],
)
def test_a_slot_with_a_core_for_it_scores_beside_training(
    wanted: bool | None, cores: int, beside: bool, tmp_path: Path
) -> None:
    resources, pod = {"cpus_per_pod": cores}, {"score_beside": wanted}
    folder = create(tmp_path, resources=resources, pod=pod)
    assert scores_beside(folder.resolved.config) == beside


def test_who_looks_sees_both_processes_the_scorer_is_the_nicer_one_and_a_stop_ends_both(
    gates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (gates / "1").touch()
    pod = {**GATED, "score_beside": True}
    folder = create(tmp_path, **{**SLOW, "pod": pod, "round": {"env_steps": 12288, "episodes": 2}})
    slot = SlotProcess(folder)
    until_ahead(slot)
    trainer = process(slot, scorer=False)
    trainer.suspend()  # it would be at its round's end before a busy machine has looked at all
    shown = open_run(folder.path).status()
    (row,) = shown.slots.values()
    beside = row["scoring"]
    assert [(each["state"], each["order"]) for each in (row, beside)] == [
        ("training", SECOND),
        ("scoring", FIRST),
    ]
    console = Console(width=80)
    with console.capture() as capture:
        console.print(slots_table(shown))
    lines = [line.replace("│", " ").split() for line in capture.get().splitlines()]
    assert ["s", "training", "p0001", "ppo", "2"] in [line[:5] for line in lines]
    assert ["scoring", "p0001", "ppo", "1"] in lines
    assert main(["status", str(folder.path)]) == 0
    assert f"slot s: training {SECOND}, scoring {FIRST}" in capsys.readouterr().out
    scorer = process(slot, scorer=True)  # which is as nice as the trainer until it has begun
    wait_for("the scorer's niceness", lambda: scorer.nice() > trainer.nice())
    trainer.resume()
    folder.requests.publish(Stop())
    assert slot.end() == 0, slot.log
    assert gone(trainer.pid) and gone(scorer.pid)
    assert not folder.reports.exists(FIRST)
