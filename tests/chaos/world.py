"""A small site on which things go wrong: a real Slurm, a disk of its own, one run after another."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from hpcpod.records.records import Board
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from tests.chaos.observer import Observer
from tests.chaos.views import Bad, Views
from tests.support.slurm_cluster import CONTROLLER, Options, SlurmCluster

ROOT = Path(__file__).parents[2]
CLOCK = Path(__file__).parent / "clock"
Role = Literal["slot", "pod", "orchestrator"]

SITE = Options(nodes=4, gpus=0, cpus=4, kill_seconds=5)
LOGIN = "login"
"""The machine on which people type."""

CONFIG = """\
name: {name}
{task}
seed: {seed}
population: {{scheme: {scheme}, pods: {{min: 1, max: {pods}}}, algorithms: {algorithms}}}
round: {{env_steps: {steps}, episodes: 8}}
pod: {{checkpoint_seconds: 1, ranks: {ranks}, fusion: {{seconds: 30}}}}
resources: {{cpus_per_pod: {ranks}}}
stop: {stop}
snapshots: {{seconds: 10, episodes: 8}}
cluster:
  launcher: slurm
  partition: low
  minutes: 60
  slots: {slots}
  tick_seconds: 1
  max_restarts: 1000
  setup:
    - export OMPI_MCA_btl=self,tcp
    - export CHAOS_CLOCKS={clocks}
    - export PYTHONPATH={clock}:$PYTHONPATH
