"""Scores by different simulators, or versions of one, are not compared unless somebody says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.envs.make import configured, make_env, reference
from hpcpod.envs.vec_env import VecEnv
from hpcpod.errors import EngineDiffers
from hpcpod.launchers.base import ClusterView
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.pod.__main__ import LONGEST_REASON, prepare
from hpcpod.pod.evaluator import PanelEvaluator, Stopped
from hpcpod.pod.factory import make_agent
from hpcpod.pod.finals import agree_on_engine, final_evaluator
from hpcpod.pod.ipc.messages import whole
from hpcpod.pod.round import Watch
from hpcpod.records.records import Board, Intent
from hpcpod.run.run import Run
from hpcpod.storage.disk import Disk
from hpcpod.storage.requests import Drain, SlotRefused
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.pod.rounds import countdown, execute, first_birth
from tests.support.slots import ROOT, SlotProcess
from tests.support.small_runs import create, mapping
from tests.support.versioned_envs import VERSION

BACKENDS = "tests.support.versioned_envs:"
BACKEND = f"{BACKENDS}Versioned"
GYMNASIUM = f"gymnasium {gym.__version__}"


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run whose first round is by version 1."""
    monkeypatch.setenv(VERSION, "1")
    folder = create(tmp_path, env={"backend": BACKEND})
    report = execute(prepare(folder), first_birth(folder))
    assert report.engine == "simulator 1"
    folder.reports.publish(report)
    assert merged(folder).rounds == 1
    return folder


def merged(folder: RunFolder, *lost: str) -> Board:
    """The board once a coordinator has seen that these orders' slots are gone."""
    resolved = folder.resolved
    return merge(folder, Rules.of(resolved.config, resolved.algorithms), lost=lost)


def resume(folder: RunFolder, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hpcpod", "resume", str(folder.path), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_a_slot_with_another_version_does_nothing_and_no_pod_is_to_blame(
    begun: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_board(begun)
    monkeypatch.setenv(VERSION, "2")
    slot = SlotProcess(begun)
    assert slot.end() == 1
    assert "scores are by simulator 1, here they would be by simulator 2" in slot.log
    assert read_board(begun) == before
    monkeypatch.setenv(VERSION, "1")
    merged(begun, "p0001-00002-1")
    assert SlotProcess(begun, slot="other").end() == 0
    board = read_board(begun)
    assert (board.phase, board.rounds) == ("finished", 2)
    assert board.pods["p0001"].failures == 0


def test_a_run_that_is_resumed_with_another_version_pauses_until_somebody_decides(
    begun: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VERSION, "2")
    refused = resume(begun)
    assert refused.returncode == 75
    assert "paused: this run's scores are by simulator 1" in refused.stdout
    assert "--any-engine" in refused.stdout
    now = Run(begun).status()
    assert (now.state, now.rounds) == ("paused", 1)
    assert "simulator 2" in now.failure
    agreed = resume(begun, "--any-engine")
    assert agreed.returncode == 0, agreed.stdout
    assert (Run(begun).status().state, read_board(begun).rounds) == ("finished", 2)


class Futile:
    """A scheduler whose jobs end without a report."""

    places = 1

    def submit(self, intent: Intent) -> str:
        return intent.token

    def observe(self, patience: float | None = None) -> ClusterView:
        return ClusterView(())

    def cancel(self, jobs: Sequence[str]) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("since", [False, True])
def test_a_refusal_from_before_the_last_report_is_not_why_a_run_comes_to_nothing(
    since: bool, tmp_path: Path
) -> None:
    folder = create(tmp_path)
    orchestrator = Orchestrator(folder, Futile())
    folder.requests.publish(SlotRefused("another engine"))
    orchestrator.tick()  # no submission has been in vain
    if since:
        folder.requests.publish(SlotRefused("another engine"))
    for _ in range(4):
        board = orchestrator.tick()
    drain = folder.requests.read(Drain)
    assert board.phase == "running" and drain is not None
    assert ("another engine" in str(drain.reason)) == since
    assert ("without any progress" in str(drain.reason)) != since


def test_a_run_may_be_told_beforehand_to_compare_whatever_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path, env={"backend": BACKEND, "compare_engines": True})
    monkeypatch.setenv(VERSION, "1")
    first = execute(prepare(folder), first_birth(folder))
    monkeypatch.setenv(VERSION, "2")
    again = execute(prepare(folder), first_birth(folder))
    assert (first.engine, again.engine) == ("simulator 1", "simulator 2")


