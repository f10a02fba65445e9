"""The packing of an agent's state into the one vector that ranks exchange.

A sum serves every rule of ``agents/fusion.py``, so one all-reduce is enough:

- ``mean``: Σ w_r x_r, divided by Σ w_r, which lies in the vector too.
- ``max``, ``sum`` and ``moments``: every rank has places of its own, where no other rank adds
  anything but zeros; so each rank reads what all have written, bit by bit.

Moments are those of RunningNorm. What is merged, and what is summed, is what each rank has seen
since the last fusion: merging totals would count the past once for every rank and fusion, until
nothing new moved them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hpcpod.agents.fusion import Rule
from hpcpod.envs.vec_env import State

_BASE = 2**20
"""Whole numbers travel as two digits to this base, each exact in float32: up to 2⁴⁴."""
_MOMENTS = ("mean", "var", "count")


class Packing:
    """Packs and unpacks the states of one kind of agent."""

    def __init__(self, rules: Mapping[str, Rule], state: State, rank: int, size: int) -> None:
        """Of ``size`` ranks this is ``rank``; ``rules`` as ``fusion_rules(agent, state)`` gives."""
        self._rank = rank
        self.mean = [name for name, rule in rules.items() if rule == "mean"]
        """Names of the tensors that are averaged."""
        self.since = [name for name, rule in rules.items() if rule in ("sum", "moments")]
        """Names of the tensors of which only what is new counts."""
        self._whole = {name: rule for name, rule in rules.items() if rule in ("max", "sum")}
        self._moments = [
            name.removesuffix("count")
            for name, rule in rules.items()
            if rule == "moments" and name.endswith("/count")
        ]
        sizes = [state[name].numel() for name in self.mean]
        own = sum(t.numel() for t in self._own(state))
        device = next((state[name].device for name in self.mean), torch.device("cpu"))
        self.vector = torch.zeros(sum(sizes) + 1 + size * own, device=device)
        """Vector that is exchanged, float32; written by ``pack``."""
        *self._means, self._weight, places = self.vector.split_with_sizes([*sizes, 1, size * own])
        self._places = places.view(size, own)

    def _own(self, state: State) -> list[Tensor]:
        """What this rank writes into its places, float32 each."""
        written = []
        for name in self._whole:
            written += _digits(state[name])
        for name in self._moments:
            written += _digits(state[f"{name}count"])
            written += [state[f"{name}mean"].flatten(), state[f"{name}var"].flatten()]
        return [part.float() for part in written]

    def pack(self, state: State, weight: float) -> None:
        """Write the state of this rank, which has learned from ``weight`` samples."""
        for name, part in zip(self.mean, self._means, strict=True):
            torch.mul(state[name].flatten(), weight, out=part)
        self._weight.fill_(weight)
        self._places.zero_()
        if own := self._own(state):
            torch.cat([part.to(self._places.device) for part in own], out=self._places[self._rank])

    def unpack(self, state: State, since: State) -> State:
        """The state that all ranks have now, but for the tensors that are not exchanged.

        Args:
            state: of this rank.
            since: of the names in ``since``, what they were after the last fusion, everywhere.
        """
        fused = dict(state)
        for name, part in zip(self.mean, self._means, strict=True):
            fused[name] = (part / self._weight).view_as(state[name]).to(state[name].dtype)
        own = [part.numel() for part in self._own(state)]
        # On the CPU: these are few, and some of them live there.
        parts = iter(self._places.cpu().double().split_with_sizes(own, dim=1))

        def whole() -> Tensor:
            high = next(parts)
            return high * _BASE + next(parts)

        for name, rule in self._whole.items():
            values = whole()
            if rule == "max":
                value = values.amax(dim=0)
            else:
                before = since[name].cpu().double().flatten()
                value = before + (values - before).sum(dim=0)
            fused[name] = value.view_as(state[name]).to(state[name])
        for name in self._moments:
            count, mean, var = whole(), next(parts), next(parts)
            old = {moment: since[name + moment].cpu().double() for moment in _MOMENTS}
            for moment, value in merged(count, mean, var, old).items():
                like = state[name + moment]
                fused[name + moment] = value.view_as(like).to(like)
        return fused


def _digits(number: Tensor) -> list[Tensor]:
    whole = number.flatten().to(torch.int64)
    return [whole // _BASE, whole % _BASE]


def merged(count: Tensor, mean: Tensor, var: Tensor, before: State) -> State:
    """Running moments that have seen what each of L ranks has seen since the last fusion.

    With sums around the mean m₀ of then, S = Σ_r n_r (m_r - m₀) and
    Q = Σ_r n_r (v_r + (m_r - m₀)²) - (L - 1) n₀ v₀, the count is n = Σ_r (n_r - n₀) + n₀, the mean
    m₀ + S/n and the variance Q/n - (S/n)²: Chan, Golub and LeVeque (1983), equation 2.1, with one
    shift for all.

    Args:
        count: n_r, float64 [L, 1].
        mean: m_r, float64 [L, N].
        var: v_r, float64 [L, N].
        before: ``count`` n₀ [], ``mean`` m₀ [N] and ``var`` v₀ [N], float64.

    Returns:
        The same three of all.
    """
    ranks, old = len(count), before["count"].view(1)
    apart = mean - before["mean"].view(1, -1)
    total = count.sum(dim=0) - (ranks - 1) * old
    some = total.clamp(min=1.0)  # nothing seen yet: everything stays
    shift = (count * apart).sum(dim=0) / some
    squares = (count * (var + apart.square())).sum(dim=0)
    squares = squares - (ranks - 1) * old * before["var"].view(-1)
    spread = (squares / some - shift.square()).clamp(min=0.0)
    return {
        "mean": before["mean"].view(-1) + shift,
        "var": torch.where(total > 0, spread, before["var"].view(-1)),
        "count": total,
    }
