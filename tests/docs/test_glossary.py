"""The glossary: its words in order, and each in a module that exists."""

from __future__ import annotations

import re

import pytest

from hpcpod._version import PACKAGE
from tests.docs.pages import ROOT

TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^- \*\*(.+?)\*\*: (.+?)$(?=\n- |\n*\Z)", TEXT, re.M | re.S))


def test_the_words_are_in_order_and_each_is_there_once() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*", TEXT, re.M)
    assert words == sorted(set(words), key=str.lower) == list(ENTRIES)
    assert {"Board", "Fencing", "Pod", "Rank", "Slot"} <= set(words)


@pytest.mark.parametrize("word", ENTRIES)
def test_a_word_is_held_by_a_module_that_exists(word: str) -> None:
    modules = re.findall(r"`([\w/]+\.py)`", ENTRIES[word])
    assert modules and [each for each in modules if not (PACKAGE / each).is_file()] == []
