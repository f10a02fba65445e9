"""Sections ``cluster`` and ``resources``: a pod's needs, and the words in which Slurm is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcpod.config.container import ContainerConfig
from hpcpod.config.limits import Count, Limited, Natural, Positive
from hpcpod.config.schedule import Times


@dataclass(frozen=True)
class ResourcesConfig(Limited):
    """The resources of one pod."""

    gpus_per_pod: Natural = 0
    """GPUs of a slot, over all its nodes; 0 trains on the CPU."""
    gpu_type: str | None = None
    """The GPUs' type where a cluster has several, by Slurm's name (``a100``): ``sinfo -o %G`` lists
    them."""
    cpus_per_pod: Count = 1
    """CPU cores of a slot, over all its nodes, shared out evenly to its ranks, at least one each;
    and a rank's threads that step the environments where a backend has threads."""
    nodes_per_pod: Count | None = None
    """Nodes of a slot (Slurm); null: as few as have its GPUs and cores. ``local`` has one."""
    pods_per_gpu: Count = 1
    """Pods that share one GPU, each with cores of its own: small networks leave most of it idle.
    On Slurm an element of the array has as many slots. Needs ``gpus_per_pod: 1``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gpu_type is not None and not re.fullmatch(r"[\w.-]+", self.gpu_type):
            raise ValueError(f"gpu_type must be a word such as a100, got {self.gpu_type!r}")
        if self.pods_per_gpu > 1 and self.gpus_per_pod != 1:
            raise ValueError(
                f"pods_per_gpu is {self.pods_per_gpu}, which needs gpus_per_pod to be 1,"
                f" got {self.gpus_per_pod}"
            )


@dataclass(frozen=True)
class ClusterConfig(Limited):
    """The launcher of slots, and its settings."""

    launcher: str = "local"
    """``local`` (processes on this machine), ``slurm``, or the path of another launcher."""
    slots: Count | None = None
    """Slots at once; by default as many as the cores allow (local) or ``pods.max`` (Slurm). More
    than ``pods.max`` has work for are never asked for."""
    partition: str | None = None
    """Slurm partition; the cluster's default when null."""
    account: str | None = None
    """Slurm account to charge."""
    qos: str | None = None
    """Slurm quality of service."""
    coordinator_partition: str | None = None
    """Partition of the coordinator, which needs one core and no GPU; null: that of the slots."""
    gpu_option: Literal["gpus-per-node", "gres"] = "gpus-per-node"
    """The sbatch option that asks for GPUs: some sites want ``--gres=gpu:1``."""
    minutes: Count = 240
    """Time limit of a slot and of the coordinator, in minutes; they requeue themselves before."""
    template: str = "default"
    """``default``, or a folder with templates of your own (see slurm_templates/)."""
    sbatch: Mapping[str, str] = field(default_factory=dict)
    """Further sbatch options of the site: ``{constraint: a100, mem: 16G}``."""
    setup: tuple[str, ...] = ()
    """Shell lines before the Python starts, such as ``module load cuda``."""
    scratch: str | None = None
    """A folder on each node's own disk, for temporary files and for what Warp, Triton and CUDA
    compile: ``/local/scratch``, ``$TMPDIR``; the job's shell replaces variables."""
    network: str | None = None
    """Network interface of the ranks' exchanges, where the first one is the wrong one: ``ib0``."""
    container: ContainerConfig = field(default_factory=ContainerConfig)
    """The container in which pods train."""
    site: str | None = None
    """A file with this site's ``cluster`` and ``resources``, beside the configuration or anywhere;
    what the configuration has itself counts for more: its ``schedule`` replaces the site's, and
    null takes an option of ``sbatch`` away. A ``site: null`` that is written refuses what
    ``$HPCPOD_SITE`` names, too. See slurm_templates/site.example.yaml."""
    max_restarts: Natural = 3
    """Failures in a row after which a slot, or a pod's round, is given up."""
    tick_seconds: Positive | None = None
    """Seconds between two ticks of the coordinator; default 0.5 on this machine, 60 on Slurm. While
    nothing happens they grow to five times as long."""
    schedule: Mapping[str, Count] = field(default_factory=dict)
    """Slots at once by the time of the week, in the coordinator's time zone; the first entry that
    holds counts, else ``slots``: ``{mon-fri 08:00-18:00: 4, "sat,sun": 16}``. With fewer slots than
    usual the pods with the worst prospects rest, with more all go on. ``hpcpod scale`` overrules
    it."""
    waiting: Natural | None = None  # HyperQueue's backlog is 1
    """Slots that may wait in the queue at once beyond ``pods.min``, beside those for which sinfo
    says there is room; null: all that are wanted. A small number is polite where a waiting job
    costs others something; it costs a tick until slots start on what falls idle."""
    coordinator: bool = True  # sites kill daemons on login nodes (clustermq #216)
    """True if the coordinator is a job, with a successor in the queue. Turn it off where compute
    nodes may not submit: then ``hpcpod tick`` must be called, by scrontab or on the login node."""

    @property
    def tick_interval(self) -> float:
        """``tick_seconds``, or what suits the launcher: a scheduler is not asked often."""
        # squeue's manual asks for no loops: PSI/J looks every 30 s, Snakemake every 40 s and more.
        return self.tick_seconds or (0.5 if self.launcher == "local" else 60.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scratch is not None and (
            not self.scratch.startswith(("/", "$")) or re.search(r"[\"`\\\s]", self.scratch)
        ):
            raise ValueError(
                "scratch must be an absolute path or begin with a variable, without blanks, quotes"
                f" and backslashes, got {self.scratch!r}"
            )
        if self.network is not None and not re.fullmatch(r"[\w.:@,-]+", self.network):
            raise ValueError(f"network must name interfaces, such as ib0, got {self.network!r}")
        for times in self.schedule:
            Times.read(times)
