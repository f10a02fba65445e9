"""The contracts of updaters, generators and allocators: built-in parts keep them."""

from __future__ import annotations

import pytest

from hpcpod import plugins
from hpcpod.testing import AllocatorContract, GeneratorContract, UpdaterContract

KINDS = {
    "updaters": UpdaterContract,
    "generators": GeneratorContract,
    "allocators": AllocatorContract,
}
PROMISES = [
    (group, name, test)
    for group, contract in KINDS.items()
    for name in plugins.known(group)
    for test in vars(contract)
    if test.startswith("test_")
]


@pytest.mark.long
@pytest.mark.parametrize(("group", "name", "test"), PROMISES)
def test_a_built_in_part_keeps_its_contract(group: str, name: str, test: str) -> None:
    contract = type(f"Test{name}", (KINDS[group],), {group[:-1]: name})()
    getattr(contract, test)()
