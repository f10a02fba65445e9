"""Environments stepped by several processes: the same results, and nobody left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.checking import check_env
from hpcpod.envs.make import make_env
from hpcpod.envs.processes.env import ProcessVecEnv
from hpcpod.envs.vec_env import Box, Discrete, Step, VecEnv, tensor_form
from hpcpod.errors import ConfigError, Diverged, EnvFailed, UserError
from hpcpod.pod.factory import EnvFactory
from hpcpod.run.preflight import resolve_task
from tests.pod.rounds import first_birth, train
from tests.support.slots import gone
from tests.support.small_runs import FAULTS, create, mapping, wait_for

COUNTING = "tests.envs.small_envs:Counting"
SHORT = [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 9}}]


def in_processes(env_id: str, num_envs: int, processes: int, **how: Any) -> ProcessVecEnv:
    env = make_env(env_id, num_envs, processes=processes, **how)
    assert isinstance(env, ProcessVecEnv)
    return env


def some_actions(env: VecEnv, count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    n, space = env.spec.num_envs, env.spec.action
    shape = (n, *tensor_form(space)[0])
    if isinstance(space, Box):
        return [torch.rand(shape, generator=generator) * 2 - 1 for _ in range(count)]
    assert isinstance(space, Discrete)
    return [torch.randint(space.n, shape, generator=generator) for _ in range(count)]


def assert_equal(once: list[Step], again: list[Step]) -> int:
    """See that the steps are the same, bit by bit; how many episodes ended in them."""
    for a, b in zip(once, again, strict=True):
        for name, x, y in zip(Step._fields, a, b, strict=True):
            assert x.dtype == y.dtype and torch.equal(x, y), name
    return sum(int((step.terminated | step.truncated).sum()) for step in once)


def family(env_or_pid: int | None = None) -> list[psutil.Process]:
    """A process's descendants that live, but a test cluster's and the one that Python's
    multiprocessing leaves after a test that used it; this process's by default."""
    found: list[psutil.Process] = []
    # one that ended meanwhile hides no other
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in filter(_counts, psutil.Process(env_or_pid).children()):
            found.append(child)
            with contextlib.suppress(psutil.NoSuchProcess):
                found += child.children(recursive=True)
    return [each for each in found if _lives(each)]


