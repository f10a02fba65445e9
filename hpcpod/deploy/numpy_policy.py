"""A trained policy in NumPy: it needs numpy and h5py, and nothing else.

    from policy import Policy
    action = Policy("policy.h5")(observation)

``python policy.py`` tries the observations of check.json, which lies beside it.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np


def _conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any) -> Any:
    (down, right), (above, left) = stride, padding
    x = np.pad(x, ((0, 0), (0, 0), (above, above), (left, left)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    rows = windows[:, :, ::down, ::right].transpose(0, 2, 3, 1, 4, 5)
    flat = rows.reshape(*rows.shape[:3], -1) @ weight.reshape(len(weight), -1).T + bias
    return flat.transpose(0, 3, 1, 2)


def _layer_norm(x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    scale = np.float32(1.0) / np.sqrt(x.var(axis=-1, keepdims=True) + np.float32(epsilon))
    return (x - x.mean(axis=-1, keepdims=True)) * scale * weight + bias


def _argmax(x: Any, sizes: Any = None) -> Any:
    ends = np.cumsum(sizes or [x.shape[-1]])[:-1]
    best = np.stack([part.argmax(axis=-1) for part in np.split(x, ends, axis=-1)], axis=-1)
    return best if sizes else best[:, 0]


def _vote(*x: Any, axes: int) -> Any:
    actions, rank = np.stack(x), np.arange(len(x)).reshape(-1, *[1] * (1 + axes))
    votes = (actions[None] == actions[:, None]).sum(axis=0) * len(x) - rank
    return np.take_along_axis(actions, votes.argmax(axis=0)[None], axis=0)[0]


def _standardise(x: Any, weight: float) -> Any:
    centred, largest = x - x.mean(axis=-1, keepdims=True), np.abs(x).max(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True))
    return centred / (spread + np.float32(1e-5) * largest + np.float32(1e-12)) * np.float32(weight)


def _box(x: Any, low: Any, high: Any, dtype: str) -> Any:
    share = ((x + np.float32(1.0)) / np.float32(2.0)).astype(low.dtype)
    moved = np.where((low == -1.0) & (high == 1.0), x, low * (1 - share) + high * share)
    return np.minimum(np.maximum(moved, low), high).astype(dtype)


ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 * (np.tanh(0.5 * x) + 1),
    "silu": lambda x: x * (0.5 * (np.tanh(0.5 * x) + 1)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "log_softmax": lambda x: x - np.logaddexp.reduce(x, axis=-1, keepdims=True),
}
OPERATIONS: dict[str, Any] = {
    "cast": lambda x, dtype: x.astype(dtype),
    "reshape": lambda x, shape: x.reshape(len(x), *shape),
    "transpose": lambda x, axes: x.transpose(axes),
    "one_hot": lambda x, column, code: (x[:, column] == code).astype(np.float32),
    "concat": lambda *x: np.concatenate(x, axis=-1),
    "columns": lambda x, start, stop: x[:, start:stop],
    "normalise": lambda x, mean, scale: (x - mean) * scale,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "linear": lambda x, weight, bias: x @ weight + bias,
    "conv": _conv,
    "layer_norm": _layer_norm,
    "activation": lambda x, function: ACTIVATIONS[function](x),
    "dueling": lambda value, x: value + x - x.mean(axis=-1, keepdims=True),
    "mean": lambda *x: sum(x) * np.float32(1 / len(x)),
    "least": lambda *x: np.minimum.reduce(x),
    "vote": _vote,
    "standardise": _standardise,
    "choose": lambda index, *x, axes: np.stack(x)[index, np.arange(len(index))],
    "argmax": _argmax,
    "offset": lambda x, by: x + by,
    "box": _box,
}


class Policy:
    """A policy: called with an observation of its environment, it gives the best action."""

    def __init__(self, path: str | Path) -> None:
        with h5py.File(path, "r") as file:
            program = json.loads(file["program"][()])
            arrays = {name: array[()] for name, array in file["arrays"].items()}
        if program["format"] != 1:
            raise ValueError(f"{path} is of format {program['format']}, and this reads format 1")
        self.inputs, self._output, self._steps = program["inputs"], program["output"], []
        for each in program["operations"]:
            own = {name: arrays[array] for name, array in each["arrays"].items()}
            settings = {**own, **each["settings"]}
            self._steps.append((OPERATIONS[each["kind"]], each["inputs"], settings, each["output"]))

    def __call__(self, observation: Any) -> Any:
        """An action; of a batch, in which arrays have one axis more in front, a batch of them."""
        values, single = {}, True
        for part in self.inputs:
            value = observation
            for key in part["path"]:
                value = value[key]
            value, wanted = np.asarray(value, part["dtype"]), tuple(part["shape"])
            single = value.shape == wanted
            if not single and value.shape[1:] != wanted:
                raise ValueError(f"{part['name']} has shape {value.shape}, not {wanted}")
            values[part["name"]] = value.reshape(-1, *wanted)
        for function, inputs, given, output in self._steps:
            values[output] = function(*[values[name] for name in inputs], **given)
        return values[self._output][0] if single else values[self._output]

    def nested(self, parts: Any) -> Any:
        """The observation, or the batch, whose parts are given by their names."""
        whole: dict[Any, Any] = {}
        for part in self.inputs:
            inner = whole
            for key in ["", *part["path"]][:-1]:
                inner = inner.setdefault(key, {})
            inner[["", *part["path"]][-1]] = parts[part["name"]]
        return whole[""]


def unpacked(array: Any) -> Any:
    """An array of check.json."""
    if "values" in array:
        return np.asarray(array["values"], array["dtype"]).reshape(array["shape"])
    data = zlib.decompress(base64.b64decode(array["zlib_base64"]))
    return np.frombuffer(data, array["dtype"]).reshape(array["shape"])


if __name__ == "__main__":
    here = Path(sys.argv[0]).resolve().parent
    check, policy = json.loads((here / "check.json").read_text()), Policy(here / "policy.h5")
    given = policy.nested({name: unpacked(part) for name, part in check["inputs"].items()})
    wanted = unpacked(check["action"])
    worst = np.abs(np.asarray(policy(given), float) - wanted).max()
    print(f"{len(wanted)} observations: the largest difference of an action is {worst:.3g}")  # noqa: T201
