"""The time around a program's training: its start, its evaluation, its end, and its next task."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.errors import StorageError
from hpcpod.pod.ipc.messages import Progress
from hpcpod.pod.watch import ProgramFailed, Stopped, Watch
from hpcpod.tournament.merge import read_board
from tests.program.programs import (
    ADDS,
    READ,
    birth_of,
    create,
    execute,
    gone,
    once,
    running,
    saved,
)
from tests.program.test_round import KEPT
from tests.support.small_runs import wait_for


@pytest.mark.parametrize(
    "tells", ["tell(steps=1); tell(steps=2)", 'Path(session, "begun-0").touch(); tell(steps=2)']
)
def test_a_programs_start_and_evaluation_are_no_training_of_a_round_of_seconds(
    tells: str, tmp_path: Path
) -> None:
    script = (
        READ
        + f"""
if not task["checkpoint"]:
    time.sleep(0.6)  # its imports
    {tells}
    (save / "x").write_text("x")
    time.sleep(0.6)  # its evaluation
    (session.parent / "evaluated").touch()
    while not stopping():
        time.sleep(0.002)
    report(steps=2, returns=[1.0] * 8)
    sys.exit(0)
(save / "left").write_text(str(task["seconds"]))
report(steps=3, returns=[1.0] * 8)
"""
    ).replace('session.parent / "evaluated"', f"Path({str(tmp_path / 'evaluated')!r})")
    folder = create(script, tmp_path, program={"seconds": 1.0})
    with pytest.raises(Stopped):
        execute(folder, birth_of(folder), once((tmp_path / "evaluated").exists))
    report = execute(folder, birth_of(folder))
    assert 0.4 < float(saved(folder, report, tmp_path / "out")["left"]) <= 1.0
    assert report.trained_steps == 5


def test_a_report_leaves_at_once_and_the_next_order_waits_for_the_programs_end(
    tmp_path: Path,
) -> None:
    script = (
        READ
        + f"""
(save / "pid").write_text(str(os.getpid()))
report(steps=4, returns=[1.0] * 8)
while not Path({str(tmp_path / "go")!r}).exists():
    time.sleep(0.002)
"""
    )
    folder = create(script, tmp_path, program={"stop_seconds": 20.0})
    birth = birth_of(folder)

    def goes() -> bool:
        (tmp_path / "go").touch()
        return False

    with running(folder) as program:
        first = program.execute(birth, "here", Watch())
        pid = int(saved(folder, first, tmp_path / "one")["pid"])
        assert not gone(pid, 0.1)
        second = program.execute(replace(birth, round=2), "here", Watch(goes))
        assert gone(pid)
        assert int(saved(folder, second, tmp_path / "two")["pid"]) != pid


def test_a_later_process_loads_what_an_earlier_one_saved_unless_that_wrote_on(
    tmp_path: Path,
) -> None:
    script = (
        READ
        + """
before = Path(task["checkpoint"], "x").read_text() if task["checkpoint"] else ""
file = (save / "x").open("w")
print(before + "1", end="", file=file, flush=True)
report(steps=4, returns=[1.0] * 8)
while task["pod"] == "p0002" and save.exists():
    time.sleep(0.002)
print("?", file=file if task["pod"] == "p0002" else sys.stdout)
"""
    )
    folder = create(script, tmp_path, program={"stop_seconds": 20.0})
    birth = birth_of(folder)
    with running(folder) as program:
        first = program.execute(birth, "here", Watch()).checkpoint
        assert first is not None
        folder.blobs.path(first.core).unlink()  # so that no disk has it
        order = replace(birth, pod="p0002", round=2, checkpoint=first)
        second = program.execute(order, "here", Watch())
        third = program.execute(
            replace(birth, round=3, checkpoint=second.checkpoint), "here", Watch()
        )
    assert saved(folder, second, tmp_path / "second")["x"] == b"11"
    assert saved(folder, third, tmp_path / "third")["x"] == b"111"


def test_a_program_that_removes_its_own_folder_costs_the_next_one_nothing(tmp_path: Path) -> None:
    script = (
        READ
        + """
import shutil
(save / "x").write_text("x")
report(steps=4, returns=[1.0] * 8)
while save.exists():
    time.sleep(0.002)
while session.exists():  # the slot may put a file into it meanwhile
    shutil.rmtree(session, ignore_errors=True)