def test_a_round_that_another_version_has_begun_is_trained_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VERSION, "2")
    folders = [
        create(tmp_path / name, env={"backend": BACKEND, "compare_engines": True})
        for name in ("one", "other")
    ]
    birth = first_birth(folders[0])
    undisturbed = execute(prepare(folders[0]), birth)
    monkeypatch.setenv(VERSION, "1")
    with pytest.raises(Stopped):
        prepare(folders[1]).execute(birth, "here", Watch(countdown(3)))
    assert folders[1].checkpoints.latest("p0001", 1) is not None
    monkeypatch.setenv(VERSION, "2")
    report = execute(prepare(folders[1]), birth)
    assert (report.checkpoint, report.returns) == (undisturbed.checkpoint, undisturbed.returns)
    assert (report.engine, report.trained_steps) == ("simulator 2", 512)


def test_to_know_its_engine_a_round_makes_no_environment_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = create(tmp_path), list[int]()
    pod = prepare(folder)
    make = pod._make_env

    def counted(num_envs: int) -> VecEnv:
        made.append(num_envs)
        return make(num_envs)

    monkeypatch.setattr(pod, "_make_env", counted)  # its panel has the function itself
    pod.train(first_birth(folder), "here", Watch())
    assert made == [4]


@pytest.mark.parametrize("beside", [False, True])
def test_a_report_names_the_engine_that_has_scored(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path, env={"backend": BACKEND, "compare_engines": True})
    birth = first_birth(folder)
    monkeypatch.setenv(VERSION, "1")
    trained = prepare(folder).train(birth, "here", Watch())
    folder.checkpoints.save_trained(trained)
    assert trained.checkpoint is not None
    monkeypatch.setenv(VERSION, "2")
    pod = prepare(folder)
    if beside:
        report = whole(trained, pod.score(birth, trained.checkpoint, "here", Watch()))
    else:
        report = execute(pod, birth)
    assert (report.engine, report.checkpoint) == ("simulator 2", trained.checkpoint)


def test_nothing_is_trained_for_finals_that_would_be_refused(tmp_path: Path) -> None:
    folder = create(tmp_path, env={"backend": "torch"})
    folder.engines.agree("final", "gymnasium 0.21.0")
    with pytest.raises(EngineDiffers, match="here they would be by gymnasium"):
        execute(prepare(folder), first_birth(folder))


