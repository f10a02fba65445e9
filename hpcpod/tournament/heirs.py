"""Heirs: pods of the first generation that start from another run's policy, or are taught by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from hpcpod.config.space import AlgorithmSpace, Choice, Range, Scalar, Value
from hpcpod.config.start_from import StartFrom
from hpcpod.records.records import (
    Birth,
    Checkpoint,
    Hyperparameters,
    Origin,
    PodState,
    Teacher,
    stable_hash,
)
from hpcpod.tournament.mutation import mutate
from hpcpod.tournament.rules import Rules


@dataclass(frozen=True)
class Parent:
    """A policy of another run, as the first generation sees it."""

    agent: str
    """``AlgorithmSpace.agent`` of its algorithm."""
    hyperparameters: Hyperparameters
    checkpoint: Checkpoint
    origin: Origin
    returns: tuple[float, ...] = ()
    """On the panel of its round; empty where an heir's score on it would not be comparable."""


def heirs(space: AlgorithmSpace, parent: Parent, places: int, wanted: StartFrom) -> int:
    """The number of an algorithm's first pods that inherit, or are taught if they can't."""
    begins = inherits(space, parent) or wanted.distill > 0
    return math.ceil(wanted.share * places - 1e-9) if begins else 0


def taught(pod: PodState, parent: Parent, rules: Rules) -> PodState:
    """A founder that learns from the parent's rollouts first.

    Args:
        pod: as it would begin from scratch.
        parent: its teacher.
        rules: of the run.
    """
    wanted = rules.config.population.start_from
    assert pod.birth is not None and wanted is not None
    env_steps = wanted.distill
    core = Checkpoint(parent.checkpoint.core, parent.checkpoint.env_steps)
    teacher = Teacher(parent.agent, parent.hyperparameters, core, env_steps)
    origin = replace(parent.origin, taught_steps=env_steps)
    return replace(
        pod, cause="taught", control=False, origin=origin,
        evidence=f"the run was launched from {parent.origin.words}, whose weights it can't have",
        birth=replace(pod.birth, teacher=teacher),
    )  # fmt: skip


def inherits(space: AlgorithmSpace, parent: Parent) -> bool:
    """True if a pod of the algorithm can have the parent's weights: agent and network agree."""
    return space.agent == parent.agent and not misfits(space, parent)


def misfits(space: AlgorithmSpace, parent: Parent) -> list[str]:
    """The hyperparameters by which the parent's network is none that this run may have."""
    own = parent.hyperparameters
    return [n for n in space.structural if n not in own or not _fits(space.values[n], own[n])]


def heir(name: str, algorithm: str, parent: Parent, rules: Rules, *, mutated: bool) -> PodState:
    """A pod that starts from the parent's checkpoint.

    Its rounds, steps and schedules count from the beginning of this run.

    Args:
        name: the pod's.
        algorithm: which ``inherits``.
        parent: the policy.
        rules: of the run.
        mutated: move the hyperparameters, as a copy's are.
    """
    space, origin, seed = rules.algorithms[algorithm], parent.origin, rules.config.seed
    values = fitted(space, parent.hyperparameters)
    if mutated:
        values, _ = mutate(space, values, Random(stable_hash(seed, name, "heir")))
    own = parent.hyperparameters
    pod = PodState(
        id=name,
        algorithm=algorithm,
        family=space.family(algorithm, values),
        hyperparameters=values,
        seed=stable_hash(seed, name),
        cause="inherited",
        origin=origin,
        parent_returns=parent.returns,
        mutated=tuple(key for key in sorted(values) if values[key] != own.get(key)),
        evidence=f"the run was launched from {origin.words}",
    )
    birth = Birth(
        name, 1, 1, algorithm, values, pod.seed, replace(parent.checkpoint, env_steps=0),
        inherited=True, origin=origin,
    )  # fmt: skip
    return replace(pod, birth=birth)


def fitted(space: AlgorithmSpace, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The parent's hyperparameters where this run allows them; else the nearest that it does."""
    middle = space.unmutated()
    return {
        name: _nearest(allowed, values.get(name), middle[name])
        for name, allowed in space.values.items()
    }


def _nearest(allowed: Value, value: Scalar | None, otherwise: Scalar) -> Scalar:
    if value is not None and _fits(allowed, value):
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not isinstance(allowed, Range) or isinstance(allowed, Choice):
        return otherwise
    assert isinstance(value, (int, float))
    if value < allowed.low:
        return allowed.low
    return allowed.high if value > allowed.high else otherwise  # a fraction where ints are wanted


def _fits(allowed: Value, value: Scalar) -> bool:
    one = AlgorithmSpace("", {"value": allowed}, {})
    return not one.misfit({"value": value})
