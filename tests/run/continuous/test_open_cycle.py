"""A cycle that has begun: what it goes by, and what may begin after one that has failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.run.continuous import training
from hpcpod.run.continuous.cycle import abandon, advance, stream_of
from hpcpod.run.continuous.registry import create
from tests.run.continuous.worlds import config, drive, grow

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs are trained in this process: the driver of a run has tests of its own."""
    monkeypatch.setattr(training, "drive", drive)
    yield


class Stopped(Exception):
    """Raised where a process would be killed."""


def until_it_trains(text: str) -> None:
    """Stop a cycle once it has planned."""
    if text.startswith("makes the run"):
        raise Stopped


def test_it_is_judged_as_it_was_planned_and_what_failed_is_begun_again(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    registry = create(config(file), "a test", tmp_path)
    with pytest.raises(Stopped):
        advance(registry, probe=False, tell=until_it_trains)
    assert abandon(registry).kind == "failed" and registry.current is None
    assert advance(registry, probe=False).kind == "not due"
    with pytest.raises(Stopped):  # all sessions again, since nothing is deployed
        advance(registry, probe=False, force=True, tell=until_it_trains)
    first, second = registry.plans()
    assert second.windows == first.windows
    ct = registry.config.ct
    assert ct is not None and ct.level == 0.05
    registry.configure(replace(registry.config, ct=replace(ct, level=0.4)))
    assert stream_of(registry.config)._ct.level == 0.4  # type: ignore[attr-defined]
    done = advance(registry, probe=False)
    assert (done.kind, done.cycle, done.current) == ("promoted", 2, 2)
    version = registry.version(2)
    assert version is not None and version.verdict.level == 0.05
