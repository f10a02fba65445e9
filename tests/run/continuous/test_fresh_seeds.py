"""Continuous training of any task: due by time or files, judged by episodes on fresh seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import EnvConfig
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
from hpcpod.tournament.continuous.stream import NotComparable, Player
from tests.run.continuous.worlds import drive, spoil
from tests.support.small_runs import mapping
from tests.support.untrained import untrained


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
    # both in the environment of the newest configuration, in which five steps are an episode
    short = mapping(**sections, env={"max_episode_steps": 5})
    registry.configure(from_mapping(short))
    assert advance(registry, force=True, probe=False).current == second.current
    judged = registry.versions()[2].verdict
    assert judged.incumbent is not None
    assert (judged.challenger.mean, judged.incumbent.mean, judged.ahead) == (5.0, 5.0, 0.0)
    registry.configure(from_mapping(mapping(**sections, env={"id": "Acrobot-v1"})))
    with pytest.raises(UserError, match=r"judged in Acrobot-v1 .*observations are .* another name"):
        advance(registry, force=True, fresh=True)
    registry.configure(config)
    spoil(registry, registry.current or 0, "mute")  # it loads, so that a cycle begins
    done = advance(registry, force=True, probe=False)
    assert (done.kind, done.cycle, done.current) == ("failed", 4, second.current)
    assert "nothing can be judged against" in done.words
    assert "it has nothing to say" in done.words
    spoil(registry, registry.current or 0, "agent")
    with pytest.raises(UserError, match=r"nothing can be judged against .*nowhere\.at_all:Agent"):
        advance(registry, force=True, probe=False)
    assert len(registry.plans()) == 4


def test_policies_of_other_spaces_are_not_compared(tmp_path: Path) -> None:
    one, other = EnvConfig("CartPole-v1"), EnvConfig("Acrobot-v1")
    new = Player(untrained(tmp_path / "new.h5", other), other)
    deployed = Player(untrained(tmp_path / "deployed.h5", one), one)
    windows = stream().adopted()
    with pytest.raises(NotComparable, match="give the configuration another name"):
        stream().judge(windows, new, deployed, tmp_path / "cycle")
    assert not (tmp_path / "cycle").exists()
