"""The benchmark of fusion: what it counts, what it says of curves, and its real ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fusion
import pytest
import torch
from fusing import orders, tables
from fusing.counted import Counted
from fusing.exchange import ROWS
from fusing.gang import Gang
from fusing.orders import LEARNERS, QUICK, Extent, Learners
from fusing.replicas import tried

from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.pod.ranks.communicator import ALONE
from hpcpod.pod.ranks.fusion import Nesterov
from tests.agents.training import row, spec


def curve(*scores: float) -> list[dict[str, Any]]:
    """10,000 samples, 2 s of wall time, 1 s of CPU time and 5 bytes from point to point."""
    return [
        {
            "env_steps": 10_000 * k, "score": score, "seconds": 2.0 * k, "cpu": 1.0 * k,
            "bytes": 5 * k,
        }
        for k, score in enumerate(scores, 1)
    ]  # fmt: skip


def test_a_curve_is_read_at_samples_and_at_seconds() -> None:
    points = curve(-900.0, -300.0, -190.0)
    assert tables.at_samples(points, 10_000) == -900.0
    assert tables.at_samples(points, 10_001) == -300.0
    assert tables.at_samples(points, 99_999) == -190.0
    assert (tables.reached(points, "env_steps"), tables.reached(points, "cpu")) == (30_000, 3.0)
    assert tables.reached(curve(-900.0), "seconds") == float("inf")
    assert tables.at_seconds(points, 5.9, "seconds") == -300.0
    assert tables.at_seconds(points, 0.9, "cpu") is None


@pytest.mark.parametrize(
    ("count", "words"),
    [(28.0, "28 B"), (1_280.0, "1.28 kB"), (108_000.0, "108 kB"), (2e9, "2 GB")],
)
def test_bytes_in_words(count: float, words: str) -> None:
    assert tables.size(count) == words


def done(learners: Learners, seed: int, *scores: float, **more: Any) -> tables.Done:
    points = [{**point, **more} for point in curve(*scores)]
    return orders.learning("ppo", learners, seed, Extent()), {"curve": points}


def test_the_tables_of_learning_by_hand() -> None:
    # 81,920 samples: a quarter is 20,480, which the third of these points has. Two seeds: the
    # interval of two numbers is the two (tests/benchmarks/test_learning.py).
    fused, one = Learners(2, "mean", 5), Learners(1)
    found = [done(fused, 1, -900, -500, -300, -190), done(fused, 2, -900, -500, -200, -180)]
    found += [done(one, 1, -400, -350, -300, -250)]
    alone, mean = tables.samples(found, "ppo", Extent()).splitlines()[2:]
    assert mean == (
        "| 2 ranks, mean, every 5 | 2 | -250 [-300, -200] | -185 [-190, -180] |"
        " -185 [-190, -180] | 35k | 20 B |"
    )
    assert alone.startswith("| one learner, 1n environments | 1 | -300 [-300, -300] |")
    assert "| never |" in alone
    # Of four ranks each sees a quarter of the samples: one learner is read there, at its third
    # point, after 3 s on its processor and 6 s by the clock; two learners at a half.
    head, _, alone, mean = tables.seconds(found, "ppo", Extent()).splitlines()
    assert "| at 3.0 CPU s |" in head and "| at 6.0 wall s |" in head
    assert alone == (
        "| one learner, 1n environments | -300 [-300, -300] | -300 [-300, -300] | 4.0 | never |"
        " -300 [-300, -300] | 8.0 | never |"
    )
    assert mean == (
        "| 2 ranks, mean, every 5 | -185 [-190, -180] | -250 [-300, -200] | 4.0 | 3.5 |"
        " -250 [-300, -200] | 8.0 | 7.0 |"
    )
    assert tables.apart(found, "ppo", Extent()) == ""


def test_learners_that_are_averaged_once_are_shown_beside_their_average() -> None:
    other = Learners(2, "none", ancestor="different")
    found = [done(other, 1, *[-200.0] * 9, members=[-200.0, -150.0], averaged=-1200.0)]
    last = tables.apart(found, "ppo", Extent()).splitlines()[-1]
    assert last == (
        "| 2 ranks, none, different initial weights | 100% | -175 [-175, -175] |"
        " -150 [-150, -150] | -1200 [-1200, -1200] |"
    )


def test_every_run_that_is_compared_sees_as_many_samples() -> None:
    for task, learners in LEARNERS.items():
        plain = [orders.learning(task, each, 1, Extent()) for each in learners]
        assert len({order["env_steps"] for order in plain}) == 1
        assert len({json.dumps(order) for order in plain}) == len(plain)
        for order in plain:  # whole iterations to each evaluation: equal points for all
            rows = order["hyperparameters"]["horizon"] * order["env"]["num_envs"] * order["ranks"]
            assert order["env_steps"] / order["evaluations"] % rows == 0


def test_what_is_given_to_a_group_is_counted() -> None:
    group = Counted(ALONE)
    group.sum_(torch.zeros(10))
    group.sum_(torch.zeros(10, dtype=torch.float64))
    assert (group.bytes, group.exchanges, group.rank, group.size) == (120, 2, 0, 1)
    assert group.gather("x") == ["x"] and group.seconds > 0


def test_what_is_tried_leaves_no_trace() -> None:
    agent = PPO(spec(), PPOConfig(horizon=16, hidden=16), seed=0)
    scheme = Nesterov(agent, ALONE)
    buffer = agent.make_buffer()
    for t in range(16):
        buffer.add(*row(t))
    agent.update(buffer)
    scheme.learned()
    before, of_scheme = agent.state(), scheme.state()
    with tried(agent, scheme):
        moved = agent.state()
    after, of_scheme_after = agent.state(), scheme.state()
    assert any(not torch.equal(before[name], moved[name]) for name in before)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert of_scheme.keys() == of_scheme_after.keys() and not scheme.equal
    assert all(torch.equal(of_scheme[name], of_scheme_after[name]) for name in of_scheme)


@pytest.fixture(scope="module")
def pair() -> Iterator[Gang]:
    with Gang(2) as gang:
        yield gang


def test_bytes_of_an_epoch_are_those_of_the_formulas(pair: Gang) -> None:
    # 64 x 64 on 3 numbers and 1 action: two stacks of (3 + 1) 64 + (64 + 1) 64 weights, two heads
    # of 64 + 1, one log σ. Parameters and two moments of Adam travel, and one weight; then
    # three counters (two digits each, a place for each rank), and four float64 for agreeing.
    weights = 2 * ((3 + 1) * 64 + (64 + 1) * 64) + 2 * (64 + 1) + 1
    asked = {"kind": "epochs", "model": "64 x 64", "epochs": 2}
    mean = pair.do({**asked, "scheme": "mean"})
    places = 4 * (1 + 2 * 3 * 2)
    assert mean["bytes"] == 4 * 3 * weights + places + 32 and mean["exchanges"] == 2
    # Every gradient, each weight's room a multiple of 16 numbers, and one that counts who steps.
    each = pair.do({**asked, "scheme": "grad_allreduce"})
    steps = 10 * 4 * ROWS // 64
    assert each["exchanges"] == steps + 3
    least = (steps + 1) * 4 * (weights + 1) + places + 32
    assert least <= each["bytes"] <= least + (steps + 1) * 4 * 16 * 13
    assert len(mean["seconds"]) == 2 and all(
        0 < s < e for s, e in zip(*_seconds(mean), strict=True)
    )


def _seconds(result: dict[str, Any]) -> tuple[list[float], list[float]]:
    return result["seconds"], result["epoch"]


def test_two_ranks_learn_and_are_fused(pair: Gang) -> None:
    plain = orders.learning("ppo", Learners(2, "none"), 1, QUICK)
    small = {"env_steps": 4096, "episodes": 2}
    apart = pair.do({**plain, **small})["curve"]
    fused = pair.do({**plain, **small, "scheme": "mean", "every": 2})["curve"]
    assert [p["env_steps"] for p in apart] == [p["env_steps"] for p in fused] == [2048, 4096]
    # The same replicas until the first fusion: what is tried before it is their average.
    assert fused[0]["score"] == apart[0]["averaged"]
    assert apart[0]["score"] == apart[0]["members"][0] != apart[0]["members"][1]
    assert fused[0]["bytes"] == 32 < fused[1]["bytes"]


def test_ranks_that_can_not_do_an_order_do_not_leave_the_benchmark_waiting() -> None:
    with Gang(2) as gang, pytest.raises(RuntimeError, match="the ranks ended, exit 1"):
        gang.do({"kind": "unheard of"})


def test_an_interrupted_benchmark_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    first = done(Learners(1), 1, -200.0)
    fusion.append(file, first)
    file.write_text(file.read_text() + '[{"kind": "le')  # killed while it wrote
    fusion.append(file, done(Learners(1), 2, -100.0))
    assert [order["seed"] for order, _ in fusion.read(file)] == [1, 2]
    assert fusion.read(file)[0] == first


def test_what_can_not_be_asked_for_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--report"], "by --json OUT"),
        (["--backends", "nccl"], "nccl is neither"),
    ):
        with pytest.raises(SystemExit):
            fusion.parse(words)
        assert said in capsys.readouterr().err
