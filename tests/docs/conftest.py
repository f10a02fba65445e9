"""Fixtures of a documentation page: its files in a folder, and its tournament after its end.

A module of tests says which ``PAGE``, which ``FILES`` it must have, and the run's name, ``RUN``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.run.run import Run, open_run
from tests.docs.pages import files_of, said


@pytest.fixture(scope="module")
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("own")
    files = files_of(request.module.PAGE)
    assert files.keys() == request.module.FILES
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, home: Path) -> Run:
    """The tournament of the page, after its end."""
    said(home, "hpcpod", "launch", "mine.yaml")
    return open_run(home / "runs" / request.module.RUN)
