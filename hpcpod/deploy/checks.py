"""Checks of an exported policy: it acts as its agent does, and opens where hpcpod is not."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpcpod.agents.base import Agent
from hpcpod.deploy import numpy_policy
from hpcpod.deploy.environment_terms import ACTION, action_scale, as_policy_takes
from hpcpod.deploy.observations import Inputs
from hpcpod.envs.arrays import Array
from hpcpod.errors import UserError, in_words
from hpcpod.pod.policy import Policy

TOLERANCE = 1e-5
"""Largest difference of an action, in halves of the distance of its bounds."""
BATCHES = (1, 2, 64)
_ONE_BY_ONE = 64
"""Observations that are tried in batches of 1 and of 2."""
_DRAWS = 8
"""Agents with a last digit of their weights changed that an odd observation is shown."""
_LAST_DIGIT = 1e-6
"""Relative change of those weights: a few units of float32's last place."""

Exported = Callable[[Inputs], Array]
"""An exported policy: a batch of observations to actions for the environment."""


class Differs(UserError):
    """An exported policy acts in another way than the agent does."""


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    observations: int
    largest: float
    """The largest difference of an action, in halves of the distance of its bounds."""
    within_rounding: tuple[int, ...]
    """Observations where more, or another choice, was allowed: the agent itself acts so if a last
    digit of its weights changes."""


def onnx_policy(data: bytes, threads: int = 1) -> Exported:
    """The model as a function, by ONNX Runtime.

    Raises:
        UserError: it can't run the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of its own kinds, such as an operator that it has not
        raise UserError(f"policy.onnx can't be run: {in_words(error)[:300]}") from error

    def act(inputs: Inputs) -> Array:
        action: Array = session.run([ACTION], dict(inputs))[0]
        return action

    return act


def check_parity(
    policy: Policy, exported: Mapping[str, Exported], name: str, inputs: Inputs
) -> Parity:
    """Compare exported policies with the agent, in batches of 1, 2 and 64.

    Args:
        policy: of the agent.
        exported: by their files' names.
        name: of the observations: ``recorded``, ``random`` or ``extreme``.
        inputs: the observations.

    Raises:
        Differs: one acts in another way; names file, observation and both actions.
    """
    wanted = policy(as_policy_takes(policy.spec, inputs))
    discrete = np.issubdtype(wanted.dtype, np.integer)
    allowed, largest, odd = allowed_differences(policy, wanted), 0.0, set[int]()
    scale = action_scale(policy.spec, wanted.shape[1:])
    for file, act in exported.items():
        for size in BATCHES:
            count = len(wanted) if size == max(BATCHES) else min(_ONE_BY_ONE, len(wanted))
            given = _in_batches(act, inputs, count, size)
            _check_form(file, given, wanted[:count])
            apart = np.abs(given.astype(float) - wanted[:count])
            # nan compares as false: what is not a number is not within
            over = ~(apart <= allowed[:count])
            for i in np.unique(np.nonzero(over)[0]).tolist():
                row = {part: array[i : i + 1] for part, array in inputs.items()}
                if not _is_rounding(policy, row, given[i], wanted[i], allowed[i]):
                    where = f"{name} observation {i}, in batches of {size}"
                    where = f"{file} is refused: its '{ACTION}' at {where}"
                    raise Differs(_sentence(policy, where, row, given[i], wanted[i]))
                odd.add(i)
            if not discrete and not over.all():
                largest = max(largest, float((apart / scale)[~over].max()))
    return Parity(len(wanted), largest, tuple(sorted(odd)))


def check_bare(folder: Path) -> dict[str, str]:
    """Open the files of an exported folder where nothing but numpy, h5py and ONNX Runtime can be
    imported: no hpcpod, no torch, nothing else of this environment.

    Returns:
        The versions of the packages with which they were opened.

    Raises:
        Differs: a file can't be opened there, or acts in another way there.
    """
    with tempfile.TemporaryDirectory() as packages:
        for name in ("numpy", "h5py", "onnxruntime"):
            _link(name, Path(packages))
        command = [
            sys.executable, "-I", "-S", "-B", "-c", _BARE, str(folder.resolve()), packages,
            numpy_policy.__file__,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Differs(f"the exported policy can't be used without hpcpod: {said[:500]}")
    versions: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return versions


_BARE = """
import importlib.util, json, sys
from pathlib import Path
folder, packages, spare = sys.argv[1:]
sys.path += [packages]
for name in ("hpcpod", "torch", "gymnasium"):
    assert importlib.util.find_spec(name) is None, name + " can be imported here"
