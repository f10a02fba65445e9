"""The probe's job: two tasks on two nodes, if Slurm gives two; waited for, and always ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hpcpod._version import __version__
from hpcpod.config.loader import to_mapping
from hpcpod.config.script_prelude import prelude
from hpcpod.doctor.commands import Answer, ask
from hpcpod.doctor.probes.node import ORDER, NodeFacts, Order
from hpcpod.doctor.probes.peers import PairFacts
from hpcpod.doctor.probes.rank import RankFacts
from hpcpod.doctor.probes.submit import CONFIG, SubmitFacts
from hpcpod.doctor.scheduler import ASK_SECONDS
from hpcpod.launchers.slurm.launcher import SlurmLauncher, environment
from hpcpod.launchers.slurm.scripts import directive
from hpcpod.launchers.slurm.squeue import job_state, own_words
from hpcpod.launchers.slurm.templates import load, render
from hpcpod.records.codec import decode, encode
from hpcpod.records.records import Intent
from hpcpod.storage.disk import Disk, Scheme

MINUTES = 10
"""The job's time limit; it takes one or two where all is well."""
TELL_SECONDS = 10.0
"""Seconds between two lines about the wait."""

_TEMPLATE = "doctor.sbatch"
_END_SECONDS = 20.0  # what a job still writes appears in a folder that is being removed
_SEEN_SECONDS = 10.0
"""For what the job has written to be seen here, once it has ended."""
_TOO_MANY_NODES = re.compile(r"PartitionNodeLimit|(?:QOS|Assoc)\w*Node\w*|BadConstraints")
"""Reasons for waiting that one node less may cure."""
_EXIT = re.compile(r"\bExitCode=(\d+):")
_TELLING = re.compile(
    # slurmstepd's word for a container's runtime that is not there
    r"execve\(\)|unrecognized option"
    r"|^(?!srun: |slurmstepd\S*: ).*(?:[Ee]rror|fatal|not found|denied|No such|Killed)"
)
"""Lines of a log that say why; Slurm's own only say that, but for a command that is not there, and
an option that srun does not know."""

Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class JobFacts:
    """The end of the job, and the files that it has left."""

    state: str
    """``done``; ``refused`` by sbatch; ``waiting`` when its time was up; ``broken``."""
    why: str
    """In one clause, if it is not done."""
    nodes: int
    """On which it ran, or was to run."""
    one_only: str = ""
    """Reason for which Slurm gave it one node, not two; empty if it was not tried with one."""
    pairs: tuple[PairFacts, ...] = ()
    seen: tuple[NodeFacts, ...] = ()
    ranks: tuple[RankFacts, ...] = ()
    submit: SubmitFacts | None = None
    own: bool = True
    """It was submitted with what a slot asks for; else it is the job that the doctor is in."""


