"""Runs on the test cluster, driven by hpcpod's command line as a person does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcpod.run.run import Run, open_run
from hpcpod.run.status import Status
from tests.program.programs import PYTHON, READ
from tests.support.slurm_cluster import SlurmCluster

CONFIGS = Path(__file__).parents[2] / "configs"

SMALL = """\
name: {name}
env: {env}
population: {{pods: {{min: 1, max: {pods}}}, algorithms: {{ppo: 1}}}}
round: {{env_steps: {steps}, episodes: 8}}
agents:
  ppo: {{learning_rate: {{log_uniform: [1.0e-5, 1.0e-3]}}, horizon: 32, epochs: 1, hidden: 16}}
pod: {{checkpoint_seconds: 1}}
stop: {{rounds: {rounds}, minutes: 10, finalists: 1, confirm_episodes: 8}}
cluster: {{launcher: slurm, partition: low, minutes: 30, tick_seconds: 1}}
"""


CARTPOLE = "{id: CartPole-v1, num_envs: 4}"
PACED = """\
{id: "tests.support.faulty_envs:Slow", kwargs: {pause: 0.004}, num_envs: 4, processes: 1,
  wrappers: ["gymnasium.wrappers:TimeLimit": {max_episode_steps: 200}]}"""
"""Takes time, and next to none of a processor."""

PROGRAM = (
    READ
    + """
at = int(Path(task["checkpoint"], "at").read_text()) if task["checkpoint"] else 0
left = task["steps"] - task["steps_done"] if task["mode"] == "train" else 0
print("from", at, "with", left, "to go; pid", os.getpid(), flush=True)
done = 0
while done < left and not stopping():
    time.sleep(0.01)
    done += 1
    if done % 100 == 0:
        (save / "at").write_text(str(at + done))
        (session / "part").write_text(json.dumps({"format": 1, "steps": done}))
        os.rename(session / "part", session / f"saved-{done}.json")
        while (session / f"saved-{done}.json").exists():
            time.sleep(0.002)
        tell(steps=done)
if save:
    (save / "at").write_text(str(at + done))
quality = task["hyperparameters"]["quality"]
report(steps=done, returns=[quality * (at + done) + s / 2**40 for s in task["panel_seeds"]])
"""
)
"""Trains 100 steps a second, and saves each second."""
SMALL_PROGRAM = """\
name: {name}
program: {{command: {command}, search: {{quality: {{uniform: [0.0, 1.0]}}}}, scores: true}}
population: {{pods: {{min: 1, max: {pods}}}}}
round: {{env_steps: {steps}, episodes: 8}}
stop: {{rounds: {rounds}, minutes: 10, finalists: 1, confirm_episodes: 8}}
cluster: {{launcher: slurm, partition: low, minutes: 30, tick_seconds: 1}}
"""


class Shell:
    """One person's shell on the login node of a test cluster."""

    def __init__(self, cluster: SlurmCluster, home: Path, *, probe: bool = True) -> None:
        """A shell in a folder.

        Args:
            cluster: where it is.
            home: its working directory.
            probe: try the environment before a run, as a person does: torch is loaded twice.
        """
        self.cluster = cluster
        self.home = home
        self.probe = probe

    def small(self, name: str, *, pods: int = 2, steps: int = 2000, rounds: int = 3) -> Path:
        """A configuration file of a small run without a target."""
        return self._config(name, CARTPOLE, pods, steps, rounds)

    def paced(self, name: str, *, pods: int = 2, steps: int, rounds: int) -> Path:
        """The same, at 250 steps a second and rank on any machine: what is to happen in a round
        finds it going on."""
        return self._config(name, PACED, pods, steps, rounds)

    def endless(self, name: str, *, pods: int = 2) -> Path:
        """A configuration file of a run whose pods are in their first round till it is stopped: of
        a program, which starts without torch."""
        return self.program(name, pods=pods, steps=40_000_000, rounds=100)

    def program(self, name: str, *, pods: int, steps: int, rounds: int) -> Path:
        """A configuration file of a run whose pods are a program of 100 steps a second."""
        (self.home / "train.py").write_text(PROGRAM)
        given = {"command": json.dumps([*PYTHON, "train.py"]), "pods": pods, "rounds": rounds}
        return self._written(name, SMALL_PROGRAM.format(name=name, steps=steps, **given))

    def _config(self, name: str, env: str, pods: int, steps: int, rounds: int) -> Path:
        text = SMALL.format(name=name, env=env, pods=pods, steps=steps, rounds=rounds)
        return self._written(name, text)

    def _written(self, name: str, text: str) -> Path:
        path = self.home / f"{name}.yaml"
        path.write_text(text)
        return path

    def hpcpod(self, *words: str, code: int = 0) -> str:
        """Run a verb; what it printed, standard error included."""
        if not self.probe and words[0] in ("launch", "render"):
            words = (*words, "--no-probe")
        done = subprocess.run(
            [sys.executable, "-m", "hpcpod", *words],
            cwd=self.home, env=self.cluster.env(), text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    def run(self, name: str) -> Run:
        """The run of this name."""
        return open_run(self.home / "runs" / name)

    def status(self, name: str) -> dict[str, Any]:
        """What ``status --json`` says."""
        status: dict[str, Any] = json.loads(self.hpcpod("status", name, "--json"))
        return status

    def seen(self, name: str) -> Status:
        """The same, seen by this process: to look again and again costs no new Python."""
        with pytest.MonkeyPatch.context() as login:
            for variable in ("SLURM_CONF", "PATH"):
                login.setenv(variable, self.cluster.env()[variable])
            return self.run(name).status(ask_scheduler=True)

    def jobs(self, *options: str) -> list[str]:
        """Array elements and jobs in the queue."""
        return self.cluster.run("squeue", "-h", "-r", "-o", "%i", *options).split()

    def coordinators(self, state: str) -> list[str]:
        """Jobs of coordinators in a state such as ``R``."""
        listing = self.cluster.run("squeue", "-h", "-t", state, "-o", "%i %j").splitlines()
        return [line.split()[0] for line in listing if "coordinator" in line]

    def logs(self, name: str, kind: str = "slot") -> str:
        """All logs of the slots, or of the coordinator."""
        folder = self.home / "runs" / name / "logs"
        return "\n".join(path.read_text() for path in sorted(folder.glob(f"{kind}*.log")))

    def finished(self, name: str, seconds: float = 180.0) -> dict[str, Any]:
        """Wait for the run's end and for its jobs'; its status then."""
        try:
            self.cluster.wait(
                f"{name} to finish", lambda: self.run(name).board().phase == "finished", seconds
            )
        except Exception:
            print(self.logs(name), self.logs(name, "coordinator"), self.jobs())
            raise
        self.cluster.drained(60.0)
        return self.status(name)
