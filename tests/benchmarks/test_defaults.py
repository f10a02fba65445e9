"""Defaults beside defaults: the statistics, the table, and what counts as the same run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import defaults
import numpy as np
import pytest
from gates.contests import CONTESTS, EVALUATIONS, Contest
from gates.duel import Result, chance, difference, improvement, render
from gates.running import lines
from gates.table import OURS, PEER
from gates.zoo import PUBLISHED, ZOO

from hpcpod.agents.ppo import PPO

BENCHMARK = Path(defaults.__file__)
DATA = BENCHMARK.parent / "data" / "defaults.jsonl"
ROW = CONTESTS["ppo CartPole-v1"]


def result(library: str, seed: int, *scores: float, contest: Contest = ROW) -> Result:
    return Result(contest.name, library, seed, contest.made(library), scores, 1.0)


def test_a_run_is_scored_by_its_last_five_evaluations() -> None:
    # 500 once and then 100 is no policy that holds 500.
    assert result(OURS, 1, 500, 500, 100, 100, 100, 100, 100).score == 100
    assert result(OURS, 1, 0, 10, 20, 30, 40, 50).score == 30


def test_who_is_better_how_often_by_hand() -> None:
    # Of the four pairs (1, 0), (1, 1), (3, 0), (3, 1) three are won and one is even.
    assert improvement([1, 3], [0, 1]) == 3.5 / 4
    assert improvement([2, 2], [2, 2]) == 0.5


def test_a_difference_between_two_groups_by_hand() -> None:
    same = difference([1.0] * 5, [1.0] * 5)
    assert (same.middle, same.low, same.high) == (0, 0, 0)
    assert same.verdict == "no difference shown"
    # Resamples of (0, 1) are 0, 1/2, 1; those of (10, 11) 10 more: the ends are 9 and 11 less.
    apart = difference([0.0, 1.0], [10.0, 11.0])
    assert (apart.middle, apart.low, apart.high) == (-10, -11, -9)
    # Of the six ways to divide four seeds two are as uneven: never enough.
    assert apart.p == 2 / 6 and apart.verdict == "no difference shown"
    # Of 70 ways to divide eight two are as uneven: this and its mirror image.
    low, high = [0, 1, 2, 3], [10, 11, 12, 13]
    assert difference(low, high).p == 2 / 70
    assert difference(low, high).verdict == "WORSE"
    assert difference(high, low).verdict == "better"


@pytest.mark.parametrize(("ours", "peers"), [(10, 3), (3, 3), (5, 5), (10, 10)])
def test_with_nothing_to_find_a_difference_is_shown_as_often_as_it_says(
    ours: int, peers: int
) -> None:
    # 200 cases at 5 % have a standard error of 1.5 %.
    rng = np.random.default_rng(3)

    def draw(count: int, mean: float = 0.0) -> list[float]:
        return [mean + rng.standard_normal() for _ in range(count)]

    found = [chance(draw(ours), draw(peers)) <= 0.05 for _ in range(200)]
    assert np.mean(found) <= 0.08
    # Five standard deviations are found wherever the seeds suffice: three and three never do.
    apart = [chance(draw(ours, 5), draw(peers)) <= 0.05 for _ in range(20)]
    assert all(apart) == (ours + peers > 6)


@pytest.mark.parametrize(("ours", "least", "most"), [(3, 0.12, 0.28), (10, 0.08, 0.24)])
def test_bootstrap_intervals_of_three_seeds_are_too_narrow(
    ours: int, least: float, most: float
) -> None:
    # 400 cases missed 0 in 20 % and 16 %, each ± 2 %: so a verdict is by the permutation test.
    rng, missed = np.random.default_rng(3), []
    for _ in range(150):
        apart = difference(*(rng.standard_normal(count).tolist() for count in (ours, 3)))
        missed.append(not apart.low <= 0 <= apart.high)
    assert least <= np.mean(missed) <= most


def test_the_table_by_hand() -> None:
    runs = [result(OURS, seed, 490 + 10 * (seed - 2)) for seed in (1, 2, 3)]
    runs += [result(PEER, seed, 490) for seed in (1, 2, 3)]
    head, _, line = render(runs, [ROW]).splitlines()
    assert head.startswith("| row | steps | seeds | hpcpod | sb3 | difference | P(better) |")
    # Of three none is left out: the mean of 480, 490, 500 is 490; a third of the pairs is even.
    assert line.startswith("| ppo CartPole-v1 | 100k | 3, 3 | 490.0 [480.0, 500.0] | 490.0 [490.0")
    assert line.endswith(
        "| +0.0 [-10.0, +10.0] | 0.50 | 480, 490 | no difference shown (p 1.000) |"
    )
    few = render([runs[0], runs[3]], [ROW]).splitlines()[2]
    assert few.endswith("| 480.0 [480.0, 480.0] | 490.0 [490.0, 490.0] |  |  |  | too few seeds |")


def test_a_tuned_row_says_what_the_zoo_has_published() -> None:
    contest = CONTESTS["ppo LunarLander-v3 tuned"]
    line = render([result(PEER, 1, 3.0, contest=contest)], [contest]).splitlines()[2]
    assert line.startswith("| ppo LunarLander-v3 tuned (zoo: 242 at 1000k) | 300k | 0, 1 |")


def test_another_default_makes_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ROW.made(OURS)
    assert ROW.made(OURS) == before != ROW.made(PEER)
    monkeypatch.setattr(PPO, "Config", lambda: replace(PPO_CONFIG(), gamma=0.5))
    assert ROW.made(OURS) != before
    assert render([Result(ROW.name, OURS, 1, before, [500.0], 1.0)], [ROW]).count("\n") == 1
    # what is at the value that stands for its absence is no change
    monkeypatch.setattr(PPO, "Config", lambda: replace(PPO_CONFIG(), noise_memory=16))
    assert ROW.made(OURS) != before
    monkeypatch.setattr(PPO, "Config", lambda: replace(PPO_CONFIG(), noise_memory=1))
    assert ROW.made(OURS) == before


PPO_CONFIG = PPO.Config


def test_the_results_that_are_kept_are_of_todays_defaults() -> None:
    kept = Counter((each["row"], each["made"]) for each in lines(DATA))
    untuned = [contest for contest in CONTESTS.values() if not contest.preset]
    assert min(kept[contest.name, contest.made(OURS)] for contest in untuned) >= 8


def test_nothing_is_told_to_either_library() -> None:
    ours, peers = ROW.order(OURS, 3), ROW.order(PEER, 3)
    assert ours["hyperparameters"] == {} == peers["own"]
    assert ours["env"] == peers["env"] == {"id": "CartPole-v1", "kwargs": {}}
    assert ours["panel"] == peers["panel"] and ours["evaluations"] == EVALUATIONS


def test_a_preset_is_trained_as_its_control_and_the_zoo_by_its_own_words() -> None:
    row = CONTESTS["ppo LunarLander-v3 tuned"]
    ours, peers = row.order(OURS, 1), row.order(PEER, 1)
    assert ours["env"]["num_envs"] == peers["own"]["n_envs"] == 16
    same = {
        "horizon": "n_steps", "minibatch_size": "batch_size", "epochs": "n_epochs",
        "gamma": "gamma", "gae_lambda": "gae_lambda", "entropy": "ent_coef",
    }  # fmt: skip
    for name, there in same.items():
        assert ours["hyperparameters"][name] == pytest.approx(peers["own"][there]), name
    assert {row[:2] for row in ZOO} == set(PUBLISHED)


def test_a_seed_of_every_row_comes_before_the_next_seed() -> None:
    options = defaults.parse(["--rows", "ppo CartPole-v1,dqn Acrobot", "--seeds", "2"])
    known = [result(PEER, 1, 500)]
    runs = defaults.orders(options, defaults.asked(options), known)
    wanted = [(run.row, run.library, run.order["seed"]) for run in runs]
    names = ["ppo CartPole-v1", "dqn Acrobot-v1", "dqn Acrobot-v1 tuned"]  # one whole, two parts
    every = [(name, library, seed) for seed in (1, 2) for name in names for library in (OURS, PEER)]
    assert wanted == [each for each in every if each != (ROW.name, PEER, 1)]


def test_a_run_is_kept_and_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--rows", "a2c CartPole-v1", "--libraries", OURS, "--seeds", "1", "--json", "out"]
    words += ["--budget", "0.02"]
    first = subprocess.run(
        [sys.executable, str(BENCHMARK), *words], cwd=tmp_path, capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    [kept] = (tmp_path / "out").read_text().splitlines()
    assert len(json.loads(kept)["scores"]) == EVALUATIONS
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *words])
    defaults.main()  # here: a process of its own would load torch again
    assert capsys.readouterr() == (first.stdout, "")


@pytest.mark.parametrize(
    ("words", "said"), [(["--rows", "tetris"], "tetris is in none of"), (["--libraries", "x"], "x")]
)
def test_what_can_not_be_asked_for_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        defaults.parse(words)
    assert said in capsys.readouterr().err
