"""The replay of recorded curves, on curves that are made up."""

from __future__ import annotations

from pathlib import Path

import curves
import numpy as np
import pytest
from recorded_curves.recording import Curves, read, recorded, write
from recorded_curves.replay import Budget, halves, random_search, replayed

STEPS = Budget(1, rounds=128)
SECONDS = Budget(2, seconds=90.0)


def made_up(learners: int, draws: int = 32) -> Curves:
    """Some learn from their fourth round on; the others do nothing, which is better at first."""
    rng = np.random.default_rng(0)
    means = np.zeros((draws, 24))
    means[:learners, :3] = -50.0
    means[:learners, 3:] = np.minimum(100.0, 25.0 * np.arange(1, 22))
    returns = means[:, :, None] + rng.normal(0, 5, (draws, 24, 16))
    return Curves(returns, np.full((draws, 24), 1.0))


def test_curves_are_kept_to_a_tenth(tmp_path: Path) -> None:
    found = made_up(3)
    write(tmp_path / "toy.npz", found)
    again = read(tmp_path / "toy.npz")
    assert np.abs(again.returns - found.returns).max() < 0.0501
    assert np.allclose(again.seconds, found.seconds)


@pytest.mark.slow
def test_curves_are_recorded_from_a_run_that_ends_by_finals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # its slots import the rule without copies
    monkeypatch.setenv("PYTHONPATH", str(Path(curves.__file__).parent))
    found = recorded("car-sac", rounds=2, draws=2)
    assert found.returns.shape == (2, 2, 32) and found.seconds.shape == (2, 2)
    assert (found.returns <= 100).all() and (found.seconds > 0).all()


def test_random_search_is_the_best_of_what_its_budget_pays() -> None:
    levels = np.arange(64.0)
    found = Curves(np.tile(levels[:, None, None], (1, 24, 2)), np.full((64, 24), 1.0))
    order = np.random.default_rng([1, 7]).permutation(64)
    assert random_search(found, STEPS, 4, 7) == levels[order[:32]].max()
    # two slots of 90 s have 22 trainings of four rounds each
    assert random_search(found, SECONDS, 4, 7) == levels[order[:44]].max()
    assert random_search(found, Budget(1, seconds=9.0), 4, 7) == levels[order[:2]].max()


def test_the_best_round_of_a_training_counts_and_is_scored_by_episodes_that_did_not_choose_it() -> (
    None
):
    falling = np.tile(np.linspace(100, 0, 24)[None, :, None], (64, 1, 8))
    assert random_search(Curves(falling, np.ones((64, 24))), STEPS, 4, 7) == 100.0
    noises = [np.random.default_rng(n).normal(0, 1, (64, 24, 16)) for n in range(100)]
    found = [Curves(noise, np.ones((64, 24))) for noise in noises]
    seen, kept = halves(found[0], 3, 5, replicate=2)
    assert sorted([*seen, *kept]) == sorted(noises[0][3, 4]) and len(seen) == 8
    # the best of 128 means of eight such numbers is 0.9 by itself, and their errors are 0.035
    assert abs(np.mean([random_search(each, STEPS, 4, 7) for each in found])) < 0.15
    assert abs(np.mean([replayed(each, STEPS, 16, "auto", 7) for each in found])) < 0.15


@pytest.mark.parametrize("budget", [STEPS, SECONDS], ids=["steps", "seconds"])
def test_learners_that_score_less_at_first_are_found(budget: Budget) -> None:
    found = made_up(8)
    scores = [replayed(found, budget, 16, "auto", n) for n in range(20)]
    assert sum(score > 90 for score in scores) >= 18
    assert scores[:2] == [replayed(found, budget, 16, "auto", n) for n in range(2)]
    idle = made_up(0)
    assert abs(replayed(idle, budget, 16, "auto", 0)) < 5


def test_the_table_has_a_row_for_each_budget_and_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["curves.py", "--tasks", "car-sac", "--replicates", "2", "--allocators", "fair"]
    monkeypatch.setattr("sys.argv", arguments)
    curves.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [each[2] for each in rows] == ["fair", "random search"] * 2
    assert {each[1] for each in rows} == {"128 rounds, one slot", "78 s, two slots"}


def test_replicates_go_on_from_any_number_and_trainings_have_any_length() -> None:
    found = made_up(8)
    words = ["--replicates", "4", "--training", "8"]
    told = list(curves.played(found, "car-sac", STEPS, curves.RANDOM, curves.parse(words)))
    assert told == [random_search(found, STEPS, 8, replicate) for replicate in range(4)]
    late = curves.parse([*words[2:], "--first", "2", "--replicates", "2"])
    assert list(curves.played(found, "car-sac", STEPS, curves.RANDOM, late)) == told[2:]


@pytest.mark.parametrize(
    "words",
    ["--first -1", "--training 0", "--training 17", "--pods 0", "--allocators nope",
     "--data /nonexistent"],
)  # fmt: skip
def test_what_means_nothing_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        curves.parse(words.split())
    assert ended.value.code == 2 and words.split()[0] in capsys.readouterr().err
