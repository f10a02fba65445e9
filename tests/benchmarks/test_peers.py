"""The comparison with peers: rates, medians, ratios, tables, and hpcpod's own side of it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import peers
import pytest
from contenders import hpcpod as ours
from contenders import table, venvs
from contenders.meter import EPISODES, Meter, Sample, cpu_times, window_rates
from contenders.process import MARK, Finished, Task
from contenders.registry import BATCHED, CONTENDERS, OURS
from contenders.rows import LEARNING_STARTS, ROWS
from contenders.table import Run

BENCHMARKS = Path(peers.__file__).parent
ROOT = BENCHMARKS.parent


def run(
    contender: str,
    rate: float | None,
    repeat: int = 0,
    row: str = "ppo-cartpole",
    variant: str = "",
) -> Run:
    result = {} if rate is None else {"env_steps_per_second": rate, "updates_per_second": rate / 64}
    return Run(row, contender, variant, repeat, result, "" if result else "failed: no luck")


def test_a_window_is_made_of_whole_rounds() -> None:
    samples = [Sample(0.1 * n, 100 * n, n) for n in range(7)]
    rates = window_rates(samples, window=0.25)
    assert rates == [pytest.approx((1000.0, 10.0)), pytest.approx((1000.0, 10.0))]
    assert window_rates(samples[:2], window=0.25) == []


def test_rounds_that_only_explore_are_not_measured() -> None:
    meter = Meter(seconds=0.0)
    assert not meter.tick(1_000_000, 0)
    assert not meter.tick(2_000_000, 1), "the warm-up begins with the first update"
    assert meter.result()["env_steps_per_second"] is None


def test_a_threshold_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, *[2.0 + 0.3 * n for n in range(20)]])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    meter = Meter(seconds=1.0, threshold=475.0, limit=5.0)
    ticks = 0
    while not meter.tick(300 * ticks, 3 * ticks + 1):
        ticks += 1
    assert ticks == 12, "2.0 + 0.3 * 11 is the first moment after the limit"
    assert meter.result()["env_steps_per_second"] == pytest.approx(1000.0)
    assert meter.result()["seconds_to_threshold"] is None


def test_the_threshold_is_of_the_last_episodes() -> None:
    meter = Meter(seconds=0.0, threshold=475.0)
    for _ in range(EPISODES):
        meter.episode(100.0)
    meter.tick(100, 1)
    assert meter.result()["seconds_to_threshold"] is None
    meter.tick(200, 2, [480.0] * (EPISODES - 1))
    assert meter.result()["seconds_to_threshold"] is None, "too few episodes"
    meter.tick(300, 3, [480.0] * EPISODES)
    assert meter.result()["seconds_to_threshold"] is not None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc")
def test_processor_time_is_counted() -> None:
    before = cpu_times()
    assert before is not None
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    after = cpu_times()
    assert after is not None
    assert after.own - before.own >= 0.1
    assert after.machine >= after.own - before.own


def test_updates_off_policy_are_counted_from_the_random_steps_on() -> None:
    seen: list[tuple[int, int]] = []

    class Told(Meter):
        def tick(self, env_steps: int, updates: int, last: object = None) -> bool:
            seen.append((env_steps, updates))
            return env_steps > 1010

    task = Task(ROWS["dqn-cartpole"], 1, frozenset(), Told(1.0), [])
    task.round_ends(LEARNING_STARTS)
    with pytest.raises(Finished):
        task.round_ends(LEARNING_STARTS + 20)
    assert seen == [(1000, 0), (1020, 2)]


def test_updates_of_a_round() -> None:
    assert ROWS["ppo-cartpole"].updates_per_round == 16
    assert ROWS["ppo-ant"].updates_per_round == 80
    assert ROWS["ppo-cartpole-batched"].updates_per_round == 16
    assert ROWS["sac-pendulum"].updates_per_round == 16
    assert all(row.rollout % row.batch == 0 for row in ROWS.values() if row.epochs)


def test_median_of_what_is_there() -> None:
    assert table.median([None, 3.0, 1.0, 2.0]) == 2.0
    assert table.median([None]) is None


def test_a_run_that_never_comes_there_counts_as_endless() -> None:
    times = [5.0, None, 7.0]
    runs = [Run("ppo-cartpole", "sb3", "", 0, {"seconds_to_threshold": t}) for t in times]
    assert table.median_time(runs) == 7.0
    assert math.isinf(table.median_time(runs[1:2]))
    assert math.isinf(table.median_time([]))


def test_a_ratio_is_paired_by_repetition() -> None:
    mine = [run(OURS, 100.0, 0), run(OURS, 10.0, 1), run(OURS, 30.0, 2)]
    theirs = [run("sb3", 50.0, 0), run("sb3", 5.0, 1), run("sb3", 10.0, 2), run("sb3", 1.0, 3)]
    assert table.paired_ratio(mine, theirs, "env_steps_per_second") == 2.0
    assert table.paired_ratio([], theirs, "env_steps_per_second") is None


def test_the_table_says_ratios_and_why_one_is_missing() -> None:
    runs = [run(OURS, 20_000.0), run("sb3", 10_000.0), run("rllib", None)]
    text = table.render(runs)
    assert "| sb3 | ? | 10,000 | 156 | 2.00x |  | never |" in text
    columns = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(columns) == 1
    assert "failed: no luck" in text
    assert "s to 475" in text


def test_where_each_is_at_its_best_only_the_fastest_variant_counts() -> None:
    row = "ppo-ant"
    runs = [
        run(OURS, 300.0, row=row),
        run("sb3", 100.0, row=row),
        run("sb3", 200.0, row=row, variant="medium"),
    ]
    assert table.fastest(runs[1:]) == "medium"
    again = [*runs, run(OURS, 300.0, 1, row), run("sb3", 80.0, 1, row)]
    assert table.fastest(again[1:]) == "", "the one that was run again"
    text = table.render(runs)
    assert "| sb3 medium | ? | 200 | 3.1 | 1.50x |" in text
    assert "| sb3 |" not in text
    assert peers.kept(ROWS[row], runs[1:]) == ("medium",)
    assert peers.kept(ROWS["sac-pendulum"], runs[1:]) == ("", "medium")
    assert peers.kept(ROWS[row], [run("sb3", None, row=row)]) == ()


def test_everyone_has_a_module_and_requirements() -> None:
    for name in CONTENDERS:
        assert (BENCHMARKS / "contenders" / f"{name}.py").is_file()
        assert (venvs.REQUIREMENTS / f"{name}.txt").is_file()


def test_refusals() -> None:
    pufferlib, cleanrl = CONTENDERS["pufferlib"], CONTENDERS["cleanrl"]
    assert pufferlib.refuses(ROWS["sac-pendulum"]) == "has no SAC"
    assert cleanrl.refuses(ROWS["ppo-ant"])
    assert not cleanrl.refuses(ROWS["ppo-cartpole"])
    assert not any(CONTENDERS[OURS].refuses(row) for row in ROWS.values())
    assert pufferlib.variants(ROWS["ppo-cartpole-batched"])[0] == "native"
    assert ROWS["ppo-cartpole-batched"].num_envs >= BATCHED
    for contender in CONTENDERS.values():
        assert set(contender.excluded) <= set(ROWS)


def test_options() -> None:
    options = peers.parse(["--rows", "sac-pendulum,ppo-cartpole", "--peers", "sb3", "--quick"])
    assert (options.rows, options.peers) == (["ppo-cartpole", "sac-pendulum"], [OURS, "sb3"])
    assert options.repeats == 1
    with pytest.raises(SystemExit):
        peers.parse(["--rows", "chess"])


def test_why_an_environment_can_not_be_made() -> None:
    assert venvs.last_words("Building\nERROR: no wheel\nnote: bye\n") == "ERROR: no wheel"
    assert venvs.last_words("") == "it said nothing"
    assert venvs._digest("sb3") != venvs._digest("skrl")


def test_every_row_gives_hyperparameters_that_hpcpod_takes() -> None:
    for row in ROWS.values():
        task = Task(row, 1, frozenset(), Meter(1.0), [])
        if row.env in ("CartPole-v1", "Pendulum-v1"):
            env = ours.env_of(task)
            agent = ours.agent_of(task, env)
            assert agent.horizon == row.horizon
            env.close()


def test_hpcpod_is_measured() -> None:
    command = [sys.executable, "-m", "contenders.hpcpod", "ppo-pendulum", "--seconds", "0.3"]
    done = subprocess.run(
        command,
        cwd=BENCHMARKS,
        env={**peers.environment(""), "PYTHONPATH": os.pathsep.join((str(BENCHMARKS), str(ROOT)))},
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout.splitlines()[-1].removeprefix(MARK))
    assert result["env_steps_per_second"] == pytest.approx(64 * result["updates_per_second"])
    assert result["windows"] >= 3
    if Path("/proc/stat").exists():
        assert result["env_steps_per_cpu_second"] > 0
