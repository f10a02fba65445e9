"""The whole examination: the runs' folder, the scheduler, and a small job on two nodes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from hpcpod._process import PYTHON
from hpcpod.config.schema import RunConfig
from hpcpod.doctor import judge_nodes, judge_pair, judge_scheduler, scheduler
from hpcpod.doctor.commands import Answer, ask
from hpcpod.doctor.finding import Finding, hinders
from hpcpod.doctor.probe_job import JobFacts, ProbeJob
from hpcpod.doctor.probes import disk_space, files, machine, submit
from hpcpod.doctor.probes.disk_space import SpaceFacts
from hpcpod.doctor.probes.files import FileFacts, HereFacts, workplace
from hpcpod.doctor.probes.machine import MachineFacts
from hpcpod.doctor.scheduler import ASK_SECONDS, SchedulerFacts, Wanted
from hpcpod.errors import StorageError, UserError
from hpcpod.launchers.slurm.launcher import SlurmLauncher, environment
from hpcpod.records.codec import decode
from hpcpod.records.records import Intent

FILES_SECONDS = 120.0
"""For a filesystem to answer all that it is asked here."""
MACHINE_SECONDS = machine.TORCH_SECONDS + 90.0

THIS = "this machine"

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """The scope of an examination."""

    config: RunConfig
    launcher: str | None
    """``local``: Slurm is not asked. None: it is, if it is here; else it has to be."""
    runs: Path
    """Folder for runs, which need not exist yet."""
    here: bool
    """No job: only what this machine shows."""
    patience: float
    """Seconds for the probe's job to start."""


@dataclass(frozen=True)
class Diagnosis:
    """All that was found."""

    runs: str
    hinders: bool
    """There is a problem."""
    findings: tuple[Finding, ...]
    files: FileFacts
    space: SpaceFacts
    scheduler: SchedulerFacts | None
    machine: MachineFacts | None
    job: JobFacts | None


def examine(asked: Asked, tell: Callable[[str], None]) -> Diagnosis:
    """Probe everything; what fails is a finding.

    Args:
        asked: what to look at.
        tell: called with a line before each step.
    """
    runs = asked.runs.absolute()
    tell(f"trying the filesystem of {runs}")
    here = _ask_python(HereFacts, ["hpcpod.doctor.probes.files", str(runs)], FILES_SECONDS)
    if isinstance(here, str):
        here = HereFacts(
            FileFacts(str(runs), here), SpaceFacts(str(runs), None, 0.0, None, None, error=here)
        )
    with contextlib.ExitStack() as stack:
        home = None
        if not here.files.error:
            with contextlib.suppress(StorageError):
                home = stack.enter_context(workplace(Path(here.files.folder)))
        return _Examination(asked, runs, here, home, tell).diagnosis()


