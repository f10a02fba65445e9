"""A look at a task before a run is launched on it: does it exist, and does each agent fit?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcpod import plugins
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.envs.vec_env import State
from hpcpod.errors import ConfigError, UnsupportedSpace, UserError
from hpcpod.pod.pod import env_factory, make_agent


@dataclass(frozen=True)
class Footprint:
    """What one pod of an algorithm keeps on the disk, in bytes."""

    core: int
    """Weights, optimizer, counters: written anew at every checkpoint."""
    replay: int
    """The replay buffer when it is full: written once, in segments."""


def probe(
    config: RunConfig,
    algorithms: Mapping[str, AlgorithmSpace],
    hyperparameters: Mapping[str, Mapping[str, Scalar]],
) -> dict[str, Footprint]:
    """Make the environment and each algorithm's agent once; return what a pod of each needs.

    Args:
        config: the run.
        algorithms: which agents.
        hyperparameters: of each algorithm, complete.

    Raises:
        ConfigError: the environment can't be made or an algorithm can't act in it; all
            problems at once.
    """
    try:
        env = env_factory(config, "cpu")(config.env.num_envs)
    except UserError as error:
        raise ConfigError("the configuration", [f"env.id: {error}"]) from error
    try:
        plugins.resolve("evaluators", config.pod.evaluator)
    except UserError as error:
        raise ConfigError("the configuration", [f"pod.evaluator: {error}"]) from error
    problems: list[str] = []
    footprints: dict[str, Footprint] = {}
    for name, space in algorithms.items():
        try:
            agent = make_agent(space.agent, env, hyperparameters[name], 0, "cpu")
        except UnsupportedSpace as error:
            problems.append(f"population.algorithms.{name}: {error}")
            continue
        buffer = agent.make_buffer()
        obs = env.reset()
        action = agent.act(obs, explore=True)
        buffer.add(obs, action, env.step(action))
        row = _bytes(buffer.segment(0, 1))
        footprints[name] = Footprint(_bytes(agent.state()), row * buffer.capacity)
    env.close()
    if problems:
        raise ConfigError("the configuration", problems)
    return footprints


def _bytes(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())