def test_a_trained_round_is_not_scored_by_another_version(
    begun: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    birth = read_board(begun).pods["p0001"].birth
    assert birth is not None and birth.checkpoint is not None
    monkeypatch.setenv(VERSION, "2")
    with pytest.raises(EngineDiffers):
        prepare(begun).score(birth, birth.checkpoint, "here", Watch())


def test_the_finals_are_played_in_gymnasium_s_own_environment(begun: RunFolder) -> None:
    assert SlotProcess(begun).end() == 0
    (final,) = read_board(begun).confirmed
    assert (final.purpose, final.engine, final.episodes) == ("report", GYMNASIUM, 2)


class Unwritten(Disk):
    """No file may be written to it."""

    def write_new(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        raise AssertionError(path)


def final_engine(env: dict[str, Any]) -> str:
    config = from_mapping(mapping(env=env))

    def make(num_envs: int) -> VecEnv:
        return configured(config.env, num_envs, "cpu")

    return final_evaluator(config, "cpu", PanelEvaluator(make), make(1).spec)[1]


def test_a_run_in_gymnasium_s_own_environment_makes_no_other_one_for_its_finals() -> None:
    config, made = from_mapping(mapping()), list[int]()

    def make(num_envs: int) -> VecEnv:
        made.append(num_envs)
        return configured(config.env, num_envs, "cpu")

    own, spec = PanelEvaluator(make), configured(config.env, 1, "cpu").spec
    agent = make_agent("ppo", spec, {"hidden": 8}, 0, "cpu")
    finals, _ = final_evaluator(config, "cpu", own, spec)
    assert own.evaluate(agent, 1, episodes=3) == finals.evaluate(agent, 1, episodes=3)
    assert made == [3]


def test_room_for_contacts_is_no_argument_of_gymnasium_s() -> None:
    config = from_mapping(mapping(env={"id": "Ant-v5", "backend": "warp"})).env
    crowded = replace(config, kwargs={"nconmax": 64, "frame_skip": 4})
    found = reference(crowded)
    assert found is not None
    assert (found.backend, found.kwargs) == ("gymnasium", {"frame_skip": 4})


def test_what_a_fast_backend_trains_is_scored_by_gymnasium() -> None:
    assert final_engine({"backend": "torch"}) == GYMNASIUM
    simulator = f"mujoco {version('mujoco')}"
    ant = final_engine({"id": "Ant-v5", "backend": "mujoco"})
    assert GYMNASIUM in ant and simulator in ant


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"backend": f"{BACKENDS}Lenient", "kwargs": {"weather": "fine"}}, "env.kwargs"),
        ({"backend": f"{BACKENDS}Impostor"}, "spaces differ"),
        ({"backend": f"{BACKENDS}Cliff", "id": "FrozenLake-v1"}, "spaces differ"),
        ({"backend": "torch", "id": "hpcpod/Counter-v0"}, None),
        ({"id": "tests.envs.small_envs:Counting"}, None),
    ],
)
def test_what_gymnasium_can_t_play_so_is_scored_by_what_trains_it(
    env: dict[str, Any],
    why: str | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VERSION, "1")
    config = from_mapping(mapping(env=env))
    own = configured(config.env, 1, "cpu").spec.engine
    assert final_engine(env) == own
    assert (why in caplog.text) if why else not caplog.text


def test_the_first_that_asks_decides_until_that_is_forgotten(tmp_path: Path) -> None:
    folder = create(tmp_path)
    assert folder.engines.agree("panel", "one") == "one"
    assert folder.engines.agree("panel", "two") == "one"
    assert folder.engines.agree("final", "two") == "two"
    folder.engines.forget()
    assert folder.engines.agree("panel", "two") == "two"


def test_what_to_do_about_another_engine_fits_into_the_reason(tmp_path: Path) -> None:
    folder = create(tmp_path)
    config = folder.resolved.config
    packages = "mujoco 3.17.0, mujoco-warp 4.0.0, warp-lang 1.19.0, gymnasium 1.10.1"
    agree_on_engine(folder, config, "panel", f"{packages}, float32, Newton for PGS")
    with pytest.raises(EngineDiffers) as differs:
        agree_on_engine(folder, config, "panel", f"{packages}, float64, Newton for PGS")
    assert str(differs.value).endswith("`hpcpod resume RUN --any-engine`")
    assert len(f"rank 10: {differs.value}") <= LONGEST_REASON


def test_an_order_asks_for_the_engine_without_a_write(tmp_path: Path) -> None:
    folder = create(tmp_path)
    folder.engines.agree("panel", "one")
    asking = RunFolder.open(folder.path, Unwritten())
    assert asking.engines.agree("panel", "two") == "one"


def test_a_damaged_word_on_the_engine_is_set_aside_and_the_next_one_decides(tmp_path: Path) -> None:
    folder = create(tmp_path)
    folder.engines.agree("panel", "one")
    (folder.path / "engines" / "panel.json").write_text("{")
    assert folder.engines.agree("panel", "two") == "two"
    assert folder.engines.agree("panel", "one") == "two"
    assert len(folder.quarantine.list()) == 1


@pytest.mark.parametrize("number", ["1.0", "2.0"])
def test_a_package_of_environments_says_its_version(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_simulator"
    package.mkdir()
    source = "from tests.envs.small_envs import Counting\nclass Env(Counting): pass\n"
    (package / "__init__.py").write_text(f"__version__ = {number!r}\n{source}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "some_simulator", raising=False)
    env = make_env("some_simulator:Env")
    assert env.spec.engine == f"{GYMNASIUM}, some_simulator {number}"
