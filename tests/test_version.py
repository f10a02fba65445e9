"""The version: written once, and the same wherever hpcpod tells it."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from hpcpod._version import PACKAGE, __version__
from hpcpod.cli.parser import main
from hpcpod.config.resolved import versions

ROOT = Path(__file__).parents[1]


def test_the_installed_package_and_the_command_have_the_same_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert metadata.version("hpcpod") == __version__
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"hpcpod {__version__}\n"


def test_a_new_run_keeps_the_version_that_runs_also_where_an_older_one_was_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "version", lambda package: "0.0.1")
    assert versions()["hpcpod"] == __version__
    assert versions()["torch"] == "0.0.1"


def test_one_file_of_the_package_writes_it() -> None:
    written = re.compile(rf"(?<![\w.]){re.escape(__version__)}(?![\w.])")
    found = [path for path in PACKAGE.rglob("*.py") if written.search(path.read_text("utf-8"))]
    assert found == [PACKAGE / "_version.py"]
    assert written.search((ROOT / "pyproject.toml").read_text("utf-8")) is None
