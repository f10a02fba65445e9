"""Advice from what a run has used: each in a sentence, with the line of a configuration to change.

Pure. Nothing is said of what was not measured, nor of a run so short that its numbers are those of
its start.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from hpcpod.config.placement import scores_beside
from hpcpod.config.schema import RunConfig
from hpcpod.run.text import duration, size
from hpcpod.storage.restarts import RestartRecord
from hpcpod.storage.slots import element

SHORTEST = 600.0
"""Seconds that the slots must have worked, together: imports and warm-ups are most of less."""
MEMORY_USED = 0.5
"""Share of the memory asked below which less is advised: jobs that ask for less start sooner."""
MEMORY_FULL = 0.9
"""Share above which more is advised: the kernel kills a job at 1."""
MEMORY_MARGIN = 1.25
"""Times the peak to ask for: returns, episodes and buffers still grow."""
CORES_USED = 0.6
"""Share of the cores that must have been busy. With two, one that always waits is at 0.5."""
GPU_LOOKS = 10
"""Looks at GPUs, one a minute for each slot, of which a mean is taken at least."""
GPU_USED = 0.3
"""Share of time in which kernels must have run. Sites that cancel idle jobs do at less."""
GPU_IDLE = 0.02
"""Share below which training does not take place there."""
GPU_AIM = 0.8
"""Share to come to by more pods on a GPU, if each keeps it as busy as now."""
MOST_LANES = 8
"""Pods on a GPU that are advised at most: each needs memory there, and its cores."""
TIME_USED = 0.5
"""Share of the time limit that the longest start must have taken: less is easier to backfill."""
TIME_MARGIN = 1.5
"""Times the longest start to ask for."""
STARTING = 0.1
"""Share of the slots' time that may go into starting over after requeues."""
WAITING = 0.2
"""Share of the slots' time without an order that is worth a change: some is left at every end."""
SCORING = 0.25
"""Share of the slots' time that may go into scores, where nothing is trained beside it."""
SCORING_AIM = 0.1
"""Share to come to by longer rounds."""
QUEUED = 1800.0
"""Seconds in the queue, as the median of the slots, from which on they are worth a word."""
DISK = 20e9
"""Bytes of a run folder from which on they are worth a word."""

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?", re.IGNORECASE)
_MIB = {"k": 1 / 1024, "": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0**2}

About = Literal["memory", "cores", "GPU", "time limit", "waiting", "scoring", "queue", "disk"]


@dataclass(frozen=True)
class Advice:
    """One thing that could be asked for differently the next time."""

    about: About
    """The resource."""
    sentence: str
    """The observation, and what follows from it."""
    asked: str
    """The amount that the configuration asked for; empty if it asks for none."""
    used: str
    """The amount that was used."""
    yaml: str
    """The line of a configuration to write instead, such as ``cluster: {minutes: 60}``."""


@dataclass(frozen=True)
class Facts:
    """All that advice is given by."""

    config: RunConfig
    records: Mapping[str, RestartRecord]
    """Of every slot that the run has had."""
    ended: bool = False
    """The run has finished: no slot works longer than it did."""
    queued: float | None = None
    """Seconds that slots waited in the queue before their first start, as the median; None if
    unknown."""
    disk: float | None = None
    """Bytes of the run folder; None if unknown."""
    seconds: float = field(init=False)
    """Seconds that all slots were at work."""

    def __post_init__(self) -> None:
        total = math.fsum(each.seconds for each in self.records.values())
        object.__setattr__(self, "seconds", total)

    @property
    def slurm(self) -> bool:
        """A scheduler was asked for resources."""
        return self.config.cluster.launcher != "local"

    def share(self, doing: str) -> float | None:
        """The share of the slots' time that went to an activity; None if unknown."""
        spent = [each.spent for each in self.records.values()]
        known = math.fsum(seconds for each in spent for seconds in each.values())
        if known <= 0:
            return None
        return math.fsum(each.get(doing, 0.0) for each in spent) / known


def advice(facts: Facts) -> tuple[Advice, ...]:
    """The advice on a run; none for one of less than ``SHORTEST``."""
    if facts.seconds < SHORTEST:
        return ()
    kinds = (_memory, _cores, _gpus, _time, _waiting, _scoring, _disk)
    return tuple(each for kind in kinds for each in kind(facts))


