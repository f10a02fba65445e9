"""Fixtures of the security tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.people import Person, people, shared_folder


@pytest.fixture(scope="session")
def everybody() -> tuple[Person, Person, Person]:
    return people()


@pytest.fixture
def ann(everybody: tuple[Person, Person, Person]) -> Person:
    return everybody[0]


@pytest.fixture
def bob(everybody: tuple[Person, Person, Person]) -> Person:
    return everybody[1]


@pytest.fixture
def carol(everybody: tuple[Person, Person, Person]) -> Person:
    return everybody[2]


@pytest.fixture
def runs(ann: Person) -> Iterator[Path]:
    """A folder for the runs of Ann's group."""
    with shared_folder(ann) as shared:
        yield shared
