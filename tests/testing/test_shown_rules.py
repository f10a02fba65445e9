"""Contracts show each rule boards that no other has changed, and play runs to their end."""

from __future__ import annotations

import re

import pytest

from hpcpod.testing import AllocatorContract, GeneratorContract, UpdaterContract, populations

HERE = "tests.testing.shown_rules"
Contract = type[UpdaterContract] | type[GeneratorContract] | type[AllocatorContract]
INNOCENT: dict[Contract, str] = {
    UpdaterContract: "ranking",
    GeneratorContract: "gentle_truncation",
    AllocatorContract: "fair",
}
CHANGING: dict[str, tuple[Contract, str]] = {
    "ForgetsPods": (UpdaterContract, "the board or its cohorts have changed: board.pods"),
    "RewritesReports": (UpdaterContract, "have changed: board.pods, living, pod, report"),
    "ForgetsTheBeaten": (GeneratorContract, "the board or its cohorts have changed: board.pods"),
    "ChangesHyperparameters": (GeneratorContract, "have changed: board.pods, living"),
    "NarrowsSpaces": (GeneratorContract, "a founder of ppo: its space has changed"),
    "TurnsTheRanking": (AllocatorContract, "the prospects have changed: scored"),
}
"""Each class that changes what it is shown: its contract, and what ``test_it_changes_nothing``
says of it."""


def _made(contract: Contract, path: str) -> UpdaterContract | GeneratorContract | AllocatorContract:
    field = contract.__name__.removesuffix("Contract").lower()
    return type("TestMine", (contract,), {field: path})()  # type: ignore[no-any-return]


def _outcomes(contract: Contract, path: str) -> dict[str, str]:
    """The words of each test that fails, in the order of the contract; empty where it passes."""
    mine, said = _made(contract, path), {}
    for name in vars(contract):
        if name.startswith("test_"):
            try:
                getattr(mine, name)()
                said[name] = ""
            except Exception as error:
                said[name] = f"{type(error).__name__}: {error}"
    return said


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGING)
def test_a_part_that_changes_what_it_is_shown_is_told_so_and_spoils_no_other(name: str) -> None:
    contract, words = CHANGING[name]
    said = _outcomes(contract, f"{HERE}:{name}")
    assert words in said["test_it_changes_nothing"], said
    innocent = _outcomes(contract, INNOCENT[contract])
    assert not any(innocent.values()), innocent


@pytest.mark.long
def test_a_generator_that_draws_beaten_pods_anew_keeps_its_contract() -> None:
    said = _outcomes(GeneratorContract, f"{HERE}:DrawsAgain")
    assert not any(said.values()), said


@pytest.mark.long
def test_a_run_that_does_not_end_says_how_far_it_was_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(populations, "MOST", populations.MERGES + 1)
    words = (
        r"the run of 10 rounds has not ended after 61 merges of a population of 12 pods, which "
        r"have finished \d+ rounds, though no pod was beaten after the first 60"
    )
    said = _outcomes(GeneratorContract, f"{HERE}:DrawsAgain")
    [failed] = [each for each in said.values() if each]
    assert re.search(words, failed), said
