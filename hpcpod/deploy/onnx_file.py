"""A policy's operations as one ONNX model, made without torch's exporter where that can be."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpcpod._version import __version__
from hpcpod.agents.base import Agent
from hpcpod.agents.operations import Operation
from hpcpod.deploy.environment_terms import ACTION, Portability
from hpcpod.errors import UserError, in_words

OPSET = 18
"""The version of the operators: ONNX Runtime 1.14 (2023) and newer have it."""
IR = 8
"""The version of the format."""

EXTRA = ("onnx", "onnxscript", "onnxruntime")
"""Packages of the extra ``hpcpod[export]``."""


def require_onnx() -> None:
    """See that the packages for ONNX are installed.

    Raises:
        UserError: one is not.
    """
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"an export needs packages that are not installed here, {', '.join(missing)}:"
            " pip install 'hpcpod[export]'"
        )


def onnx_model(policy: Portability, rows: Tensor) -> bytes:
    """The model, as the bytes of its one file.

    Args:
        policy: its operations.
        rows: at least two rows that the agent reads, an example for torch's exporter.

    Raises:
        UserError: torch's exporter can't write the agent, or not for this opset.
    """
    import onnx
    from onnx import helper

    writer = _Writer(rows)
    for operation in policy.program.operations:
        writer.write(operation)
    writer.node("Identity", [policy.output], ACTION)
    inputs = [_typed(part.name, part.dtype, part.shape) for part in policy.parts]
    graph = helper.make_graph(
        writer.nodes, "policy", inputs, [_typed(ACTION, policy.dtype, policy.shape)],
        writer.constants,
    )  # fmt: skip
    model = helper.make_model(
        graph, producer_name="hpcpod", producer_version=__version__, ir_version=IR,
        opset_imports=[helper.make_opsetid("", OPSET)], functions=writer.functions,
    )  # fmt: skip
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of its own kinds; seen of none but foreign graphs
        raise UserError(f"policy.onnx can't be made: {in_words(error)[:300]}") from error
    data: bytes = model.SerializeToString()
    return data


def _typed(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, ["batch", *shape])


class _Writer:
    """The nodes of a model; a method for each kind of operation."""

    def __init__(self, rows: Tensor) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.functions: list[Any] = []
        self._rows = rows
        self._names: dict[tuple[Any, ...], str] = {}

    def write(self, operation: Operation) -> None:
        """Write the nodes of one operation."""
        own = {name: self.constant(array) for name, array in operation.arrays.items()}
        method: Callable[..., None] = getattr(self, f"_{operation.kind}")
        method(operation.output, *operation.inputs, **own, **operation.settings)

    def node(self, kind: str, inputs: list[str], output: str | None = None, **settings: Any) -> str:
        """Write one node; return the name of its output."""
        from onnx import helper

        output = output or f"%n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **settings))
        return output

    def constant(self, value: Any) -> str:
        """Write a constant, if it is not there yet; return its name."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value).reshape(np.shape(value))  # that makes a scalar [1]
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._names:
            self._names[key] = f"%c{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(array, self._names[key]))
        return self._names[key]

    def _cast(self, out: str, x: str, dtype: str) -> None:
        from onnx import helper

        self.node("Cast", [x], out, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _reshape(self, out: str, x: str, shape: list[int]) -> None:
        self.node("Reshape", [x, self.constant(np.asarray([0, *shape], np.int64))], out)

    def _transpose(self, out: str, x: str, axes: list[int]) -> None:
        self.node("Transpose", [x], out, perm=axes)

    def _one_hot(self, out: str, x: str, column: str, code: str) -> None:
        same = self.node("Equal", [self.node("Gather", [x, column], axis=1), code])
        self._cast(out, same, "float32")

    def _concat(self, out: str, *x: str) -> None:
        self.node("Concat", list(x), out, axis=-1)

    def _columns(self, out: str, x: str, start: int, stop: int) -> None:
        ends = [self.constant(np.asarray([n], np.int64)) for n in (start, stop, -1)]
        self.node("Slice", [x, *ends], out)

    def _normalise(self, out: str, x: str, mean: str, scale: str) -> None:
        self.node("Mul", [self.node("Sub", [x, mean]), scale], out)

    def _clip(self, out: str, x: str, low: float, high: float) -> None:
        ends = [self.constant(np.float32(end)) for end in (low, high)]
        self.node("Clip", [x, *ends], out)

    def _linear(self, out: str, x: str, weight: str, bias: str) -> None:
        self.node("Gemm", [x, weight, bias], out)

    def _conv(
        self, out: str, x: str, weight: str, bias: str, stride: list[int], padding: list[int]
    ) -> None:
        self.node("Conv", [x, weight, bias], out, strides=stride, pads=[*padding, *padding])

    def _layer_norm(self, out: str, x: str, weight: str, bias: str, epsilon: float) -> None:
        self.node("LayerNormalization", [x, weight, bias], out, epsilon=epsilon)

    def _activation(self, out: str, x: str, function: str) -> None:
        if function == "silu":
            self.node("Mul", [x, self.node("Sigmoid", [x])], out)
        else:
            self.node(_FUNCTIONS[function], [x], out)

    def _dueling(self, out: str, value: str, x: str) -> None:
        mean = self.node("ReduceMean", [x, self.constant(np.asarray([-1], np.int64))], keepdims=1)
        self.node("Sub", [self.node("Add", [value, x]), mean], out)

    def _mean(self, out: str, *x: str) -> None:
        self.node("Mul", [self.node("Sum", list(x)), self.constant(np.float32(1 / len(x)))], out)

    def _argmax(self, out: str, x: str, sizes: list[int] | None = None) -> None:
        if sizes is None:
            self.node("ArgMax", [x], out, axis=-1, keepdims=0)
            return
        ends = [int(end) for end in np.cumsum([0, *sizes])]
        best = []
        for start, stop in itertools.pairwise(ends):
            part = f"%p{len(self.nodes)}"
            self._columns(part, x, start, stop)
            best.append(self.node("ArgMax", [part], axis=-1, keepdims=1))
        self.node("Concat", best, out, axis=-1)

    def _least(self, out: str, *x: str) -> None:
        self.node("Min", list(x), out)

    def _vote(self, out: str, *x: str, axes: int) -> None:
        first, second = (self.constant(np.asarray([axis], np.int64)) for axis in (0, 1))
        each = [self.node("Unsqueeze", [action, first]) for action in x]
        actions = self.node("Concat", each, axis=0)
        pair = [self.node("Unsqueeze", [actions, axis]) for axis in (first, second)]
        same = self._as(self.node("Equal", pair), "int64")
        votes = self.node("ReduceSum", [same, first], keepdims=0)
        rank = np.arange(len(x)).reshape(-1, *[1] * (1 + axes))
        count = self.constant(np.asarray(len(x), np.int64))
        weighed = self.node("Sub", [self.node("Mul", [votes, count]), self.constant(rank)])
        chosen = self.node("ArgMax", [weighed], axis=0, keepdims=1)
        found = self.node("GatherElements", [actions, chosen], axis=0)
        self.node("Squeeze", [found, first], out)

    def _standardise(self, out: str, x: str, weight: float) -> None:
        last = self.constant(np.asarray([-1], np.int64))
        resolution, least, scale = (
            self.constant(np.float32(number)) for number in (1e-5, 1e-12, weight)
        )
        centred = self.node("Sub", [x, self.node("ReduceMean", [x, last])])
        squares = self.node("ReduceMean", [self.node("Mul", [centred, centred]), last])
        largest = self.node("ReduceMax", [self.node("Abs", [x]), last])
        more = self.node("Add", [self.node("Mul", [largest, resolution]), least])
        spread = self.node("Add", [self.node("Sqrt", [squares]), more])
        self.node("Mul", [self.node("Div", [centred, spread]), scale], out)

    def _choose(self, out: str, index: str, *x: str, axes: int) -> None:
        parts, shape = [], self.constant(np.asarray([0, *[1] * axes], np.int64))
        for i, each in enumerate(x):
            same = self.node("Equal", [index, self.constant(np.asarray(i, np.int64))])
            mask = self.node("Reshape", [self._as(same, "float32"), shape])
            parts.append(self.node("Mul", [each, mask]))
        self.node("Sum", parts, out)

    def _offset(self, out: str, x: str, by: str) -> None:
        self.node("Add", [x, by], out)

    def _box(self, out: str, x: str, low: str, high: str, dtype: str) -> None:
        from onnx import numpy_helper

        ends = {array.name: numpy_helper.to_array(array) for array in self.constants}
        least, most = ends[low], ends[high]
        wide = str(least.dtype)
        one, half = (self.constant(np.float32(number)) for number in (1.0, 0.5))
        share = self.node("Mul", [self.node("Add", [x, one]), half])
        same = (least == -1.0) & (most == 1.0)
        if wide != "float32":
            x, share = (self._as(value, wide) for value in (x, share))
        rest = self.node("Sub", [self.constant(np.asarray(1.0, wide)), share])
        moved = self.node("Add", [self.node("Mul", [low, rest]), self.node("Mul", [high, share])])
        moved = self.node("Where", [self.constant(same), x, moved])
        inside = self.node("Min", [self.node("Max", [moved, low]), high])
        self._cast(out, inside, dtype)

    def _as(self, x: str, dtype: str) -> str:
        out = f"%as{len(self.nodes)}"
        self._cast(out, x, dtype)
        return out

    def _torch(self, out: str, x: str, agent: Agent) -> None:
        """The graph that torch's exporter writes of ``act``, its names apart from ours."""
        from onnx import compose

        model = _exported(agent, self._rows)
        model = compose.add_prefix(model, f"%t{len(self.nodes)}/")
        graph = model.graph
        self.node("Identity", [x], graph.input[0].name)
        self.nodes.extend(graph.node)
        self.constants.extend(graph.initializer)
        self.functions.extend(model.functions)
        self.node("Identity", [graph.output[0].name], out)


_FUNCTIONS = {
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "elu": "Elu",
    "log_softmax": "LogSoftmax",
}
"""ONNX's operators; the last one works along the last axis by default."""


class _Act(nn.Module):
    """An agent's best action as a module, which torch's exporter takes."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def forward(self, rows: Tensor) -> Tensor:
        """``act`` without exploration."""
        return self._agent.act(rows, explore=False)


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Leave out what torch's exporter tells of itself, and of graphs that it gives up."""
    kept = logging.root.manager.disable
    logging.disable(max(kept, logging.WARNING))
    try:
        with (
            warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):  # fmt: skip
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(kept)


def _exported(agent: Agent, rows: Tensor) -> Any:
    """The ONNX model of an agent's ``act``.

    Raises:
        UserError: torch can't export it.
    """
    assert len(rows) >= 2  # with one row torch exports a model for batches of one
    dynamic = ({0: torch.export.Dim("batch", min=1)},)
    try:
        with _without_chatter():
            program = torch.onnx.export(
                _Act(agent).eval(), (rows,), dynamo=True, dynamic_shapes=dynamic,
                opset_version=OPSET, external_data=False, verbose=False,
            )  # fmt: skip
    except Exception as error:  # of torch's tracing, and of the agent's own code
        said = re.sub(r"\x1b\[[0-9;]*m", "", in_words(error)).rpartition("Exception summary")[2]
        raise UserError(
            f"{type(agent).__name__} can't be exported: it has no write_operations"
            f" (hpcpod.agents.operations), and torch's exporter says {said.strip()[:300]}"
        ) from error
    assert program is not None
    return program.model_proto
