"""Make the environments and agents that a configuration and an order name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.config.schema import EnvConfig
from hpcpod.config.space import Scalar
from hpcpod.envs.make import configured
from hpcpod.envs.vec_env import EnvSpec, VecEnv


@dataclass(frozen=True)
class EnvFactory:
    """A factory of environments: called with N, it makes a batch of N."""

    env: EnvConfig
    """The environment."""
    device: str
    """The device of the tensors."""

    def __call__(self, num_envs: int) -> VecEnv:
        """Make it; raises what ``make.configured`` raises."""
        return configured(self.env, num_envs, self.device)


def make_agent(
    name: str, spec: EnvSpec, hyperparameters: Mapping[str, Scalar], seed: int, device: str
) -> Agent:
    """Build an agent by its plugin name for such an environment.

    A run that was stored before a hyperparameter was there has none of it: then it gets what the
    field's metadata has as ``absent``, which is what the agent did until then, not its default.
    """
    made_by = plugins.resolve("agents", name).Config
    absent = {
        field.name: field.metadata["absent"]
        for field in dataclasses.fields(made_by)
        if "absent" in field.metadata
    }
    config = made_by(**{**absent, **hyperparameters})
    agent: Agent = plugins.make(Agent, "agents", name, spec, config, seed % 2**63, device)
    return agent
