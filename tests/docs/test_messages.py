"""The page on errors has every class of the tree, and the questions quote what hpcpod says."""

from __future__ import annotations

import re

import pytest

from hpcpod import errors
from hpcpod._version import PACKAGE
from hpcpod.cli.parser import parser
from tests.docs.pages import page

ROWS = re.findall(
    r"^\| `(\w+)` \| (.+?) \| (.+) \| (.*) \|$", page("errors.md").read_text("utf-8"), re.MULTILINE
)
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.HpcpodError)
}
QUESTIONS = dict(
    re.findall(r"^### (.+)\n\n((?:.+\n)+)", page("faq.md").read_text("utf-8"), re.MULTILINE)
)


def test_each_error_has_a_row_in_the_order_of_the_tree() -> None:
    assert [row[0] for row in ROWS] == list(CLASSES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_the_bases_the_cause_and_what_to_do(row: tuple[str, ...]) -> None:
    name, bases, when, then = row
    assert re.findall(r"`(\w+)`", bases) == [base.__name__ for base in CLASSES[name].__bases__]
    assert len(when) > 20 and len(then) > 20


def test_there_are_twenty_questions_each_with_a_command_in_its_answer() -> None:
    assert len(QUESTIONS) == 20
    for question, answer in QUESTIONS.items():
        assert re.search(r"`(?:hpcpod |run\.)", answer), question
        for words in re.findall(r"`hpcpod ([a-z][^`]*)`", answer.replace("\n", " ")):
            parser().parse_args(words.split())


def test_the_messages_in_the_questions_are_said_by_hpcpod() -> None:
    source = "".join(path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py")))
    said = re.sub(r'"\s+f?"', "", source)
    quoted = [text for question in QUESTIONS for text in re.findall(r'"([^"]+)"', question)]
    assert len(quoted) > 6
    parts = [part.strip() for text in quoted for part in text.split("...")]
    assert [part for part in parts if part not in said] == []
