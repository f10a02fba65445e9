"""A look at a task before a run is launched on it: does it exist, and does each agent fit?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar
from hpcpod.envs.vec_env import State, VecEnv
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
    except Exception as error:  # an environment of a user's own may raise whatever it likes
        said = f"env.id: {config.env.id} can't be made: {_in_words(error)}"
        raise ConfigError("the configuration", [said]) from error
    try:
        plugins.resolve("evaluators", config.pod.evaluator)
    except UserError as error:
        raise ConfigError("the configuration", [f"pod.evaluator: {error}"]) from error
    problems: list[str] = []
    footprints: dict[str, Footprint] = {}
    for name, space in algorithms.items():
        try:
            agent = make_agent(space.agent, env, hyperparameters[name], 0, "cpu")
            footprints[name] = _first_step(agent, env)
        except UnsupportedSpace as error:
            problems.append(f"population.algorithms.{name}: {error}")
        except Exception as error:  # an agent or environment of a user's own
            problems.append(
                f"population.algorithms.{name}: its first step in {config.env.id} raised"
                f" {_in_words(error)}"
            )
    env.close()
    if problems:
        raise ConfigError("the configuration", problems)
    return footprints


def _first_step(agent: Agent, env: VecEnv) -> Footprint:
    buffer = agent.make_buffer()
    obs = env.reset()
    action = agent.act(obs, explore=True)
    buffer.add(obs, action, env.step(action))
    return Footprint(_bytes(agent.state()), _bytes(buffer.segment(0, 1)) * buffer.capacity)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _bytes(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())
