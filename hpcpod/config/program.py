"""A training program of the user's own, in place of our agents: its part of a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcpod.config.limits import Count, Limited, Positive
from hpcpod.config.space import AlgorithmSpace, Range, Scalar, Value

PROGRAM = "program"
"""The population's one algorithm, and the id of its environment, where a program trains."""

PREFIX = "HPCPOD_P_"
"""Of the environment variables that have a hyperparameter each."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

_GIVEN: Mapping[str, Mapping[str, Any]] = {
    "env": {"id": PROGRAM, "num_envs": 1},
    "pod": {"ranks": 1, "score_beside": False},
    "population": {"algorithms": {PROGRAM: 1.0}},
    "stop": {"ensembles": {"rules": []}},
}
"""Fields that a program decides: hpcpod makes no environment of it, and joins no policies."""


@dataclass(frozen=True)
class ProgramConfig(Limited):
    """A training program of your own, in any language and framework: see docs/your-program.md."""

    command: tuple[str, ...]
    """The words that start it, such as ``[python, train.py]``; no shell reads them. It trains one
    round, or scores, and ends. ``torchrun``, ``accelerate launch`` or ``srun`` may stand before
    it: a pod's cores, GPUs and nodes (``resources``) are its."""
    search: Mapping[str, Value] = field(default_factory=dict)
    """Hyperparameters, each a value or a range: ``{learning_rate: {log_uniform: [1.0e-5, 0.01]}}``.
    They are the program's, in ``HPCPOD_HYPERPARAMETERS``."""
    structural: tuple[str, ...] = ()
    """Hyperparameters that decide whether a checkpoint fits, such as a network's width. They are
    never mutated, and checkpoints are copied among pods that have the same ones."""
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    """Values of hyperparameters that no range searches, and of those that one does: what a control
    has. Without one a control has the middle of the range."""
    folder: str | None = None
    """The folder in which the command is started. Null: the one from which the run is launched."""
    scores: bool = False
    """True if the program can score a checkpoint without training, in mode ``score``. Then a copy
    scores its parent's panel first, and finalists are scored on fresh seeds. Without it the best
    policy is chosen, and told, by the scores of its last round."""
    direction: Literal["maximize", "minimize"] = "maximize"
    """``minimize``: returns and scores of the program are losses. The run keeps them with the
    other sign, so that more is better in all that it shows."""
    seconds: Positive | None = None
    """Seconds of training in a round, in place of ``round.env_steps``, which the program is then
    not told. It still reports its steps, by which pods are compared."""
    keep: bool = True
    """False: no process is kept between rounds, even if the program asks for it."""
    stop_seconds: Positive = 30.0
    """Seconds that the program has to save and to return once it is to stop, of which a slot leaves
    it 8 here and 53 on a cluster at most. Then it gets SIGTERM, and 5 s later SIGKILL, with all
    that it has started. After its report it has as long to end until the slot's next order begins,
    and 3 s if there is none."""
    max_save_bytes: Count = 64 * 2**30
    """Bytes that one checkpoint's folder may hold: more is refused, and the attempt has failed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command or not self.command[0]:
            raise ValueError("command must have a first word, such as [python, train.py]")
        if any("\0" in word for word in self.command):
            raise ValueError("command has a word with a zero byte in it")
        names = {**self.defaults, **self.search}
        capitals: dict[str, str] = {}
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"search: a hyperparameter's name has letters, digits, '_', '.' and '-', and no"
                    f" digit first, got {name!r}"
                )
            other = capitals.setdefault(variable(name), name)
            if other != name:
                raise ValueError(
                    f"search: {other} and {name} would both be ${variable(name)}; rename one"
                )
        for name in self.structural:
            if name not in names:
                raise ValueError(
                    f"structural: {name} is not in search (known: {', '.join(names) or 'none'})"
                )

    @property
    def space(self) -> AlgorithmSpace:
        """The hyperparameters as the tournament sees them."""
        values = {**self.defaults, **self.search}
        return AlgorithmSpace(PROGRAM, values, dict(self.defaults), self.structural)


def variable(name: str) -> str:
    """The environment variable of a hyperparameter: ``HPCPOD_P_LEARNING_RATE``."""
    return PREFIX + re.sub(r"\W", "_", name).upper()


def with_program(data: Any) -> Any:
    """Plain data of a configuration, with what follows from its ``program``, if it has one."""
    if not isinstance(data, Mapping) or data.get("program") is None:
        return data
    return {**data, **{name: _filled(data.get(name), given) for name, given in _GIVEN.items()}}


def _filled(section: Any, given: Mapping[str, Any]) -> Any:
    """A section with the given fields, where it does not say anything of its own."""
    if section is None:
        return dict(given)
    return {**given, **section} if isinstance(section, Mapping) else section


def misfits(config: Any) -> Iterator[str]:
    """Problems of a run's other fields with its program.

    Args:
        config: a ``RunConfig`` that has a program.
    """
    program: ProgramConfig = config.program
    if config.env.id != PROGRAM:
        yield "env: the program makes its own environment; take the section env out"
    if list(config.population.algorithms) != [PROGRAM]:
        yield "population.algorithms: all pods are the program's; take it out"
    if config.pod.ranks != 1 or config.pod.score_beside:
        yield "pod.ranks, pod.score_beside: the program starts its own processes; take them out"
    if config.pod.pipeline:
        yield "pod.pipeline: the program collects and learns as it likes; take it out"
    if config.stop.ensembles.rules:
        yield "stop.ensembles: policies of programs can't be joined; take it out"
    if config.population.start_from is not None:
        yield "population.start_from: pods of a program begin afresh; take it out"
    if config.cluster.container.runtime is not None and (config.resources.nodes_per_pod or 1) > 1:
        yield (
            "cluster.container: on several nodes a program's own srun starts its processes: put the"
            " container into program.command, and take cluster.container out"
        )
    target = config.stop.target
    if program.direction == "minimize" and target is not None and target > 0:
        yield (
            "stop.target: losses are kept with the other sign, so that more is better: write"
            f" {-target:g} for a loss of {target:g}"
        )
    if not program.scores:
        lacks = "needs scores on fresh seeds: set program.scores if the program has mode `score`"
        if target is not None:
            yield f"stop.target: a target {lacks}, else take the target out"
        if config.population.second_looks > 0:
            yield f"population.second_looks: a second look {lacks}, else take it out"
        if config.snapshots.seconds is not None:
            yield f"snapshots.seconds: a snapshot {lacks}, else take it out"


def without_effect(config: Any) -> Iterator[str]:
    """Problems of fields beside a program that would do nothing.

    They are asked for before a launch alone: runs of earlier versions have such fields.

    Args:
        config: a ``RunConfig`` that has a program.
    """
    program: ProgramConfig = config.program
    if config.agents:
        yield "agents: the program's hyperparameters go into program.search; take the section out"
    if config.env != type(config.env)(PROGRAM, num_envs=1):
        yield "env: the program makes its own environment; take the section env out"
    gpus, nodes = config.resources.gpus_per_pod, config.resources.nodes_per_pod or 1
    if gpus % nodes:
        yield (
            f"resources.nodes_per_pod: {gpus} GPU{'s' * (gpus > 1)} can't be shared out evenly to"
            f" {nodes} nodes; change resources.gpus_per_pod or resources.nodes_per_pod"
        )
    control = program.space.unmutated()
    for name, default in program.defaults.items():
        if isinstance(program.search.get(name), Range) and control[name] != default:
            yield (
                f"program.defaults.{name}: {default} is not in the range of program.search.{name},"
                " which a control's value must be in; change one of them"
            )
