"""Small networks whose weights come from a seed, never from the global random generator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpcpod.agents.operations import Program, Value

Slopes = list[tuple[Tensor, Tensor]]
"""Tensors that a loss depends on, each with the loss's derivative by it."""


def mlp(
    sizes: Sequence[int],
    activation: type[nn.Module],
    out_gain: float,
    generator: torch.Generator,
) -> MLP:
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
        layers.append(linear(inputs, outputs, out_gain if last else math.sqrt(2.0), generator))
        layers += [] if last else [activation()]
    return MLP(*layers)


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator) -> nn.Linear:
    """A layer with orthogonal weights, times ``gain``, and zero biases."""
    layer = _Unset(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(gain * _orthogonal(outputs, inputs, generator))
        layer.bias.zero_()
    return layer


class _Unset(nn.Linear):
    """A layer without torch's own initialisation, which draws from the global generator.

    ``nn.utils.skip_init`` would import sympy for it: 0.4 s of each start of a training process.
    """

    def reset_parameters(self) -> None:
        pass


class MLP(nn.Sequential):
    """Linear layers with one kind of activation between them.

    For a batch of one, calling five modules takes as long as what they compute: here it is one.
    """

    def __init__(self, *layers: nn.Module) -> None:
        """Make one of these: linear, activation, linear, ..., linear."""
        super().__init__(*layers)
        between = layers[1] if len(layers) > 1 else nn.ReLU()
        own: Callable[[Tensor], Tensor] = between.__call__
        self.by_hand = isinstance(between, nn.ReLU)
        """True if it has ``with_slopes``."""
        self._between = torch.relu_ if self.by_hand else own
        self._weights = [(m.weight, m.bias) for m in self if isinstance(m, nn.Linear)]

    def forward(self, x: Tensor) -> Tensor:
        """float32 [B, inputs] to [B, outputs]."""
        *hidden, (weight, bias) = self._weights
        for w, b in hidden:
            x = self._between(F.linear(x, w, b))
        return F.linear(x, weight, bias).float()  # what was multiplied in bfloat16

    def with_slopes(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Slopes]]:
        """As of ``Stacks``, if ReLU stands between the layers."""
        *hidden, (weight, bias) = self._weights
        layers = [x]
        for w, b in hidden:
            layers.append(torch.relu_(F.linear(layers[-1], w, b)))

        def slopes(slope: Tensor) -> Slopes:
            found: Slopes = []
            for (w, b), below in zip(reversed(self._weights), reversed(layers), strict=True):
                found += [(w, slope.mT @ below), (b, slope.sum(dim=0))]
                if below is not x:
                    slope = RELU.slope((slope @ w).to(below.dtype), below)
                elif x.requires_grad:
                    found.append((x, slope @ w))
            return found

        return F.linear(layers[-1], weight, bias).float(), slopes


def tanh(x: Tensor) -> Tensor:
    """tanh x = 2 σ(2x) - 1, to 2e-7: on a CPU torch's own takes up to ten times as long as its σ.

    From a few thousand numbers on; for fewer the calls count, not the numbers.
    """
    # In bfloat16 the difference would leave no digit near 0.
    if x.numel() < 8192 or x.device.type != "cpu" or x.dtype != torch.float32:
        return torch.tanh(x)
    if not torch.is_grad_enabled():
        return _tanh_by_sigmoid(x)
    y: Tensor = _TanhBySigmoid.apply(x)  # type: ignore[no-untyped-call]
    return y


def _tanh_by_sigmoid(x: Tensor) -> Tensor:
    return (x + x).sigmoid_().mul_(2.0).sub_(1.0)


class _TanhBySigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = _tanh_by_sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        slope: Tensor = torch.ops.aten.tanh_backward(gradient, y)
        return slope


def with_slopes(network: nn.Module, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Slopes]]:
    """A network's outputs, and from a loss's derivatives by them to those that ``Adam`` wants."""
    if isinstance(network, MLP) and network.by_hand:
        return network.with_slopes(x)
    with torch.enable_grad():
        y = network(x)
    return y, lambda slope: [(y, slope)]


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

    def write_operations(self, program: Program, x: Value) -> Value:
        """See ``Portable``."""
        x = program.network(self.trunk, x)
        parts = (program.network(part, x) for part in (self.value, self.advantage))
        return program.add("dueling", *parts)