"""
    )
    folder = create(script, tmp_path, program={"stop_seconds": 20.0})
    birth = birth_of(folder)
    with running(folder) as program:
        first = program.execute(birth, "here", Watch())
        order = replace(birth, pod="p0002", round=2, checkpoint=first.checkpoint)
        second = program.execute(order, "here", Watch())
    assert saved(folder, second, tmp_path / "second")["x"] == b"x"


def test_a_program_without_its_folder_is_ended_with_the_slot(tmp_path: Path) -> None:
    script = (
        READ
        + f"""
import shutil
(save / "x").write_text("x")
report(steps=4, returns=[1.0] * 8)
while save.exists():
    time.sleep(0.002)
while session.exists():  # the slot may put a file into it meanwhile
    shutil.rmtree(session, ignore_errors=True)
Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
time.sleep(600)
"""
    )
    folder = create(script, tmp_path, program={"stop_seconds": 600.0})
    with running(folder) as program:
        program.execute(birth_of(folder), "here", Watch())
        wait_for("no folder", lambda: (tmp_path / "pid").exists())
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_stop_is_heard_while_a_program_that_has_reported_goes_on(tmp_path: Path) -> None:
    script = READ + '(save / "x").write_text("x")\nreport(returns=[1.0] * 8)\ntime.sleep(600)\n'
    folder = create(script, tmp_path, program={"stop_seconds": 600.0})
    birth = birth_of(folder)
    with running(folder) as program:
        program.execute(birth, "here", Watch())
        with pytest.raises(Stopped):
            program.execute(replace(birth, round=2), "here", Watch(lambda: True))


LEAVES = KEPT.replace(
    'if task["number"]:\n        assert Path(task["checkpoint"], "pid").read_text()'
    " == str(os.getpid())",
    'if task["number"]:\n        sys.exit(0)\n    if task["pod"] == "p0009":\n        sys.exit(3)',
)
"""Asks to be kept, and leaves when it gets a second task; it can't train p0009."""


def test_a_kept_process_that_leaves_by_itself_costs_no_attempt_once(tmp_path: Path) -> None:
    assert LEAVES.count("sys.exit") == 3
    folder = create(LEAVES, tmp_path)
    birth = birth_of(folder)
    with running(folder) as program:
        first = program.execute(birth, "here", Watch())
        second = program.execute(replace(birth, round=2), "here", Watch())
        one, two = (saved(folder, r, tmp_path / str(r.round))["pid"] for r in (first, second))
        assert one != two
        with pytest.raises(ProgramFailed, match="ended with exit code 3"):
            program.execute(replace(birth, pod="p0009"), "here", Watch())


def test_a_process_that_is_not_to_be_kept_is_told_that_there_is_no_more(tmp_path: Path) -> None:
    folder = create(KEPT, tmp_path, program={"keep": False, "stop_seconds": 600.0})
    birth = birth_of(folder)
    with running(folder) as program:
        for number in (1, 2):
            program.execute(replace(birth, round=number), "here", Watch())


def test_a_stopped_report_without_steps_is_no_whole_round(tmp_path: Path) -> None:
    script = (
        READ
        + """
(save / "x").write_text("x")
while not task["checkpoint"] and not stopping():
    time.sleep(0.002)
report(returns=[1.0] * 8)
"""
    )
    folder = create(script, tmp_path)
    with pytest.raises(Stopped):
        execute(folder, birth_of(folder), Watch(lambda: True))
    assert folder.checkpoints.steps("p0001", 1) == 0
    assert execute(folder, birth_of(folder)).trained_steps == 4


def test_progress_of_a_loss_has_the_sign_of_the_leaderboard(tmp_path: Path) -> None:
    script = READ + '(save / "x").write_text("x")\ntell(steps=4, score=3.0)\nreport(score=3.0)\n'
    more = {"direction": "minimize"}
    folder = create(script, tmp_path, program=more, population={"updater": "ranking"})
    heard: list[Progress] = []
    report = execute(folder, birth_of(folder), Watch(on_progress=heard.append))
    assert [each.mean_return for each in heard] == [-3.0]
    assert sum(report.returns) / 8 == pytest.approx(-3.0)


def test_a_full_disk_of_the_node_names_what_moves_the_sessions_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(ADDS, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    with pytest.raises(ProgramFailed, match="start the run with another TMPDIR"):
        execute(folder, birth_of(folder))


def test_a_lost_board_of_a_programs_run_points_to_the_files_that_are_left(tmp_path: Path) -> None:
    folder = create(ADDS, tmp_path)
    (folder.path / "best").mkdir()
    (folder.path / "best.h5").write_bytes(b"")
    for file in (folder.path / "board").rglob("*.json*"):
        file.unlink()
    with pytest.raises(StorageError, match=r"its best files are left, in .*/best$"):
        read_board(folder)
