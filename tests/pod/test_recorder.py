"""The recorder: which rows a round's curve has, and that it costs a round nothing if it fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from hpcpod.agents.optimizer import Adam
from hpcpod.envs.make import make_env
from hpcpod.errors import Diverged, StorageError
from hpcpod.metrics.mirrors import Mirrors
from hpcpod.pod import recorder as recorder_module
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.factory import make_agent
from hpcpod.pod.recorder import Recorder
from hpcpod.pod.replica import Replica
from hpcpod.pod.round import Watch
from hpcpod.pod.worker import Worker
from hpcpod.records.records import Birth, Owner
from hpcpod.run.curves import curves_of
from hpcpod.storage.run_folder import RunFolder
from tests.pod.rounds import KINDS, countdown, execute, first_birth, train
from tests.support.small_disks import filled
from tests.support.small_runs import AGENTS, create

BIRTH = Birth("p0001", 2, 1, "ppo", {"gamma": 0.99}, seed=0)
OWNER = Owner("here", "1")
ALWAYS: Callable[[], bool] = lambda: True  # noqa: E731


class Clock:
    """The monotonic clock of the recorder, in seconds, which a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        time = SimpleNamespace(monotonic=lambda: self.now, time=lambda: 1e9 + self.now)
        monkeypatch.setattr(recorder_module, "time", time)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(recorder_module, "ROW_SECONDS", 1.0)
    return Clock(monkeypatch)


def replica(**metrics: Any) -> Replica:
    """A replica whose last update gave these metrics."""
    found: Any = SimpleNamespace(metrics=metrics, agent=object())
    return found  # type: ignore[no-any-return]


def recorder(folder: RunFolder, most: int = 200, may_save: Callable[[], bool] = ALWAYS) -> Recorder:
    return Recorder(folder, BIRTH, most, Mirrors(()), may_save)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path)


def sealed(folder: RunFolder, round: int = 2) -> list[dict[str, float]]:
    (rows,) = [curve.rows for curve in folder.curves.of("p0001") if curve.round == round]
    return rows


def test_rows_are_taken_at_equal_times_and_thinned_when_there_are_too_many(
    folder: RunFolder, clock: Clock
) -> None:
    taking = recorder(folder, most=4)
    for second in range(12):
        clock.now = float(second)
        taking.look(replica(), 10 * second, clock.now, ends=second == 11)
    taking.seal()
    # After 1 2 3 4 one row in two seconds: 2 4 5, 2 4 5 7; then one in four: 4 7 9, 4 7 9 11.
    assert [row["env_steps"] for row in sealed(folder)] == [40, 70, 90, 110]


def test_rates_are_those_since_the_row_before(folder: RunFolder, clock: Clock) -> None:
    taking = recorder(folder)
    for now, steps in ((0.0, 100), (0.5, 200), (2.0, 400), (2.5, 450), (4.0, 500)):
        clock.now = now
        taking.look(replica(loss=now), steps, now, ends=now == 4.0)
    taking.seal()
    # 300 steps and two updates in 2 s, then 100 and two in 2 s.
    first, second = sealed(folder)
    assert (first["env_steps_per_second"], first["updates_per_second"]) == (150.0, 1.0)
    assert (second["env_steps_per_second"], second["updates_per_second"]) == (50.0, 1.0)
    assert (second["loss"], second["time"], second["train_seconds"]) == (4.0, 1e9 + 4.0, 4.0)
    assert second["memory_mib"] > 10


def test_a_round_of_one_iteration_has_its_row(folder: RunFolder, clock: Clock) -> None:
    taking = recorder(folder)
    taking.look(replica(loss=1.0), 128, 0.1, ends=True)
    taking.seal()
    (row,) = sealed(folder)
    assert row["env_steps"] == 128 and "env_steps_per_second" not in row


def test_numbers_of_any_name_are_kept_and_none_that_is_not_finite(
    folder: RunFolder, clock: Clock
) -> None:
    odd: dict[Any, Any] = {
        "loss/critic": torch.tensor(2.5), "": 1.0, "\ud800": 3, 7: True, "<b>": 4.0, "..": 5.0,
        "x" * 1000: 6.0, "nan": math.nan, "inf": -math.inf, "env_steps": -1.0,
    }  # fmt: skip
    strange: Any = SimpleNamespace(metrics=odd, agent=object())
    taking = recorder(folder)
    taking.look(strange, 10, 0.1, ends=True)
    taking.write()
    taking.seal()
    (row,) = sealed(folder)
    assert row["loss/critic"] == 2.5 and row["env_steps"] == 10
    named = {name: value for name, value in row.items() if name not in ("time", "memory_mib")}
    assert named == {
        "loss/critic": 2.5, "unnamed": 1.0, "?": 3.0, "7": 1.0, "<b>": 4.0, "..": 5.0,
        "x" * 200: 6.0, "env_steps": 10.0, "train_seconds": 0.1,
    }  # fmt: skip


def test_rows_in_progress_are_written_now_and_then(folder: RunFolder, clock: Clock) -> None:
    taking = recorder(folder)
    for second in range(14):
        clock.now = float(second)
        taking.look(replica(), second, clock.now, ends=False)
    assert [row["env_steps"] for row in sealed(folder)] == list(range(1, 11))


