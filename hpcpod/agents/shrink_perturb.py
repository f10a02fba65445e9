"""Shrink-perturb: an agent's networks lose most of what they know, and learn faster again.

A network that trains on from its old weights may end below one that begins from scratch. Small
weights of the old directions, plus a little noise, avoid most of that loss (Ash and Adams 2020,
arXiv:1910.08475). IPBT does it at each restart (arXiv:2511.09190), by the factors below.
"""

from __future__ import annotations

import torch
from torch import nn

from hpcpod.agents.base import Agent
from hpcpod.agents.gradient_agent import GradientAgent
from hpcpod.agents.state import load_module, module_state

SHRINK = 0.2
"""Factor of the old weights."""
PERTURB = 0.1
"""Factor of the fresh weights that are added."""


def shrink_perturb(agent: Agent, fresh: Agent) -> bool:
    """Set weights to 0.2 of themselves plus 0.1 of fresh ones, in place; begin optimizers anew.

    Target networks become equal to their networks. Normalisers, random numbers and counters stay,
    and so does a parameter that is one number alone: SAC's temperature is no weight of a network.

    An agent that is no ``GradientAgent``, such as a user's own, is left as it is.

    Args:
        agent: changes.
        fresh: made of the same arguments, but for the seed; stays as it is.

    Returns:
        True if the agent has changed.
    """
    if not isinstance(agent, GradientAgent) or not isinstance(fresh, GradientAgent):
        return False
    modules, new = agent.modules(), fresh.modules()
    targets = {name for name in modules if _is_target(name)}
    for name in modules.keys() - targets:
        _mix(modules[name], new[name])
    for name in targets:
        online = modules.get(name.replace("target", "network", 1))
        if online is not None:
            load_module(modules[name], module_state(online))
    for optimizer in agent.optimizers():
        state = optimizer.state()
        optimizer.load({name: torch.zeros_like(tensor) for name, tensor in state.items()})
    return True


def _is_target(name: str) -> bool:
    return name == "target" or name.startswith("target/")


def _mix(module: nn.Module, fresh: nn.Module) -> None:
    with torch.no_grad():
        for old, new in zip(module.parameters(), fresh.parameters(), strict=True):
            if old.dim() > 0:
                old.mul_(SHRINK).add_(new, alpha=PERTURB)
