"""Continuous training of any task: due by time or files, judged by episodes on fresh seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.errors import UserError
from hpcpod.run.continuous import training
from hpcpod.run.continuous.cycle import advance, stream_of
from hpcpod.run.continuous.find import registry_of
from hpcpod.run.continuous.fresh_seeds import FreshSeeds
from hpcpod.run.continuous.registry import create
from hpcpod.run.evaluation.evaluate import FIRST_SEED
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.run.run import Run
from tests.run.continuous.worlds import drive
from tests.support.small_runs import mapping


def stream(**ct: Any) -> FreshSeeds:
    made = stream_of(from_mapping(mapping(ct=ct)))
    assert isinstance(made, FreshSeeds)
    return made


def test_no_two_cycles_judge_on_a_common_seed_nor_on_one_of_a_run() -> None:
    """Though ``episodes`` is changed between them."""
    seen: list[int] = []
    before = stream(kwargs={"episodes": 16}).adopted()
    for cycle, episodes in enumerate((128, 128, 64, 64, 256, 64), start=2):
        windows = stream(kwargs={"episodes": episodes}).look(before, cycle).windows
        assert windows is not None and windows.past - windows.seed == episodes
        seen += range(windows.seed, windows.past)
        before = windows
    assert len(set(seen)) == len(seen) == 704 and min(seen) == FIRST_SEED + 16


def test_a_cycle_is_due_by_time_or_when_a_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("one")
    made = stream(data=[str(file)])
    before = made.look(None, 1).windows
    assert before is not None and not made.look(before, 2).due
    file.write_text("two")
    look = made.look(before, 2)
    assert look.due and "have changed" in look.why and made.digest(before) != before.digest
    assert stream(every="1d").look(before, 2).due
    assert not stream().look(before, 2).due
    file.unlink()
    with pytest.raises(UserError, match=r"ct\.data: .*data\.txt can't be read"):
        made.look(before, 2)


@pytest.mark.parametrize("kwargs", [{"episodes": 1}, {"episodes": "many"}, {"judge": 3}])
def test_an_argument_that_can_not_be_is_a_sentence(kwargs: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"ct\.kwargs: "):
        stream(kwargs=kwargs)


@pytest.mark.long
def test_a_finished_run_is_taken_over_and_challenged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "drive", drive)
    ct = {"every": "1d", "kwargs": {"episodes": 16}}
    sections = {"stop": {"rounds": 1}, "round": {"env_steps": 128}, "ct": ct}
    config = from_mapping(mapping(**sections))
    run = Run(create_run(check(config, probe=False).resolved, tmp_path))
    create(config, str(run.path), tmp_path)  # and then it was killed
    drive(run)
    registry = registry_of("small", home=tmp_path)
    [plan] = registry.plans()
    assert plan.adopted == str(run.path)
    first = advance(registry)
    assert (first.kind, first.current) == ("promoted", 1)
    version = registry.version(1)
    assert version is not None and version.run == str(run.path)
    assert version.score["mean"] == version.verdict.challenger.mean
    later = advance(registry)
    assert later.kind == "not due" and "by ct.every" in later.words
    second = advance(registry, force=True, probe=False)
    challenger = registry.version(2)
    assert challenger is not None and challenger.parent == 1
    verdict = challenger.verdict
    assert verdict.incumbent is not None and verdict.incumbent.count == 16
    assert "16 episodes on fresh seeds, the same for both" in verdict.words
    assert second.current == (2 if verdict.promotes else 1)
