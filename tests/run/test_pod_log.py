"""The log of a pod: the marks in slots' logs, and whole runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.resolved import Resolved
from hpcpod.records.records import Owner
from hpcpod.run.pod_log import About, PodLogs
from hpcpod.storage.blobs import read_blob_file
from hpcpod.storage.layout import log_name
from hpcpod.tournament.merge import merge
from hpcpod.tournament.rules import Rules
from tests.support.command_line import refusal
from tests.support.slots import ROOT
from tests.support.small_runs import create, mapping

SLOT = """\
2026-01-01 INFO slot 7_0 of job 7 on node1
a warning of the interpreter
2026-01-01 INFO p0001-00001-1: training begins
what a simulator prints
2026-01-01 INFO p0002-00001-1: scoring begins
nobody knows of whom this is
2026-01-01 INFO p0002-00001-1: scoring ends
2026-01-01 INFO p0001-00001-1: training ends
2026-01-01 ERROR p0001-00001-1: Boom
2026-01-01 INFO p0012-00002-1: training begins, ahead of its order
Traceback
2026-01-01 INFO slot 7_0 of job 7 on node2
a warning of the interpreter
"""


def lines(text: str, pod: str) -> list[str]:
    about = About(pod)
    return [line for line in text.splitlines() if about(line)]


def test_a_pod_s_lines_are_those_of_its_turns_and_those_that_name_it() -> None:
    assert [line.removeprefix("2026-01-01 ") for line in lines(SLOT, "p0001")] == [
        "INFO p0001-00001-1: training begins",
        "what a simulator prints",
        "nobody knows of whom this is",
        "INFO p0001-00001-1: training ends",
        "ERROR p0001-00001-1: Boom",
    ]
    assert len(lines(SLOT, "p0002")) == 3
    assert lines(SLOT, "p00") == []


def test_a_slot_that_begins_anew_has_nothing_in_hand() -> None:
    assert lines(SLOT, "p0012")[-1] == "Traceback"


def test_a_rank_has_one_order_at_a_time() -> None:
    text = """\
