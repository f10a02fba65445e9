"""Fusion of the replicas of one agent: a rule for every named tensor of its state.

Several learners of one pod train replicas of an agent, which one all-reduce makes equal again
from time to time (``pod/ranks/``). In a pipeline they say what the one that acts and the one that
learns take from each other: ``hpcpod.pod.pipeline.pipeline.merged``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal, get_args

from hpcpod.envs.vec_env import State
from hpcpod.errors import UnusablePlugin

Rule = Literal["mean", "max", "sum", "moments", "local"]
"""Rule by which one tensor of all replicas becomes one:

- ``mean``: its mean. Weights, both moments of Adam, target networks; temperatures and standard
  deviations, of which the logarithm is what is kept.
- ``max``: its largest value. Adam's step count, other counts of updates.
- ``sum``: what all have added to it since the last fusion. Environment steps, whole numbers.
- ``moments``: ``mean``, ``var`` and ``count`` of one running normaliser, merged by the formula
  of Chan, Golub and LeVeque (1983); the three stand side by side.
- ``local``: nothing, each replica keeps its own. Random generators and noise.
"""

FUSION: Mapping[str, Rule] = {
    # of one ancestor: of four different ones Pendulum's mean was -1269, they -339
    "network/*": "mean",
    "target/*": "mean",
    "optimizer*/exp_avg/*": "mean",
    "optimizer*/exp_avg_sq/*": "mean",
    "optimizer*/step": "max",
    "normalizer*/mean": "moments",
    "normalizer*/var": "moments",
    # by what is new: whole counts grow by K each time, to 4^10 in ten
    "normalizer*/count": "moments",
    "env_steps": "sum",
    "updates": "max",
    "updates_owed": "local",
    "begun": "local",
    "own_steps": "local",  # summed, learning_starts was divided by the ranks
    "normalizer*/running": "local",
    "noise": "local",
    "rng": "local",
}
"""The rules of the names that hpcpod's own agents use; ``*`` also stands for slashes."""

_MOMENTS = ("mean", "var", "count")


def fusion_rule(agent: object, name: str) -> Rule:
    """The rule of one tensor: that of the class's own ``FUSION``, else that of this module's.

    Args:
        agent: an agent, or its class. It may have an attribute ``FUSION``, a mapping of names
            or patterns to rules like the one above.
        name: of a tensor in its ``state()``.

    Raises:
        UnusablePlugin: no pattern fits the name, those that do give two rules, or there is no
            such rule.
    """
    own: Mapping[str, Rule] = getattr(agent, "FUSION", {})
    for table in (own, FUSION):
        fitting = {p: rule for p, rule in table.items() if fnmatchcase(name, p)}
        rules = set(fitting.values())
        if rules and not rules <= set(get_args(Rule)):
            raise _undecided(agent, name, f"has a rule that there is not, in {fitting}")
        if len(rules) > 1:
            raise _undecided(agent, name, f"has two rules, in {fitting}")
        if rules:
            return rules.pop()
    raise _undecided(agent, name, "has no rule")


def fusion_rules(agent: object, state: State) -> dict[str, Rule]:
    """The rule of every tensor of a ``state()``, by name.

    Raises:
        UnusablePlugin: one has no rule or two, or has a rule that it can't follow.
    """
    rules = {name: fusion_rule(agent, name) for name in state}
    for name, rule in rules.items():
        if rule == "mean" and not state[name].is_floating_point():
            raise _undecided(agent, name, f"is {state[name].dtype}, of which there is no mean")
        if rule == "sum" and state[name].is_floating_point():
            raise _undecided(agent, name, f"is {state[name].dtype}, but whole numbers are counted")
        if rule == "moments":
            beside, part = name[: name.rfind("/") + 1], name[name.rfind("/") + 1 :]
            lacking = [p for p in _MOMENTS if rules.get(beside + p) != "moments"]
            if lacking or part not in _MOMENTS:
                trio = ", ".join(f"'{beside}{p}'" for p in _MOMENTS)
                raise _undecided(agent, name, f"has the rule 'moments', but is not of {trio}")
    return rules


def _undecided(agent: object, name: str, what: str) -> UnusablePlugin:
    cls = agent if isinstance(agent, type) else type(agent)
    *most, last = (f"'{rule}'" for rule in get_args(Rule))
    return UnusablePlugin(
        f"how replicas of {cls.__name__} are fused is not decided: the tensor '{name}' of its"
        f" state {what}; declare FUSION = {{'{name}': ...}} in the class, with one of"
        f" {', '.join(most)} or {last}"
    )
