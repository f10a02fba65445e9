"""The operations of an ensemble: its members', and those of the rule that joins them."""

from __future__ import annotations

from hpcpod.agents.operations import (
    NotPortable,
    Portable,
    PortableDistribution,
    PortableValues,
    Program,
    Value,
)
from hpcpod.envs.vec_env import Box, MultiDiscrete
from hpcpod.pod.ensemble_rules import TIE, Ensemble


def write_policy(program: Program, agent: object, x: Value) -> Value:
    """Add the operations of an agent or an ensemble; arguments and errors as of ``Portable``."""
    if isinstance(agent, Ensemble):
        return _RULES[agent.rule](program, agent, x)
    if not isinstance(agent, Portable):
        raise NotPortable(f"{type(agent).__name__}, which has no write_operations")
    return agent.write_operations(program, x)


def _actions(program: Program, ensemble: Ensemble, x: Value) -> list[Value]:
    return [write_policy(program, member.agent, x) for member in ensemble.members]


def _bounded(program: Program, ensemble: Ensemble, x: Value) -> list[Value]:
    actions = _actions(program, ensemble, x)
    return [program.add("clip", action, low=-1.0, high=1.0) for action in actions]


def _mean(program: Program, ensemble: Ensemble, x: Value) -> Value:
    return program.add("mean", *_bounded(program, ensemble, x))


def _vote(program: Program, ensemble: Ensemble, x: Value) -> Value:
    axes = 1 if isinstance(ensemble.spec.action, MultiDiscrete) else 0
    return program.add("vote", *_actions(program, ensemble, x), axes=axes)


def _product(program: Program, ensemble: Ensemble, x: Value) -> Value:
    each = []
    for member in ensemble.members:
        if not isinstance(member.agent, PortableDistribution):
            raise NotPortable(f"{type(member.agent).__name__}, without write_log_probabilities")
        each.append(member.agent.write_log_probabilities(program, x))
    space = ensemble.spec.action
    joined = program.add("mean", *each)
    if isinstance(space, MultiDiscrete):
        return program.add("argmax", joined, sizes=list(space.nvec))
    return program.add("argmax", joined)


def _q_weighted(program: Program, ensemble: Ensemble, x: Value) -> Value:
    space = ensemble.spec.action
    candidates = _bounded(program, ensemble, x) if isinstance(space, Box) else None
    judged = []
    for k, member in enumerate(ensemble.members):
        if not isinstance(member.agent, PortableValues):
            raise NotPortable(f"{type(member.agent).__name__}, without write_action_values")
        values = member.agent.write_action_values(program, x, candidates)
        judged.append(program.add("standardise", values, weight=1.0 - TIE * k))
    best = program.add("argmax", program.add("mean", *judged))
    if candidates is None or not isinstance(space, Box):
        return best
    return program.add("choose", best, *candidates, axes=len(space.shape))


_RULES = {"mean": _mean, "vote": _vote, "product": _product, "q_weighted": _q_weighted}
