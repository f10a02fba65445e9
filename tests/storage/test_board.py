"""A document survives its way through deltas, snapshots and other readers' caches."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.records.records import Document
from hpcpod.storage.board import PERIOD, applied, difference, writer_id
from hpcpod.storage.run_folder import RunFolder
from tests.storage.conftest import contents
from tests.storage.faults import in_child

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)
names = st.sampled_from(["", "a", "b", "pods", "é"])
documents = st.dictionaries(names, st.dictionaries(names, json_values, max_size=4), max_size=4)


@given(old=documents, new=documents)
def test_a_difference_turns_the_old_document_into_the_new_one(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    before = {name: dict(rows) for name, rows in old.items()}
    assert applied(old, difference(old, new)) == new
    assert old == before
    assert difference(new, new) == {"set": {}, "drop": {}}


def test_readers_old_and_new_see_every_generation_alike(run: RunFolder) -> None:
    chance = random.Random(5)
    steady, rare = RunFolder.open(run.path), RunFolder.open(run.path)
    assert steady.board.read() is None
    old: Document = {}
    for number in range(3 * PERIOD + 7):
        new = {name: dict(rows) for name, rows in old.items()}
        section = new.setdefault(chance.choice("abc"), {})
        section[f"r{chance.randrange(20):02d}"] = {"n": number, "x": chance.random()}
        if chance.random() < 0.2 and section:
            section.pop(chance.choice(list(section)))
        if chance.random() < 0.05:
            new.pop(chance.choice(list(new)))
        assert run.board.publish(number - 1, old, new, "w")
        old = new
        found = steady.board.read()
        assert found == (number, new)
        assert found is not None
        assert list(found[1]) == sorted(new), "sections and rows are sorted, whoever reads"
        assert all(list(rows) == sorted(rows) for rows in found[1].values())
        if number % 41 == 0:
            assert rare.board.read() == RunFolder.open(run.path).board.read() == found
            assert str(rare.board.read()) == str(RunFolder.open(run.path).board.read())
    history = contents(run)
    assert list(history) == list(range(3 * PERIOD + 7))
    assert [g for g, payload in history.items() if "snapshot" in payload] == [0, 1, 32, 64, 96]


def test_what_a_reader_does_to_its_rows_is_not_published(run: RunFolder) -> None:
    run.board.publish(-1, {}, {"rows": {"a": 1}}, "w")
    _, document = run.board.read() or (-1, {})
    document["rows"]["a"] = 2
    document["more"] = {}
    assert run.board.read() == (0, {"rows": {"a": 1}})


def test_a_writer_that_has_not_read_publishes_the_whole(run: RunFolder) -> None:
    for number in range(3):
        document: Document = {"rows": {"n": number}}
        fresh = RunFolder.open(run.path)
        assert fresh.board.publish(number - 1, {"rows": {"n": number - 1}}, document, "w")
    assert ["snapshot" in payload for payload in contents(run).values()] == [True, True, True]
    assert run.board.read() == (2, {"rows": {"n": 2}})


def test_compaction_keeps_the_last_two_anchors_and_every_name(run: RunFolder) -> None:
    old: Document = {}
    for number in range(100):
        new: Document = {"rows": {"n": number}}
        assert run.board.publish(number - 1, old, new, "w")
        old = new
        run.board.compact()
    assert next(iter(contents(run))) == 64
    assert run.board.compact() == 0
    for number in range(100):
        assert run.disk.exists(run.board.path(number))
        assert not RunFolder.open(run.path).board.publish(number - 1, {}, {}, "late")
    assert RunFolder.open(run.path).board.read() == (99, {"rows": {"n": 99}})


def test_a_reader_that_slept_through_a_compaction_wakes_up_well(run: RunFolder) -> None:
    sleeper = RunFolder.open(run.path)
    old: Document = {}
    for number in range(97):
        new: Document = {"rows": {"n": number}}
        run.board.publish(number - 1, old, new, "w")
        old = new
        if number == 5:
            sleeper.board.read()
    run.board.compact()
    assert sleeper.board.read() == (96, {"rows": {"n": 96}})


def test_each_process_is_a_writer_of_its_own() -> None:
    mine = writer_id()
    assert writer_id() == mine

    def other() -> None:
        assert writer_id() != mine

    assert in_child(other) == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", 2**80, 0.1])
def test_odd_values_come_back(run: RunFolder, value: Any) -> None:
    run.board.publish(-1, {}, {"rows": {"a": value}}, "w")
    _, document = RunFolder.open(run.path).board.read() or (-1, {})
    assert repr(document["rows"]["a"]) == repr(value)
