"""Output of squeue, read: single lines here, whole recordings in ``test_recorded``."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcpod.launchers.base import Cancelled, JobView
from hpcpod.launchers.slurm.squeue import (
    MOST_ELEMENTS,
    QUEUE_FORMAT,
    Mark,
    duration,
    elements,
    job_state,
    own_words,
    read_look,
    read_queue,
    throttle,
)

WIDTHS = [int(width) for width in re.findall(r":(\d+)\|", QUEUE_FORMAT)]


def line(*fields: str) -> str:
    """As squeue prints it: each column as wide as it was asked for, or cut."""
    return "".join(f"{field[:w]:<{w}}|" for field, w in zip(fields, WIDTHS, strict=True)) + "\n"


def job(
    identifier: str = "7_0", state: str = "RUNNING", comment: str = "hpcpod:r:slots:t", **more: str
) -> str:
    columns = {"restarts": "0", "used": "0:05", "left": "59:55", "start": "1795334514"}
    columns |= {"partition": "low", "nodes": "n1", "reason": "None"} | more
    return line(identifier, state, *columns.values(), comment)


def test_only_this_runs_jobs_are_seen_each_with_all_that_is_known() -> None:
    text = (
        job("1_3", "PENDING", restarts="2", used="0:00", nodes="", reason="BeginTime")
        + job("1_0", used="1-02:03:04", left="2:00:00", nodes="n[1-2]", partition="low,high")
        + job("1_1", "COMPLETING")
        + job("5", "PENDING", "hpcpod:r:coordinator:c", left="UNLIMITED", reason="Dependency")
        + job("6", "PENDING", "(null)")
        + job("7_0", comment="hpcpod:ffffffffff:slots:beef")
    )
    first, second, third, fourth = read_queue(text, "r").jobs
    assert first == JobView(
        slot="1_3", job="1_3", kind="slots", state="pending", token="t", reason="BeginTime",
        submission="1", partition="low", left=3595.0, starts=1795334514.0, restarts=2,
    )  # fmt: skip
    assert first.requeued
    assert (second.node, second.partition, second.restarts) == ("n[1-2]", "low,high", 0)
    assert (second.seconds, second.left, second.starts) == (93784.0, 7200.0, None)
    assert (second.reason, second.requeued) == ("", False)
    assert (third.job, third.state) == ("1_1", "running")
    assert (fourth.kind, fourth.submission, fourth.left) == ("coordinator", "5", None)


def test_an_array_that_squeue_did_not_expand_is_expanded_here() -> None:
    jobs = read_queue(job("123_[4-7%2]", "PENDING", reason="JobArrayTaskLimit"), "r").jobs
    assert [job.slot for job in jobs] == ["123_4", "123_5", "123_6", "123_7"]
    assert {job.submission for job in jobs} == {"123"}


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("12", ["12"]),
        ("12_0", ["12_0"]),
        ("12_[3]", ["12_3"]),
        ("12_[0-2,7]", ["12_0", "12_1", "12_2", "12_7"]),
        ("12_[0-6:3%1]", ["12_0", "12_3", "12_6"]),
        ("12_[0-2:0]", ["12_0", "12_1", "12_2"]),
        ("12_[1,3,...", ["12_1", "12_3"]),  # cut short by SLURM_BITSTR_LEN
        ("12+0", []),  # a heterogeneous job: never ours
        ("JOBID", []),
    ],
)
def test_job_ids_of_every_shape(identifier: str, expected: list[str]) -> None:
    assert elements(identifier) == expected


def test_no_line_makes_more_elements_than_a_cluster_can_have() -> None:
    assert len(elements("1_[0-999999999,0-999999999]")) == MOST_ELEMENTS


def test_lines_that_are_not_ours_are_passed_over() -> None:
    text = (
        "CLUSTER: alpha\n"
        "\n"
        "JOBID|STATE|RESTARTCNT|TIME|TIME_LEFT|START_TIME|PARTITION|NODELIST|REASON|COMMENT|\n"
        + job("8", comment="another's comment | with a bar\nand its second line")
        + job("9", comment="hpcpod:r:slots")
        + job("10", comment="hpcpod:r:nonsense:t")
        + job("11", comment="é|hpcpod:r:slots:t")
        + job("12")[:200]  # torn
        + "\n   13 |  RUNNING | 0 | 0:01 | 1:00 | N/A | low | n1 | None | hpcpod:r:slots:t \n"
    )
    assert [job.job for job in read_queue(text, "r").jobs] == ["13"]


@given(st.text())
@example(job("1_[0-5:0]"))
@example(job("٣_[1-٤]", restarts="²", used="٣:٣٤", start="٣"))
@example(job("1", restarts="9" * 8, left="9" * 16, start="9" * 24))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for ran in ("", "r"):
        assert all(job.slot for job in read_queue(text, ran).jobs)
    read_queue("|".join([text] * 9) + "|hpcpod:r:slots:t", "r")
    own_words(text)
    throttle(text)


FOREIGN = st.text(alphabet=st.characters(exclude_characters="\n")).map(
    lambda text: text.replace("hpcpod:r:", "hpcpod:other:")
)


@given(st.lists(FOREIGN), st.lists(st.booleans()))
def test_whatever_others_write_into_their_comments_ours_are_found(
    comments: list[str], ours: list[bool]
) -> None:
    lines = [job(f"1_{n}", comment=comment) for n, comment in enumerate(comments)]
    mine = [f"2_{n}" for n, there in enumerate(ours) if there]
    text = "".join(x for pair in zip(lines, map(job, mine), strict=False) for x in pair)
    text += "".join(lines[len(mine) :]) + "".join(job(name) for name in mine[len(lines) :])
    assert [view.job for view in read_queue(text, "r").jobs] == mine


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00", 0.0),
        ("9:58", 598.0),
        ("3:59:52", 14392.0),
        ("364-23:59:56", 31535996.0),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("INVALID", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


def test_an_elements_record_has_its_arrays_throttle() -> None:
    record = "JobId=19 ArrayJobId=4 ArrayTaskId=5 ArrayTaskThrottle=4 JobName=ant Requeue=1"
    assert throttle(record) == 4
    assert throttle("JobId=19 ArrayJobId=4 ArrayTaskId=5 JobName=ant") is None
    assert throttle("JobId=19 ArrayTaskThrottle=0 JobName=ant") is None


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("PENDING", "pending"),
        ("REQUEUED", "pending"),
        ("REQUEUE_HOLD", "pending"),
        ("SPECIAL_EXIT", "pending"),
        ("CONFIGURING", "running"),
        ("RUNNING", "running"),
        ("SUSPENDED", "running"),
        ("STOPPED", "running"),
        ("COMPLETING", "running"),
        ("A_WORD_OF_NEXT_YEAR", "running"),
        ("CANCELLED", None),
        ("NODE_FAIL", None),
        ("PREEMPTED", None),
        ("TIMEOUT", None),
    ],
)
def test_slurms_states_in_ours(word: str, expected: str | None) -> None:
    assert job_state(word) == expected


def test_a_mark_survives_the_comment_and_its_column() -> None:
    mark = Mark("a781850a60", "coordinator", "c0dec0dec0dec0de")
    assert Mark.read(str(mark)) == mark
    assert Mark.read("(null)") is None
    assert len(str(mark)) < WIDTHS[-1] / 2


def test_complaints_become_one_clause() -> None:
    stderr = (
        "sbatch: error: invalid partition specified: nope\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    assert own_words(stderr) == (
        "invalid partition specified: nope;"
        " Batch job submission failed: Invalid partition name specified"
    )
    assert own_words("slurm_load_jobs error: Socket timed out on send/recv operation\n") == (
        "slurm_load_jobs error: Socket timed out on send/recv operation"
    )


def test_of_what_was_cancelled_only_this_runs_slots_are_read() -> None:
    text = "".join(
        f"{ended:<24}|{job(name, state, comment)}"
        for name, state, ended, comment in [
            ("7_0", "CANCELLED", "1795557762", "hpcpod:r:slots:t"),
            ("7_[2-3]", "CANCELLED", "1795557763", "hpcpod:r:slots:t"),
            ("8", "CANCELLED", "1795557762", "hpcpod:r:coordinator:t"),
            ("9_0", "CANCELLED", "1795557762", "hpcpod:other:slots:t"),
            ("9_1", "COMPLETED", "1795557762", "hpcpod:r:slots:t"),
            ("9_2", "CANCELLED", "N/A", "hpcpod:r:slots:t"),
            ("9_3", "CANCELLED", "1795557762", "a | b"),
            ("9_4", "RUNNING", "1795558762", "hpcpod:r:slots:t"),
        ]
    )
    view = read_look(f"CLUSTER: one\n{text}torn|", "r")
    assert [job.slot for job in view.jobs] == ["9_4"]
    assert view.cancelled == (
        Cancelled("7_0", "7", 1795557762.0),
        Cancelled("7_2", "7", 1795557763.0),
        Cancelled("7_3", "7", 1795557763.0),
    )