@dataclass(frozen=True)
class ProbeJob:
    """One job, from its script to its end."""

    launcher: SlurmLauncher
    """Of a run that would lie in ``home``."""
    home: Path
    """A folder of its own, beside the runs."""
    scheme: Scheme | None
    """Way in which a run would publish names there; None if it can't."""
    kinds: tuple[str, ...]
    """Values of ``srun --mpi=`` to try; none where mpi4py is not installed."""
    patience: float
    """Seconds for it to start."""
    tell: Tell

    def facts(self) -> JobFacts:
        """Run it, on two nodes or else on one, and read what it has left.

        Raises:
            UserError: the configuration can't be put into a script.
        """
        (self.home / "pair").mkdir()
        disk, config = Disk(), to_mapping(self.launcher.config)
        disk.replace(self.home / ORDER, json.dumps(encode(Order(self.scheme))).encode())
        disk.replace(self.home / CONFIG, json.dumps(config).encode())
        if nodes_here() >= 2:
            return self._inside()
        self.tell("submitting a small job of two tasks")
        facts = self._submitted(2)
        many = facts.state == "waiting" and _TOO_MANY_NODES.fullmatch(facts.why)
        if many or facts.state == "refused":
            return replace(self._submitted(1), one_only=facts.why)
        return facts

    def script(self, nodes: int) -> str:
        """The job's text: what a slot would ask for, on each of so many nodes.

        Raises:
            UserError: a template or an option can't be used as written.
        """
        intent = Intent(0, "doctor", "slots")
        # Its folder is what a container has mounted.
        scripts = replace(self.launcher.scripts, folder=self.home)
        shape = scripts.shape
        tasks = 2 if nodes == 2 or self.kinds else 1
        options = {
            "comment": "hpcpod:doctor",  # no run's: see Mark
            "cpus-per-task": str(shape.cpus_per_rank),
            "job-name": "hpcpod-doctor",
            "no-requeue": "",  # preempted, it would start again, after the doctor has gone
            "nodes": str(nodes),
            "ntasks": str(tasks),
            "ntasks-per-node": str(tasks // nodes),
            "output": "/dev/null",  # the template opens job.log: Slurm reads % in a path
            "time": str(MINUTES),
            **scripts.site_options(intent),
        }
        config = self.launcher.config
        setup = prelude(config.cluster, nodes)
        values = {
            "header": f"# generated by hpcpod {__version__} from {_TEMPLATE}",
            "sbatch": "\n".join(directive(k, v) for k, v in sorted(options.items())),
            "setup": "\n".join(setup),
            **scripts.python_of_pods(setup),
            "submitter": self.launcher.python,
            "folder": shlex.quote(str(self.home)),
            "cpus": str(shape.cpus_per_rank),
            "nodes": str(nodes),
            "mpi": " ".join(self.kinds),
        }
        return render(load(config.cluster.template, _TEMPLATE), values)

    def _submitted(self, nodes: int) -> JobFacts:
        path = self.home / _TEMPLATE
        path.write_text(self.script(nodes))
        job = ""
        try:
            with _held():  # Slurm has the job before sbatch has printed its id
                answer = self._ask("sbatch", "--parsable", str(path))
                if not answer.ok:
                    why = own_words(answer.err) or "it gives no reason"
                    return JobFacts("refused", why, nodes)
                job = answer.out.strip().partition(";")[0]  # of several clusters: 7;name
            state, why = self._awaited(job)
        finally:
            if job:
                self._ended(job)
        return self._left(JobFacts(state, why, nodes))

    def _awaited(self, job: str) -> tuple[str, str]:
        """Wait until it is done, or will not be: the state, and why."""
        said = submitted = time.monotonic()
        started = asked = None
        state, reason = "pending", ""
        while not self._is_done():
            now = time.monotonic()
            if asked is None or now - asked >= (1.0 if now - submitted < 20.0 else 5.0):
                asked = now
                state, reason = self._queue(job, state, reason)
            if state == "running" and started is None:
                started = now
                self.tell(f"the probe's job {job} has started")
            if state == "gone":
                code = self._exit_code(job)
                # one that failed will write no more
                done = code in ("0", "") and self._seen_in_time()
                return ("done", "") if done else ("broken", self._last_words(code))
            if state == "pending" and _TOO_MANY_NODES.search(reason):
                return "waiting", reason
            if started is None and now - submitted > self.patience:
                why = f"it did not start within {self.patience:g} s"
                return "waiting", why + (f" ({reason})" if reason else "")
            if started is not None and now - started > 60.0 * MINUTES:
                return "broken", f"it was not done within {MINUTES} minutes"
            if now - said >= TELL_SECONDS:
                said = now
                waits = f"{state}{f' ({reason})' if reason else ''}, {now - submitted:.0f} s"
                self.tell(f"the probe's job {job}: {waits}")
            time.sleep(0.25)
        return "done", ""

    def _queue(self, job: str, state: str, reason: str) -> tuple[str, str]:
        """Its state and reason now; the old ones while squeue does not answer."""
        answer = self._ask("squeue", "-h", "-j", job, "-o", "%T|%r")
        # forgotten, MinJobAge after its end
        if not answer.ok and "Invalid job id" not in answer.err:
            return state, reason
        word, _, reason = answer.out.strip().partition("|")
        now = job_state(word) if word else None
        return now or "gone", "" if reason in ("None", "(null)") else reason

    def _ended(self, job: str) -> None:
        """Have it gone: what it still writes would stay behind."""
        self._ask("scancel", "--quiet", job)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline and self._queue(job, "", "")[0] != "gone":
            time.sleep(0.25)

    def _inside(self) -> JobFacts:
        """The same text as a part of the job that this process is in."""
        nodes = 2
        path = self.home / _TEMPLATE
        path.write_text(self.script(nodes))
        # srun takes these for options of its own
        mine = re.compile(r"(PMI|PMIX|OMPI_COMM_WORLD)_.*|SLURM_(STEP|NTASKS|MEM|CPU|TRES).*")
        env = {name: value for name, value in os.environ.items() if not mine.fullmatch(name)}
        self.tell("the probe runs in this job")
        process = subprocess.Popen(
            ["bash", str(path)], stdin=subprocess.DEVNULL, env=env, start_new_session=True
        )
        try:
            process.wait(60.0 * MINUTES)
        except subprocess.TimeoutExpired:
            return self._left(JobFacts("broken", f"it was not done within {MINUTES} minutes", 2))
        finally:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGTERM)  # srun ends its step then
                process.wait(5.0)
        done = self._seen_in_time()
        facts = JobFacts("done" if done else "broken", "" if done else self._last_words(), nodes)
        return replace(self._left(facts), own=False)

    def _is_done(self) -> bool:
        return "done" in {path.name for path in self.home.iterdir()}

    def _seen_in_time(self) -> bool:
        deadline = time.monotonic() + _SEEN_SECONDS
        while not self._is_done():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def _exit_code(self, job: str) -> str:
        """The exit code of a job that has ended; empty where Slurm has forgotten it."""
        code = _EXIT.search(self._ask("scontrol", "show", "job", "-o", job).out)
        return code[1] if code else ""

    def _last_words(self, code: str = "") -> str:
        """Why it ended without being done, as far as its log tells."""
        ended = f"it ended with exit code {code}" if code not in ("", "0") else "it ended"
        try:
            lines = (self.home / "job.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            return f"{ended}, and nothing of it is seen in {self.home.parent}"
        telling = [line for line in lines if _TELLING.search(line)] or lines
        return f"{ended}; its log says: {telling[-1].strip()}" if lines else f"{ended} wordlessly"

    def _left(self, facts: JobFacts) -> JobFacts:
        """With all that the tasks have written."""
        if facts.state == "done" and not list(self.home.glob("node-*.json")):
            facts = replace(facts, state="broken", why=self._last_words())
        return replace(
            facts,
            pairs=tuple(_read(PairFacts, self.home, "pair-*.json")),
            seen=tuple(_read(NodeFacts, self.home, "node-*.json")),
            ranks=tuple(_read(RankFacts, self.home, "mpi-*.json")),
            submit=next(_read(SubmitFacts, self.home, "submit.json"), None),
        )

    def _ask(self, *words: str) -> Answer:
        return ask(words, ASK_SECONDS, environment(os.environ, self.launcher.config))


@contextlib.contextmanager
def _held() -> Iterator[None]:
    """Have the signals that end the doctor wait for the end of the body."""
    # A Ctrl-C in between ended sbatch alone, and the job stayed in the queue.
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def nodes_here() -> int:
    """Nodes of the job that this process is in; 0 if it is in none."""
    if "SLURM_JOB_ID" not in os.environ:
        return 0
    count = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or "0"
    return int(count) if count.isdecimal() else 0


def _read(cls: type[T], home: Path, pattern: str) -> Iterator[T]:
    for path in sorted(home.glob(pattern)):
        with contextlib.suppress(ValueError, TypeError, AttributeError, OSError):
            yield decode(cls, json.loads(path.read_text()))
