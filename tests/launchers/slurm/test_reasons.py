"""Reasons of waiting jobs: each that seven versions of Slurm know has words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.launchers.slurm.reasons import explain

KNOWN = (Path(__file__).parent / "recorded" / "reasons.txt").read_text().splitlines()


@pytest.mark.parametrize("reason", KNOWN)
def test_every_reason_of_slurms_has_words(reason: str) -> None:
    explanation = explain(reason)
    assert explanation.reason == reason
    assert not explanation.meaning.startswith("Slurm says")
    assert not explanation.meaning.endswith(".")
    assert "\n" not in explanation.meaning + explanation.advice
    assert explanation.advice or not explanation.hopeless


@pytest.mark.parametrize(
    ("reason", "hopeless"),
    [
        ("Priority", False),
        ("Resources", False),
        ("BeginTime", False),
        ("JobArrayTaskLimit", False),
        ("DependencyNeverSatisfied", True),
        ("JobHeldUser", True),
        ("JobHeldAdmin", True),
        ("launch failed requeued held", True),
        ("PartitionTimeLimit", True),
        ("PartitionDown", False),
        ("InvalidAccount", True),
        ("BadConstraints", True),
        ("ReqNodeNotAvail, UnavailableNodes:dgx[2,6-7]", False),
        # Somebody else's job ends, and there is room again ...
        ("QOSGrpGRES", False),
        ("QOSGrpGRESRunMinutes", False),
        ("QOSMaxGRESPerUser", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("MaxGRESPerAccount", False),
        ("AssocGrpJobsLimit", False),
        # ... but no job becomes smaller, and no budget larger, by waiting.
        ("QOSMaxGRESPerJob", True),
        ("AssocMaxCpuPerJobLimit", True),
        ("QOSMaxCpuPerNode", True),
        ("AssocGrpCPUMinutesLimit", True),
        ("QOSGrpWallLimit", True),
        ("QOSMinGRES", True),
        ("QOSMaxWallDurationPerJobLimit", True),
    ],
)
def test_what_will_not_start_by_itself_is_said(reason: str, hopeless: bool) -> None:
    assert explain(reason).hopeless is hopeless


def test_the_limit_of_time_says_which_setting_to_lower() -> None:
    assert "cluster.minutes" in explain("PartitionTimeLimit").advice
    assert "cluster.minutes" in explain("ReqNodeNotAvail, Reserved for maintenance").advice
    assert "cluster.account" in explain("AccountNotAllowed").advice


def test_parentheses_around_a_reason_are_not_part_of_it() -> None:
    assert explain("(ReqNodeNotAvail, UnavailableNodes:n[1,3])") == explain(
        "ReqNodeNotAvail, UnavailableNodes:n[1,3]"
    )
    assert explain("(None)").meaning == explain("").meaning


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    explanation = explain("A word of (next) year, with more")
    assert explanation.meaning == "Slurm says A word of (next) year, with more"
    assert (explanation.advice, explanation.hopeless) == ("", False)


@given(st.text())
def test_any_text_has_an_explanation(reason: str) -> None:
    assert explain(reason).meaning
