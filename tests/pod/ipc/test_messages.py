"""Messages between a slot and its child processes: the bytes on the pipe, and damaged ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from hpcpod.pod.ipc.child import Child
from hpcpod.pod.ipc.messages import (
    Command,
    Ended,
    FailureReply,
    Progress,
    ProgressReply,
    Reply,
    ReportReply,
    StopReply,
    Work,
    command_line,
    failed,
    parse_order,
    parse_reply,
    reply_line,
    whole,
)
from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore, Segment
from tests.support.small_runs import create

CHECKPOINT = Checkpoint("ab" * 32, 512, 128, (Segment(0, 128, "cd" * 32),))
BIRTH = Birth("p0001", 2, 3, "ppo", {"gamma": 0.9, "hidden": 16}, 2**60 + 1, CHECKPOINT)
RESCORE = Rescore("final", 0, "p0001", 1, "ppo", {"gamma": 0.9}, CHECKPOINT, 2)

# The lines of version 0.1.0, letter by letter.
CHECKPOINT_SENT = (
    '{"core": "' + "ab" * 32 + '", "env_steps": 512, "rows": 128, "segments": [{"start": 0,'
    ' "stop": 128, "sha256": "' + "cd" * 32 + '", "cut": false}], "rank": 0, "others": []}'
)
BIRTH_SENT = (
    '{"kind": "birth", "order": {"pod": "p0001", "round": 2, "attempt": 3, "algorithm": "ppo",'
    ' "hyperparameters": {"gamma": 0.9, "hidden": 16}, "seed": 1152921504606846977,'
    f' "checkpoint": {CHECKPOINT_SENT}, "inherited": false, "origin": null,'
    f' "teacher": null, "shrink": false, "begins": null, "ends": null}},'
)
RESCORE_SENT = (
    '{"kind": "rescore", "order": {"purpose": "final", "number": 0, "pod": "p0001", "attempt": 1,'
    f' "algorithm": "ppo", "hyperparameters": {{"gamma": 0.9}}, "checkpoint": {CHECKPOINT_SENT},'
    ' "round": 2, "level": 0.0, "stake": 0.0, "earlier": [], "set": 0, "episodes": 0, "rule": "",'
    ' "members": []},'
)
REPORT_SENT = (
    '{"report": {"order": "p0001-00002-3", "pod": "p0001", "round": 2, "attempt": 3,'
    ' "slot": "7_1", "returns": [1.0, 2.0], "inherited_returns": [],'
    f' "checkpoint": {CHECKPOINT_SENT}, "trained_steps": 0, "wall_seconds": 0.0,'
    ' "train_seconds": 0.0, "evaluate_seconds": 0.0, "metrics": {}, "engine": "", "rule": "",'
    ' "begins": null, "ends": null, "failure": "", "failure_kind": ""}}'
)
WORKS = {
    BIRTH_SENT + ' "part": "all", "checkpoint": null, "claimed": true}': Work(BIRTH),
    BIRTH_SENT + ' "part": "train", "checkpoint": null, "claimed": false}': Work(
        BIRTH, "train", claimed=False
    ),
    BIRTH_SENT + f' "part": "score", "checkpoint": {CHECKPOINT_SENT}, "claimed": true}}': Work(
        BIRTH, "score", CHECKPOINT
    ),
    RESCORE_SENT + ' "part": "all", "checkpoint": null, "claimed": true}': Work(RESCORE),
}
COMMANDS: dict[str, Command] = {'{"kind": "stop"}': "stop", '{"kind": "give up"}': "discard"}
REPLIES: dict[str, Reply] = {
    '{"progress": {}}': ProgressReply(),
    '{"progress": {"pod": "p0001", "round": 2, "env_steps": 300, "target_steps": 512,'
    ' "mean_return": 1.5, "steps_per_second": 1234.5}}': ProgressReply(
        Progress("p0001", 2, 300, 512, 1.5, 1234.5)
    ),
    REPORT_SENT: ReportReply(
        Report("p0001-00002-3", "p0001", 2, 3, "7_1", (1.0, 2.0), checkpoint=CHECKPOINT)
    ),
    '{"stopped": true, "signalled": false}': StopReply(),
    '{"stopped": true, "signalled": true}': StopReply(signalled=True),
    '{"failure": "the disk is full", "kind": "storage"}': FailureReply(
        "the disk is full", "storage"
    ),
}


@pytest.mark.parametrize(("line", "work"), WORKS.items())
def test_work_is_sent_as_before_and_arrives_as_it_was_sent(line: str, work: Work) -> None:
    assert work.line() == line + "\n"
    assert parse_order(line) == Work.parse(line) == work


@pytest.mark.parametrize(("line", "command"), COMMANDS.items())
def test_a_command_is_sent_as_before_and_arrives_as_it_was_sent(
    line: str, command: Command
) -> None:
    assert command_line(command) == line + "\n"
    assert parse_order(line) == command


@pytest.mark.parametrize(("line", "reply"), REPLIES.items())
def test_a_reply_is_sent_as_before_and_arrives_as_it_was_sent(line: str, reply: Reply) -> None:
    assert reply_line(reply) == line + "\n"
    assert parse_reply(line.encode()) == reply


def test_a_mean_return_before_the_first_episode_ends_arrives_as_no_number() -> None:
    reply = ProgressReply(Progress("p0001", 1, 3, 512, math.nan, 10.0))
    assert '"mean_return": NaN' in reply_line(reply)
    back = parse_reply(reply_line(reply).encode())
    assert isinstance(back, ProgressReply) and back.progress is not None
    assert math.isnan(back.progress.mean_return) and back.progress.env_steps == 3


FOREIGN: list[Any] = [
    {}, [], 3, "progress", {"progress": None, "more": 1}, {"progress": {"env_steps": "many"}},
    {"report": {}}, {"report": 1}, {"failure": "no", "kind": "whim"},
    {"failure": 1, "kind": "crash"}, {"failure": "no"},
]  # fmt: skip


@pytest.mark.parametrize("line", [b"", b"\xff{", b"[" * 100_000, *map(json.dumps, FOREIGN)])
def test_a_line_that_is_no_reply_is_named(line: bytes | str) -> None:
    with pytest.raises(ValueError, match="expected a reply, got "):
        parse_reply(line if isinstance(line, bytes) else line.encode())


def test_a_process_that_says_something_else_has_crashed_and_its_slot_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pipe and a real process, which is another program."""
    talker = "import os, sys; os.write(1, b'hello\\n'); sys.stdin.read()"
    monkeypatch.setattr(
        "hpcpod.pod.ipc.commands._program", lambda *_, **__: ["python3", "-c", talker]
    )
    folder = create(tmp_path)
    child = Child(folder.path, "s", folder.resolved.config)
    try:
        reply = child.receive(60.0)
        assert isinstance(reply, FailureReply) and reply.kind == "crash"
        assert reply.failure.endswith("out of step: expected a reply, got 'hello'")
    finally:
        child.kill()
        child.close()


