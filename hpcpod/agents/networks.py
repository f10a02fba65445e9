"""Small networks whose weights come from a seed, never from the global random generator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpcpod.envs.vec_env import Box, Discrete, Space
from hpcpod.errors import UnsupportedSpace


def features(algorithm: str, env: str, space: Space) -> int:
    """Inputs of a network that reads this observation space.

    Raises:
        UnsupportedSpace: it reads vectors and one choice among n only.
    """
    if isinstance(space, Discrete):
        return space.n
    if isinstance(space, Box) and space.dtype == "float32":
        return max(1, math.prod(space.shape))
    if isinstance(space, Box):
        kind = f"{space.dtype} images"
        wrapper = "{gymnasium.wrappers:DtypeObservation: {dtype: float32}}"
    else:
        kind, wrapper = "several choices at once", "gymnasium.wrappers:FlattenObservation"
    raise UnsupportedSpace(
        f"{algorithm} reads vectors, but {env} observes {kind}; add {wrapper} to env.wrappers"
    )


def encode(space: Space, obs: Tensor) -> Tensor:
    """Observations [B, *observation] as float32 [B, features]: flat, or one-hot if Discrete."""
    if isinstance(space, Discrete):
        return F.one_hot(obs, space.n).float()
    return obs.view(len(obs), -1)


def mlp(
    sizes: Sequence[int],
    activation: type[nn.Module],
    out_gain: float,
    generator: torch.Generator,
) -> nn.Sequential:
    """A fully connected network with orthogonal weights and zero biases.

    Args:
        sizes: inputs, hidden layers, outputs.
        activation: stands after every hidden layer.
        out_gain: scale of the last layer's weights; the hidden ones have √2 (Saxe et al. 2014).
        generator: on the CPU, so that a seed gives the same weights on every device.
    """
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        last = i == len(sizes) - 2
        # skip_init: nn.Linear's own initialisation draws from the global generator.
        linear: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            gain = out_gain if last else math.sqrt(2.0)
            linear.weight.copy_(gain * _orthogonal(outputs, inputs, generator))
            linear.bias.zero_()
        layers += [linear] if last else [linear, activation()]
    return nn.Sequential(*layers)


class Dueling(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean A(s, .) (Wang et al. 2016, arXiv:1511.06581, equation 9).

    The last hidden layer is there twice, once for V and once for A; the others are shared.
    """

    def __init__(self, sizes: Sequence[int], generator: torch.Generator) -> None:
        """Make one of these sizes: inputs, hidden layers, actions."""
        super().__init__()
        *shared, last, actions = sizes
        self.trunk = nn.Sequential()
        if len(shared) > 1:
            gain = math.sqrt(2.0)
            self.trunk = nn.Sequential(*mlp(shared, nn.ReLU, gain, generator), nn.ReLU())
        self.value = mlp([shared[-1], last, 1], nn.ReLU, 1.0, generator)
        self.advantage = mlp([shared[-1], last, actions], nn.ReLU, 1.0, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Values of all actions: float32 [B, inputs] to [B, actions]."""
        x = self.trunk(x)
        advantage: Tensor = self.advantage(x)
        values: Tensor = self.value(x) + advantage - advantage.mean(dim=-1, keepdim=True)
        return values


class Critics(nn.Module):
    """K fully connected ReLU networks of one shape and one output; each layer is one product.

    Two critics cost so half as many calls as two modules. Orthogonal weights, zero biases,
    as in ``mlp``; the last layer has a gain of 1.
    """

    def __init__(self, count: int, sizes: Sequence[int], generator: torch.Generator) -> None:
        """Make ``count`` networks of these sizes: inputs, hidden layers."""
        super().__init__()
        weights, biases = [], []
        for i, (inputs, outputs) in enumerate(itertools.pairwise([*sizes, 1])):
            gain = 1.0 if i == len(sizes) - 1 else math.sqrt(2.0)
            each = [gain * _orthogonal(inputs, outputs, generator) for _ in range(count)]
            weights.append(nn.Parameter(torch.stack(each)))
            biases.append(nn.Parameter(torch.zeros(count, 1, outputs)))
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList(biases)

    def forward(self, x: Tensor) -> Tensor:
        """The value that each network gives the same inputs: float32 [B, inputs] to [K, B]."""
        return self._values(x, list(self.weights), list(self.biases))

    def first(self, x: Tensor) -> Tensor:
        """The first network alone: float32 [B, inputs] to [B]."""
        return self._values(x, [w[:1] for w in self.weights], [b[:1] for b in self.biases])[0]

    @staticmethod
    def _values(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        x = x.expand(len(weights[0]), -1, -1)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = torch.baddbmm(bias, x, weight).relu_()
        # With one column, a product and a sum take 15 µs where baddbmm takes 87.
        return (x * weights[-1].mT).sum(dim=-1) + biases[-1].squeeze(-1)


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    flat = torch.randn(max(rows, columns), min(rows, columns), generator=generator)
    basis, r = torch.linalg.qr(flat)
    q: Tensor = basis * r.diagonal().sign()  # makes the distribution uniform (Mezzadri 2007)
    return q if rows >= columns else q.T
