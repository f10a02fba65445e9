"""Operations of a policy: its deterministic action as a list that needs no torch to be computed.

An agent that is ``Portable`` writes its list; ``hpcpod.deploy`` makes ONNX and the file of the
NumPy reader of it. A value is the output of an operation, [B, ...], and is called by its name.

==============  ===================================================================================
``cast``        to ``dtype``
``reshape``     each row to ``shape``
``transpose``   to the order ``axes`` of all axes, that of the batch included
``one_hot``     float32 [B, n] of choices [B, k]: number j is 1 where choice ``column[j]`` is
                ``code[j]``
``concat``      several values along the last axis
``columns``     those from ``start`` to ``stop`` of [B, n]
``normalise``   (x - ``mean``) * ``scale``
``clip``        to [``low``, ``high``]
``linear``      x @ ``weight`` + ``bias``, weights [inputs, outputs]
``conv``        images [B, channels, height, width]: ``weight``, ``bias``, ``stride``, ``padding``
``layer_norm``  over the last axis: ``weight``, ``bias``, ``epsilon``
``activation``  one of ``ACTIVATIONS``
``dueling``     V + A - mean A of V [B, 1] and A [B, n]
``mean``        of several values of one shape
``least``       the smallest of several values, number by number
``argmax``      int64 [B]: the first largest of [B, n]; with ``sizes`` int64 [B, k], in each part
``offset``      whole numbers plus ``by``
``vote``        of several members' choices [B] or [B, k] the most frequent, or its first voter's
``standardise`` (x - mean x) / (std x + 1e-5 max |x|) * ``weight``, of [B, n]
``choose``      of several values that one whose number is in the first value, int64 [B]
``box``         [-1, 1] to [``low``, ``high``] in ``dtype``
``torch``       a graph that torch's own exporter wrote: of agents that are not portable
==============  ===================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

Value = str
"""The name of a value."""

ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu", "elu", "log_softmax")
"""Functions of ``activation``; the last one along the last axis."""


class NotPortable(Exception):
    """The agent, or a module of it, can't be written as operations; the message names it."""


@dataclass(frozen=True)
class Operation:
    """One step."""

    kind: str
    inputs: tuple[Value, ...]
    output: Value
    settings: Mapping[str, Any]
    """JSON-able."""
    arrays: Mapping[str, npt.NDArray[Any]]
    """Parameters."""


@dataclass
class Program:
    """A list of operations; each takes inputs of the program, or outputs of those before it."""

    operations: list[Operation] = field(default_factory=list)

    def add(
        self, kind: str, *inputs: Value, arrays: Mapping[str, Any] | None = None, **settings: Any
    ) -> Value:
        """Add an operation; return its output."""
        own = {name: _array(array) for name, array in (arrays or {}).items()}
        done = Operation(kind, inputs, f"%{len(self.operations)}", settings, own)
        self.operations.append(done)
        return done.output

    def network(self, module: nn.Module, x: Value) -> Value:
        """Add a module's operations.

        Raises:
            NotPortable: it is, or has, another module than those of ``_MODULES``, and is not
                ``Portable`` itself.
        """
        if isinstance(module, Portable):
            return module.write_operations(self, x)
        for kind, write in _MODULES:
            if isinstance(module, kind):
                return write(self, module, x)
        raise NotPortable(f"a module {type(module).__name__}")


@runtime_checkable
class Portable(Protocol):
    """An agent, or a module of one, that can be written as operations.

    Agents need no such method: without it an exported policy is ONNX alone.
    """

    def write_operations(self, program: Program, x: Value) -> Value:
        """Add the operations of ``act(x, explore=False)``, of a module those of ``forward(x)``.

        Args:
            program: gets them.
            x: what ``act``, or ``forward``, is given.

        Returns:
            What that returns.

        Raises:
            NotPortable: it can't be written so.
        """


@runtime_checkable
class PortableDistribution(Protocol):
    """A ``Probabilistic`` agent, or a head, of which ensembles by product can be written."""

    def write_log_probabilities(self, program: Program, x: Value) -> Value:
        """Add the operations of ``log_probabilities``; arguments and errors as of ``Portable``."""


@runtime_checkable
class PortableValues(Protocol):
    """A ``Valuing`` agent of which ensembles by q_weighted can be written."""

    def write_action_values(
        self, program: Program, x: Value, candidates: Sequence[Value] | None
    ) -> Value:
        """Add the operations of ``action_values``, float32 [B, C].

        Args:
            program: gets them.
            x: observations, as ``act`` is given them.
            candidates: C actions, float32 [B, *action]; None: all choices, in their order.

        Raises:
            NotPortable: it can't be written so.
        """


def _array(value: Any) -> npt.NDArray[Any]:
    return value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else np.asarray(value)


def _linear(program: Program, module: nn.Linear, x: Value) -> Value:
    bias = np.zeros(module.out_features, np.float32) if module.bias is None else module.bias
    return program.add("linear", x, arrays={"weight": module.weight.T, "bias": bias})


def _conv(program: Program, module: nn.Conv2d, x: Value) -> Value:
    if module.groups != 1 or module.dilation != (1, 1) or isinstance(module.padding, str):
        raise NotPortable("a Conv2d with groups, dilation or a padding in words")
    if module.padding_mode != "zeros":
        raise NotPortable(f"a Conv2d with padding_mode='{module.padding_mode}'")
    bias = np.zeros(module.out_channels, np.float32) if module.bias is None else module.bias
    return program.add(
        "conv", x, arrays={"weight": module.weight, "bias": bias},
        stride=list(module.stride), padding=list(module.padding),
    )  # fmt: skip


def _layer_norm(program: Program, module: nn.LayerNorm, x: Value) -> Value:
    if len(module.normalized_shape) != 1:
        raise NotPortable("a LayerNorm over several axes")
    size = module.normalized_shape[0]
    weight = np.ones(size, np.float32) if module.weight is None else module.weight
    bias = np.zeros(size, np.float32) if module.bias is None else module.bias
    return program.add("layer_norm", x, arrays={"weight": weight, "bias": bias}, epsilon=module.eps)


def _sequential(program: Program, module: nn.Sequential, x: Value) -> Value:
    for each in module:
        x = program.network(each, x)
    return x


def _flatten(program: Program, module: nn.Flatten, x: Value) -> Value:
    if (module.start_dim, module.end_dim) != (1, -1):
        raise NotPortable("a Flatten of some axes")
    return program.add("reshape", x, shape=[-1])


def _elu(program: Program, module: nn.ELU, x: Value) -> Value:
    if module.alpha != 1.0:
        raise NotPortable(f"an ELU with alpha={module.alpha}")
    return program.add("activation", x, function="elu")


def _function(name: str) -> Callable[[Program, Any, Value], Value]:
    return lambda program, module, x: program.add("activation", x, function=name)


_MODULES: list[tuple[type[nn.Module], Callable[[Program, Any, Value], Value]]] = [
    (nn.Sequential, _sequential),
    (nn.Linear, _linear),
    (nn.Conv2d, _conv),
    (nn.LayerNorm, _layer_norm),
    (nn.Flatten, _flatten),
    (nn.Identity, lambda program, module, x: x),
    (nn.ReLU, _function("relu")),
    (nn.Tanh, _function("tanh")),
    (nn.Sigmoid, _function("sigmoid")),
    (nn.SiLU, _function("silu")),
    (nn.ELU, _elu),
]
