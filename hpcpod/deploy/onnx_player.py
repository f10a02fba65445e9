"""An exported folder's ``policy.onnx`` as a function of its environment's own observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hpcpod.deploy.checks import onnx_policy
from hpcpod.errors import UserError


class OnnxPlayer:
    """A policy by ONNX Runtime: called with one observation, it gives the best action."""

    def __init__(self, path: Path, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Read the model.

        Args:
            path: ``policy.onnx``.
            inputs: as ``card.json`` has them.

        Raises:
            UserError: ONNX Runtime is not installed, or can't run it.
            OSError: the file can't be read.
        """
        if find_spec("onnxruntime") is None:
            raise UserError(
                f"{path} needs onnxruntime, which is not installed here: pip install onnxruntime"
            )
        self._act = onnx_policy(path.read_bytes())
        self._parts = [(part["name"], part["path"], part["dtype"]) for part in inputs]

    def __call__(self, observation: Any) -> Any:
        """An action as the environment's ``step`` takes it."""
        given = {}
        for name, path, dtype in self._parts:
            value = observation
            for key in path:
                value = value[key]
            given[name] = np.asarray(value, dtype)[None]
        return self._act(given)[0]