@pytest.mark.parametrize("kind", ["saveable", "played again"])
def test_a_preempted_round_s_curve_has_every_row_up_to_its_checkpoint_and_no_step_twice(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "ROW_SECONDS", 0.0)  # a row of each iteration
    folder = create(tmp_path, "dqn", env=KINDS[kind], round={"env_steps": 1280, "episodes": 2})
    birth = first_birth(folder)
    folder.claims.take(birth.id, OWNER)
    with pytest.raises(Stopped):
        prepare(folder).execute(birth, "here", Watch(countdown(3)))
    before = curves_of(folder)
    assert [row["env_steps"] for row in before] == [128, 256, 384]
    # A slot that was killed had written rows behind its last checkpoint.
    (curve,) = folder.curves.of(birth.pod)
    behind = {name: (*column, 999.0) for name, column in curve.columns.items()}
    folder.curves.write(replace(curve, columns=behind))
    report = train(folder, replace(birth, attempt=2), 4)
    folder.claims.take(f"{birth.pod}-00001-2", OWNER)
    after = curves_of(folder)
    assert [row["env_steps"] for row in after] == list(range(128, 1281, 128))
    for was, row in zip(before, after, strict=False):
        assert (was["time"], was["train_seconds"]) == (row["time"], row["train_seconds"])
    assert all(one["train_seconds"] < next["train_seconds"] for one, next in pairwise(after))
    assert after[-1]["training_return"] == report.metrics["training_return"]
    assert after[-1]["episode_length"] == after[-1]["training_return"]  # CartPole pays 1 a step
    assert [path.name for path in (folder.path / "curves" / birth.pod).iterdir()] == ["00001-2.h5"]


def test_a_round_that_can_t_be_resumed_begins_its_curve_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "ROW_SECONDS", 0.0)
    folder = create(tmp_path, env=KINDS["unsaveable"])
    train(folder, first_birth(folder), 2)
    assert [row["env_steps"] for row in sealed(folder, 1)] == [128, 256, 384, 512]


def test_a_speculative_round_s_curve_counts_once_its_order_is_claimed(tmp_path: Path) -> None:
    folder = create(tmp_path)
    birth = first_birth(folder)
    assert curves_of(folder) == []
    pod = prepare(folder)
    pod.train(birth, "here", Watch(may_save=lambda: False))
    assert folder.curves.pods() == ["p0001"] and curves_of(folder) == []
    folder.claims.take(birth.id, OWNER)
    assert curves_of(folder)[-1]["env_steps"] == 512


def test_rows_of_a_round_that_was_not_ordered_are_not_written(
    folder: RunFolder, clock: Clock
) -> None:
    taking = recorder(folder, may_save=lambda: False)
    for second in (0, 1):
        clock.now = float(second)
        taking.look(replica(), second, clock.now, ends=False)
    taking.write()
    assert folder.curves.pods() == []


def test_a_claim_that_can_not_be_read_costs_rows_alone_and_is_asked_for_seldom(
    folder: RunFolder, clock: Clock
) -> None:
    asked = []

    def refused() -> bool:
        asked.append(clock.now)
        raise StorageError("stale")

    taking = Recorder(folder, BIRTH, 200, Mirrors(("tests.metrics.loggers:Lines",)), refused)
    for second in range(25):
        clock.now = float(second)
        taking.look(replica(), second, clock.now, ends=False)
    taking.seal()
    assert [curve.order for curve in folder.curves.of("p0001")] == [BIRTH.id]
    assert len(asked) <= 6


def test_an_agent_that_diverged_leaves_the_rows_that_led_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "ROW_SECONDS", 0.0)
    folder = create(tmp_path, agents={"ppo": {**AGENTS["ppo"], "learning_rate": 1e30}})
    birth = first_birth(folder)
    folder.claims.take(birth.id, OWNER)
    with pytest.raises(Diverged):
        execute(prepare(folder), replace(birth, round=20))
    folder.claims.take(replace(birth, round=20).id, OWNER)
    steps = [row["env_steps"] for row in curves_of(folder)]
    assert steps == list(range(128, 128 * len(steps) + 1, 128))


def test_no_rows_are_taken_where_none_are_wanted(tmp_path: Path) -> None:
    folder = create(tmp_path, pod={"curve_rows": 0})
    train(folder, first_birth(folder), 2)
    assert folder.curves.pods() == []


@pytest.fixture
def on_a_small_disk(small: Path) -> Iterator[RunFolder]:
    yield create(small)


def test_a_full_disk_costs_the_curve_and_one_warning(
    on_a_small_disk: RunFolder, small: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    taking = recorder(on_a_small_disk)
    for second in (0, 1, 2):
        clock.now = float(second)
        taking.look(replica(), second, clock.now, ends=False)
    with filled(small):
        taking.write()
        taking.look(replica(), 3, 3.0, ends=True)
        taking.seal()
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1 and "the curve of p0001-00002-1 is not complete" in warned[0]
    assert "No space left" in warned[0] or "full" in warned[0]
    assert list(on_a_small_disk.curves.of("p0001")) == []
    taking.seal()
    assert [row["env_steps"] for row in sealed(on_a_small_disk)] == [1, 2, 3]


def test_a_gradient_s_norm_is_that_of_all_weights() -> None:
    module = nn.Linear(2, 1)
    optimizer = Adam(module, 0.1)
    assert optimizer.gradient_norm == 0.0
    optimizer.take([torch.tensor([[3.0, 0.0]]), torch.tensor([4.0])])
    assert optimizer.gradient_norm == 5.0


def test_agents_that_do_not_clip_measure_their_gradients_for_a_row_alone() -> None:
    env = make_env("CartPole-v1", 2)
    hyperparameters = {"learning_starts": 8, "horizon": 8, "batch_size": 8}
    agent: Any = make_agent("dqn", env.spec, hyperparameters, 0, "cpu")
    assert agent.curve_metrics() == {}  # before an update
    worker, buffer = Worker(env), agent.make_buffer()
    worker.reset(torch.arange(2))
    worker.collect(agent, buffer, 8, cut=False)
    assert "grad_norm" not in agent.update(buffer)
    assert agent.curve_metrics()["grad_norm"] > 0
