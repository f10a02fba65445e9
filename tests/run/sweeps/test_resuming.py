"""A sweep on a Slurm whose elements take their time to end; tests/slurm/test_sweep.py has a real
one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.storage.run_id import run_id
from tests.run.sweeps.test_driver import SWEPT, made

COMMANDS = {
    "squeue": "cat queue",
    "scancel": 'echo "$@" >> cancelled; sed -i "s/RUNNING/COMPLETING/" queue',
    "sbatch": "cat > /dev/null; echo Submitted batch job 8",
    "scontrol": "echo MaxArraySize = 1001",
}
SLURM = SWEPT.replace("{tick_seconds: 0.2}", "{launcher: slurm, slots: 2, minutes: 30}")

Queue = Callable[[Sweep, int], str]


@pytest.fixture
def queue(home: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """Writes the lines of an array of two elements that run, as squeue prints them."""
    commands = home / "bin"
    commands.mkdir()
    for name, text in COMMANDS.items():
        (commands / name).write_text(f"#!/bin/sh\ncd {home}\n{text}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")

    def lines(sweep: Sweep, job: int) -> str:
        rest = f"0|1:00|9:00|N/A|low|n1|None|hpcpod:{run_id(sweep.path)}:slots:t{job}|"
        return "".join(f"N/A|{job}_{n}|RUNNING|{rest}\n" for n in (0, 1))

    return lines


def test_what_was_cancelled_and_has_not_ended_keeps_no_resume_from_submitting(
    home: Path, queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "queue").touch()
    sweep = made(home, SLURM)
    word = str(sweep.path)

    def resumed() -> str:
        assert main(["sweep", "resume", word]) == 0
        return capsys.readouterr().out.splitlines()[0]

    (home / "queue").write_text(queue(sweep, 7))
    assert resumed() == "swept: nothing to submit: its jobs are there"
    assert main(["sweep", "stop", word]) == 0
    capsys.readouterr()
    assert "7_0|COMPLETING" in (home / "queue").read_text()
    assert resumed() == "swept: submitted 8"
    with (home / "queue").open("a") as file:
        file.write(queue(sweep, 8))
    assert resumed() == "swept: nothing to submit: its jobs are there"
    assert sweep.leaving == {"7"}


def test_a_cell_that_is_lost_holds_up_no_other(
    home: Path, queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "queue").touch()
    sweep = made(home, SLURM)
    lost = sweep.folder(sweep.cells[0])
    shutil.rmtree(lost)
    assert main(["sweep", "resume", str(sweep.path)]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[0] == "swept: submitted 8"
    assert lost.name in told.err


def test_a_resume_ends_what_a_stop_without_a_scheduler_could_not(
    home: Path, queue: Queue, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "queue").touch()
    sweep = made(home, SLURM)
    (home / "queue").write_text(queue(sweep, 7))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PATH", "/usr/bin:/bin")
        assert main(["sweep", "stop", str(sweep.path)]) == 0
    assert "its jobs end by themselves" in capsys.readouterr().err
    assert main(["sweep", "resume", str(sweep.path)]) == 0
    assert "swept: submitted 8" in capsys.readouterr().out
    assert (home / "cancelled").read_text() == "--quiet 7_0 7_1\n"


def test_elements_that_a_person_has_cancelled_by_hand_are_replaced_while_they_complete(
    home: Path, queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "queue").touch()
    sweep = made(home, SLURM)
    one, other = queue(sweep, 7).splitlines(keepends=True)
    (home / "queue").write_text(one.replace("RUNNING", "COMPLETING") + other)
    assert main(["sweep", "resume", str(sweep.path)]) == 0
    assert capsys.readouterr().out.startswith("swept: submitted 8\n")
    (home / "queue").write_text(one + other)
    assert main(["sweep", "resume", str(sweep.path)]) == 0
    assert "nothing to submit" in capsys.readouterr().out
