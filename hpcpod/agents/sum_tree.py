"""A sum tree: draws in proportion to changing weights, without a loop over the draws."""

from __future__ import annotations

import torch
from torch import Tensor

_WIDTH = 64
"""Children of a node: a million leaves are four levels, of a few operations each."""


class SumTree:
    """Weights ≥ 0, float32, and over them sums of 64, sums of those, and so on up to the root.

    A sum is always made anew from its 64 parts, so rounding errors do not pile up.
    """

    def __init__(self, size: int, device: str = "cpu") -> None:
        """Reserve ``size`` leaves, all of weight 0."""
        self._levels: list[Tensor] = []
        while not self._levels or size > 1:
            nodes = -(-size // _WIDTH)
            self._levels.append(torch.zeros(nodes * _WIDTH, device=device))
            size = nodes

    @property
    def total(self) -> Tensor:
        """The sum of all weights, a float32 scalar."""
        return self._levels[-1].sum()

    def weights(self, index: Tensor) -> Tensor:
        """The weights of these leaves, float32 like ``index`` (int64)."""
        return self._levels[0][index]

    def put(self, index: Tensor, weights: Tensor) -> None:
        """Change leaves: int64 [B], float32 [B]; of a leaf's weights the last counts."""
        leaves, *above = self._levels
        # Which of several writes to one place stays is not defined: all write the last one's.
        index, order = index.sort(stable=True)
        last = torch.searchsorted(index, index, right=True) - 1
        leaves[index] = weights[order[last]]
        below = leaves
        for level in above:
            index = index // _WIDTH
            level[index] = below.view(-1, _WIDTH).index_select(0, index).sum(dim=1)
            below = level

    def draw(self, batch: int, generator: torch.Generator) -> Tensor:
        """Leaves with probabilities w / Σ w, with replacement: int64 [batch].

        At least one weight must be positive.
        """
        root = self._levels[-1]
        node = torch.zeros(batch, dtype=torch.int64, device=root.device)
        for level in reversed(self._levels):
            ends = level.view(-1, _WIDTH).index_select(0, node).cumsum(dim=1)
            whole = ends[:, -1]
            # A number of its own for each level: one for all of them has 24 bits, too few to
            # tell a million leaves apart.
            chosen = torch.rand(batch, generator=generator, device=root.device) * whole
            # Below the whole even when rounding said otherwise: no leaf of weight 0 is drawn.
            chosen = torch.minimum(chosen, torch.nextafter(whole, torch.zeros_like(whole)))
            node = node * _WIDTH + (ends <= chosen.unsqueeze(1)).sum(dim=1)
        return node
