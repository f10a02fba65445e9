"""The table of promises: each row names tests, and these exist."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, page

ROWS = re.findall(r"^\| (.+) \| (.+) \|$", page("promises.md").read_text("utf-8"), re.MULTILINE)


def test_each_promise_names_its_tests_and_they_are_there() -> None:
    promises = [row for row in ROWS if row != ("promise", "test")]
    assert len(promises) > 40
    for promise, named in promises:
        paths = re.findall(r"`(tests/[^`]+)`", named)
        assert paths, promise
        assert named == ", ".join(f"`{path}`" for path in paths), promise
        for path in paths:
            tests = [ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("test_*.py")
            assert any("def test_" in file.read_text("utf-8") for file in tests), path


def test_no_promise_is_made_twice() -> None:
    promises = [promise for promise, _ in ROWS if promise != "promise"]
    assert len(promises) == len(set(promises))