import numpy as np, h5py, onnxruntime
file = Path(folder) / "policy.py"
spec = importlib.util.spec_from_file_location("policy", file if file.exists() else spare)
reader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reader)
check = json.loads((Path(folder) / "check.json").read_text())
given = {name: reader.unpacked(part) for name, part in check["inputs"].items()}
wanted, allowed = reader.unpacked(check["action"]), np.asarray(check["allowed"])
session = onnxruntime.InferenceSession(
    folder + "/policy.onnx", providers=["CPUExecutionProvider"])
found = {"policy.onnx": session.run(["action"], given)[0]}
if (Path(folder) / "policy.h5").exists():
    numpy_policy = reader.Policy(folder + "/policy.h5")
    found["policy.h5"] = numpy_policy(numpy_policy.nested(given))
for file, action in found.items():
    over = ~(np.abs(action.astype(float) - wanted) <= allowed)
    over = over.reshape(len(over), -1).any(axis=1)
    over[check["within_rounding"]] = False
    if over.any():
        i = int(over.argmax())
        raise SystemExit(f"{file}: observation {i} of check.json gives {action[i].tolist()} there,"
                         f" and {wanted[i].tolist()} here")
print(json.dumps({each.__name__: each.__version__ for each in (np, h5py, onnxruntime)}))
"""


def _link(name: str, folder: Path) -> None:
    """Make one installed package importable from ``folder``."""
    spec = find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    home = Path(spec.submodule_search_locations[0])
    for path in (home, home.with_name(f"{name}.libs")):  # libraries that a wheel brings along
        if path.exists():
            (folder / path.name).symlink_to(path)


def _in_batches(act: Exported, inputs: Inputs, count: int, size: int) -> Array:
    parts = [
        act({name: array[start : start + size] for name, array in inputs.items()})
        for start in range(0, count, size)
    ]
    return np.concatenate(parts)[:count]


def _check_form(file: str, given: Array, wanted: Array) -> None:
    if given.shape != wanted.shape or given.dtype != wanted.dtype:
        raise Differs(
            f"{file} is refused: '{ACTION}' is {given.dtype} {list(given.shape)}, where the agent's"
            f" is {wanted.dtype} {list(wanted.shape)}"
        )


def allowed_differences(policy: Policy, wanted: Array) -> Array:
    """Allowed differences, of the shape of the actions: 0 for choices; else ``TOLERANCE``, or two
    units in the last place of the action's own type where that is more."""
    if np.issubdtype(wanted.dtype, np.integer):
        return np.zeros(wanted.shape)
    scale = action_scale(policy.spec, wanted.shape[1:])
    last = 2 * np.finfo(wanted.dtype).eps * np.abs(wanted.astype(float))
    return np.asarray(np.maximum(TOLERANCE * scale, last))


def _is_rounding(policy: Policy, row: Inputs, given: Array, wanted: Array, allowed: Array) -> bool:
    """True if the agent itself acts so, or goes that far, with a last digit of its weights changed.

    Two programs that add in another order differ by as much. The export has no part in this.
    """
    neighbours = np.stack([wanted, *_perturbed(policy, row)])
    if np.issubdtype(wanted.dtype, np.integer):
        return bool((neighbours == given).any(axis=0).all())
    reach = 4 * np.abs(neighbours.astype(float) - wanted).max(axis=0)
    return bool((np.abs(given.astype(float) - wanted) <= allowed + reach).all())


def _perturbed(policy: Policy, row: Inputs) -> Iterator[Array]:
    agents: list[Agent] = [each.agent for each in getattr(policy.agent, "members", [policy])]
    observation = as_policy_takes(policy.spec, row)
    for draw in range(_DRAWS):
        generator = torch.Generator().manual_seed(draw)
        with _changed(agents, generator):
            yield policy(observation)[0]


@contextmanager
def _changed(agents: list[Agent], generator: torch.Generator) -> Iterator[None]:
    """Agents with every real number of their states changed by about its last digit."""
    kept = [agent.state() for agent in agents]
    try:
        for agent, state in zip(agents, kept, strict=True):
            other = {}
            for name, tensor in state.items():
                if tensor.is_floating_point():
                    noise = torch.rand(tensor.shape, generator=generator) * 2 - 1
                    tensor = tensor * (1 + _LAST_DIGIT * noise.to(tensor))
                other[name] = tensor
            agent.load(other)
        yield
    finally:
        for agent, state in zip(agents, kept, strict=True):
            agent.load(state)


def _sentence(policy: Policy, where: str, row: Inputs, given: Array, wanted: Array) -> str:
    shown = ", ".join(f"{part} = {_shown(array[0])}" for part, array in row.items())
    return (
        f"{where}, is {_shown(given)}, and the agent's is {_shown(wanted)}; {policy.spec.id}"
        f" observes {shown}; nothing was written"
    )


def _shown(array: Array) -> Any:
    flat = np.ravel(array).tolist()
    if len(flat) <= 24:
        return array.tolist()
    return f"[{', '.join(map(str, flat[:24]))}, ... {len(flat)} numbers]"
