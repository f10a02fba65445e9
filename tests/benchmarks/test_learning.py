"""The learning gate: its statistics, its tables, and both of its ends."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import learning
import numpy as np
import pytest
from gates import running, table
from gates.estimates import estimate, iqm
from gates.rows import EPISODES, PANEL, ROWS
from gates.table import OURS, PEER, Run

from hpcpod.envs.vec_env import random_seeds

BENCHMARK = Path(learning.__file__)
Benchmark = Callable[..., tuple[str, str]]


@pytest.mark.parametrize(
    ("scores", "middle"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0, 8.0], 4.0),  # 3 // 4 = 0 are left out: the mean
        ([-1000.0, 2.0, 4.0, 900.0], 3.0),  # one on either side
        ([500.0, 9.0, 1.0, 2.0, 3.0], 14 / 3),  # 2, 3 and 9, in whatever order
        ([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 99.0, 99.0], 2.5),  # two on either side
    ],
)
def test_the_interquartile_mean_by_hand(scores: list[float], middle: float) -> None:
    assert float(iqm(scores)) == pytest.approx(middle)
    assert iqm([scores, scores]).tolist() == pytest.approx([middle, middle])


def test_no_scores_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no scores"):
        iqm([])


def test_the_interval_of_two_seeds_by_hand() -> None:
    # Resamples of (0, 1): both 0 with probability 1/4, both 1 with 1/4, else 0.5. The 2.5 and
    # 97.5 percentiles are in the outer quarters. One seed, or equal ones, have no spread.
    found = estimate([0.0, 1.0])
    assert (found.iqm, found.low, found.high) == (0.5, 0.0, 1.0)
    assert estimate([3.0]) == estimate([3.0] * 5)
    assert estimate([3.0]).low == estimate([3.0]).high == 3.0


def test_the_interval_of_five_seeds_by_hand() -> None:
    # Scores 0, 0, 0, 0, 1: k of the five drawn are the 1, k binomial with p = 1/5. The middle
    # three of a resample hold max(0, min(3, k - 1)) ones: the IQM is 0, 0, 1/3, 2/3, 1, 1 for
    # k = 0..5. P(k >= 4) = 5 · 0.2⁴ · 0.8 + 0.2⁵ = 0.0067 and P(k >= 3) = 0.0579, so the 97.5
    # percentile is that of k = 3.
    found = estimate([0.0, 0.0, 1.0, 0.0, 0.0])
    assert (found.iqm, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(2 / 3)


def test_the_same_scores_have_the_same_interval_and_it_covers_what_it_says() -> None:
    rng = random.Random(0)
    scores = [rng.gauss(0.0, 1.0) for _ in range(30)]
    assert estimate(scores) == estimate(scores)
    # With 30 scores the nominal 95 % are nearly kept: of 200 samples of a known mean, 0.
    drawn = np.random.default_rng(1).normal(size=(200, 30)).tolist()
    covered = sum(found.low <= 0 <= found.high for found in map(estimate, drawn))
    assert 0.88 <= covered / 200 <= 0.99


def run(library: str, seed: int, *scores: float, row: str = "cartpole-ppo") -> Run:
    curve = [
        {"env_steps": 1000.0 * (i + 1), "score": score, "seconds": float(i + 1)}
        for i, score in enumerate(scores)
    ]
    return Run(row, library, ROWS[row].order(seed, 1.0, False), curve, "" if scores else "exit 1")


def test_the_table_by_hand() -> None:
    # Ends at 500, 480, 300, 480, 490: the middle three are 480, 480, 490, whose mean is 483.3.
    # The target is reached first after 1, 2, never, 1 and 2 evaluations: the median is 2.
    ours = [run(OURS, 1, 500, 500), run(OURS, 2, 100, 480), run(OURS, 3, 20, 300)]
    ours += [run(OURS, 4, 475, 480), run(OURS, 5, 474, 490)]
    line = table.render(ours).splitlines()[2]
    assert line.startswith("| cartpole-ppo | 2000 | hpcpod | 483.3 [")
    assert line.endswith("| 475 | 4 of 5 | 4 of 5 | 2000 | 2.0 | passed |")


def test_a_seed_that_failed_is_said_and_counted() -> None:
    said = table.render([run(OURS, 1, 500), run(OURS, 2)])
    assert "| 1 of 2 | 1 of 2 |" in said
    assert "cartpole-ppo hpcpod seed 2: exit 1" in said


def test_a_row_that_forgot_what_it_had_reached_fails() -> None:
    line = table.render([run(OURS, 1, 500, 9.0)]).splitlines()[2]
    assert line.endswith("| 475 | 0 of 1 | 1 of 1 | 1000 | 1.0 | failed |")


@pytest.mark.parametrize(("score", "where"), [(9.0, "below"), (10.0, "in"), (13.0, "above")])
def test_the_verdict_says_how_a_row_stands_to_the_peer(score: float, where: str) -> None:
    # The peer's interval is [10, 12], as for 0 and 1 above.
    peers = [run(PEER, 1, 10.0), run(PEER, 2, 12.0)]
    line = table.render([run(OURS, 1, score), *peers]).splitlines()[2]
    assert line.endswith(f"| failed, {where} sb3's interval |")


def test_a_row_without_a_target_shows_its_curve() -> None:
    said = table.render([run(OURS, 1, -5.0, 700.0, row="ant-sac")])
    assert "| ant-sac | hpcpod | 1 of 1 | -5.0 [-5.0, -5.0] | 700.0 [700.0, 700.0] |" in said


def test_both_libraries_are_scored_on_the_same_episodes() -> None:
    order = ROWS["cartpole-ppo"].order(1, 1.0, False)
    assert order["panel"] == random_seeds(PANEL, count=EPISODES).tolist()


def test_a_row_trains_what_a_control_of_its_configuration_would() -> None:
    plain, other = (ROWS[name].hyperparameters() for name in ("cartpole-dqn", "cartpole-d3qn"))
    assert other["dueling"] and plain["buffer_size"] == 100_000  # the file's, the default
    assert ROWS["cartpole-ppo"].hyperparameters()["gamma"] == 0.98  # the file's
    changed = {name for name in plain if plain[name] != other[name]}
    assert changed == set(ROWS["cartpole-dqn"].changes) >= {"double", "dueling"}
    for task in ("halfcheetah", "hopper", "ant"):
        rates = [
            ROWS[f"{task}-{algorithm}"].hyperparameters()["learning_rate"]
            for algorithm in ("ppo", "sac", "td3")
        ]
        assert rates == pytest.approx([3e-4] * 3)  # of ranges
    assert ROWS["cartpole-dqn"].threshold == 475
    assert ROWS["hopper-sac"].threshold is None


@pytest.fixture
def benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Benchmark:
    """The benchmark in this process, in a folder: what it prints, and says meanwhile."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *arguments])
        capsys.readouterr()
        learning.main()
        return capsys.readouterr()

    return run