@pytest.mark.parametrize(
    ("work", "kind"), [(Work(BIRTH), "corrupt"), (Work(BIRTH, "score", CHECKPOINT), "crash")]
)
def test_a_checkpoint_that_was_damaged_before_it_was_scored_is_not_its_birth_s(
    work: Work, kind: str
) -> None:
    report = failed(Ended(work, FailureReply("it is damaged", "corrupt"), 2.5), "s")
    assert report.wall_seconds == 2.5
    assert (report.failure, report.failure_kind) == ("it is damaged", kind)
    assert (report.order, report.round, report.attempt, report.slot) == (BIRTH.id, 2, 3, "s")


@pytest.mark.parametrize("order", [BIRTH, RESCORE])
def test_a_failure_says_of_which_order_it_is(order: Order) -> None:
    assert failed(Ended(Work(order), FailureReply("no", "memory")), "s").order == order.id


def test_a_round_that_failed_to_be_scored_has_failed() -> None:
    trained = Report(BIRTH.id, "p0001", 2, 3, "s", checkpoint=CHECKPOINT, wall_seconds=5.0)
    scored = Report(BIRTH.id, "p0001", 2, 3, "s", (1.0, 2.0), wall_seconds=1.5)
    both = whole(trained, scored)
    assert (both.checkpoint, both.returns, both.wall_seconds) == (CHECKPOINT, (1.0, 2.0), 6.5)
    broken = failed(Ended(Work(BIRTH, "score", CHECKPOINT), FailureReply("no", "memory")), "s")
    assert whole(trained, broken) == broken and broken.checkpoint is None