def asked_mib(config: RunConfig) -> tuple[str, float] | None:
    """The option of ``cluster.sbatch`` that asks for memory, and the MiB of a node that it gives to
    one element of the array; None if the site's default holds."""
    sbatch = {
        key.lstrip("-").replace("_", "-"): text for key, text in config.cluster.sbatch.items()
    }
    cores = config.resources.cpus_per_pod * config.resources.pods_per_gpu
    for name, times in (("mem", 1), ("mem-per-cpu", cores)):
        found = _MEMORY.fullmatch(sbatch.get(name, ""))
        if found is not None and float(found[1]) > 0:  # --mem=0 is all of the node
            return name, float(found[1]) * _MIB[found[2].lower()] * times
    return None


def _memory(facts: Facts) -> Iterator[Advice]:
    asked, peaks = asked_mib(facts.config), defaultdict[str, float](float)
    for slot, record in facts.records.items():
        peaks[element(slot)] += record.peak_mib
    peak = max(peaks.values(), default=0.0)
    if asked is None or not peak or not facts.slurm:
        return
    name, had = asked
    share = peak / had
    if MEMORY_USED <= share <= MEMORY_FULL:
        return
    cores = facts.config.resources.cpus_per_pod * facts.config.resources.pods_per_gpu
    need = math.ceil(MEMORY_MARGIN * peak / 1024)  # GiB
    text = f"{need}G"
    if name == "mem-per-cpu":
        text = f"{math.ceil(MEMORY_MARGIN * peak / cores)}M"
    elif share < MEMORY_USED and 1024 * need >= had:  # of less than 1 GiB nothing is saved
        return
    told = f"a slot's processes came to {_mib(peak)} of the {_mib(had)} that each job asks for"
    less = "ask for less, and jobs start sooner"
    more = "a little more and the kernel kills it: ask for more"
    yield Advice(
        "memory", f"{told}: {less if share < MEMORY_USED else more}", _mib(had), _mib(peak),
        f"cluster: {{sbatch: {{{name}: {text}}}}}",
    )  # fmt: skip


def _mib(amount: float) -> str:
    return f"{amount / 1024:.1f} GiB" if amount >= 1024 else f"{amount:.0f} MiB"


def _cores(facts: Facts) -> Iterator[Advice]:
    known = [each for each in facts.records.values() if each.measured > 0]
    seconds = math.fsum(each.measured for each in known)
    cores = facts.config.resources.cpus_per_pod
    if seconds < SHORTEST or cores == 1:
        return
    busy = math.fsum(each.cpu_seconds for each in known) / seconds
    enough = max(1, math.ceil(busy / CORES_USED))
    if busy >= CORES_USED * cores or enough >= cores:
        return
    yield Advice(
        "cores",
        f"of the {cores} cores of a slot {busy:.1f} were busy on average: {enough}"
        f" would do, and leave room for other slots",
        f"{cores}", f"{busy:.1f}", f"resources: {{cpus_per_pod: {enough}}}",
    )  # fmt: skip


def _gpus(facts: Facts) -> Iterator[Advice]:
    """GPUs on which kernels ran for a small part of the time."""
    looks = sum(each.gpu_looks for each in facts.records.values())
    resources = facts.config.resources
    if not resources.gpus_per_pod or looks < GPU_LOOKS:
        return
    busy = math.fsum(each.gpu_busy for each in facts.records.values()) / looks
    lanes = min(MOST_LANES, int(resources.pods_per_gpu * GPU_AIM / max(busy, 1e-3)))
    if busy >= GPU_USED or (lanes <= resources.pods_per_gpu and busy >= GPU_IDLE):
        return
    what, yaml = "more pods can share one", f"resources: {{pods_per_gpu: {lanes}}}"
    if busy < GPU_IDLE:
        what, yaml = "train on cores", "resources: {gpus_per_pod: 0, pods_per_gpu: 1}"
    elif resources.gpus_per_pod > 1:
        what, yaml = "one is enough for a pod", "resources: {gpus_per_pod: 1}"
    asked = f"{resources.gpus_per_pod} a slot"
    if resources.pods_per_gpu > 1:
        asked = f"1 for {resources.pods_per_gpu} slots"
    yield Advice(
        "GPU",
        f"kernels ran on the GPUs in {busy:.0%} of {looks} looks' time, and some sites cancel jobs"
        f" that use so little: {what}",
        asked, f"{busy:.0%}", yaml,
    )  # fmt: skip


