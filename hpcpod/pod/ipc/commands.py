"""Commands that start the processes which train a slot's pods: one, or one a rank. No torch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcpod._process import PYTHON, THREAD_VARIABLES
from hpcpod.config.container import Inside, Runner, module_mounts
from hpcpod.config.placement import Shape, shape_of
from hpcpod.config.schema import RunConfig
from hpcpod.config.script_prelude import SCRATCH, exported, prelude
from hpcpod.errors import LaunchError

CALM = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
"""Threads that wait fall asleep soon. By default they spin on: beside a busy neighbour two of them
made PPO's updates 20 to 60 times as slow as one. Sleeping at once halves them on quiet cores."""

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""Bytes: memory that a training process frees stays with it, for the next step. By default glibc,
which alone reads this, gives what a large batch leaves back to the kernel, step by step, and gets
it again as pages that must be filled with zeros. Of 1,106 µs of a step of 4,096 environments with
60 numbers each that was all but 190 µs; it made an update of a small network on 4,096 rows 5.7 ms
instead of 4.4 ms. 32 MB is the most that the first may be (mallopt(3))."""

TUNED = {**CALM, **KEPT}
"""Variables of every process that trains or collects, unless the user sets them otherwise."""

WAIT_SECONDS = 60
"""Seconds that the other ranks have to save their state when one has ended."""


def command(run: Path, slot: str, config: RunConfig, meeting: str) -> list[str]:
    """The words that start all ranks; each gets the slot's orders, the first one replies.

    Args:
        run: the run folder.
        slot: the slot's name.
        config: of the run.
        meeting: a name by which the ranks find each other, new each time.

    Raises:
        LaunchError: what starts ranks is not installed.
    """
    if config.program is not None:
        return single(run, slot, module="hpcpod.program")
    shape = shape_of(config, _nodes(config))
    if shape.ranks == 1:
        return single(run, slot)
    mpi = config.pod.fusion.backend == "mpi"
    if on_slurm(config):
        srun = _srun(shape, config.pod.fusion.mpi if mpi else "none")
        return [*_in_container(srun, run, slot, config), "--meeting", meeting]
    words = [*_program(run, slot), "--meeting", meeting]
    if mpi and shutil.which("mpirun") is None:
        raise LaunchError(
            "pod.fusion.backend is mpi, but there is no mpirun on this machine; install an MPI"
            " (Debian: openmpi-bin), or set the backend to gloo"
        )
    by = ["mpirun"] if mpi else []
    spawn = [*PYTHON, "-m", "hpcpod.pod.ranks.spawn", str(shape.ranks)]
    return [*spawn, *by, "--", *words]


def single(run: Path, slot: str, scorer: bool = False, module: str = "hpcpod.pod") -> list[str]:
    """The words that start one process, which ends with this one; see ``command``."""
    beside = ["--scorer"] if scorer else []
    return [*_program(run, slot, module=module), "--parent", str(os.getpid()), *beside]


def scorer(run: Path, slot: str, config: RunConfig) -> list[str]:
    """The words that start the process that scores; see ``command``.

    Where a slot runs outside of the container that its ranks are in, this one must get into it, by
    an srun of its own: on this node, with all of its cores that the job has.
    """
    shape = shape_of(config, _nodes(config))
    if shape.ranks == 1 or config.cluster.container.runtime is None or not on_slurm(config):
        return single(run, slot, scorer=True)
    srun = [
        "srun", "--nodes=1", "--ntasks=1", f"--nodelist={os.environ['SLURMD_NODENAME']}",
        f"--cpus-per-task={shape.cpus // shape.nodes}", "--overlap", "--mpi=none",
    ]  # fmt: skip
    return [*_in_container(srun, run, slot, config), "--scorer"]


def _program(
    run: Path, slot: str, python: Sequence[str] = PYTHON, module: str = "hpcpod.pod"
) -> list[str]:
    return [*python, "-u", "-m", module, str(run), "--slot", slot]


def _in_container(srun: list[str], run: Path, slot: str, config: RunConfig) -> list[str]:
    """The words that start a job's step, in the run's container if there is one."""
    cluster = config.cluster
    inside = Inside(
        run=str(run),
        modules=module_mounts(),
        scratch=os.environ.get(SCRATCH),
        variables={*exported(prelude(cluster)), *TUNED, *THREAD_VARIABLES},
        gpus=config.resources.gpus_per_pod > 0,
    )
    runner = Runner.of(cluster.container, inside)
    if runner is None:
        return [*srun, *_program(run, slot)]
    return [*srun, *runner.srun, *runner.prefix, *_program(run, slot, runner.python)]


def environment(config: RunConfig) -> Mapping[str, str]:
    """The environment of a rank; of what runs a user's program that of the slot.

    Its environments compute with one thread each, as they do in processes of their own: a sum's
    last bits depend on how many there are. Of torch's threads ``pod.torch_threads`` decides.
    """
    if config.program is not None:
        return os.environ
    # For root, as in many containers, Open MPI's mpirun refuses to start without these.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # A user's own settings of allocator and spinning win, those of thread counts do not.
    return {**TUNED, **os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), **root}


def on_slurm(config: RunConfig) -> bool:
    """True if this slot's ranks are started by srun."""
    return config.cluster.launcher != "local" and "SLURM_JOB_ID" in os.environ


def _nodes(config: RunConfig) -> int:
    """Nodes of the job that this is."""
    if not on_slurm(config):
        return 1
    return int(os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1)


def _srun(shape: Shape, mpi: str) -> list[str]:
    return [
        "srun", f"--nodes={shape.nodes}", f"--ntasks={shape.ranks}",
        f"--ntasks-per-node={shape.ranks_per_node}",
        # Restated: Slurm 22.05 to 23.02 does not hand --cpus-per-task down.
        f"--cpus-per-task={shape.cpus_per_rank}",
        # No exclusive share of what other steps of this job, if there are any, have.
        "--overlap", f"--mpi={mpi}", "--input=all",
        "--kill-on-bad-exit=0", f"--wait={WAIT_SECONDS}",  # the other ranks save themselves
    ]  # fmt: skip
