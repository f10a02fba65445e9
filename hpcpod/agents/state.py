"""Modules and random generators as named tensors, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import nn

from hpcpod.envs.vec_env import State


def module_state(module: nn.Module) -> State:
    """A copy of the weights by their names."""
    return {name: p.detach().clone() for name, p in module.state_dict().items()}


def load_module(module: nn.Module, state: State) -> None:
    """Take the weights over, in place."""
    with torch.no_grad():
        for name, p in module.state_dict().items():
            p.copy_(state[name])


def prefixed(prefix: str, state: State) -> State:
    """The same tensors under ``prefix/name``."""
    return {f"{prefix}/{name}": tensor for name, tensor in state.items()}


def under(prefix: str, state: State) -> State:
    """The tensors below ``prefix/``, without it."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in state.items() if n.startswith(start)}


def load_generator(generator: torch.Generator, state: torch.Tensor) -> None:
    """Take a random stream over; one from another kind of device can't be, and is left."""
    if state.shape == generator.get_state().shape:
        generator.set_state(state.cpu())


def check_names(
    expected: State,
    state: Mapping[str, torch.Tensor],
    agent: str,
    optional: Collection[str] = (),
    sized: Collection[str] = ("rng",),
) -> None:
    """Refuse a state that does not fit.

    Args:
        expected: a state that does.
        state: the one that is to be loaded.
        agent: its name, for the message.
        optional: names that not every state has: those of older versions lack some.
        sized: names whose size may differ, as that of ``rng`` from device to device.

    Raises:
        ValueError: a name is missing or unknown, or a shape differs; it names the first ones.
    """
    missing = [name for name in expected if name not in state and name not in optional]
    problems = [f"'{name}' is missing" for name in missing]
    problems += [f"'{name}' is unknown" for name in state if name not in {*expected, *optional}]
    problems += [
        f"'{name}' has shape {tuple(state[name].shape)}, not {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name not in sized and name in state and state[name].shape != tensor.shape
    ]
    if problems:
        more = f" (and {len(problems) - 4} more)" if len(problems) > 4 else ""
        raise ValueError(f"this is no state of such a {agent}: {', '.join(problems[:4])}{more}")


def generator_on(device: str, seed: int) -> torch.Generator:
    """A random generator of its own."""
    return torch.Generator(device=device).manual_seed(seed)
