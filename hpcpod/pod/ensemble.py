"""Ensembles: several policies as one, which is called, scored and saved as any policy is."""

from __future__ import annotations

from collections.abc import Sequence

from hpcpod.envs.vec_env import Box, EnvSpec
from hpcpod.errors import UserError
from hpcpod.pod.ensemble_rules import Ensemble
from hpcpod.pod.policy import Policy, ensemble_about
from hpcpod.storage.policy_blobs import RULES, Rule


def ensemble_of(members: Sequence[Policy], rule: Rule) -> Policy:
    """One policy that asks all of these and joins their answers.

    Its ``agent`` is an ``Ensemble`` with ``members`` and ``rule``, and acts on tensors as any
    agent does. ``about`` has ``rule``, and of each of the ``members`` what was known of it.

    Args:
        members: single policies of the same spaces, the best one first: ties go to it.
        rule: ``mean`` of continuous actions, ``vote`` or ``product`` of choices, or
            ``q_weighted``; ``pod.ensemble_rules`` defines them.

    Raises:
        UserError: they can't be joined so; says which member does not fit.
    """
    joint = Ensemble(members, rule)
    return Policy(joint, joint.spec, ensemble_about(joint))


def default_rule(spec: EnvSpec) -> Rule:
    """The rule that every agent can take part in: ``mean``, or of choices ``vote``."""
    return "mean" if isinstance(spec.action, Box) else "vote"


def rules_for(members: Sequence[Policy]) -> list[Rule]:
    """The rules by which these can be joined; none if their spaces differ, or it is one alone."""
    return [rule for rule in RULES if _joins(members, rule)]


def _joins(members: Sequence[Policy], rule: Rule) -> bool:
    try:
        Ensemble(members, rule)
    except UserError:
        return False
    return True
