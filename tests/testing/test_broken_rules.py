"""The contracts of rules fail updaters, generators and allocators that break them, and say how."""

from __future__ import annotations

import pytest

from hpcpod.testing import AllocatorContract, GeneratorContract, UpdaterContract

Contract = type[UpdaterContract] | type[GeneratorContract] | type[AllocatorContract]
UPDATER, GENERATOR, ALLOCATOR = UpdaterContract, GeneratorContract, AllocatorContract
BROKEN: dict[str, tuple[Contract, str, str]] = {
    "TossesACoin": (UPDATER, "same_question", "and then Verdict(admit="),
    "CountsItsVerdicts": (UPDATER, "same_question", "and then Verdict(admit="),
    "BuriesPods": (UPDATER, "changes_nothing", "the board or its cohorts have changed"),
    "NamesItself": (UPDATER, "only_pods_that_were_compared", "not compared with it"),
    "GivesNoEvidence": (UPDATER, "only_pods_that_were_compared", "no evidence of p0"),
    "CountsInsteadOfWords": (UPDATER, "only_pods_that_were_compared", "expected str, got 3.2"),
    "BeatsEquals": (UPDATER, "return_the_same", "it is beaten, though all return the same"),
    "JudgesForever": (UPDATER, "in_time", "s, and may take 0.1 s"),
    "AdmitsNothing": (UPDATER, "a_run_by_it", "nothing was admitted to the leaderboard"),
    "FoundsOutside": (GENERATOR, "founders", "learning_rate = 1.0 is not within"),
    "FoundsInSets": (GENERATOR, "founders", "can't be kept as JSON"),
    "DrawsFromEverywhere": (GENERATOR, "same_question", "and then "),
    "MovesMembers": (GENERATOR, "changes_nothing", "the board or its cohorts have changed"),
    "CrossesFamilies": (GENERATOR, "can_be_born", "must be a ppo(width="),
    "InventsParents": (GENERATOR, "can_be_born", "p9999"),
    "CopiesRoundsOfNumpy": (GENERATOR, "can_be_born", "is a numpy.int64, which JSON has not"),
    "HidesItsMutations": (GENERATOR, "can_be_born", "mutated is ()"),
    "ReplacesControls": (GENERATOR, "controls_the_leader", "is replaced by Copy("),
    "DecidesForever": (GENERATOR, "in_time", "s, and may take 0.1 s"),
    "AllocatesByChance": (ALLOCATOR, "same_question", "and then Allocation("),
    "StarvesAll": (ALLOCATOR, "carried_out", "without a round"),
    "RestsByScore": (ALLOCATOR, "carried_out", "the board can't keep its Allocation: resting.p0"),
    "RestsWithoutReason": (ALLOCATOR, "carried_out", "without a round, and gives no reason"),
    "DividesByNothing": (ALLOCATOR, "carried_out", "division by zero"),
    "AllocatesForever": (ALLOCATOR, "in_time", "s, and may take 0.1 s"),
}
"""Each class of ``broken_rules``: its contract, the test that it must fail, and what that says."""


@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_a_part_that_breaks_a_promise_fails_its_test(name: str) -> None:
    contract, part, words = BROKEN[name]
    [test] = [each for each in vars(contract) if each.startswith("test_") and part in each]
    field = contract.__name__.removesuffix("Contract").lower()
    fields = {field: f"tests.support.broken_rules:{name}", "seconds": 0.1}
    with pytest.raises((AssertionError, ZeroDivisionError)) as failure:
        getattr(type("TestBroken", (contract,), fields)(), test)()
    assert words in str(failure.value)
