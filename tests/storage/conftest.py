"""Fixtures of the storage tests."""

from __future__ import annotations

import os
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pytest

from hpcpod.records.records import Checkpoint, Owner, Report
from hpcpod.storage.checksummed import unpack
from hpcpod.storage.disk import Disk
from hpcpod.storage.run_folder import RunFolder
from tests.storage.faults import NoLinks

WEIRD = ["plain", "two words", 'it\'s "quoted"', "a;b && c $HOME *", "größe-模型-🚀", "-rf"]


def contents(run: RunFolder) -> dict[int, Any]:
    """The files of a board's generations, by number; emptied ones are left out."""
    files = takewhile(
        lambda data: data is not None, map(run.disk.read, map(run.board.path, count()))
    )
    whole = {number: data or b"" for number, data in enumerate(files)}
    return {n: unpack(data, str(n)) for n, data in whole.items() if b"emptied" not in data[:20]}


@pytest.fixture(autouse=True)
def unsynced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the disk where nothing depends on it.

    A killed process loses nothing that is in the page cache, so that syncing proves nothing
    here, and takes minutes on a busy disk. Two modules sync for real.
    """
    if request.module.__name__.rpartition(".")[2] not in {"test_chaos", "test_disk"}:
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=WEIRD)
def weird_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param) / "run"


@pytest.fixture(params=["link", "directory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> RunFolder:
    """A new run, published by either scheme."""
    disk = Disk() if request.param == "link" else NoLinks()
    folder = RunFolder.create(tmp_path / "run", {"seed": 7}, disk)
    assert folder.config["publish"] == request.param
    return RunFolder.open(folder.path)


@pytest.fixture
def report() -> Report:
    return Report(
        order="p0001-00001-0",
        pod="p0001",
        round=1,
        attempt=0,
        slot="12_3",
        returns=(1.5, -2.25, float("inf")),
        checkpoint=Checkpoint("ab" * 32, 20_000),
        metrics={"loss": 0.125},
    )


@pytest.fixture
def owner() -> Owner:
    return Owner("12_3", "12", "node1", 4711)
