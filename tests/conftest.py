"""Fixtures of all tests."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

import hpcpod
from hpcpod._gpus import visible_gpus
from hpcpod.pod.ipc.commands import CALM
from hpcpod.pod.trial import supervisor
from tests.support.command_line import GOOD
from tests.support.slurm_cluster import Options, SlurmCluster, SlurmUnavailable
from tests.support.small_disks import small_disk

# Tests share their cores with real Slurm daemons and training runs: no example has a deadline.
settings.register_profile("hpcpod", deadline=None)
settings.load_profile("hpcpod")

# Read when cuBLAS is first used, which may be in a test that does not ask for equal bits.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

# As in a pod, for each process that a test starts: beside busy neighbours some of those with two
# threads spun for ten times the processor time of their work.
# NumPy's threads spin for 25 ms after each product, by default: in one loop of small ones that was
# twelve times the processor time of the products.
os.environ.update({**CALM, "OPENBLAS_THREAD_TIMEOUT": "4", **os.environ})

# A shell starts what it puts into the background with Ctrl-C ignored, and so would all that tests
# start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = (
    "chaos/test_chaos.py", "slurm/test_interrupted.py", "slurm/test_verbs.py",
    "slurm/test_ranks.py", "pod/pipeline/test_pipeline.py", "preemption/test_matrix.py",
    "agents/test_dqn.py", "slot/test_beside.py", "slurm/test_ct.py", "slurm/test_run.py",
    "preemption/test_limits.py", "test_demo.py", "agents/test_ppo.py", "slurm/test_containers.py",
    "doctor/test_on_slurm.py", "benchmarks/test_selection.py", "slurm/test_elastic.py",
    "run/test_progress_line.py", "docs/test_readme.py", "launchers/test_local.py",
    "slot/test_slot.py", "agents/test_td3.py", "pod/test_numerics.py", "slurm/test_program.py",
    "docs/test_slurm.py",
)  # fmt: skip
"""Files that take more than a minute, the longest first."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests, and no garbage: it takes half of that time, and frees nothing. No collection
    later on looks at modules: with torch's it takes a quarter of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files come first, the longest of them before the others: a process that begins one of
    them last would go on alone for minutes."""
    if not visible_gpus():
        _leave_one_of_each_file(config, items)
    marked = (item for item in items if any(map(item.get_closest_marker, ("slurm", "slow"))))
    long = {item.path for item in marked}
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places) + (item.path not in long)))


def _leave_one_of_each_file(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need a GPU, but for the first of each file, which says so."""
    needy = [item for item in items if item.get_closest_marker("gpu")]
    first = {item.path: item for item in reversed(needy)}
    left = [item for item in needy if item is not first[item.path]]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """One thread, as in a pod; more collapse beside a busy neighbour. Training in this process
    flushes denormal numbers to zero; other tests need them.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)


@pytest.fixture(autouse=True)
def no_slot_is_left() -> Iterator[None]:
    """A failed test fails no later one by a slot of its own that goes on."""
    yield
    slots = sys.modules.get("tests.support.slots")
    if slots is not None:
        slots.SlotProcess.end_all()


@pytest.fixture
def apart() -> None:
    """Environments are tried in processes of their own, as they always are but in other tests."""


@pytest.fixture(autouse=True)
def tried_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that is tried before a launch is tried in this process, as one is that only
    this process knows: to start another one takes two seconds, and a hundred tests launch."""
    if "apart" not in request.fixturenames and not os.environ.get("HPCPOD_TRIED_APART"):
        monkeypatch.setattr(supervisor, "known_here_alone", lambda *given: True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: an empty folder but for a ``good.yaml``."""
    monkeypatch.chdir(tmp_path)
    for name in ("HPCPOD_RUNS", "HPCPOD_SITE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "good.yaml").write_text(GOOD)
    return tmp_path


@pytest.fixture(scope="session")
def start_slurm() -> Iterator[Callable[[Options], SlurmCluster]]:
    """Start a real Slurm, or give the one that runs with these options already."""
    clusters: dict[Options, SlurmCluster] = {}
    with ExitStack() as stack:

        def start(options: Options) -> SlurmCluster:
            if options not in clusters:
                try:
                    clusters[options] = stack.enter_context(SlurmCluster.started(options))
                except SlurmUnavailable as missing:
                    required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
                    (pytest.fail if required else pytest.skip)(str(missing))
            return clusters[options]

        yield start


@pytest.fixture(scope="session")
def slurm_cluster(start_slurm: Callable[[Options], SlurmCluster]) -> SlurmCluster:
    """A real Slurm of four nodes, shared by all tests: leave no job behind."""
    return start_slurm(Options())


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of its own with 512 KiB."""
    with small_disk(tmp_path / "small", 512) as home:
        yield home


@pytest.fixture(scope="session")
def finished_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run of PPO and DQN with a copy or two: only look at it.

    One of pytest-xdist's processes trains it, and each has a copy.
    """
    home = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        home = home.parent  # of all processes
    with (home / "finished-run").open("a+") as done:
        fcntl.flock(done, fcntl.LOCK_EX)
        try:
            done.seek(0)
            trained = done.read()
            if not trained:
                trained = str(_trained(tmp_path_factory.mktemp("trained")))
                done.write(trained)
                done.flush()
        finally:
            fcntl.flock(done, fcntl.LOCK_UN)  # whatever was forked meanwhile has it open, too
    runs = tmp_path_factory.mktemp("runs")
    return Path(shutil.copytree(trained, runs / "looked-at", symlinks=True))


def _trained(runs: Path) -> Path:
    config = {
        "name": "looked-at",
        "env": {"id": "CartPole-v1", "num_envs": 2},
        "population": {
            "pods": {"min": 1, "max": 4},
            "algorithms": {"ppo": 1, "dqn": 1},
            "warmup_rounds": 0,
        },
        "round": {"env_steps": 512, "episodes": 4},
        "agents": {
            "ppo": {"horizon": 16, "learning_rate": {"log_uniform": [1.0e-5, 1.0e-2]}},
            "dqn": {"learning_starts": 100, "learning_rate": {"log_uniform": [1.0e-6, 1.0e-2]}},
        },
        "stop": {"rounds": 3, "finalists": 2, "confirm_episodes": 4},
    }
    run = hpcpod.launch(config, runs=runs)
    assert run.wait(timeout=300).state == "finished"
    end = time.monotonic() + 60
    while run.status().slots and time.monotonic() < end:
        time.sleep(0.1)  # the last slots are on their way out
    return run.path
