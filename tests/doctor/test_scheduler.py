"""Slurm's own words and their meaning for a run: readers and judgements."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.doctor.finding import Finding
from hpcpod.doctor.judge_scheduler import in_one_array, judge, preempt_mode
from hpcpod.doctor.scheduler import (
    SchedulerFacts,
    Wanted,
    choose,
    read_mpi,
    read_table,
)
from hpcpod.launchers.slurm.scontrol import (
    minutes_of,
    read_partitions,
    read_settings,
    requeue_seconds,
)

CONFIG = """\
Configuration data as of 2026-01-02T03:04:05
AuthInfo                = cred_expire=5
KillWait                = 30 sec
MaxArraySize            = 1001
PreemptMode             = GANG,SUSPEND
SLURM_VERSION           = 22.05.8
SlurmctldParameters     = preempt_send_user_signal,idle_on_node_suspend

Slurmctld(primary) at login1 is UP
"""

PARTITIONS = (
    "PartitionName=low AllowGroups=ALL Default=YES GraceTime=0 MaxNodes=UNLIMITED"
    " MaxTime=1-00:00:00 PreemptMode=REQUEUE State=UP TotalNodes=4 TRES=cpu=64,mem=250000M\n"
    "PartitionName=high Default=NO GraceTime=120 MaxTime=02:00:00 PreemptMode=OFF State=DOWN\n"
)

OLD_MPI = """\
srun: MPI types are...
srun: cray_shasta
srun: pmi2
srun: none
srun: pmix
srun: pmix_v4
"""
NEW_MPI = """\
MPI plugin types are...
\tnone
\tcray_shasta
\tpmi2
\tpmix
specific pmix plugin versions available: pmix_v4,pmix_v5
"""

LOW = read_partitions(PARTITIONS)[0]
FACTS = SchedulerFacts(
    error="",
    settings={
        "SLURM_VERSION": "22.05.8", "MaxArraySize": "1001", "MaxJobCount": "10000",
        "PreemptMode": "REQUEUE", "PreemptType": "preempt/partition_prio", "JobRequeue": "1",
        "KillWait": "30 sec", "AuthInfo": "cred_expire=5",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageEnforce": "associations,limits,qos",
    },
    partition=LOW,
)  # fmt: skip
WANTED = Wanted(None, None, None, slots=8, minutes=240, nodes=1)
ASSOC = {"account": "lab", "partition": "", "maxjobs": "", "maxsubmit": "", "defaultqos": "normal"}
QOS = {
    "name": "normal", "maxjobspu": "", "maxsubmitpu": "", "maxwall": "", "preemptmode": "cluster",
    "gracetime": "00:00:00",
}  # fmt: skip
KEPT = replace(FACTS, accounts=(ASSOC,), account="lab", qos=(QOS,))


def row(findings: list[Finding], probe: str) -> Finding:
    [found] = [finding for finding in findings if finding.probe == probe]
    return found


def with_settings(**settings: str) -> SchedulerFacts:
    return replace(FACTS, settings={**FACTS.settings, **settings})


def test_settings_are_read_by_name() -> None:
    found = read_settings(CONFIG)
    assert found["MaxArraySize"] == "1001"
    assert found["KillWait"] == "30 sec"
    assert found["PreemptMode"] == "GANG,SUSPEND"


def test_a_partition_is_found_by_name_or_as_the_default() -> None:
    rows = read_partitions(PARTITIONS)
    assert [choose(rows, name).get("PartitionName") for name in (None, "high", "none")] == [
        "low", "high", None
    ]  # fmt: skip
    assert choose(rows, "high,low")["PartitionName"] == "high"
    assert LOW["TRES"] == "cpu=64,mem=250000M"


@pytest.mark.parametrize("text", [OLD_MPI, NEW_MPI])
def test_kinds_of_mpi_are_read_from_old_and_new_listings(text: str) -> None:
    assert set(read_mpi(text)) == {"none", "cray_shasta", "pmi2", "pmix"}


@given(st.text(max_size=100))
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    read_settings(text)
    choose(read_partitions(text), None)
    read_mpi(text)
    read_table(text, "a,b")
    assert minutes_of(text) >= 0


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("30", 30), ("30:30", 30.5), ("02:00:00", 120), ("1-00:00:00", 1440), ("2-06", 3240),
        ("1-01:30", 1530), ("UNLIMITED", math.inf), ("", math.inf),
    ],
)  # fmt: skip
def test_time_limits_are_read_in_all_their_forms(text: str, minutes: float) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 121),
        ({"AuthInfo": "socket=/x,cred_expire=60"}, 61),
        ({"AuthInfo": "cred_expire=4"}, 121),
        ({"AuthInfo": "cred_expire=60", "SchedulerParameters": "a,requeue_delay=7"}, 7),
    ],
)
def test_the_delay_before_a_requeued_job_starts(settings: dict[str, str], seconds: int) -> None:
    assert requeue_seconds(settings) == seconds


def test_nothing_is_wrong_with_a_usual_cluster() -> None:
    assert {finding.verdict for finding in judge(KEPT, WANTED, "")} == {"ok"}


def test_slots_that_one_array_can_not_have_are_asked_for_by_several() -> None:
    for slots, then in ((1001, "1001 slots in one array"), (1002, "1002 slots in 2 arrays")):
        found = row(judge(KEPT, replace(WANTED, slots=slots), None), "array size")
        assert (found.verdict, found.then) == ("ok", then)
    assert in_one_array(KEPT.settings, 1002) == 1001
    assert in_one_array({}, 1002) == 1002


@pytest.mark.parametrize(
    ("wanted", "probe", "then"),
    [
        ({"slots": 20000}, "jobs", "the run wants 20000"),
        ({"minutes": 1441}, "partition", "cluster.minutes to at most 1440"),
        ({"partition": "far"}, "partition", "cluster.partition to another"),
        ({"account": "other"}, "account limits", "cluster.account to one of yours"),
        ({"qos": "other"}, "account limits", "cluster.qos to another"),
    ],
)
def test_what_a_run_can_not_have_is_a_problem(
    wanted: dict[str, object], probe: str, then: str
) -> None:
    facts = KEPT if "partition" not in wanted else replace(KEPT, partition={})
    found = row(judge(facts, replace(WANTED, **wanted), None), probe)  # type: ignore[arg-type]
    assert found.verdict == "problem"
    assert then in found.then


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ({}, "there is no default partition"),
        ({**LOW, "State": "DOWN"}, "DOWN"),
        ({**LOW, "MaxNodes": "1"}, "at most 1 node for a job"),
    ],
)
def test_a_partition_that_will_not_do(partition: dict[str, str], words: str) -> None:
    found = row(
        judge(replace(FACTS, partition=partition), replace(WANTED, nodes=2), ""), "partition"
    )
    assert found.verdict == "problem"
    assert words in found.found


@pytest.mark.parametrize(
    ("assoc", "qos", "verdict", "words"),
    [
        ({"maxsubmit": "8"}, {}, "problem", "cluster.slots to at most 7"),
        ({}, {"maxsubmitpu": "4"}, "problem", "cluster.slots to at most 3"),
        ({"maxsubmit": "9"}, {"maxjobspu": "2"}, "note", "wait in the queue"),
        ({}, {"maxwall": "02:00:00"}, "problem", "cluster.minutes to at most 120"),
        ({"maxsubmit": "9"}, {"maxjobspu": "9"}, "ok", ""),
    ],
)
def test_limits_of_an_account_and_its_quality_of_service(
    assoc: dict[str, str], qos: dict[str, str], verdict: str, words: str
) -> None:
    facts = replace(KEPT, accounts=({**ASSOC, **assoc},), qos=({**QOS, **qos},))
    found = row(judge(facts, WANTED, ""), "account limits")
    assert found.verdict == verdict
    assert words in found.then


def test_limits_that_are_not_enforced_do_not_count() -> None:
    facts = replace(
        KEPT, accounts=(), settings={**FACTS.settings, "AccountingStorageEnforce": "none"}
    )
    assert row(judge(facts, WANTED, ""), "account limits").verdict == "ok"


@pytest.mark.parametrize(
    ("settings", "partition", "mode", "verdict"),
    [
        ({"PreemptType": "preempt/none"}, {}, "OFF", "ok"),
        ({}, {}, "REQUEUE", "ok"),
        ({"JobRequeue": "0"}, {}, "REQUEUE", "ok"),
        ({}, {"PreemptMode": "CANCEL"}, "CANCEL", "note"),
        ({}, {"PreemptMode": "GANG,SUSPEND"}, "SUSPEND", "note"),
        ({}, {"PreemptMode": "OFF"}, "OFF", "ok"),
        ({"PreemptType": "preempt/qos", "PreemptMode": "CANCEL"}, {}, "CANCEL", "note"),
    ],
)
def test_what_becomes_of_a_preempted_slot(
    settings: dict[str, str], partition: dict[str, str], mode: str, verdict: str
) -> None:
    facts = replace(with_settings(**settings), partition={**LOW, **partition})
    assert preempt_mode(facts, None) == mode
    assert row(judge(facts, WANTED, ""), "preemption").verdict == verdict


def test_a_quality_of_service_has_a_mode_of_its_own() -> None:
    facts = replace(
        with_settings(PreemptType="preempt/qos"),
        qos=({**QOS, "name": "spot", "preemptmode": "cancel"},),
    )
    assert preempt_mode(facts, "spot") == "CANCEL"
    assert preempt_mode(facts, None) == "REQUEUE"


def test_little_time_to_save_is_worth_a_note() -> None:
    found = row(judge(with_settings(KillWait="5 sec"), WANTED, ""), "grace")
    assert (found.verdict, "5 s to save" in found.then) == ("note", True)
    facts = replace(with_settings(KillWait="5 sec"), partition={**LOW, "GraceTime": "60"})
    assert row(judge(facts, WANTED, ""), "grace").verdict == "ok"


def test_a_refused_script_is_told_in_sbatch_s_words() -> None:
    found = row(judge(FACTS, WANTED, "Invalid qos specification"), "sbatch")
    assert found.verdict == "problem"
    assert found.found.endswith("Invalid qos specification")
