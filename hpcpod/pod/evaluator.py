"""The evaluator scores an agent on a panel of episode seeds, the same for every pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from hpcpod import plugins
from hpcpod.agents.base import Acting
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.envs.vec_env import EnvSpec, VecEnv, random_seeds
from hpcpod.errors import EndlessEpisode, UnusablePlugin
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.watch import Stopped as Stopped
from hpcpod.pod.watch import never as never

_LOOK_STEPS = 16
"""Steps between two questions whether all episodes have ended, on a GPU."""


class Evaluator(Protocol):
    """Scores an agent; what it scores is decided by the seeds alone.

    One whose episodes lie on recorded data may have an attribute ``most_episodes``, the number of
    episodes that have no data in common. It is asked for no more by ``scored``: one that is played
    again says nothing new, and would make intervals too narrow.
    """

    def evaluate(
        self,
        agent: Acting,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        """Undiscounted return of each episode, in the order of the panel's seeds.

        Raises:
            Stopped: ``should_stop``, which is asked at every step, became true.
            EndlessEpisode: an episode goes on for longer than ``env.longest_episode`` allows.
        """
        ...

    def close(self) -> None:
        """Close its environments."""
        ...


def scored(
    by: Evaluator,
    agent: Acting,
    *panel: int | str,
    episodes: int,
    should_stop: Callable[[], bool] = never,
) -> tuple[float, ...]:
    """The returns that an evaluator, which may be a user's own, gives for a panel.

    Raises:
        UnusablePlugin: it gives something else than a number for each episode, of which there are
            ``most_episodes`` at most.
        Stopped: as ``Evaluator.evaluate``.
    """
    episodes = min(episodes, getattr(by, "most_episodes", episodes))
    found: object = by.evaluate(agent, *panel, episodes=episodes, should_stop=should_stop)
    try:
        returns = tuple(map(float, found))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        returns = ()
    if len(returns) != episodes:  # else the slot could not read the report, and started anew
        given = f"{len(returns)} of" if returns else f"a {type(found).__name__} instead of"
        raise UnusablePlugin(f"the evaluator gives {given} {episodes} returns")
    return returns


def scored_in(config: RunConfig) -> EnvConfig:
    """The environment in which a run's evaluator scores: as its class method ``scored_in`` says,
    and without one that in which pods train.

    Raises:
        UnknownPlugin: there is no such evaluator.
    """
    said = getattr(plugins.resolve("evaluators", config.pod.evaluator), "scored_in", None)
    return config.env if said is None else said(config.env)


class PanelEvaluator:
    """Runs all episodes of a panel side by side, one environment each, without exploring.

    The batch always has as many rows as the panel has episodes, so that equal weights give
    bit-equal returns: that is how a copied child proves that it is its parent's copy.
    """

    def __init__(self, make: Callable[[int], VecEnv]) -> None:
        self._make = make
        of = make.env if isinstance(make, EnvFactory) else EnvConfig
        self._longest = of.longest_episode
        self._envs: dict[int, VecEnv] = {}

    def evaluate(
        self,
        agent: Acting,
        *panel: int | str,
        episodes: int,
        should_stop: Callable[[], bool] = never,
    ) -> tuple[float, ...]:
        """Score ``episodes`` episodes whose seeds are a hash of ``panel``."""
        env, seeds = self.env(episodes), self.drawn(*panel, episodes=episodes)
        return play(env, agent, seeds, longest=self._longest, should_stop=should_stop)

    def drawn(self, *panel: int | str, episodes: int) -> Tensor:
        """The seeds of a panel, int64 [episodes]."""
        return random_seeds(*panel, count=episodes)

    def env(self, episodes: int) -> VecEnv:
        """The environments of a panel, made when they are first asked for."""
        if episodes not in self._envs:
            self._envs[episodes] = self._make(episodes)
        return self._envs[episodes]

    def close(self) -> None:
        """See ``Evaluator``."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()


def play(
    env: VecEnv,
    agent: Acting,
    seeds: Tensor,
    *,
    longest: int,
    should_stop: Callable[[], bool] = never,
) -> tuple[float, ...]:
    """Play an episode on each seed, side by side and without exploring; their undiscounted returns.

    Args:
        env: with a row for each seed.
        agent: who acts.
        seeds: int64 [N].
        longest: steps that an episode may take, if the environment itself allows no more.
        should_stop: asked at every step.

    Raises:
        Stopped: ``should_stop`` became true.
        EndlessEpisode: an episode goes on for longer.
    """
    obs = env.reset(seeds)
    device = env.spec.device
    # Whether all have ended is asked of a GPU at times only: it has to stop for the answer.
    interval = 1 if device == "cpu" else _LOOK_STEPS
    returns = torch.zeros(len(seeds), dtype=torch.float64, device=device)
    running = torch.ones(len(seeds), dtype=torch.bool, device=device)
    # Without a bound one panel went on until stop.minutes, and no message said why.
    longest = max(env.spec.max_episode_steps or 0, longest)
    for t in range(longest + interval):
        if should_stop():
            raise Stopped
        step = env.step(agent.act(obs, explore=False))
        returns += torch.where(running, step.reward.double(), 0.0)
        running &= ~(step.terminated | step.truncated)
        due = t % interval == 0 or t + 1 == env.spec.max_episode_steps
        if due and not bool(running.any()):
            return tuple(returns.tolist())
        obs = step.obs
    raise _endless(env.spec, int(running.sum()), longest)


def _endless(spec: EnvSpec, going_on: int, steps: int) -> EndlessEpisode:
    limit = spec.max_episode_steps
    has = "has no time limit" if limit is None else f"does not keep its time limit of {limit} steps"
    return EndlessEpisode(
        f"{going_on} of {spec.num_envs} episodes of {spec.id} have not ended in {steps} steps, and"
        f" it {has}: give it one, env: {{max_episode_steps: 1000}}, or a panel more steps by"
        " env.longest_episode"
    )
