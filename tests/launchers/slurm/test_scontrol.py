"""Output of ``scontrol show config``, read; whole recordings are in ``test_recorded``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.launchers.slurm.sacct import EndedJob, read_history
from hpcpod.launchers.slurm.scontrol import (
    max_array_size,
    option,
    read_settings,
    requeue_seconds,
)

TEXT = """\
Configuration data as of 2026-11-22T08:00:00
AuthInfo                = socket=/run/munge,cred_expire=30
KillWait                = 30 sec
MaxArraySize            = 4000001
MaxJobCount             = 10000
MinJobAge               = 300 sec
PreemptMode             = GANG,SUSPEND
PreemptParameters       = (null)
SchedulerParameters     = bf_window=1440,defer
SLURM_VERSION           = 24.11.5
MaxArraySize            = 5

Slurmctld(primary) at head is UP
"""


def test_settings_are_found_by_name_and_the_first_counts() -> None:
    settings = read_settings(TEXT)
    assert settings["MaxArraySize"] == "4000001"
    assert settings["PreemptParameters"] == ""
    assert option(settings, "SchedulerParameters", "bf_window") == "1440"
    assert option(settings, "SchedulerParameters", "defer") == ""
    assert option(settings, "SchedulerParameters", "bf_continue") is None
    assert option(settings, "NoSuchSetting", "x") is None


def test_limits_are_numbers() -> None:
    assert max_array_size(read_settings(TEXT)) == 4000001
    assert requeue_seconds(read_settings(TEXT)) == 31.0
    assert max_array_size(read_settings("slurm_load_ctl_conf error: refused\n")) is None


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("AuthInfo = (null)", 121.0),
        ("AuthInfo = cred_expire=4", 121.0),  # less than 5 is not taken
        ("AuthInfo = cred_expire=5", 6.0),
        ("AuthInfo = socket=/run/munge", 121.0),
        ("SchedulerParameters = requeue_delay=2", 2.0),
        ("SchedulerParameters = requeue_delay=0,defer", 0.0),
    ],
)
def test_how_long_a_requeued_job_waits(line: str, seconds: float) -> None:
    assert requeue_seconds(read_settings(line)) == seconds


def test_a_life_is_read_with_how_it_ended() -> None:
    text = (
        "4_5|CANCELLED by 1000|0:15|4|1795335624|n3\n"
        "4_6|RUNNING|0:0|5|Unknown|n8\n"
        "4_[7-11%4]|PENDING|0:0|0|Unknown|None assigned\n"
        "7|OUT_OF_MEMORY|0:125|61|1795335618|n[1-2]\n"
        "8|FAILED|75\n"
    )
    assert read_history(text) == (
        EndedJob("4_5", "CANCELLED", 0, 15, 4.0, 1795335624.0, "n3"),
        EndedJob("7", "OUT_OF_MEMORY", 0, 125, 61.0, 1795335618.0, "n[1-2]"),
    )


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    for name in ("AuthInfo", "MaxArraySize", "SchedulerParameters"):
        settings = read_settings(f"{name} = {text}\n{name} = requeue_delay={text}")
        assert requeue_seconds(settings) >= 0
        assert max_array_size(settings) is None or name == "MaxArraySize"
    read_history(text)
    read_history("|".join([text] * 6))