def _time(facts: Facts) -> Iterator[Advice]:
    """One line on ``cluster.minutes``: a longer limit and a shorter one are not advised at once."""
    if facts.slurm:
        found = (each for kind in (_starting, _time_limit, _queue) for each in kind(facts))
        yield from islice(found, 1)


def _time_limit(facts: Facts) -> Iterator[Advice]:
    """A limit of which no start came near the end: only known when the run has finished."""
    spans = [span.seconds for each in facts.records.values() for span in each.spans]
    longest, asked = max(spans, default=0.0), facts.config.cluster.minutes
    if not facts.ended or longest < SHORTEST:
        return
    enough = math.ceil(TIME_MARGIN * longest / 60)
    if longest >= TIME_USED * 60 * asked or enough >= asked:
        return
    yield Advice(
        "time limit",
        f"no slot worked for longer than {duration(longest)} of the {duration(60 * asked)} that"
        " each job asks for: with a shorter limit the scheduler can fit jobs into gaps",
        duration(60 * asked), duration(longest), f"cluster: {{minutes: {enough}}}",
    )  # fmt: skip


def _starting(facts: Facts) -> Iterator[Advice]:
    share, again = facts.share("starting"), sum(each.restarts for each in facts.records.values())
    if share is None or share <= STARTING or not again:
        return
    minutes = 2 * facts.config.cluster.minutes
    yield Advice(
        "time limit",
        f"slots were started again {again} times, and {share:.0%} of their time went into"
        " imports: with a longer limit they start over less often",
        duration(60 * facts.config.cluster.minutes), f"{share:.0%} starting",
        f"cluster: {{minutes: {minutes}}}",
    )  # fmt: skip


def _queue(facts: Facts) -> Iterator[Advice]:
    if facts.queued is None or facts.queued < QUEUED:
        return
    minutes = max(1, facts.config.cluster.minutes // 2)
    yield Advice(
        "queue",
        f"half of the slots waited {duration(facts.queued)} or longer for their first start: ask"
        " for less time, memory or GPUs, or for another partition (`hpcpod why` has the reasons)",
        duration(60 * facts.config.cluster.minutes), f"{duration(facts.queued)} in the queue",
        f"cluster: {{minutes: {minutes}}}",
    )  # fmt: skip


def _waiting(facts: Facts) -> Iterator[Advice]:
    share, slots = facts.share("waiting"), len(facts.records)
    if share is None or share <= WAITING or slots < 2:
        return
    enough = max(1, math.ceil(slots * (1 - share)))
    if enough >= slots:
        return
    population = facts.config.population
    other = f"or more pods (population.pods.max is {population.pods.max})"
    if population.scheme == "generational":
        other = f"or a lower population.quorum (it is {population.quorum:g})"
    yield Advice(
        "waiting",
        f"slots had nothing to do for {share:.0%} of their time, and what they did fills {enough}"
        f" of {slots}: ask for fewer, {other}",
        f"{slots} slots", f"{enough} busy", f"cluster: {{slots: {enough}}}",
    )  # fmt: skip


def _scoring(facts: Facts) -> Iterator[Advice]:
    share, each = facts.share("scoring"), facts.config.round
    if share is None or share <= SCORING or scores_beside(facts.config):
        return
    training = facts.share("training") or 0.0
    if training <= 0:
        return
    # Scores of a round take as long whatever its length: of t and s seconds s / (k t + s) is to
    # be the aim.
    times = share / training * (1 - SCORING_AIM) / SCORING_AIM
    steps = float(f"{times * each.env_steps:.2g}")
    yield Advice(
        "scoring",
        f"{share:.0%} of the slots' time went into scores, {each.episodes} episodes after every"
        f" {each.env_steps:,} steps, and none of it beside training: make rounds longer, or give"
        " each slot a second core (resources.cpus_per_pod), which then scores",
        f"{each.env_steps:,} steps a round", f"{share:.0%} scoring",
        f"round: {{env_steps: {steps:.0f}}}",
    )  # fmt: skip


def _disk(facts: Facts) -> Iterator[Advice]:
    if facts.disk is None or facts.disk < DISK:
        return
    yield Advice(
        "disk",
        f"the run folder has {size(facts.disk)}, most of it checkpoints: copies that inherit fewer"
        " transitions, or smaller replay buffers (agents.*.buffer_size), take less",
        "", size(facts.disk), "pod: {inherit_transitions: 100000}",
    )  # fmt: skip