@dataclass
class _Examination:
    """One examination, once the runs' filesystem has answered."""

    asked: Asked
    runs: Path
    here: HereFacts
    home: Path | None
    tell: Callable[[str], None]
    findings: list[Finding] = field(default_factory=list)
    job: JobFacts | None = None

    @cached_property
    def launcher(self) -> SlurmLauncher:
        """The launcher of a run that would lie there."""
        return SlurmLauncher(self.runs / self.asked.config.name, self.asked.config)

    def diagnosis(self) -> Diagnosis:
        facts = self._scheduler()
        slurm = facts is not None and not facts.error
        if facts is not None and slurm:
            self._on_slurm(facts)
        else:
            self.findings.append(judge_scheduler.absent(facts, self.asked.launcher))
        found = self._machine(slurm) if self.job is None else None
        seen = self.job is not None and judge_pair.met(self.job.pairs)
        self.findings[:0] = [
            *files.judge(self.here.files),
            *disk_space.judge(self.here.space, slurm=slurm, seen=seen),
        ]
        return Diagnosis(
            runs=str(self.runs),
            hinders=hinders(self.findings),
            findings=tuple(self.findings),
            files=self.here.files,
            space=self.here.space,
            scheduler=facts,
            machine=found,
            job=self.job,
        )

    def _scheduler(self) -> SchedulerFacts | None:
        """What Slurm says; None if it is not here, or not to be asked."""
        if self.asked.launcher == "local" or not scheduler.is_installed():
            return None
        self.tell("asking Slurm")
        return scheduler.look(self._ask, self._wanted(1), machine.user_name())

    def _on_slurm(self, facts: SchedulerFacts) -> None:
        nodes, refusal, refused_coordinator = 1, None, ""
        try:
            nodes = self.launcher.scripts.shape.nodes
            count = judge_scheduler.in_one_array(facts.settings, self.launcher.places)
            script = self.launcher.script(Intent(1, "TOKEN", "slots", count))
            if self.home is not None:
                refusal = self._refusal(self.home, submit.SLOTS, script)
                if self.asked.config.cluster.coordinator:
                    script = self.launcher.script(Intent(0, "TOKEN", "coordinator"))
                    refused_coordinator = self._refusal(self.home, "coordinator.sbatch", script)
        except UserError as error:
            refusal = str(error)
        self.findings += judge_scheduler.judge(
            facts, self._wanted(nodes), refusal, refused_coordinator
        )
        if self.asked.here or self.home is None:
            why = "--here" if self.asked.here else "nothing can be written for them"
            found = f"not tried: {why}"
            then = "locks and names between nodes, and what nodes have, are unknown"
            self.findings.append(Finding(judge_pair.GROUP, "nodes", "note", found, then))
            return
        kinds = _kinds(facts.mpi, self.asked.config.pod.fusion.mpi)
        job = ProbeJob(
            launcher=self.launcher,
            home=self.home,
            scheme=self.here.files.scheme,
            kinds=kinds,
            patience=self.asked.patience,
            tell=self.tell,
        )
        try:
            self.job = job.facts()
        except (OSError, UserError) as error:
            self.job = JobFacts("refused", str(error), 2)
        gpus = self.asked.config.resources.gpus_per_pod // nodes
        self.findings += judge_nodes.judge(
            self.job,
            judge_nodes.Asked(self.asked.config, gpus, kinds, refusal or ""),
            self.here.space,
            facts.settings,
        )

    def _refusal(self, home: Path, name: str, script: str) -> str:
        path = home / name
        path.write_text(script)
        return submit.refusal(path, environment(os.environ, self.asked.config))

    def _wanted(self, nodes: int) -> Wanted:
        cluster = self.asked.config.cluster
        return Wanted(
            partition=cluster.partition or os.environ.get("SBATCH_PARTITION"),
            account=cluster.account or os.environ.get("SBATCH_ACCOUNT"),
            qos=cluster.qos or os.environ.get("SBATCH_QOS"),
            slots=self.launcher.places,
            minutes=cluster.minutes,
            nodes=nodes,
            container=cluster.container.runtime,
        )

    def _machine(self, slurm: bool) -> MachineFacts | None:
        """What slots would have here; where there is a Slurm they need not have it."""
        self.tell("importing torch")
        found = _ask_python(MachineFacts, ["hpcpod.doctor.probes.machine"], MACHINE_SECONDS)
        if isinstance(found, str):
            self.findings.append(Finding(THIS, "Python", "problem", found, "install it anew"))
            return None
        gpus = None if slurm else self.asked.config.resources.gpus_per_pod
        rows = machine.judge(THIS, [found], gpus, more=True)
        if slurm:
            rows = [replace(r, verdict="note") if r.verdict == "problem" else r for r in rows]
        self.findings += rows
        return found

    def _ask(self, words: Sequence[str]) -> Answer:
        return ask(words, ASK_SECONDS, environment(os.environ, self.asked.config))


def _kinds(known: Sequence[str], wanted: str) -> tuple[str, ...]:
    """What to try as ``srun --mpi=``: what a run would take first; nothing without mpi4py."""
    if importlib.util.find_spec("mpi4py") is None:
        return ()
    # Debian's Open MPI 4.1.4 meets by pmix, and by neither none nor pmi2.
    likely = sorted(known, key=lambda kind: (kind != wanted, not kind.startswith("pmi"), kind))
    return tuple(kind for kind in likely if kind != "none" or wanted == "none")


def _ask_python(cls: type[T], module: Sequence[str], seconds: float) -> T | str:
    """What a module of ours prints when it is run, or why it does not, in one clause."""
    answer = ask([*PYTHON, "-m", *module], seconds)
    if answer.code is None:
        return answer.err
    try:
        return decode(cls, json.loads(answer.out.splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        last = answer.err.strip().splitlines()[-1:] or [f"exit code {answer.code}"]
        return f"{module[0]} failed: {last[0]}"
