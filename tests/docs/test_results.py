"""The page on results, and what other pages quote: their numbers stand in the measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, page, without_blocks

MEASURED = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"(?<![\w.,])-?\d[\d,]*(?:\.\d+)?(?=[^\w]|x\b|\b[kM]\b|$)")
OWN = {"88", "1.1"}
"""Seconds and minutes of the run that the tutorial shows."""


def numbers(text: str) -> set[str]:
    """The numbers of a text, but for short ones, for which any page has a place."""
    plain = re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)
    found = {number.rstrip(",") for number in NUMBER.findall(plain)}
    return {number for number in found if len(number.strip("-")) > 2 or "." in number}


def quoted(path: Path) -> Iterator[str]:
    """The paragraphs of a page that name the measurements."""
    for paragraph in without_blocks(path).split("\n\n"):
        if "RESULTS.md" in paragraph:
            yield paragraph


def missing(text: str) -> set[str]:
    return numbers(text) - numbers(MEASURED) - OWN


def test_each_number_of_the_digest_stands_in_the_measurements() -> None:
    text = without_blocks(page("results.md"))
    assert len(numbers(text)) > 30
    assert missing(text) == set()


def test_each_number_that_a_tutorial_quotes_stands_in_the_measurements() -> None:
    names = ("ant.md", "another-python.md", "cartpole.md", "elastic.md", "lunarlander.md")
    paragraphs = [text for name in names for text in quoted(page(name))]
    assert len(paragraphs) >= 7
    assert {number for text in paragraphs for number in missing(text)} == set()


def test_a_number_that_was_not_measured_is_found() -> None:
    assert missing("It made 13,718 steps/s, -141.85 points and 2.535x, with 3 seeds.") == {
        "13,718", "-141.85", "2.535",
    }  # fmt: skip