@pytest.mark.slow
def test_an_interrupted_benchmark_goes_on_where_it_stopped(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    words = ["--rows", "cartpole-ppo", "--libraries", OURS, "--quick", "--json", "out.jsonl"]
    words += ["--budget", "0.2"]  # 2000 steps
    first = subprocess.run(
        [sys.executable, str(BENCHMARK), *words, "--seeds", "1"], cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    assert "1/1 cartpole-ppo hpcpod seed 1" in first.stderr
    out = tmp_path / "out.jsonl"
    [kept] = out.read_text().splitlines()
    out.write_text(kept + "\n" + kept[:50])  # killed while it wrote
    second, said = benchmark(*words, "--jobs", "2")
    assert "1/1 cartpole-ppo hpcpod seed 2" in said
    runs = [Run(**each) for each in running.lines(out)]
    assert [run.order["seed"] for run in runs] == [1, 2]
    assert all(len(run.curve) == 2 and math.isfinite(run.score) for run in runs)
    report, said = benchmark(*words, "--report")
    assert report == second and "| cartpole-ppo | " in report
    assert said == ""


def test_a_run_that_fails_is_reported_and_tried_again(tmp_path: Path, benchmark: Benchmark) -> None:
    words = ["--rows", "cartpole-ppo", "--libraries", PEER, "--quick", "--seeds", "1"]
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # has no packages
    bare.chmod(0o755)
    words += ["--json", "out.jsonl", "--sb3-python", str(bare)]
    for _ in range(2):
        table, said = benchmark(*words)
        assert "exit 1: ModuleNotFoundError" in said
        assert "ModuleNotFoundError" in table
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["curve"] for line in lines] == [[], []]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rows", "cartpole-dqn,tetris"], "tetris is none of"),
        (["--libraries", "rllib"], "rllib is none of hpcpod, sb3"),
        (["--report"], "say which by --json OUT"),
    ],
)
def test_what_can_not_be_asked_for_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        learning.parse(words)
    assert said in capsys.readouterr().err
