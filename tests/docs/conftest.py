"""Fixtures of a documentation page: its files in a folder, and its tournament after its end.

A module of tests says which ``PAGE``, which ``FILES`` it must have, and the run's name, ``RUN``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcpod import plugins
from hpcpod.cli.parser import main
from hpcpod.pod.trial import supervisor
from hpcpod.run.run import Run, open_run
from tests.docs.pages import files_of


@contextmanager
def verbs_in(home: Path) -> Iterator[None]:
    """Verbs in this process, with a page's folder as the working directory: a Python of its own
    for each would load torch again. What they have found there is forgotten afterwards: other
    pages have modules of the same names."""
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr(sys, "path", [*sys.path])
        patch.setattr(plugins, "_LOOKED_IN", [*plugins._LOOKED_IN])
        patch.setattr(supervisor, "known_here_alone", lambda *given: True)
        try:
            yield
        finally:
            for number, handler in signals.items():  # a verb may set its own
                signal.signal(number, handler)
            for name in [name for name in sys.modules if name.startswith("my_")]:
                del sys.modules[name]


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
    with verbs_in(home):
        assert main(["launch", "mine.yaml"]) == 0
    return open_run(home / "runs" / request.module.RUN)


@pytest.fixture
def here(home: Path) -> Iterator[None]:
    """The page's verbs are typed in this process."""
    with verbs_in(home):
        yield
