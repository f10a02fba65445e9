"""The year of continuous training: what was promoted is repeated from the registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ct
import pytest

from hpcpod.records.codec import encode
from hpcpod.run.continuous import training
from hpcpod.run.continuous.registry import open_registry
from hpcpod.storage.checksummed import pack
from tests.run.continuous.worlds import Generous, drive

pytestmark = pytest.mark.long


def test_each_promotion_is_repeated_and_one_that_differs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "drive", drive)  # in this process
    year = ct.Year(
        history=44, sessions=15, change=12, judge=12, window=24, episode=1, rounds=1,
        round_steps=2048,
    )  # fmt: skip
    easy = {"stream": f"{Generous.__module__}:Generous", "kwargs": {"judge": 12, "window": 24}}
    registry, lived = ct.simulated(year, tmp_path, ct=easy)
    assert [line.kind for line in registry.decisions()] == ["promoted", "promoted"]
    assert len(lived.live) == len(lived.frozen) > 12
    found = list(ct.repeats(registry, tmp_path / "again"))
    assert [(each.version.number, each.same) for each in found] == [(1, True), (2, True)]
    assert found[1].verdict.ahead is not None and "v0002 again: the same:" in found[1].words
    first, second = registry.versions()
    for own, changed in (
        (first, replace(first, weights="0" * 64)),
        (second, replace(second, score={**second.score, "mean": 1.5})),
    ):
        entry = registry.folder(own.number) / "entry.json"
        entry.write_bytes(pack(encode(changed)))
    assert list(ct.told(open_registry(registry.path), tmp_path / "more")) == [False, False]
    told = capsys.readouterr().out
    assert "v0001 again: DIFFERS: OTHER bits" in told and "(then 1.5)" in told
    judged = replace(second.verdict, ahead=1e6)
    entry.write_bytes(pack(encode(replace(second, verdict=judged))))
    assert not list(ct.repeats(open_registry(registry.path), tmp_path / "last"))[1].same
