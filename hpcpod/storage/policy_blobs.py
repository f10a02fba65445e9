"""Policies as arrays and JSON: a single one, or an ensemble of several in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from hpcpod._version import __version__
from hpcpod.errors import UserError
from hpcpod.storage.spaces import differing, words

if TYPE_CHECKING:
    from hpcpod.storage.blobs import Arrays

FORMAT = 2
"""Of a policy, which every checkpoint's core is, too."""
ENSEMBLE_FORMAT = 3
"""Of an ensemble; versions before it read format 2 alone."""

Rule = Literal["mean", "vote", "product", "q_weighted"]
"""Rules that make one action of several members' answers; see ``pod.ensemble_rules``."""
RULES: tuple[Rule, ...] = get_args(Rule)

MOST_MEMBERS = 64
"""Members of one ensemble: each is asked for every action."""

_FOR = {
    "mean": ("Box",), "vote": ("Discrete", "MultiDiscrete"),
    "product": ("Discrete", "MultiDiscrete"), "q_weighted": ("Box", "Discrete"),
}  # fmt: skip
_KINDS = {"Box": "continuous", "Discrete": "discrete", "MultiDiscrete": "multi-discrete"}


def joined(
    members: Sequence[tuple[Arrays, Mapping[str, Any]]], rule: Rule
) -> tuple[Arrays, dict[str, Any]]:
    """The blob of an ensemble: what ``load_policy`` reads as one policy.

    Args:
        members: blobs of single policies, such as cores of checkpoints, the best one first.
        rule: what makes one action of theirs.

    Returns:
        Arrays ``agent/<member>/<name>``, and meta with ``rule`` and the ``members``' own.

    Raises:
        UserError: they can't be joined so; see ``check_joinable``.
    """
    metas = [dict(meta) for _, meta in members]
    check_joinable(metas, rule)
    arrays = {
        f"agent/{i}/{name.removeprefix('agent/')}": array
        for i, (own, _) in enumerate(members)
        for name, array in own.items()
        if name.startswith("agent/")
    }
    first = metas[0]
    about = {"hpcpod": __version__, "rule": rule, "env": first.get("env"), "members": metas}
    return arrays, {"format": ENSEMBLE_FORMAT, "spec": first["spec"], **about}


def singles(arrays: Arrays, meta: Mapping[str, Any]) -> list[tuple[Arrays, dict[str, Any]]]:
    """The members of an ensemble's blob, each as ``joined`` was given it; of a single policy's
    itself alone.

    Raises:
        TypeError, ValueError, LookupError: it is no blob of ``joined``.
    """
    if meta["format"] != ENSEMBLE_FORMAT:
        return [(dict(arrays), dict(meta))]
    members = [dict(each) for each in meta["members"]]
    check_joinable(members, meta["rule"])
    own: dict[str, Arrays] = {str(i): {} for i in range(len(members))}
    for name, array in arrays.items():
        _, member, rest = name.split("/", 2)
        own[member][f"agent/{rest}"] = array
    return list(zip(own.values(), members, strict=True))


def check_joinable(metas: Sequence[Mapping[str, Any]], rule: str) -> None:
    """See that policies can be members of one ensemble.

    Args:
        metas: of single policies, each with its ``spec`` as plain data.
        rule: of the ensemble.

    Raises:
        UserError: they are too few or too many, one is an ensemble itself, their spaces differ, or
            the rule is none for them; names which.
    """
    if rule not in RULES:
        raise UserError(f"there is no rule {rule!r}: the rules are {', '.join(RULES)}")
    if not 2 <= len(metas) <= MOST_MEMBERS:
        raise UserError(f"an ensemble has 2 to {MOST_MEMBERS} members, not {len(metas)}")
    names = [member_name(meta, i) for i, meta in enumerate(metas)]
    for name, meta in zip(names, metas, strict=True):
        if "members" in meta:
            raise UserError(f"{name} is an ensemble itself: give its members instead")
    first = metas[0]["spec"]
    for name, meta in zip(names[1:], metas[1:], strict=True):
        for part, ours, theirs in differing(first, meta["spec"], dtypes=True):
            raise UserError(
                f"{names[0]} and {name} can't be members of one ensemble: their {part} differ,"
                f" {words(ours)} and {words(theirs)}"
            )
    _check_rule(names, metas, rule)


def member_name(meta: Mapping[str, Any], place: int) -> str:
    """A policy in a few words: ``p0003 (sac, round 4)``; ``place`` counts from 0."""
    agent, pod = meta.get("agent", "an ensemble"), meta.get("pod")
    if pod is None:
        return f"member {place + 1} ({agent})"
    return f"{pod} ({agent}, round {meta.get('round')})"


def _check_rule(names: Sequence[str], metas: Sequence[Mapping[str, Any]], rule: str) -> None:
    spec = metas[0]["spec"]
    kind = spec["action"]["kind"]
    if kind not in _FOR[rule]:
        fit = " or ".join(other for other in RULES if kind in _FOR[other])
        raise UserError(
            f"rule {rule} is not for the {_KINDS[kind]} actions of {spec['id']}: use {fit}"
        )
    agents = [meta.get("agent") for meta in metas]
    other = next((i for i, agent in enumerate(agents) if agent != agents[0]), None)
    if rule == "q_weighted" and other is not None:
        raise UserError(
            f"rule q_weighted compares values of one algorithm, but {names[0]} and {names[other]}"
            f" are of two: use {'mean' if kind == 'Box' else 'vote'}"
        )
