"""Played runs that several files of tests look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hpcpod.report.story import Story, read
from hpcpod.run.run import Run
from hpcpod.storage.run_folder import RunFolder
from tests.support.played_runs import played

VOID = {"meta"}


class Page(HTMLParser):
    """A page as a parser sees it: every element with its attributes and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every such element."""
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of eight rounds of six places, with copies and failures; only to be looked at."""
    return played(tmp_path_factory.mktemp("played"), name="told", failing=0.1, seed=1)


@pytest.fixture(scope="session")
def story(master: RunFolder) -> Story:
    return read(Run(master))


@pytest.fixture
def copied(master: RunFolder, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of that run for a test that damages it."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(master.path, tmp_path / name))

    return copy
