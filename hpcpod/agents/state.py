"""Modules, optimizers and random generators as named tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from hpcpod.envs.vec_env import State


def adam(module: nn.Module, learning_rate: float, eps: float = 1e-8) -> torch.optim.Adam:
    """Adam in one kernel: on a CPU 91 µs a step instead of 249 for a 2 x 256 network.

    On a GPU its step may be captured, and its step size is a tensor that a captured one reads.
    """
    weights = list(module.parameters())
    on_gpu = weights[0].device.type == "cuda"
    rate = torch.tensor(learning_rate, device=weights[0].device) if on_gpu else learning_rate
    return torch.optim.Adam(weights, lr=rate, eps=eps, fused=True, capturable=on_gpu)


def set_learning_rate(optimizer: torch.optim.Adam, learning_rate: float) -> None:
    """Change the step size."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def module_state(module: nn.Module) -> State:
    """A copy of the weights by their names."""
    return {name: p.detach().clone() for name, p in module.state_dict().items()}


def load_module(module: nn.Module, state: State) -> None:
    """Take the weights over, in place."""
    with torch.no_grad():
        for name, p in module.state_dict().items():
            p.copy_(state[name])


def adam_state(module: nn.Module, optimizer: torch.optim.Adam) -> State:
    """A copy of both moments of each weight and the step count: zeros before the first step."""
    state: State = {"step": torch.zeros((), dtype=torch.int64)}
    for name, p in module.named_parameters():
        moments = optimizer.state.get(p, {})
        for moment in ("exp_avg", "exp_avg_sq"):
            state[f"{moment}/{name}"] = moments.get(moment, torch.zeros_like(p)).clone()
        if moments:
            state["step"] = moments["step"].detach().cpu().to(torch.int64)
    return state


def load_adam(module: nn.Module, optimizer: torch.optim.Adam, state: State) -> None:
    """Take the moments over, in place; the learning rate stays the optimizer's own."""
    for name, p in module.named_parameters():
        moments = optimizer.state[p]
        if not moments:
            moments["step"] = torch.zeros((), device=p.device)
            moments["exp_avg"], moments["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        moments["step"].copy_(state["step"])
        for moment in ("exp_avg", "exp_avg_sq"):
            moments[moment].copy_(state[f"{moment}/{name}"])


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


def check_names(expected: State, state: Mapping[str, torch.Tensor], agent: str) -> None:
    """Refuse a state that does not fit (but for ``rng``, whose size depends on the device).

    Raises:
        ValueError: a name is missing or unknown, or a shape differs; it names the first ones.
    """
    problems = [f"'{name}' is missing" for name in expected if name not in state]
    problems += [f"'{name}' is unknown" for name in state if name not in expected]
    problems += [
        f"'{name}' has shape {tuple(state[name].shape)}, not {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name != "rng" and name in state and state[name].shape != tensor.shape
    ]
    if problems:
        more = f" (and {len(problems) - 4} more)" if len(problems) > 4 else ""
        raise ValueError(f"this is no state of such a {agent}: {', '.join(problems[:4])}{more}")


def generator_on(device: str, seed: int) -> torch.Generator:
    """A random generator of its own."""
    return torch.Generator(device=device).manual_seed(seed)
