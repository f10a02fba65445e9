"""A run on a test cluster whose slots are evicted, and what can be seen of them from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from hpcpod.launchers.factory import launcher_of
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.run.run import Run
from tests.preemption.paced import steps_of
from tests.slurm.runs import Shell

CHECKPOINT_SECONDS = 2.0

CONFIG = """\
name: {name}
env:
  id: tests.preemption.paced:Paced
  num_envs: 4
  processes: 1
  kwargs: {{notes: "{notes}", pause: {pause}}}
  wrappers: ["gymnasium.wrappers:TimeLimit": {{max_episode_steps: 200}}]
population:
  {{pods: {{min: {slots}, max: {slots}}}, algorithms: {{ppo: 1}}, controls: 1}}
round: {{env_steps: 1000000, episodes: 2}}
agents: {{ppo: {{horizon: 8, epochs: 1, minibatch_size: 32, hidden: 16}}}}
pod: {{ranks: {ranks}, score_beside: false, checkpoint_seconds: {checkpoint_seconds}}}
stop: {{rounds: 1, finalists: 1, confirm_episodes: 2}}
resources: {{nodes_per_pod: {nodes}, cpus_per_pod: {ranks}}}
cluster:
  launcher: slurm
  partition: low
  minutes: {minutes}
  tick_seconds: 1
  slots: {slots}
  setup: ['export PATH="{notes}/bin:$PATH"']
  sbatch: {{exclusive: ""}}
"""

COUNTED = """\
#!/bin/sh
echo "${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}" \
    $(basename "$0") >> '{notes}/calls'
exec {real} "$@"
"""
"""Stands before a command of Slurm's and notes which job has called it."""


