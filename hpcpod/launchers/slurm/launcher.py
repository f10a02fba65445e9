"""Slots and coordinators as Slurm jobs: one rendered script, one sbatch, one squeue.

submitit brings the script to sbatch. Its pickles, checkpoints, watcher and results are not
used: a job is a plain command, and what became of it is in the run folder and in squeue.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from hpcpod._process import PYTHON
from hpcpod.config.container import module_mounts
from hpcpod.config.placement import Shape, ranks_of, shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError, StorageError
from hpcpod.launchers.base import RELEASE_SECONDS, ClusterView, JobView
from hpcpod.launchers.slurm.feasibility import Impossible, foresee
from hpcpod.launchers.slurm.queries import (
    HINT_SECONDS,
    ask_idle,
    ask_queue,
    ask_throttles,
)
from hpcpod.launchers.slurm.sacct import EndedJob, ask_history
from hpcpod.launchers.slurm.scontrol import max_array_size, read_settings
from hpcpod.launchers.slurm.scripts import SLOT, Scripts
from hpcpod.launchers.slurm.sinfo import NODE_FORMAT, largest_node, slots_that_fit
from hpcpod.launchers.slurm.squeue import TIME_FORMAT, Kind, own_words
from hpcpod.records.records import Intent
from hpcpod.storage.disk import Disk
from hpcpod.storage.run_id import run_id

_KEPT = {"SLURM_CONF", "SLURM_CLUSTERS"}  # submitit strips these, too (clean_env): sbatch failed
_DEFAULTS = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
}
_LEAKING = re.compile(  # A coordinator's SLURM_MEM_PER_NODE=512 became its slots' (22.05).
    r"(SLURM|SLURMD|SBATCH|SRUN|SALLOC|SQUEUE|SCANCEL|SCONTROL|PMI|PMIX|OMPI_COMM_WORLD)_.*"
    r"|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|ZE_AFFINITY_MASK"
)
# asked again; but not sbatch, which may have submitted
_TRANSIENT = ("Socket timed out", "Unable to contact slurm controller", "Zero Bytes were")

log = logging.getLogger(__name__)


class SlurmLauncher:
    """Runs the slots of one run as array jobs, and its coordinator as a job of its own.

    A job is recognised by its comment, ``hpcpod:<run id>:<kind>:<token>``; see
    ``run_id``.
    """

    module = SLOT
    """The module that its slots run."""

    def __init__(self, folder: Path, config: RunConfig, python: str | None = None) -> None:
        """``folder`` is the run folder; ``python`` a shell command, by default this Python."""
        self.folder = folder.absolute()
        self.config = config
        self.python = python or shlex.join(PYTHON)
        self.run_id = run_id(folder)
        self.pauses: Sequence[float] = (1.0, 4.0, 16.0)
        """Seconds before a question is asked again that the controller was too busy for."""
        self.longest = 300.0  # a squeue that hung held a coordinator until its time limit
        """Seconds after which a command that says nothing is given up, however patient one is."""

    @property
    def places(self) -> int:
        """Slots by the configuration, else one for each pod, or for those that share a GPU."""
        lanes = self.config.resources.pods_per_gpu
        return self.config.cluster.slots or -(-self.config.population.pods.max // lanes)

    def script(self, intent: Intent) -> str:
        """The exact text that ``submit`` hands to sbatch.

        Raises:
            UserError: the template or ``cluster.sbatch`` can't be used as written.
        """
        return self.scripts.text(intent)

    def largest_array(self) -> int | None:
        """Elements that one array may have; None where Slurm can't be asked."""
        try:
            return self._max_array_size
        except LaunchError as error:
            log.debug("what the scheduler allows is not known: %s", error)
            return None

    @cached_property
    def scripts(self) -> Scripts:
        """The maker of the texts that are submitted."""
        return Scripts(
            self.folder, self.config, self.python, self.run_id, self._shape, tuple(module_mounts()),
            self.module,
        )  # fmt: skip

    @cached_property
    def _shape(self) -> Shape:
        """How a pod lies on the nodes of this cluster."""
        nodes = self.config.resources.nodes_per_pod
        return shape_of(self.config, nodes or self._nodes_needed())

    def _nodes_needed(self) -> int:
        """As few nodes as have the GPUs and cores of a pod; 1 if unknown."""
        if ranks_of(self.config) == 1 or shutil.which("sinfo") is None:
            return 1
        partition = self.config.cluster.partition
        where = ("-p", partition) if partition else ()
        try:
            listing = self._ask("sinfo", "-h", "-e", "-o", NODE_FORMAT, *where)
            gpus, cpus = largest_node(listing, self.config.resources.gpu_type)
        except LaunchError:  # no cluster is here; where there is one, sbatch has the last word
            return 1
        shape = shape_of(self.config)
        if shape.gpus > 0 and gpus == 0:
            return 1  # sbatch says in words of its own that there are none
        each = gpus if shape.gpus else max(1, cpus // shape.cpus_per_rank)
        fewest = -(-shape.ranks // max(1, each))
        return next(n for n in range(fewest, shape.ranks + 1) if shape.ranks % n == 0)

    def submit(self, intent: Intent) -> str:
        """Hand the script to sbatch and return the job's (or the array's) id.

        A controller that does not answer is not asked again here: the job may be in the
        queue already, where ``observe`` finds it by its token.

        Raises:
            LaunchError: the scheduler refused; its own words are in the message.
        """
        text = self.script(intent)
        if shutil.which("sbatch") is None:
            raise LaunchError(_missing("sbatch"))
        limit = self._max_array_size
        if intent.kind == "slots" and limit is not None and intent.count > limit:
            raise LaunchError(
                f"{intent.count} slots are more than the {limit} that one array may have here"
                f" (Slurm's MaxArraySize): set cluster.slots to at most {limit}"
            )
        leaking = sorted(set(os.environ) - set(environment(os.environ, self.config)))
        # submitit starts sbatch in this process's environment
        unset = [word for name in leaking for word in ("-u", name)]
        try:
            (self.folder / "logs").mkdir(exist_ok=True)
            # No other user may touch it before sbatch has read it.
            with tempfile.TemporaryDirectory(prefix="hpcpod-") as private:
                # submitit waits without a limit
                sbatch = ["timeout", f"{self.longest:g}", "sbatch"]
                job = _submit(Path(private), text, ["env", *unset, *sbatch])
        except OSError as error:  # /tmp is full, or no more processes are to be had
            raise LaunchError(f"sbatch can't be called: {error}") from error
        with contextlib.suppress(StorageError):  # a copy for those who look
            Disk().replace(self.folder / "scripts" / f"{job}.sh", text.encode(), durable=False)
        return job

    def observe(self, patience: float | None = None) -> ClusterView:
        """The jobs of this run that are pending or running: one squeue.

        With ``patience``, its answer also names the slots that were cancelled lately. Without,
        more is asked: a scontrol for each array that is held back by its throttle, and with
        ``cluster.waiting`` a sinfo for what is idle. Where one of those fails, that is unknown.

        Raises:
            LaunchError: there is no squeue, or the controller does not answer.
        """
        view = ask_queue(self._ask, self.run_id, patience)
        if patience is not None:
            return view
        partitions = self.config.cluster.partition or os.environ.get("SBATCH_PARTITION")
        limited = self.config.cluster.waiting is not None
        resources = self.config.resources
        idle = ask_idle(self._ask, partitions, resources.gpu_type) if limited else None
        return replace(
            view,
            throttles=ask_throttles(self._ask, view),
            idle=idle,
            room=None
            if idle is None
            else slots_that_fit(idle, self._shape, resources.pods_per_gpu),
            max_array_size=self.largest_array(),
        )

    def impossible(
        self, waiting: Sequence[JobView] | None = None, patience: float = HINT_SECONDS
    ) -> list[Impossible]:
        """Demands of the run's jobs that no node could meet, were all of them up and idle.

        Args:
            waiting: jobs that wait already; None: those that would be submitted now.
            patience: seconds to wait for each answer; without one nothing is impossible.

        Raises:
            UserError: the template or ``cluster.sbatch`` can't be used as written.
        """
        kinds: list[Kind] = ["slots"]
        if self.config.cluster.coordinator or waiting is not None:
            kinds.append("coordinator")
        return foresee(partial(self._ask, patience=patience), self.script, kinds, waiting)

    def history(self, jobs: Sequence[str]) -> tuple[EndedJob, ...] | None:
        """The ended runs of these jobs by sacct; None if the site keeps no accounts."""
        return ask_history(self._ask, jobs)

    def cancel(self, jobs: Sequence[str]) -> None:
        """SIGTERM now, SIGKILL after the site's KillWait; none comes back. An array's id is all.

        Raises:
            LaunchError: there is no scancel, or it refused.
        """
        for some in _parts(jobs):
            self._ask("scancel", "--quiet", *some)  # --quiet: no error for jobs that have ended

    def signal(self, jobs: Sequence[str]) -> None:
        """USR2 to the steps of these jobs, as before a time limit.

        Raises:
            LaunchError: there is no scancel, or it refused.
        """
        for some in _parts(jobs):
            # not to batch shells, which live on to requeue
            self._ask("scancel", "--quiet", "--signal=USR2", *some)

    def throttle(self, array: str, limit: int) -> None:
        """Change the array's ArrayTaskThrottle: it takes effect within seconds.

        Raises:
            LaunchError: there is no scontrol, or it refused.
        """
        # 0 would lift the throttle; the plan cancels an array of which none may run.
        # 2 to 6 took effect in 4 s (22.05); less ends nothing that runs
        self._ask("scontrol", "update", f"JobId={array}", f"ArrayTaskThrottle={limit}")

    def release(self, jobs: Sequence[str]) -> None:
        """Take the delay away with which Slurm has requeued these jobs, but for a few seconds.

        One that is still on its way into the queue refuses, and the others are changed.
        """
        for some in _parts(jobs):
            try:
                # Slurm has them wait for cred_expire, 120 s by default; a user may shorten that.
                soon = f"StartTime=now+{RELEASE_SECONDS}"
                self._ask("scontrol", "update", f"JobId={','.join(some)}", soon)
            except LaunchError as error:
                log.info("%s", error)  # COMPLETING: the next tick tries again

    def close(self) -> None:
        """Nothing: the jobs are Slurm's."""

    @cached_property
    def _max_array_size(self) -> int | None:
        return max_array_size(read_settings(self._ask("scontrol", "show", "config")))

    def _ask(self, *command: str, patience: float | None = None) -> str:
        """What a Slurm command prints.

        While the controller is busy it is asked again after a pause, unless ``patience`` is given.
        """
        pauses = self.pauses if patience is None else ()
        longest = self.longest if patience is None else patience
        for pause in (*pauses, None):
            try:
                done = subprocess.run(
                    command,
                    # Unlimited: squeue cuts a long array short after 64 characters.
                    env={
                        **environment(os.environ, self.config),
                        "SLURM_BITSTR_LEN": "0",
                        "SLURM_TIME_FORMAT": TIME_FORMAT,
                    },
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=longest,
                    check=False,
                )
            except FileNotFoundError:
                raise LaunchError(_missing(command[0])) from None
            except OSError as error:
                raise LaunchError(f"{command[0]} can't be called: {error}") from error
            except subprocess.TimeoutExpired:
                raise LaunchError(f"{command[0]} did not answer within {longest:g} s") from None
            if done.returncode == 0:
                return done.stdout
            if pause is None or not any(words in done.stderr for words in _TRANSIENT):
                break
            time.sleep(pause)
        raise LaunchError(f"{command[0]} failed: {own_words(done.stderr)}")


def _parts(jobs: Sequence[str]) -> Iterator[Sequence[str]]:
    """The jobs in parts that fit on a command line."""
    for start in range(0, len(jobs), 500):
        yield jobs[start : start + 500]


def environment(outer: Mapping[str, str], config: RunConfig) -> dict[str, str]:
    """The part of this process's environment that a Slurm command may see.

    A coordinator is a job itself: its ``SLURM_MEM_PER_NODE``, step and devices are not its
    slots', and ``SBATCH_*`` and ``SQUEUE_*`` would overrule the script and the question.
    ``SLURM_CONF`` and ``SLURM_CLUSTERS`` say which cluster is meant, so they stay; so does a
    user's own ``SBATCH_ACCOUNT`` (partition, QOS) where the configuration names none.
    """
    kept = set(_KEPT)
    for name, option in _DEFAULTS.items():
        if getattr(config.cluster, option) is None and option not in config.cluster.sbatch:
            kept.add(name)
    return {k: v for k, v in outer.items() if k in kept or not _LEAKING.fullmatch(k)}


def _submit(folder: Path, text: str, sbatch: list[str]) -> str:
    """Have submitit write ``text`` into ``folder`` and submit it; the job's id."""
    # submitit 1.5.4 follows jobs by sacct alone: without slurmdbd a killed one is UNKNOWN for
    # ever (#1720), and any of ten minutes or less is "timed out" to it.
    from submitit.core.utils import FailedJobError, FailedSubmissionError
    from submitit.slurm.slurm import SlurmExecutor

    written: list[Path] = []

    class RenderedExecutor(SlurmExecutor):
        """submitit's way to sbatch, with a text and an environment of our own."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return text

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            written.append(submission_file_path)
            return [*sbatch, str(submission_file_path)]

        @staticmethod
        def _get_job_id_from_submission_command(string: bytes | str) -> str:
            # A site's sbatch may say more before, of other jobs.
            said = string if isinstance(string, str) else string.decode(errors="replace")
            found = re.findall(r"^Submitted batch job (\d+)", said, re.MULTILINE)
            return found[-1] if found else SlurmExecutor._get_job_id_from_submission_command(said)

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit prints sbatch's words too
            job = RenderedExecutor(folder)._submit_command("")
    except (FailedJobError, FailedSubmissionError) as error:
        for script in written:
            script.unlink(missing_ok=True)
        said = own_words(str(error)) or "it said nothing, or was not done in time"
        raise LaunchError(f"sbatch refused: {said}") from None
    return str(job.job_id)


def _missing(command: str) -> str:
    return (
        f"there is no {command} on this machine: run hpcpod where Slurm's commands are,"
        " or set cluster.launcher to local"
    )