"""
AGENTS = """\
env: {{id: CartPole-v1, num_envs: 4}}
agents: {agents}"""
PROGRAM = f"""\
program:
  command: {json.dumps([sys.executable, "-I", "-S", str(Path(__file__).parent / "trainee.py")])}
  search: {{{{quality: {{{{uniform: [0.0, 1.0]}}}}, width: {{{{choice: [1, 2]}}}}}}}}
  structural: [width]
  scores: true"""
PPO = "{horizon: 64, minibatch_size: 64, epochs: 2, hidden: 32, learning_rate: 1.0e-3}"
SLOW = "{horizon: 64, minibatch_size: 64, epochs: 1, hidden: 16, learning_rate: 2.0e-5}"
DQN = "{horizon: 32, learning_starts: 128, buffer_size: 4000, hidden: 32, learning_rate: 1.0e-3}"


@dataclass(frozen=True)
class Scene:
    """What kind of run is disturbed."""

    name: str
    pods: int = 4
    slots: int = 3
    ranks: int = 1
    steps: int = 6000
    algorithms: str = "{ppo: 1, dqn: 1}"
    agents: str = f"{{ppo: {PPO}, dqn: {DQN}}}"
    stop: str = "{rounds: 40, minutes: 60, finalists: 2, confirm_episodes: 8}"
    ends: str = "rounds"
    """The reason for which it must end."""
    scheme: str = "tournament"
    template: str = AGENTS
    """The part of the configuration that says who trains."""

    @property
    def task(self) -> str:
        """The same, filled in."""
        return self.template.format(agents=self.agents)

    @property
    def other(self) -> Scene:
        """The same by the other scheme."""
        schemes = {"tournament": "generational", "generational": "tournament"}
        return replace(self, scheme=schemes[self.scheme])


SCENES = (
    Scene(
        "target", algorithms="{ppo: 1}", agents=f"{{ppo: {SLOW}}}", ends="target",
        stop="{target: 250, minutes: 60, confirm_episodes: 16, alpha: 0.2}",
    ),
    Scene("rounds", scheme="generational"),
    Scene(
        "ranks", pods=2, slots=2, ranks=2, algorithms="{ppo: 1}", agents=f"{{ppo: {PPO}}}",
        stop="{rounds: 60, minutes: 60, finalists: 1, confirm_episodes: 8}",
    ),
    Scene("programs", steps=300, algorithms="{program: 1}", template=PROGRAM),
)  # fmt: skip


@dataclass
class Disk:
    """The filesystem of the run: one that can be filled and made read-only, where mounting is
    permitted; else a plain folder, to which neither is done."""

    home: Path
    own: bool
    read_only: bool = False

    def remount(self, mode: Literal["ro", "rw"]) -> bool:
        """Whether it could be done: not while a file is open for writing."""
        command = ["mount", "-o", f"remount,{mode}", str(self.home)]
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
        self.read_only = (mode == "ro") is done
        return done

    @classmethod
    @contextmanager
    def mounted(cls, home: Path, mib: int = 256) -> Iterator[Disk]:
        """One of this size at a new folder."""
        home.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(home)]
        own = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        try:
            yield cls(home, own)
        finally:
            if own:
                subprocess.run(["umount", "-l", str(home)], check=True)


@dataclass
class World:
    """One cluster and the run that is disturbed on it."""

    cluster: SlurmCluster
    disk: Disk
    home: Path
    """Outside of the disk: logs, clocks, configurations."""
    scene: Scene = SCENES[0]
    path: Path = Path()
    """The run folder."""
    views: Views | None = None
    """What each node, and the login node, sees of the disk; None: what is there."""
    by_hand: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """What people at a login node have started, and ends by itself or was asked to."""
    coordinators: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Those that people have started."""
    helped: list[str] = field(default_factory=list)
    """Verbs that a person had to type for the run to go on."""
    dead_daemons: set[str] = field(default_factory=set)
    _observer: Observer | None = None

    @classmethod
    @contextmanager
    def started(cls, home: Path, bad: Bad | None = None) -> Iterator[World]:
        """A cluster without a run; nothing of it is left afterwards.

        Args:
            home: a folder for all that it needs.
            bad: how the disk is seen from each of its machines; None: as it is.
        """
        nodes = SlurmCluster(home, SITE).nodes
        with (
            Disk.mounted(home / "disk") as disk,
            nullcontext() if bad is None else
            Views.mounted(disk.home, home / "views", [LOGIN, *nodes], bad) as views,
            SlurmCluster.started(SITE, None if views is None else views.within) as cluster,
        ):  # fmt: skip
            world = cls(cluster, disk, home, views=views)
            world.clocks.mkdir()
            try:
                yield world
            finally:
                world.by_hand += world.coordinators
                world.end_by_hand(0.0)
                if world._observer is not None:
                    world._observer.close()

    @property
    def observer(self) -> Observer:
        """Who looks at the run since it was launched."""
        assert self._observer is not None
        return self._observer

    @property
    def controller_up(self) -> bool:
        """Whether slurmctld runs, as far as the faults know."""
        return CONTROLLER not in self.dead_daemons

    def holding(self) -> Callable[[], None]:
        """From now to the call of what this returns something is held up: merges may be late."""
        began, stops = time.time(), self.observer.past.stops
        place = len(stops)
        stops.append((began, math.inf))

        def end() -> None:
            stops[place] = (began, time.time())

        return end

    def answers(self) -> bool:
        """Whether slurmctld does."""
        return "is UP" in self.cluster.run("scontrol", "ping", check=False)

    def repair(self) -> None:
        """What an administrator does after a storm: nodes that don't work are put to work, and
        what is suspended goes on, also where a controller that died has forgotten that it is.

        One that dies while it starts a job calls that running for ever after, for all that anybody
        sees: until a slurmd registers again, which by itself it does after half an hour.
        """
        if not self.controller_up:
            return
        self.cluster.run("scontrol", "reconfigure", check=False)
        away = self.cluster.run(
            "sinfo", "-h", "-N", "-p", "low", "-t", "down,drain,fail", "-o", "%N", check=False
        )
        for node in away.split():
            with suppress(RuntimeError, subprocess.TimeoutExpired):
                self.cluster.set_node(node, "resume")
        for job in self.jobs("-t", "SUSPENDED"):
            self.cluster.run("scontrol", "resume", job, check=False)
        for element in self.elements():  # a slurmd that was away may suspend after it has resumed
            self.go_on(element)

    def go_on(self, element: str) -> None:
        """SIGCONT to all processes of an array's element."""
        array, _, task = element.partition("_")
        for pid in self.cluster.processes():
            if (array, task) == (
                variable(pid, "SLURM_ARRAY_JOB_ID"), variable(pid, "SLURM_ARRAY_TASK_ID"),
            ):  # fmt: skip
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @property
    def clocks(self) -> Path:
        """The folder that says by how much each node's clock is wrong."""
        return self.home / "clocks"

    @property
    def folder(self) -> RunFolder:
        """The run, opened anew: as somebody sees it who comes along."""
        return RunFolder.open(self.path)

    def board(self) -> Board:
        """The board as a newcomer reads it."""
        return read_board(self.folder)

    def launch(self, scene: Scene, name: str, seed: int) -> None:
        """Launch a run as a person does. Its logs are on another disk: what is open for writing
        would keep its own from being made read-only."""
        self.scene, self.path = scene, self.disk.home / "runs" / name
        text = CONFIG.format(
            **{**vars(scene), "name": name, "task": scene.task},
            seed=seed, clocks=self.clocks, clock=CLOCK,
        )  # fmt: skip
        config = self.home / f"{name}.yaml"
        config.write_text(text)
        self.cluster.run("scontrol", "update", "PartitionName=low", "State=DOWN")
        said = self.hpcpod("launch", str(config), "--no-probe")
        logs = self.home / "logs" / name
        logs.parent.mkdir(exist_ok=True)
        shutil.move(self.path / "logs", logs)
        (self.path / "logs").symlink_to(logs)
        self.watch()
        self.cluster.run("scontrol", "update", "PartitionName=low", "State=UP")
        assert "submitted" in said or "job" in said, said

    def watch(self) -> None:
        """Begin to look at the run."""
        self._observer = Observer(self.path)
        if self.views is not None:
            self._observer.past.believed = self.views.bad.names

    @property
    def _login(self) -> tuple[str, ...]:
        return () if self.views is None else self.views.within(LOGIN)

    def hpcpod(self, *words: str, codes: Sequence[int] = (0,)) -> str:
        """Type a verb on the login node; what it printed."""
        done = subprocess.run(
            [*self._login, sys.executable, "-m", "hpcpod", *words],
            cwd=self.disk.home, env=self.env(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode not in codes:
            raise RuntimeError(f"hpcpod {' '.join(words)}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def start_by_hand(self, *words: str) -> subprocess.Popen[bytes]:
        """Start ``python -m ...`` on the login node; what it says goes to a log of its own."""
        log = self.home / "by-hand.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self._login, sys.executable, "-m", *words], cwd=self.disk.home, env=self.env(),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.by_hand.append(process)
        return process

    def end_by_hand(self, seconds: float = 30.0) -> None:
        """Wait for what was started by hand, but for coordinators; kill what takes longer."""
        for process in self.by_hand:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.kill()
            process.wait()
        self.by_hand.clear()

    def env(self) -> dict[str, str]:
        """Of a shell on the login node."""
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        return self.cluster.env({"PYTHONPATH": path, "OMP_NUM_THREADS": "1"})

    def jobs(self, *options: str) -> list[str]:
        """Elements and jobs of the run in the queue, by their names, sorted."""
        said = self.cluster.run("squeue", "-h", "-r", "-o", "%i %j", *options, check=False)
        jobs = (line.split(" ", 1) for line in said.splitlines())
        # Not an earlier run's: a controller that is killed may forget that a job was cancelled.
        ours = re.compile(re.escape(self.path.name) + "(-coordinator-.*)?")
        return sorted(job for job, name in jobs if ours.fullmatch(name))

    def queue(self) -> str:
        """What the scheduler has of the run, and why it waits."""
        said = self.cluster.run("squeue", "-h", "-r", "-o", "%i %T %r", check=False)
        return ", ".join(said.splitlines())

    def elements(self) -> list[str]:
        """Running slots, as the scheduler sees them."""
        return [job for job in self.jobs("-t", "RUNNING") if "_" in job]

    def processes(self, role: Role) -> list[int]:
        """Process ids of the run's slots, training processes or coordinators, sorted."""
        modules = [f"hpcpod.{role}", *(["hpcpod.program"] if role == "pod" else [])]
        found = {pid: words(pid) for pid in self.cluster.processes()}
        ours = {
            pid
            for pid, command in found.items()
            if any(_runs(command, module) for module in modules)
        }
        # The watcher of a process is its child, and has its words.
        return sorted(pid for pid in ours if parent(pid) not in ours)

    def wait(self, what: str, seconds: float, true: Callable[[], bool]) -> bool:
        """Poll until ``true()`` says so; False when it took longer."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(0.4)
        return True


def words(pid: int) -> list[str]:
    """A process's command line; empty once it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def parent(pid: int) -> int:
    """The process id of its parent; 0 once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def variable(pid: int, name: str) -> str | None:
    """A variable of a process's environment; None if it has none, or is gone."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    found = (v for v in environment.split("\0") if v.startswith(f"{name}="))
    return next((v.partition("=")[2] for v in found), None)


def _runs(command: list[str], module: str) -> bool:
    return module in command and "python" in Path(command[0]).name