class Scene:
    """A run of one or two slots, each with nodes of its own, whose only round has no end."""

    def __init__(
        self,
        shell: Shell,
        name: str,
        *,
        array: bool,
        ranks: int,
        minutes: int = 30,
        pause: float = 0.008,
    ) -> None:
        """``pause``: seconds that a step takes at least; each costs a quarter of a millisecond of
        a core."""
        self.shell, self.name, self.array, self.ranks = shell, name, array, ranks
        self.notes = shell.home / f"{name}-notes"
        (self.notes / "bin").mkdir(parents=True)
        for command in ("squeue", "scontrol", "sbatch", "sinfo", "sacct", "scancel"):
            path = self.notes / "bin" / command
            path.write_text(COUNTED.format(notes=self.notes, real=f"/usr/bin/{command}"))
            path.chmod(0o755)
        self._config = shell.home / f"{name}.yaml"
        self._config.write_text(
            CONFIG.format(
                name=name, notes=self.notes, ranks=ranks, slots=2 if array else 1,
                pause=pause, nodes=1 if ranks == 1 else 2, minutes=minutes,
                checkpoint_seconds=CHECKPOINT_SECONDS,
            )
        )  # fmt: skip

    @property
    def run(self) -> Run:
        """The run, to look at."""
        return self.shell.run(self.name)

    def begin(self) -> dict[str, int]:
        """Launch the run, and wait until all its slots train; their process ids, by name.

        A slot that is to be no array's element is submitted by hand, as a job of its own.
        """
        if self.array:
            self.shell.hpcpod("launch", str(self._config))
        else:
            said = self.shell.hpcpod("render", str(self._config))
            for script in map(Path, re.findall(r"sbatch (\S+\.sbatch)", said)):
                script.write_text(re.sub(r"#SBATCH --array=.*\n", "", script.read_text()))
                self.shell.cluster.run("sbatch", str(script))
        wanted = 2 if self.array else 1
        self.until("its slots to be at work", lambda: len(self.slots()) == wanted)
        for slot in self.slots():
            self.until_trained(slot)
        return self.slots()

    def slots(self) -> dict[str, int]:
        """The process ids of the slots that train, by name."""
        shown = self.run.folder.slots.all()
        return {name: s.pid for name, s in shown.items() if s.state == "training" and s.pid}

    def pod(self, slot: str) -> str:
        """The pod that a slot trains."""
        return str(self.run.folder.slots.all()[slot].pod)

    def until(self, what: str, true: Callable[[], bool], seconds: float = 180.0) -> None:
        """Wait for something; what was logged is shown if it does not come."""
        try:
            self.shell.cluster.wait(f"{self.name}: {what}", true, seconds)
        except TimeoutError:
            print(self.shell.logs(self.name), self.shell.logs(self.name, "coordinator"))
            print((self.shell.cluster.folder / "log/slurmctld.log").read_text()[-4_000:])
            raise

    def until_trained(self, slot: str, restarts: int = 0) -> list[float]:
        """Wait until all ranks in one life of a slot have taken steps; when each was taken."""

        def files() -> int:
            return len(list(self.notes.glob(f"steps-{slot}-{restarts}-*")))

        self.until(f"{slot} to train", lambda: files() >= self.ranks)
        return self.steps(slot, restarts)

    def until_late(self, slot: str) -> None:
        """Wait until some steps of a slot's first life are in no checkpoint."""
        pod = self.pod(slot)

        def open_steps() -> int:
            saved = self.run.folder.checkpoints.latest(pod, 1)
            return 0 if saved is None else len(self.steps(slot, 0)) - saved.env_steps

        self.until("steps that are not saved", lambda: open_steps() > 100)

    def steps(self, slot: str, restarts: int) -> list[float]:
        """When each step of one life of a slot was taken, by all its ranks: Unix times, sorted."""
        return steps_of(self.notes, slot, restarts)

    def calls(self, slot: str) -> list[str]:
        """The commands of Slurm's that a slot, or its batch script, has called."""
        path = self.notes / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[1] for line in lines if line.split()[0] == slot]

    def lives(self) -> list[tuple[str, int]]:
        """The slots that have trained, with their restarts."""
        parts = [path.name.split("-") for path in self.notes.glob("steps-*")]
        return sorted({(slot, int(restarts)) for _, slot, restarts, _ in parts})

    def went_on(self, pod: str) -> int:
        """The steps of experience at which a pod has gone on last."""
        said = re.findall(rf"{pod}-00001-\d+ goes on at (\d+) env", self.shell.logs(self.name))
        return int(said[-1]) if said else 0

    def nodes(self, job: str) -> list[str]:
        """The nodes on which a job runs."""
        names = self.shell.cluster.run("squeue", "-h", "-r", "-j", job, "-o", "%N").strip()
        return self.shell.cluster.run("scontrol", "show", "hostnames", names).split()

    def evict(self, slot: str) -> None:
        """Preempt a slot, for a second."""
        vip = (
            "-p",
            "high",
            "-w",
            self.nodes(slot)[-1],
            "--exclusive",
            "-o",
            "/dev/null",
            "--wrap",
            "sleep 1",
        )
        self.shell.cluster.run("sbatch", *vip)

    def described(self, slot: str) -> str:
        """What Slurm says of a job."""
        return self.shell.cluster.run("scontrol", "show", "job", slot)

    def restarts(self, slot: str) -> int:
        """Slurm's count of a job's restarts."""
        return int(re.findall(r"Restarts=(\d+)", self.described(slot))[0])

    def started(self, slot: str) -> float:
        """When the scheduler has last started a job, by the controller's own log: Unix time."""
        job = re.findall(r"^JobId=(\d+)", self.described(slot))[0]
        log = (self.shell.cluster.folder / "log" / "slurmctld.log").read_text()
        names = rf"JobId=(?:{slot}\({job}\)|{slot}|{job})\b"
        lines = re.findall(rf"^\[(\S+)\] .*(?:Allocate|Started) {names}", log, re.MULTILINE)
        return datetime.fromisoformat(lines[-1]).timestamp()

    def coordinators(self, state: str) -> list[str]:
        """Jobs of this run's coordinators in a state of Slurm's, such as ``R``."""
        return self._jobs(":coordinator:", "-t", state)

    def leads(self, job: str) -> bool:
        """Whether that job is the coordinator that runs, and no other does."""
        return self.coordinators("R") == [job]

    def stop(self) -> None:
        """End the run, and wait for the end of its jobs."""
        self.shell.hpcpod("stop", self.name, "--now")
        self.until("its jobs to be gone", lambda: not self._jobs(":"), 120)

    def _jobs(self, kind: str, *options: str) -> list[str]:
        listing = self.shell.cluster.run("squeue", "-h", "-r", "-o", "%i|%k", *options)
        launcher = launcher_of(self.run.folder)
        assert isinstance(launcher, SlurmLauncher)
        lines = [line.partition("|") for line in listing.splitlines()]
        return [job for job, _, comment in lines if f"hpcpod:{launcher.run_id}{kind}" in comment]
