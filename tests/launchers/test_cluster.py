"""What squeue and scontrol print, read; the lines are recorded from real clusters."""

from __future__ import annotations

import pytest

from hpcpod.launchers.base import JobView
from hpcpod.launchers.cluster import (
    Mark,
    elements,
    job_state,
    max_array_size,
    own_words,
    read_queue,
)

SLURM_22 = """\
1_3|PENDING|BeginTime|hpcpod:a781850a60:slots:5eed
1_0|RUNNING|None|hpcpod:a781850a60:slots:5eed
1_1|COMPLETING|None|hpcpod:a781850a60:slots:5eed
5|PENDING|Dependency|hpcpod:a781850a60:coordinator:c0de
6|PENDING|Resources|(null)
7_0|RUNNING|None|hpcpod:ffffffffff:slots:beef
"""


def test_only_this_runs_jobs_are_seen_each_with_its_token_and_reason() -> None:
    view = read_queue(SLURM_22, "a781850a60")
    assert view.jobs == (
        JobView("1_3", "1_3", "slots", "pending", "5eed", "BeginTime", "1"),
        JobView("1_0", "1_0", "slots", "running", "5eed", "", "1"),
        JobView("1_1", "1_1", "slots", "running", "5eed", "", "1"),
        JobView("5", "5", "coordinator", "pending", "c0de", "Dependency", "5"),
    )


def test_an_array_that_squeue_did_not_expand_is_expanded_here() -> None:
    text = "123_[4-7%2]|PENDING|JobArrayTaskLimit|hpcpod:r:slots:t\n"
    jobs = read_queue(text, "r").jobs
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
        ("12_[1,3,...", ["12_1", "12_3"]),  # cut short by SLURM_BITSTR_LEN
        ("12+0", []),  # a heterogeneous job: never ours
        ("JOBID", []),
    ],
)
def test_job_ids_of_every_shape(identifier: str, expected: list[str]) -> None:
    assert elements(identifier) == expected


def test_lines_that_are_not_ours_are_passed_over() -> None:
    text = (
        "CLUSTER: alpha\n"
        "\n"
        "JOBID|STATE|REASON|COMMENT\n"
        "8|RUNNING|None|another's comment | with a bar\n"
        "and its second line\n"
        "9|RUNNING|None|hpcpod:r:slots\n"
        "10|RUNNING|None|hpcpod:r:nonsense:t\n"
        "   11 |  RUNNING | None | hpcpod:r:coordinator:t \n"
    )
    assert [job.job for job in read_queue(text, "r").jobs] == ["11"]


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


def test_a_mark_survives_the_comment() -> None:
    mark = Mark("a781850a60", "coordinator", "c0de")
    assert Mark.read(str(mark)) == mark
    assert Mark.read("(null)") is None


def test_max_array_size_is_found_in_scontrols_configuration() -> None:
    text = "MailProg                = /bin/mail\nMaxArraySize            = 1001\nMaxDBDMsgs = 20\n"
    assert max_array_size(text) == 1001
    assert max_array_size("") is None


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
