"""The demand of a batch script on one partition, read from the very text that sbatch gets.

So options of the site (``cluster.sbatch``) and templates of a user's own count as sbatch counts
them. Pure functions; what they do not know is passed over.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hpcpod.launchers.slurm.scontrol import minutes_of
from hpcpod.launchers.slurm.sinfo import gpu_counts

_SHORT = {
    "C": "constraint", "G": "gpus", "M": "clusters", "N": "nodes", "O": "overcommit",
    "c": "cpus-per-task", "n": "ntasks", "p": "partition", "q": "qos", "t": "time",
}  # fmt: skip
_WITHOUT_VALUE = {"overcommit", "exclusive", "requeue", "no-requeue", "hold", "contiguous"}
_ELSEWHERE = {"clusters", "reservation"}
"""Options by which a job goes to nodes that the partition's list does not tell."""
_MEGABYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
# Alternatives, "a|b" and "[rack1|rack2]", are not understood: they are not judged.
_FEATURES = re.compile(r"[\w.+-]+(?:&[\w.+-]+)*")


@dataclass(frozen=True)
class Demand:
    """Resources that a job asks for; none of it becomes less by waiting."""

    partitions: tuple[str, ...] = ()
    """Of which Slurm takes one; empty: the default one."""
    qos: str = ""
    """The quality of service; empty: the user's own."""
    minutes: float = 0.0
    """The least time limit that it takes; 0: none is asked for."""
    nodes: int = 1
    cpus: int = 1
    """Cores, as Slurm counts them, on each node."""
    memory: float = 0.0
    """Megabytes on each node; 0: the site's default, or all."""
    core_memory: float = 0.0
    """Megabytes for each core; 0: as ``memory``."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs on each node by their type; ``""``: of whatever type."""
    features: frozenset[str] = frozenset()
    """Features that each node must have."""
    elsewhere: bool = False
    """Another cluster, or a reservation, is asked for."""


def read_demand(script: str) -> Demand:
    """The demand of a batch script by its ``#SBATCH`` lines; of one option the last counts."""
    options = dict(_options(script))
    nodes = _whole(options.get("nodes"), 1)
    tasks = _whole(options.get("ntasks"), 1)
    # Without a number for each node Slurm may share tasks out unevenly: one is certain.
    each = tasks if nodes == 1 else _whole(options.get("ntasks-per-node"), 1)
    # sbatch then counts one task on a node
    cpus = 1 if "overcommit" in options else each * _whole(options.get("cpus-per-task"), 1)
    gpus: dict[str, int] = {}
    # --gpus of several nodes Slurm shares out as it likes
    for name in ("gres", "gpus-per-node", *(["gpus"] if nodes == 1 else [])):
        text = options.get(name, "")
        asked = text if name == "gres" else ",".join(f"gpu:{part}" for part in text.split(","))
        gpus |= gpu_counts(asked if text else "")
    # Slurm may shorten a job to --time-min.
    minutes = minutes_of(options.get("time-min") or options.get("time", ""))
    features = options.get("constraint", "")
    simple = _FEATURES.fullmatch(features) is not None
    return Demand(
        partitions=tuple(filter(None, options.get("partition", "").split(","))),
        qos=options.get("qos", ""),
        minutes=0.0 if math.isinf(minutes) else minutes,
        nodes=nodes,
        cpus=cpus,
        memory=_megabytes(options.get("mem")),  # --mem=0 asks for all of a node
        core_memory=_megabytes(options.get("mem-per-cpu")),
        gpus={kind: count for kind, count in gpus.items() if count > 0},
        features=frozenset(features.split("&")) if simple else frozenset(),
        elsewhere=not _ELSEWHERE.isdisjoint(options),
    )


def _options(script: str) -> Iterator[tuple[str, str]]:
    """Each option by its long name, with its value; sbatch reads up to the first command."""
    for line in script.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return
        if line.startswith("#SBATCH"):
            try:
                # "--partition=b  # ours" is read by sbatch as by a shell
                yield from _in_line(shlex.split(line.removeprefix("#SBATCH"), comments=True))
            except ValueError:  # sbatch says what is wrong with it
                continue


def _in_line(words: list[str]) -> Iterator[tuple[str, str]]:
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and word[1:2] in _SHORT:
            name, value = _SHORT[word[1]], word[2:]
            equals = value
        else:
            continue
        if not equals and name not in _WITHOUT_VALUE and words and not words[0].startswith("-"):
            value = words.pop(0)
        yield name, value


def _whole(text: str | None, otherwise: int) -> int:
    """The first number, of ``2-4`` the least."""
    match = re.match(r"\d{1,9}", text or "", re.ASCII)
    return max(1, int(match[0])) if match else otherwise


def _megabytes(text: str | None) -> float:
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", (text or "").strip().upper(), re.ASCII)
    # a bare number is megabytes
    return int(match[1]) * _MEGABYTES[match[2] or "M"] if match else 0.0
