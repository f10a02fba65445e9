"""A cycle that has begun: what it goes by, and what may begin after one that has failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.run.continuous import training
from hpcpod.run.continuous.cycle import abandon, advance, stream_of
from hpcpod.run.continuous.entries import Decision, Plan, seen
from hpcpod.run.continuous.registry import create
from hpcpod.tournament.continuous.stream import Windows
from tests.run.continuous.worlds import JUDGE, config, drive, grow, rewritten

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


@pytest.mark.parametrize(
    ("step", "said"),
    [("judges what came", "its data were changed"), ("trains mine", "no round was reported")],
)
def test_the_data_of_a_cycle_that_failed_before_it_was_judged_are_the_next_one_s_but_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, said: str
) -> None:
    file = tmp_path / "bars.parquet"
    grow(file, 45)
    registry = create(config(file), "a test", tmp_path)
    assert advance(registry, probe=False).kind == "promoted"
    grow(file, 45 + JUDGE)
    for _ in range(2):
        with rewritten(file) as rewrite, monkeypatch.context() as patch:

            def spoil(text: str) -> None:
                if step in text and step.startswith("judges"):
                    rewrite()
                elif step in text:
                    patch.setattr(training, "drive", lambda run: run.stop(now=True))

            done = advance(registry, probe=False, tell=spoil)
        assert done.kind == "failed" and said in done.words
    windows = [plan.windows for plan in registry.plans()]
    assert windows[2] == windows[1] != windows[0]
    assert advance(registry, probe=False).kind == "not due"
    assert [line.cycle for line in registry.decisions()] == [1, 2, 3]
    assert registry.current == 1


def test_of_two_cycles_in_a_row_that_left_their_data_unused_the_second_has_used_them() -> None:
    plans = [Plan(n, {}, Windows(end=str(n)), None, "", 0.0) for n in range(1, 5)]

    def ledger(*unused: int) -> list[Decision]:
        return [Decision(n, "failed", None, None, "", 0.0, "", n, n in unused) for n in range(1, 5)]

    assert [None if (found := seen(plans[:n], ledger(1, 2, 4))) is None else found.end
            for n in range(5)] == [None, None, "2", "3", "3"]  # fmt: skip
    assert seen(plans, ledger()) == Windows(end="4")
    # the third of three in a row has data that are new to it
    assert seen(plans, ledger(2, 3, 4)) == Windows(end="3")