x rank 3 INFO p0001-00001-1: training begins
x rank 3 INFO p0002-00001-1: training begins
of the second
"""
    assert lines(text, "p0001") == ["x rank 3 INFO p0001-00001-1: training begins"]
    assert lines(text, "p0002")[-1] == "of the second"


def test_logs_have_the_names_that_launchers_give_them() -> None:
    assert log_name("local-2-0") == "local-2-0.log"
    assert log_name("81_12+3") == "slot-81_12.log"
    assert log_name("81", rank=2) == "slot-81-rank2.log"


def test_a_pod_is_followed_line_by_line_and_from_slot_to_slot(tmp_path: Path) -> None:
    folder = create(tmp_path, stop={"rounds": 1})
    resolved = Resolved.from_document(folder.config)
    rules = Rules.of(resolved.config, resolved.algorithms)
    first, second = (folder.path / "logs" / f"slot-7_{n}.log" for n in range(2))
    turn = "x INFO p0001-00001-{0}: training {1}\n"
    folder.claims.take("p0001-00001-1", Owner("7_0", "7"))
    first.write_text(turn.format(1, "begins") + "half a l")
    second.write_text(turn.format(2, "begins"))

    def end_the_line() -> None:
        with first.open("a") as file:
            file.write("ine\n")

    def requeue() -> None:
        with first.open("a") as file:
            file.write("x INFO slot 7_0 of job 7 on node2\nnobody's\n" + turn.format(1, "ends"))

    def lose_the_slot() -> None:
        merge(folder, rules, lost=["p0001-00001-1"])
        folder.claims.take("p0001-00001-2", Owner("7_1", "7"))

    def finish() -> None:
        merge(folder, rules, stop="user")

    then = iter([end_the_line, requeue, lose_the_slot, finish])
    logs = PodLogs(folder, "p0001")
    assert [(path.name, line) for path, line in logs.follow(0.0, lambda _: next(then)())] == [
        ("slot-7_0.log", "x INFO p0001-00001-1: training begins"),
        ("slot-7_0.log", "half a line"),
        ("slot-7_0.log", "x INFO p0001-00001-1: training ends"),
        ("slot-7_1.log", "x INFO p0001-00001-2: training begins"),
    ]


def test_what_several_logs_say_of_a_pod_is_in_order_of_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = create(tmp_path)
    for order in (1, 2):
        folder.claims.take(f"p0001-0000{order}-1", Owner(f"7_{order}", "7"))
    first, second = (folder.path / "logs" / f"slot-7_{n}.log" for n in (1, 2))
    line = "2026-01-01 12:00:{:02},5 {}INFO p0001-0000{}-1: training {}\n"
    first.write_text(
        line.format(1, "", 1, "begins")
        + "a simulator\n2026-01-01 13:00:00 of its own\n"
        + line.format(5, "", 1, "ends")
        + line.format(4, "", 3, "begins")  # by another node's clock
        + "the end\n"
    )
    second.write_text(line.format(2, "rank 0 ", 2, "begins") + line.format(6, "", 2, "ends"))
    wanted = [
        f"==> {first}", "p0001-00001-1: training begins", "a simulator", "of its own",
        f"==> {second}", "p0001-00002-1: training begins",
        f"==> {first}", "p0001-00001-1: training ends", "p0001-00003-1: training begins", "the end",
        f"==> {second}", "p0001-00002-1: training ends",
    ]  # fmt: skip
    assert main(["logs", str(folder.path), "p0001"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [text.endswith(end) for text, end in zip(said, wanted, strict=True)] == [True] * 12
    assert main(["logs", str(folder.path), "p0001", "-n", "2"]) == 0  # the last two of all
    said = capsys.readouterr().out.splitlines()
    assert said == [f"==> {first}", "the end", f"==> {second}", line.format(6, "", 2, "ends")[:-1]]


def test_the_logs_of_a_pod_are_its_rounds_alone(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", str(finished_run), "p0002", "-n", "1000"]) == 0
    said = capsys.readouterr().out
    assert "==> " in said
    assert "p0002-00001-1: training begins" in said
    assert "p0001-" not in said
    # A word that is no pod's name is part of a log's, as ever.
    assert main(["logs", str(finished_run), "local-0-0", "-n", "3"]) == 0


def test_logs_of_a_pod_that_cannot_be_shown_are_a_sentence(
    home: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(finished_run)
    assert "looked-at has no pod p9999; it has p0001 to p0" in refusal(capsys, "logs", run, "p9999")
    said = refusal(capsys, "logs", run, "p0001", "--rank", "1")
    assert "pods of looked-at have one rank, number 0, not 1" in said
    assert "POD --rank 0" in refusal(capsys, "logs", run, "--rank", "0")
    folder = create(home / "runs")
    said = refusal(capsys, "logs", "p0001")  # of the only run there is
    assert said == "hpcpod: no log says anything of p0001: no slot has taken it yet\n"
    folder.claims.take("p0001-00001-1", Owner("7_0", "7", "node3"))
    assert "slot 7_0 on node3 had it, and none of slot-7_0.log" in refusal(
        capsys, "logs", "small", "p0001"
    )


def test_following_a_pod_ends_with_it(tmp_path: Path) -> None:
    run = hpcpod.launch(mapping(), runs=tmp_path)
    command = [sys.executable, "-m", "hpcpod", "logs", str(run.path), "p0001", "-f"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in ("p0001-00001-1: training begins", "p0001-00002-1: training ends"):
        assert words in done.stdout
    assert run.wait(timeout=600).state == "finished"


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> hpcpod.Run:
    """A run whose pod was trained by two ranks, whose learners were fused, for two rounds."""
    config = mapping(pod={"ranks": 2}, resources={"cpus_per_pod": 2}, cluster={"slots": 1})
    run = hpcpod.launch(config, runs=tmp_path_factory.mktemp("runs"))
    assert run.wait(timeout=300).state == "finished"
    return run


def test_each_rank_of_a_pod_has_a_log_of_its_own(
    fused: hpcpod.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fused
    for rank in range(2):
        assert main(["logs", str(run.path), "p0001", "--rank", str(rank), "-n", "1000"]) == 0
        said = capsys.readouterr().out
        assert f"-rank{rank}.log" in said
        assert f" rank {rank} INFO p0001-00001-1: training begins" in said
        assert f" rank {1 - rank} INFO" not in said
    assert main(["logs", str(run.path), "p0001", "-n", "1000"]) == 0
    said = capsys.readouterr().out
    heads = [text for text in said.splitlines() if text.startswith("==> ")]
    assert len(set(heads)) == 3  # the slot's own, too
    assert len(heads) > 3  # what each says is not in one piece
    said = refusal(capsys, "logs", str(run.path), "p0001", "--rank", "2")
    assert "have 2 ranks, there is no rank 2: they are numbered from 0" in said


def test_a_replay_trains_all_ranks_of_a_pod_again_to_the_bit(
    fused: hpcpod.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = fused.folder.reports.read("p0001-00002-1")
    assert report is not None and report.checkpoint is not None
    assert [part.rank for part in report.checkpoint.parts] == [0, 1]
    to, rounds = tmp_path / "again", fused.schedule("p0001").rounds
    assert main(["replay", str(fused.path), "p0001", "--out", str(to)]) == 0
    said = capsys.readouterr().out
    assert said.count("; the run's bits") == rounds and "NOT" not in said
    best, again = (read_blob_file(file)[0] for file in (fused.path / "best.h5", to / "policy.h5"))
    assert len(again) > 4 and all(name.startswith("agent/") for name in again)
    assert all(np.array_equal(best[name], again[name]) for name in again)