class Activation(NamedTuple):
    """The function after a layer."""

    function: Callable[[Tensor], Tensor]
    """May write into what it is given."""
    slope: Callable[[Tensor, Tensor], Tensor]
    """The map from ∂loss/∂y and y, the function's value, to ∂loss/∂x."""
    name: str
    """The name among ``operations.ACTIVATIONS``."""


TANH = Activation(tanh, torch.ops.aten.tanh_backward, "tanh")
RELU = Activation(torch.relu_, partial(torch.ops.aten.threshold_backward, threshold=0.0), "relu")


class Stacks(nn.Module):
    """The layers of K fully connected networks of one shape; each layer is one product.

    Two networks so cost half as many calls as two modules. Orthogonal weights, zero biases, as in
    ``mlp``: weights [K, inputs, outputs], biases [K, 1, outputs].
    """

    def __init__(
        self,
        count: int,
        sizes: Sequence[int],
        activation: Activation,
        generator: torch.Generator,
    ) -> None:
        """Make K = ``count`` networks of these sizes; ``activation`` stands after every layer."""
        super().__init__()
        self._activation = activation
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in itertools.pairwise(sizes):
            each = [math.sqrt(2.0) * _orthogonal(inputs, outputs, generator) for _ in range(count)]
            self.weights.append(nn.Parameter(torch.stack(each)))
            self.biases.append(nn.Parameter(torch.zeros(count, 1, outputs)))
        # A ParameterList takes its time to be listed.
        self._layers = list(zip(self.weights, self.biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """float32 [B, inputs] to [K, B, outputs]."""
        x = x.expand(len(self._layers[0][0]), -1, -1)
        for weight, bias in self._layers:
            # addmm with its activation was no faster
            x = self._activation.function(torch.baddbmm(bias, x, weight))
        return x.float()

    def with_slopes(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Slopes]]:
        """``forward`` without a graph, and the way back by hand: 40 % less time than autograd's.

        Returns:
            The outputs y, float32 [K, B, outputs], and a function from ∂loss/∂y to the derivatives
            by every weight and bias, and by ``x`` if it requires a gradient.
        """
        layers = [x.expand(len(self._layers[0][0]), -1, -1)]
        for weight, bias in self._layers:
            layers.append(self._activation.function(torch.baddbmm(bias, layers[-1], weight)))

        def slopes(slope: Tensor) -> Slopes:
            found: Slopes = []
            for (weight, bias), below, above in zip(
                reversed(self._layers), layers[-2::-1], layers[:0:-1], strict=True
            ):
                slope = self._activation.slope(slope.to(above.dtype), above)
                found += [(weight, torch.bmm(below.mT, slope)), (bias, slope.sum(1, keepdim=True))]
                if below is not layers[0] or x.requires_grad:
                    slope = torch.bmm(slope, weight.mT)
            return [*found, (x, slope.sum(dim=0))] if x.requires_grad else found

        return layers[-1].float(), slopes

    def first(self, x: Tensor) -> Tensor:
        """Of the first network alone: [B, inputs] to [B, outputs]."""
        for weight, bias in self._layers:
            x = self._activation.function(torch.addmm(bias[0], x, weight[0]))
        return x.float()

    def write_operations(self, program: Program, x: Value) -> Value:
        """Of the first network alone; see ``Portable``."""
        return self.write_one(program, x, 0)

    def write_one(self, program: Program, x: Value, k: int) -> Value:
        """Operations of network number k."""
        for weight, bias in self._layers:
            x = program.add("linear", x, arrays={"weight": weight[k], "bias": bias[k, 0]})
            x = program.add("activation", x, function=self._activation.name)
        return x


class Critics(nn.Module):
    """K fully connected ReLU networks of one shape and one output.

    What is before them, an ``encoder`` of images, is one for all. The last layer has a gain of 1.
    """

    def __init__(
        self, count: int, sizes: Sequence[int], encoder: nn.Module, generator: torch.Generator
    ) -> None:
        """Make ``count`` networks of these sizes: features and numbers of an action, hidden."""
        super().__init__()
        self.encoder = encoder
        # products of twice the width were no faster
        self.hidden = Stacks(count, sizes, RELU, generator)
        each = [_orthogonal(1, sizes[-1], generator) for _ in range(count)]
        self.weight = nn.Parameter(torch.stack(each))
        self.bias = nn.Parameter(torch.zeros(count, 1))

    def features(self, inputs: Tensor) -> Tensor:
        """Features for a policy, [B, features]: its gradient does not reach the encoder."""
        with torch.no_grad():
            features: Tensor = self.encoder(inputs)
            return features

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """The value that each network gives: [B, features] and [B, A] to float32 [K, B]."""
        x: Tensor = self.hidden(torch.cat([features, action], dim=-1))
        # With one column, a product and a sum take 15 µs where baddbmm takes 87.
        return (x * self.weight).sum(dim=-1) + self.bias

    def first(self, features: Tensor, action: Tensor) -> Tensor:
        """The first network alone: float32 [B]."""
        x = self.hidden.first(torch.cat([features, action], dim=-1))
        return (x * self.weight[0]).sum(dim=-1) + self.bias[0]

    def write_least(self, program: Program, features: Value, action: Value) -> Value:
        """Operations of the least value of all networks, [B, 1]."""
        x, values = program.add("concat", features, action), []
        for k, (weight, bias) in enumerate(zip(self.weight, self.bias, strict=True)):
            last = {"weight": weight.T, "bias": bias}
            values.append(program.add("linear", self.hidden.write_one(program, x, k), arrays=last))
        return program.add("least", *values)


class Convolutions(nn.Module):
    """A small encoder of images: uint8 [B, channels, height, width] to float32 [B, 256].

    From 36 pixels on the three convolutions of Mnih et al. 2015 (Nature 518, extended data
    table 1), for smaller images two of 3 x 3; then one layer of 256. Orthogonal weights.
    """

    features = 256
    """Numbers that it gives."""

    def __init__(self, image: tuple[int, int, int], generator: torch.Generator) -> None:
        """Make one for images of this shape: channels, height, width."""
        super().__init__()
        channels, height, width = image
        layers, padding = [(32, 8, 4), (64, 4, 2), (64, 3, 1)], 0
        if min(height, width) < 36:
            layers, padding = [(16, 3, 1), (32, 3, 2)], 1
        modules: list[nn.Module] = []
        for outputs, kernel, stride in layers:
            modules += [_convolution(channels, outputs, kernel, stride, padding, generator)]
            modules += [nn.ReLU()]
            channels = outputs
            height, width = (1 + (n + 2 * padding - kernel) // stride for n in (height, width))
        flat = channels * height * width
        modules += [nn.Flatten(), *mlp([flat, self.features], nn.ReLU, math.sqrt(2.0), generator)]
        self.layers = nn.Sequential(*modules, nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        """Encode."""
        features: Tensor = self.layers(images.float() / 255.0)
        return features.float()

    def write_operations(self, program: Program, x: Value) -> Value:
        """See ``Portable``."""
        return program.network(self.layers, bytes_scaled(program, x))


def bytes_scaled(program: Program, x: Value) -> Value:
    """Operations of x / 255 in float32."""
    scale = {"mean": np.zeros(1, np.float32), "scale": np.full(1, 1 / 255, np.float32)}
    return program.add("normalise", program.add("cast", x, dtype="float32"), arrays=scale)


def _convolution(
    inputs: int, outputs: int, kernel: int, stride: int, padding: int, generator: torch.Generator
) -> nn.Module:
    # Imports sympy (0.4 s), so only where there are images.
    layer: nn.Conv2d = nn.utils.skip_init(  # type: ignore[no-untyped-call]
        nn.Conv2d, inputs, outputs, kernel, stride=stride, padding=padding
    )
    with torch.no_grad():
        flat = _orthogonal(outputs, inputs * kernel * kernel, generator)
        layer.weight.copy_(math.sqrt(2.0) * flat.view_as(layer.weight))
        assert layer.bias is not None
        layer.bias.zero_()
    return layer


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    flat = torch.randn(max(rows, columns), min(rows, columns), generator=generator)
    basis, r = torch.linalg.qr(flat)
    q: Tensor = basis * r.diagonal().sign()  # makes the distribution uniform (Mezzadri 2007)
    return q if rows >= columns else q.T
