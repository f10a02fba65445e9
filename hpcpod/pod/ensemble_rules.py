"""Rules of ensembles: several policies' answers as one action.

With members k = 1 ... K, the best one first, and their deterministic actions a_k(s):

- ``mean`` (continuous): Σ_k a_k / K, of actions in [-1, 1], as SUNRISE evaluates its ensemble
  (Lee et al. 2021, arXiv:2007.04938, section 4.2).
- ``vote`` (choices): the action that most members take; of several the one whose first voter has
  the lowest k. Of several choices each is voted on alone. Majority voting of Wiering and van
  Hasselt 2008 (Ensemble Algorithms in Reinforcement Learning, IEEE SMC-B 38).
- ``product`` (choices): argmax_a Σ_k log π_k(a | s); Boltzmann multiplication there, of the
  policies' own distributions. DQN has none: a Boltzmann policy of its values would need a
  temperature in units of reward, and the product of ε-greedy ones is the vote.
- ``q_weighted`` (continuous, or one choice; members of one algorithm with critics): the candidate c
  with the largest mean of standardised values, argmax_c Σ_k w_k z_k(c) with
  z_k(c) = (Q_k(s, c) - mean_c Q_k) / (std_c Q_k + δ). Candidates are the members' actions, or all
  choices; Q_k is what member k learns towards, the least of its critics. w_k = 1 - 1e-4 (k - 1)
  breaks ties; δ = 1e-5 max_c |Q_k|, so that differences within rounding count as none. Critics
  that choose among several actors' proposals: Huang et al. 2017 (arXiv:1712.08987), who average
  values of one scale; members here may differ in their discount. Of two candidates a value is
  ±1: a vote of the critics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from hpcpod.agents.base import Acting, Probabilistic, Valuing
from hpcpod.envs.spec_json import spec_to_plain
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete
from hpcpod.errors import UserError
from hpcpod.storage.policy_blobs import Rule, check_joinable, member_name

if TYPE_CHECKING:
    from hpcpod.storage.blobs import Arrays

_TIE = 1e-4
_RESOLUTION = 1e-5
"""Of float32 values that went through a network."""


class Member(Protocol):
    """A single policy, as ``Policy`` is one."""

    @property
    def agent(self) -> Acting:
        """Acts on tensors."""

    @property
    def spec(self) -> EnvSpec:
        """The environment that it was trained in."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Its origin."""

    def stored(self) -> tuple[Arrays, dict[str, Any]]:
        """Its arrays and meta, as in a file."""


class Ensemble:
    """Members, each with its own normaliser, and the rule that joins them; ``Acting``."""

    def __init__(self, members: Sequence[Member], rule: Rule) -> None:
        """Join members, the best one first.

        Raises:
            UserError: they can't be joined so; says which member does not fit.
        """
        self.members = tuple(members)
        """The members, the best one first."""
        self.rule: Rule = rule
        """Name of the rule."""
        metas = [{**member.about, "spec": spec_to_plain(member.spec)} for member in members]
        check_joinable(metas, rule)
        self.spec = members[0].spec
        """The environment of all members; id and engine are the first one's."""
        _check_members(self.members, rule)
        rules: dict[Rule, Callable[[Tensor], Tensor]] = {
            "mean": self._mean, "vote": self._vote, "product": self._product,
            "q_weighted": self._q_weighted,
        }  # fmt: skip
        self._join = rules[rule]

    def act(self, obs: Tensor, *, explore: bool = False) -> Tensor:
        """Choose actions for observations [N, *observation]; see ``Agent.act``.

        Args:
            obs: as the environment gives them, on the members' device.
            explore: an ensemble does not: the same action either way.
        """
        with torch.no_grad():
            return self._join(obs)

    def _actions(self, obs: Tensor) -> list[Tensor]:
        """Those of each member, [N, *action]."""
        return [member.agent.act(obs, explore=False) for member in self.members]

    def _bounded(self, obs: Tensor) -> list[Tensor]:
        """Those of each member as the environment takes them: float32 [N, *action] in [-1, 1]."""
        return [action.clamp(-1.0, 1.0) for action in self._actions(obs)]

    def _mean(self, obs: Tensor) -> Tensor:
        # One after the other: a reduction may add in another order in another batch.
        return reduce(torch.add, self._bounded(obs)) / len(self.members)

    def _vote(self, obs: Tensor) -> Tensor:
        actions = torch.stack(self._actions(obs))
        votes = (actions.unsqueeze(0) == actions.unsqueeze(1)).sum(dim=0)
        count = len(self.members)
        rank = torch.arange(count, device=votes.device).view(-1, *[1] * (votes.dim() - 1))
        chosen = (votes * count - rank).argmax(dim=0, keepdim=True)
        return actions.gather(0, chosen).squeeze(0)

    def _product(self, obs: Tensor) -> Tensor:
        log_p = reduce(torch.add, [_probabilistic(m).log_probabilities(obs) for m in self.members])
        space = self.spec.action
        if not isinstance(space, MultiDiscrete):
            return log_p.argmax(dim=-1)
        parts = log_p.split_with_sizes(list(space.nvec), dim=-1)
        return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)

    def _q_weighted(self, obs: Tensor) -> Tensor:
        space = self.spec.action
        if isinstance(space, Box):
            candidates = torch.stack(self._bounded(obs))
        else:
            assert isinstance(space, Discrete)
            choices = torch.arange(space.n, device=obs.device)
            candidates = choices.unsqueeze(-1).expand(-1, obs.shape[0])
        judged = [
            (1.0 - _TIE * k) * standardised(_valuing(member).action_values(obs, candidates))
            for k, member in enumerate(self.members)
        ]
        best = reduce(torch.add, judged).argmax(dim=0)
        where = best.view(1, -1, *[1] * len(candidates.shape[2:]))
        return candidates.gather(0, where.expand(1, *candidates.shape[1:])).squeeze(0)


def standardised(values: Tensor) -> Tensor:
    """(q - mean) / (std + δ) over candidates, δ = 1e-5 max |q|; float32 [C, N]."""
    centred = values - values.mean(dim=0)
    spread = centred.square().mean(dim=0).sqrt()
    return centred / (spread + _RESOLUTION * values.abs().amax(dim=0) + 1e-12)


def _check_members(members: Sequence[Member], rule: Rule) -> None:
    """See that members are on one device, and can answer what the rule asks them.

    Raises:
        UserError: one can't.
    """
    for i, member in enumerate(members):
        name, device = member_name(member.about, i), members[0].spec.device
        if member.spec.device != device:
            raise UserError(
                f"{name} is on {member.spec.device}, and the first member on {device}: save both,"
                " and load them"
            )
        if rule == "product" and not isinstance(member.agent, Probabilistic):
            raise UserError(
                f"rule product multiplies distributions of choices, and {name} has none: use vote"
            )
        if rule == "q_weighted" and not isinstance(member.agent, Valuing):
            raise UserError(
                f"rule q_weighted asks critics to value actions, and {name} has none: use"
                f" {'mean' if isinstance(member.spec.action, Box) else 'vote'}"
            )


def _probabilistic(member: Member) -> Probabilistic:
    assert isinstance(member.agent, Probabilistic)
    return member.agent


def _valuing(member: Member) -> Valuing:
    assert isinstance(member.agent, Valuing)
    return member.agent