def _counts(child: psutil.Process) -> bool:
    # other tests, in the same process of pytest-xdist, leave these, and zombies with no command
    try:
        said = " ".join(child.cmdline())
        helpers = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
        return "slurm" not in child.name() and not any(helper in said for helper in helpers)
    except psutil.NoSuchProcess:
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def open_files() -> list[str]:
    """What each descriptor of this process leads to."""
    return [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test there is no process and no open file more than before it.

    Other threads of the tests open files for a moment, so it looks for some seconds.
    """
    processes, files = {each.pid for each in family()}, open_files()
    yield
    wait_for("an end of all processes", lambda: {each.pid for each in family()} <= processes)
    with contextlib.suppress(TimeoutError):
        wait_for("fewer open files", lambda: len(open_files()) <= len(files), seconds=5)
    left = open_files()
    assert len(left) <= len(files), f"before: {files}, now: {left}"


@pytest.mark.parametrize(
    ("env_id", "num_envs", "processes", "how"),
    [
        ("CartPole-v1", 5, 2, {}),
        ("Pendulum-v1", 3, 2, {"kwargs": {"max_episode_steps": 37}}),
        ("Hopper-v5", 3, 2, {"backend": "gymnasium"}),
        ("Hopper-v5", 3, 2, {}),
        ("CartPole-v1", 7, 2, {"backend": "torch"}),
        ("FrozenLake-v1", 4, 2, {}),
        (COUNTING, 4, 2, {"wrappers": [*SHORT, "gymnasium.wrappers:FlattenObservation"]}),
        (COUNTING, 4, 2, {"wrappers": SHORT}),
        ("tests.agents.image_env:Bright", 3, 2, {"kwargs": {"discrete": True}}),
    ],
)
def test_it_keeps_the_contract_and_gives_what_one_process_gives(
    env_id: str, num_envs: int, processes: int, how: dict[str, Any]
) -> None:
    env, alone = in_processes(env_id, num_envs, processes, **how), make_env(env_id, num_envs, **how)
    assert env.spec == alone.spec
    check_env(env, 300)
    assert torch.equal(env.reset(torch.arange(num_envs)), alone.reset(torch.arange(num_envs)))
    actions = some_actions(env, 150)
    once = [env.step(action) for action in actions]
    assert assert_equal(once, [alone.step(action) for action in actions]) > 3
    saved = env.state()
    assert (saved is None) == (alone.state() is None)
    if saved is not None:
        before, once = once[-1].obs, [env.step(action) for action in actions]
        assert assert_equal(once, [alone.step(action) for action in actions]) > 3
        env.reset()
        assert (found := env.restore(saved)) is None or torch.equal(found, before)
        assert_equal(once, [env.step(action) for action in actions])
    env.close()


def test_what_does_not_fit_the_environment_is_refused() -> None:
    env = in_processes("CartPole-v1", 3, 2)
    assert env.state() is None
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(torch.zeros(3, dtype=torch.int64))
    env.reset(torch.arange(3))
    saved = env.state()
    assert saved is not None
    stranger = "the state is not of 3 environments in 2 processes: it has"
    for name in ("process2/x", "3/rng", "seeds"):
        with pytest.raises(ValueError, match=f"{stranger} '{name}'"):
            env.restore({**saved, name: torch.zeros(1)})
    with pytest.raises(ValueError, match=f"{stranger} fewer"):
        env.restore({"0/rng": saved["0/rng"]})
    with pytest.raises(ValueError, match="expected 3 seeds"):
        env.reset(torch.arange(2))
    with pytest.raises(ValueError, match=r"expected actions of shape \(3,\), got \(1,\)"):
        env.step(torch.zeros(1, dtype=torch.int64))
    with pytest.raises(EnvFailed, match="the process of environments 1 to 2 raised KeyError"):
        env.restore({name: saved[name] for name in saved if name != "1/rng"})
    env.close()


def test_a_process_that_waits_sleeps() -> None:
    env = in_processes("CartPole-v1", 2, 2)
    env.reset()
    members = family()
    assert len(members) == 4  # two, and who ends each with its owner

    def asleep() -> bool:
        before = [each.num_ctx_switches() for each in members]
        time.sleep(0.5)
        return [each.num_ctx_switches() for each in members] == before

    wait_for("half a second in which nobody wakes up", asleep)
    env.close()
    env.close()
    with pytest.raises(EnvFailed, match="CartPole-v1 was closed; make it anew"):
        env.reset()


@pytest.mark.parametrize(
    ("env_id", "how"),
    [
        ("CartPol-v1", {}),
        ("CartPole-v1", {"wrappers": ["math:pi"]}),
        ("tests.envs.test_observations:Seeing", {}),
    ],
)
def test_what_cannot_be_made_is_the_error_of_one_process(env_id: str, how: dict[str, Any]) -> None:
    with pytest.raises(UserError) as alone:
        make_env(env_id, 2, **how)
    with pytest.raises(UserError) as caught:
        make_env(env_id, 2, processes=2, **how)
    assert type(caught.value) is type(alone.value)
    assert str(caught.value) == str(alone.value)


def test_what_cannot_be_said_to_another_process_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"give its path, such as 'pkg\.mod:MyEnv'"):
        make_env(lambda: None, 2, processes=2)
    untold: list[Any] = [{"kwargs": {"x": x}} for x in (object(), (1, 2), {3: 4})]
    for how in (*untold, {"wrappers": [5]}, {"wrappers": [{"pkg.mod:Wrapper": None}]}):
        with pytest.raises(UserError, match="CartPole-v1: wrappers and kwargs go to other"):
            make_env("CartPole-v1", 2, processes=2, **how)
    with pytest.raises(UserError, match="from 1 to num_envs, got processes 3 and num_envs 2"):
        make_env("CartPole-v1", 2, processes=3)
    for backend in ("torch", "warp"):
        with pytest.raises(UserError, match=rf"^backend {backend} .*; leave out env\.processes$"):
            make_env("Ant-v5", 2, backend, "cuda", processes=2)
    with pytest.raises(UserError, match="device 'tpu' can't be used here"):
        make_env("CartPole-v1", 2, device="tpu", processes=2)


def test_the_configuration_takes_as_many_processes_as_environments() -> None:
    assert EnvConfig("x", num_envs=3, processes=3).processes == 3
    with pytest.raises(ConfigError, match=r"env: processes must be at most num_envs, got"):
        from_mapping({"name": "x", "env": {"id": "x", "num_envs": 2, "processes": 3}})


def test_denormal_numbers_are_what_they_are_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")  # on the way: a Python that lacks it
    tiny = "tests.envs.small_envs:Tiny"
    torch.set_flush_denormal(True)  # as in a pod; the fixture of all tests takes it back
    for env in (make_env(tiny, 2), in_processes(tiny, 2, 2)):
        env.reset()
        assert env.step(torch.zeros(2, 1)).reward.tolist() == [0.0, 0.0]
        env.close()
    torch.set_flush_denormal(False)
    env = make_env(tiny, 2)
    env.reset()
    assert min(env.step(torch.zeros(2, 1)).reward.tolist()) > 0.0


def test_a_number_that_is_not_finite_is_refused_and_a_reset_goes_on() -> None:
    unsound = "tests.envs.small_envs:Unsound"
    env = in_processes(unsound, 4, 2, kwargs={"field": "reward"})
    for _ in range(2):
        env.reset(torch.arange(4))
        for _ in range(2):
            env.step(torch.zeros(4, 1))
        with pytest.raises(
            Diverged,
            match=r"Unsound: the reward of environment 0 is not finite: inf"
            r" \(counted from the first of environments 0 to 1\)",
        ):
            env.step(torch.zeros(4, 1))
    env.close()


def faulty(fault: str, tally: Path, at: int = 5) -> ProcessVecEnv:
    """Three CartPoles, of which one, in either process, fails in its fifth step, once."""
    arguments = {"fault": fault, "at": at, "tally": str(tally)}
    return in_processes("CartPole-v1", 3, 2, wrappers=[{FAULTS: arguments}])


def step_on(env: VecEnv, steps: int = 50) -> None:
    env.reset(torch.arange(3))
    for action in some_actions(env, steps):
        env.step(action)


def test_an_error_is_one_sentence_with_its_traceback_in_the_log_and_a_reset_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = faulty("raise", tmp_path / "tally")
    with pytest.raises(
        EnvFailed,
        match=r"CartPole-v1: the process of environments? (0|1 to 2) raised RuntimeError: the"
        r" simulator lost its mind; its traceback is in the log",
    ):
        step_on(env)
    assert "in _fail\n    raise RuntimeError" in capfd.readouterr().err
    step_on(env)
    env.close()


@pytest.mark.parametrize("fault", ["segfault", "orphan"])
def test_a_process_that_dies_is_one_sentence_and_takes_all_others_with_it(
    tmp_path: Path, fault: str
) -> None:
    env = faulty(fault, tmp_path / "tally")
    how = "by SIGSEGV" if fault == "segfault" else r"\(SIGKILL: most often it was out of memory\)"
    said = rf"the process of environments? (0|1 to 2) was (ended|killed) {how}; what it said is"
    with pytest.raises(EnvFailed, match=said):
        step_on(env)
    assert not family()
    if fault == "orphan":
        own = int((tmp_path / "tally.pid").read_text())
        wait_for("the end of what it had started", lambda: gone(own))
    with pytest.raises(EnvFailed, match=said):
        env.reset()
    env.close()


def test_a_process_that_was_killed_between_two_steps_is_missed_when_asked_for_its_state() -> None:
    env = in_processes("CartPole-v1", 2, 2)
    env.reset()
    with_its_guard = next(each for each in family() if each.ppid() == os.getpid())
    os.killpg(with_its_guard.pid, signal.SIGKILL)
    with pytest.raises(EnvFailed, match=r"the process of environment . was killed \(SIGKILL"):
        env.state()
    env.close()


def test_environments_that_do_not_close_are_not_waited_for() -> None:
    env = in_processes("tests.envs.small_envs:Clinging", 2, 2)
    env.close()
    assert not family()


def test_a_process_that_hangs_can_be_interrupted(tmp_path: Path) -> None:
    class Impatient(Exception): ...

    def interrupt(*_: object) -> None:
        raise Impatient

    def when_it_hangs() -> None:
        wait_for("a hanging step", (tmp_path / "tally.pid").exists)
        os.kill(os.getpid(), signal.SIGALRM)

    env = faulty("hang", tmp_path / "tally")
    before = signal.signal(signal.SIGALRM, interrupt)
    watch = threading.Thread(target=when_it_hangs)
    watch.start()
    try:
        with pytest.raises(Impatient):
            step_on(env)
    finally:
        watch.join()
        signal.signal(signal.SIGALRM, before)
    assert not family()
    with pytest.raises(EnvFailed, match="interrupted in the middle of a step; make it anew"):
        env.reset()


OWNER = """
import sys
from pathlib import Path
from tests.envs.processes.test_processes import faulty, step_on

step_on(faulty("hang", Path(sys.argv[1])))
"""


def test_all_end_when_their_owner_is_killed_in_the_middle_of_a_step(tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tally)], start_new_session=True)
    wait_for("a hanging step", tally.with_suffix(".pid").exists)
    pids = [each.pid for each in family(owner.pid)]
    assert int(tally.with_suffix(".pid").read_text()) in pids
    owner.kill()
    owner.wait()
    wait_for("the end of everybody", lambda: all(map(gone, pids)))


def test_signals_that_a_scheduler_sends_to_all_leave_the_environments_at_work() -> None:
    env = in_processes("CartPole-v1", 2, 2)
    env.reset(torch.arange(2))
    for each in family():
        for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT):
            each.send_signal(number)
    assert env.state() is not None
    del env  # it ends with its last reference
    assert not family()


def test_a_pods_round_stopped_and_resumed_is_the_same_with_processes(tmp_path: Path) -> None:
    returns = []
    for processes, stops in ((1, ()), (2, (2,))):
        folder = create(tmp_path / str(processes), env={"processes": processes})
        returns.append(train(folder, first_birth(folder), *stops).returns)
    assert returns[0] == returns[1]


def test_a_configuration_with_processes_is_probed_and_small_panels_have_fewer() -> None:
    config = from_mapping(mapping("ppo", env={"processes": 2}))
    assert resolve_task(config)[0].config.env.processes == 2
    env = EnvFactory(config.env, "cpu")(1)
    assert not isinstance(env, ProcessVecEnv)
