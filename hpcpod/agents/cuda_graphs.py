"""Updates and actions that a GPU replays as one CUDA graph, instead of kernel by kernel.

An update of a small network is some hundred kernels of a few microseconds each: launching them
takes longer than running them. On the CPU nothing is captured.
"""

from __future__ import annotations

import inspect
import logging
import os
import weakref
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from hpcpod.envs.vec_env import State

log = logging.getLogger(__name__)

_WARM_UP = 3
"""Calls that run as usual before one is captured: optimizers and libraries allocate in them."""
_SHAPES = 8
"""Captured graphs of one function at most; inputs of further shapes run as usual."""

Outputs = tuple[Tensor, ...]
Function = Callable[[State], Outputs]


class Recorder(Protocol):
    """A recorder: it runs a function for the first time, and records it."""

    def warm_up(self, function: Callable[[], Outputs]) -> Outputs:
        """Run it once, so that what it runs on can be captured next."""

    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], None], Outputs]:
        """A call that runs it again, and the tensors into which that writes its results."""


class Captured:
    """A function of tensors by name; what it changes must stay at its place in memory.

    The first calls run as usual, one more is captured, all later ones replay it. Python inside the
    function runs in the first four alone, so all that changes from call to call has to be a
    tensor. If it can't be captured it runs as usual for ever, with a warning.
    """

    def __init__(self, function: Function, recorder: Recorder | None) -> None:
        """Capture by ``recorder``; None: never. A method of an agent does not keep the agent."""
        # An agent that holds itself would hold a GPU's memory until the garbage is collected.
        method = inspect.ismethod(function)
        held = weakref.WeakMethod(function) if method else lambda: function

        def call(given: State) -> Outputs:
            living = held()
            assert living is not None  # the caller holds the agent
            return living(given)

        self._function: Function = call
        self._name = function.__qualname__
        self._recorder = recorder
        self._graphs: dict[tuple[object, ...], _Graph] = {}

    def __call__(self, inputs: State) -> Outputs:
        """Run it; the outputs are the caller's."""
        if self._recorder is None:
            return self._function(inputs)
        key = tuple((name, t.shape, t.dtype) for name, t in inputs.items())
        graph = self._graphs.get(key)
        if graph is None:
            if len(self._graphs) == _SHAPES:
                return self._function(inputs)
            graph = self._graphs[key] = _Graph(self._function, self._recorder, inputs)
        try:
            return graph(inputs)
        except _NotCaptured as error:
            log.warning("%s runs kernel by kernel: %s", self._name, error)
            self._recorder = None
            self._graphs.clear()
            return self._function(inputs)


class _NotCaptured(Exception):
    """The function can't be captured; nothing was run."""


class _Graph:
    """One captured call, for inputs of one set of shapes."""

    def __init__(self, function: Function, recorder: Recorder, inputs: State) -> None:
        self._recorder = recorder
        self._inputs = static = {name: torch.empty_like(t) for name, t in inputs.items()}
        self._run = lambda: function(static)
        self._calls = 0
        self._replay: Callable[[], None] | None = None
        self._outputs: Outputs = ()

    def __call__(self, inputs: State) -> Outputs:
        with torch.no_grad():
            for name, tensor in self._inputs.items():
                tensor.copy_(inputs[name])
        self._calls += 1
        if self._calls <= _WARM_UP:
            return tuple(t.clone() for t in self._recorder.warm_up(self._run))
        if self._replay is None:
            try:
                self._replay, self._outputs = self._recorder.record(self._run)
            except torch.OutOfMemoryError:  # a RuntimeError, too, and no fault of the function
                raise
            except RuntimeError as error:
                raise _NotCaptured(str(error).splitlines()[0]) from error
        self._replay()
        return tuple(t.clone() for t in self._outputs)


class CudaRecorder:
    """Records CUDA graphs, in which a random generator goes on as if it ran as usual."""

    def __init__(self, generator: torch.Generator) -> None:
        """``generator``: the only one from which the functions draw."""
        self._generator = generator
        self._stream = torch.cuda.Stream(generator.device)  # type: ignore[no-untyped-call]

    def warm_up(self, function: Callable[[], Outputs]) -> Outputs:
        """Run it on the stream on which it will be captured."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            outputs = function()
        torch.cuda.current_stream().wait_stream(self._stream)
        return outputs

    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], None], Outputs]:
        """Capture it without running it."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph, stream=self._stream):
            outputs = function()
        # Beginning to capture writes the generator's offset there: on a busy GPU that came after
        # what the first replay writes, which then drew other numbers.
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph.replay, outputs


def recorder_for(generator: torch.Generator) -> Recorder | None:
    """The recorder of the generator's device; None but for CUDA.

    ``HPCPOD_CUDA_GRAPHS=0`` in the environment runs everything kernel by kernel.
    """
    if generator.device.type != "cuda" or os.environ.get("HPCPOD_CUDA_GRAPHS") == "0":
        return None
    return CudaRecorder(generator)
