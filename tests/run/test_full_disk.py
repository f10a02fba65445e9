"""The words on a run whose filesystem is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.run.full_disk import LEAST, full_words
from hpcpod.run.text import size
from tests.support.small_disks import filled, small_disk
from tests.support.small_runs import create


def test_a_run_without_room_for_a_checkpoint_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "small", 4096) as home:
        path = create(home).path
        for verb in ("status", "why"):
            assert main([verb, str(path)]) == 0
            assert "is full" not in capsys.readouterr().out
            with filled(home):
                assert main([verb, str(path)]) == 0
                said = " ".join(capsys.readouterr().out.split())
            assert f"the filesystem of {path} is full: it has 0 B left, and a checkpoint" in said
            assert f"takes up to {size(LEAST)}; slots wait" in said
        large = tmp_path / "policy.h5"
        large.write_bytes(bytes(5_000_000))  # more than the filesystem has in all
        assert "takes up to 5 MB" in full_words(path, large)
        assert full_words(path, None) == ""
    assert full_words(tmp_path / "gone", None) == ""


def test_a_full_disk_is_no_mistake_of_who_names_a_file_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = create(tmp_path / "runs").path
    verbs = (
        ["results", str(path), "--optuna"],
        ["data", "synth", "--set", "days=5", "--set", "minutes=13"],
    )
    for verb in verbs:
        with small_disk(tmp_path / verb[0], 64) as home, filled(home):
            assert main([*verb, str(home / "file.csv")]) == 1
        assert f"can't write {home / 'file.csv'}" in capsys.readouterr().err
