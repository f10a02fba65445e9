"""A throw-away, real Slurm on this machine: one slurmctld, a few slurmd with fake GPUs.

It needs no root, no munge and no database: ``auth/none`` is enough for the user who starts
it, and every job runs as that user. Everything listens on loopback only and lives in one
temporary folder.
"""

from __future__ import annotations

import os
import pwd
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SBIN = "/usr/sbin"
"""Where Debian puts the daemons; not in an ordinary user's PATH."""
CONTROLLER = "slurmctld"
PATIENCE = 4.0
"""Factor of the seconds that a test waits for something. What takes 40 s on two cores of one's own
took 180 s where five processes of pytest shared slower ones."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Options:
    """What a test may choose about its cluster."""

    nodes: int = 4
    gpus: int = 8
    cpus: int = 16
    gpu_type: str = ""
    features: str = ""
    """Of every node, by which ``--constraint`` may ask for it."""
    memory: int = 64000
    """Megabytes of a node; nobody is held to them."""
    preempt_mode: str = "REQUEUE"
    """What becomes of a preempted job of the partition ``low``: REQUEUE or CANCEL."""
    user_signal: bool = False
    """Whether a preempted job gets the signal that it asked for by ``--signal``, not SIGTERM."""
    grace_seconds: int = 0
    """GraceTime of the partition ``low``: how long a preempted job may live on."""
    requeue_seconds: int = 5
    """cred_expire: a requeued job starts again one second after it; less than 5 means 120."""
    kill_seconds: int = 5
    """KillWait: from SIGTERM to SIGKILL."""
    extra: tuple[str, ...] = ()
    """Further lines of slurm.conf."""


class SlurmUnavailable(Exception):
    """Slurm is not installed here."""


class SlurmCluster:
    """One running cluster. Use ``with SlurmCluster.started() as cluster``."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder
        self.options = options
        self.conf = folder / "slurm.conf"
        self.start_seconds = 0.0
        self._under: Callable[[str], Sequence[str]] = lambda node: ()
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: socket.socket | None = None

    @classmethod
    @contextmanager
    def started(
        cls, options: Options | None = None, under: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[SlurmCluster]:
        """A cluster with all nodes idle; it and all its jobs are gone afterwards.

        Args:
            options: what a test may choose.
            under: by a node's name, the words of a command that runs its slurmd, as in a mount
                namespace of its own; it ends in ``exec``.
        """
        for daemon in ("slurmctld", "slurmd"):
            if shutil.which(daemon, path=_path()) is None:
                raise SlurmUnavailable(
                    f"no {daemon} here: these tests start a real Slurm"
                    " (Debian: apt-get install slurm-wlm)"
                )
        # Not pytest's tmp_path: sockets' names and shebangs have length limits.
        folder = Path(tempfile.mkdtemp(prefix="hpcpod-slurm-", dir="/tmp"))
        folder.chmod(0o755)
        cluster = cls(folder, options or Options())
        cluster._under = under or cluster._under
        try:
            cluster._start()
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(folder)

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment in which Slurm's commands speak to this cluster."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))}
        own = {"SLURM_CONF": str(self.conf), "PATH": _path()}
        return {**inherited, **own, **(extra or {})}

    def run(self, *command: str, check: bool = True) -> str:
        """What a command such as ``squeue -h`` prints."""
        done = subprocess.run(
            command, env=self.env(), capture_output=True, text=True,
            timeout=60 * PATIENCE, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def wait(self, what: str, true: Callable[[], bool], seconds: float = 30.0) -> None:
        """Poll until something is true of the cluster, which takes fewer seconds on a machine of
        one's own. Looking takes a seventh of the time if it takes half a second: a look that starts
        a Python would keep a core busy."""
        patience = seconds * PATIENCE
        deadline = time.monotonic() + patience
        while True:
            began = time.monotonic()
            if true():
                return
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"waited {patience:g} s for {what}\n{self.run('squeue', '-r')}")
            time.sleep(min(max(0.2, 6 * (now - began)), 3.0))

    def drained(self, seconds: float = 30.0) -> None:
        """Cancel every job and wait until none is left."""
        self.run("scancel", "--quiet", "--partition=low", check=False)
        self.run("scancel", "--quiet", "--partition=high", check=False)
        self.wait("the queue to be empty", lambda: not self.run("squeue", "-h").strip(), seconds)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return [f"dgx{number}" for number in range(1, self.options.nodes + 1)]

    def start_daemon(self, name: str, *under: str) -> None:
        """Start ``slurmctld``, or the slurmd of a node by the node's name: it may not be up yet.

        Args:
            name: whose.
            under: the words of a command that runs it.
        """
        node = (*self._under(name), "slurmd", "-D", "-N", name)
        words = ("slurmctld", "-D") if name == CONTROLLER else node
        self._daemons[name] = subprocess.Popen(
            (*under, *words),
            env=self.env(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests, not for the daemons.
        )

    def kill_daemon(self, name: str) -> None:
        """SIGKILL, as when its machine's memory ran out: it saves nothing. Jobs live on."""
        self._daemons[name].kill()
        self._daemons[name].wait()

    def set_node(self, node: str, state: str) -> None:
        """``down``, ``drain`` or ``resume``, as an administrator does it."""
        reason = () if state == "resume" else ("Reason=test",)
        words = ("scontrol", "update", f"NodeName={node}", f"State={state}", *reason)
        self.run(*words, check=state != "resume")  # it may have come back by itself

    def processes(self) -> list[int]:
        """Every process of this cluster: its daemons, and its jobs by their environment."""
        mark = f"SLURM_CONF={self.conf}".encode()
        return [pid for pid in _pids() if mark in _environment(pid)]

    def stop(self) -> None:
        """End the jobs, then the daemons, then whatever of this cluster is still there."""
        # Jobs first: a slurmstepd outlives its slurmd by design.
        if self._daemons:
            # No controller, or a job that will not end: the sweep below ends it.
            with suppress(TimeoutError, RuntimeError, subprocess.TimeoutExpired):
                self.drained(self.options.kill_seconds + 10)
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in reversed(self._daemons.values()):
            _ended(daemon)
        self._daemons.clear()
        deadline = time.monotonic() + 10
        while left := self.processes():
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes of {self.conf} can't be ended: {left}")
            for pid in left:
                _kill(pid)
            time.sleep(0.05)
        if self._ports is not None:
            self._ports.close()

    def _start(self) -> None:
        began = time.monotonic()
        self._write_files()
        self.start_daemon(CONTROLLER)
        self.wait(
            "slurmctld (see log/slurmctld.log)",
            lambda: "is UP" in self.run("scontrol", "ping", check=False),
        )
        for node in self.nodes:
            self.start_daemon(node)
        idle = ("sinfo", "-h", "-N", "-p", "low", "-t", "idle", "-o", "%N")
        self.wait("idle nodes", lambda: len(self.run(*idle).split()) == self.options.nodes)
        self.start_seconds = time.monotonic() - began

    def _write_files(self) -> None:
        options, folder = self.options, self.folder
        for name in ("state", "log", "spool", "run"):
            (folder / name).mkdir()
        for node in range(1, options.nodes + 1):
            # `srun --mpi=pmix` makes a folder of one name per job in TmpFS on each node.
            (folder / "tmp" / f"dgx{node}").mkdir(parents=True)
        for gpu in range(options.gpus):
            # Slurm sets CUDA_VISIBLE_DEVICES only for devices; a link to one will do.
            (folder / "run" / f"gpu{gpu}").symlink_to("/dev/null")
        nodes = f"NodeName=dgx[1-{options.nodes}]"
        kind = f" Type={options.gpu_type}" if options.gpu_type else ""
        gpus = f"{nodes} Name=gpu{kind} File={folder}/run/gpu[0-{options.gpus - 1}]\n"
        (folder / "gres.conf").write_text(gpus if options.gpus else "")
        self._ports, port = reserved_ports(options.nodes + 1)
        self.conf.write_text(self._conf_text(nodes, port))

    def _conf_text(self, nodes: str, port: int) -> str:
        options, folder, user, host = self.options, self.folder, _user(), socket.gethostname()
        gpus = ":".join(filter(None, ("gpu", options.gpu_type, str(options.gpus))))
        lines = [
            "ClusterName=hpcpod",
            f"SlurmctldHost={host}({LOOPBACK})",
            f"SlurmctldPort={port}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/none",
            f"AuthInfo=cred_expire={options.requeue_seconds}",
            "CredType=cred/none",
            "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",  # loopback only
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool/%n",
            f"TmpFS={folder}/tmp/%n",
            f"SlurmctldPidFile={folder}/run/slurmctld.pid",
            f"SlurmdPidFile={folder}/run/slurmd.%n.pid",
            f"SlurmctldLogFile={folder}/log/slurmctld.log",
            f"SlurmdLogFile={folder}/log/slurmd.%n.log",
            "AccountingStorageType=accounting_storage/none",
            "JobAcctGatherType=jobacct_gather/none",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SwitchType=switch/none",
            "MpiDefault=none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "SchedulerType=sched/backfill",
            "SchedulerParameters=sched_min_interval=50000,sched_interval=1,bf_interval=1,"
            "batch_sched_delay=0",
            "PreemptType=preempt/partition_prio",
            "PreemptMode=REQUEUE",
            "JobRequeue=1",
            "ReturnToService=2",
            "GresTypes=gpu",
            f"KillWait={options.kill_seconds}",
            "MinJobAge=300",
            "InactiveLimit=0",
            "SlurmdParameters=config_overrides",  # more cores than this machine has
            *(["SlurmctldParameters=preempt_send_user_signal"] if options.user_signal else []),
            *options.extra,
            f"{nodes} NodeHostname={host} NodeAddr={LOOPBACK}"
            f" Port=[{port + 1}-{port + options.nodes}]"
            f" CPUs={options.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={options.cpus}"
            f" ThreadsPerCore=1 RealMemory={options.memory} State=UNKNOWN"
            + (f" Gres={gpus}" if options.gpus else "")
            + (f" Features={options.features}" if options.features else ""),
            "PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP"
            f" PriorityTier=1 PreemptMode={options.preempt_mode}"
            f" GraceTime={options.grace_seconds}",
            "PartitionName=high Nodes=ALL MaxTime=INFINITE DefaultTime=60 State=UP"
            " PriorityTier=10 PreemptMode=OFF",
        ]
        return "\n".join(lines) + "\n"


def _ended(daemon: subprocess.Popen[bytes]) -> None:
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{SBIN}"


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def reserved_ports(count: int) -> tuple[socket.socket, int]:
    """The lock of a block of 64 ports on loopback, and the first of ``count`` ports in it.

    The lock is a socket, bound to the block's first port. Two clusters that began at the same
    moment have taken ports in common before: one had no idle nodes, the other lost its jobs.
    """
    assert count < 64
    blocks = range(20_480, 32_768, 64)  # below the ephemeral ports
    for block in random.sample(blocks, len(blocks)):
        lock = socket.socket()
        with suppress(OSError):
            lock.bind((LOOPBACK, block))
            if all(_is_free(port) for port in range(block + 1, block + 1 + count)):
                return lock, block + 1
        lock.close()
    raise RuntimeError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # gone, or another user's
