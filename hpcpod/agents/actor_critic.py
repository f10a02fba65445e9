"""The common part of SAC and TD3: all but the losses of their actors."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from hpcpod.agents import checks, h_term, networks, offpolicy
from hpcpod.agents.base import Buffer, Metrics, check_finite
from hpcpod.agents.cuda_graphs import Captured, Outputs, recorder_for
from hpcpod.agents.noise import Noise
from hpcpod.agents.observations import Observations
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.schedules import Clock, RateConfig
from hpcpod.agents.state import (
    check_names,
    generator_on,
    load_generator,
    load_module,
    module_state,
    prefixed,
    under,
)
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, State
from hpcpod.errors import UnsupportedSpace


@dataclass(frozen=True)
class ActorCriticConfig(RateConfig):
    """Hyperparameters of an actor-critic that learns from a replay buffer."""

    learning_rate: float = 3e-4
    """Step size of Adam, for all that is learned."""
    gamma: float = field(default=0.99, metadata={"near_one": True})
    """Discount factor, in [0, 1]."""
    tau: float = 0.005
    """Share of the way that the target networks move to the online ones each time, in (0, 1]."""
    buffer_size: int = 1_000_000
    """Transitions that the replay buffer holds, over all environments."""
    batch_size: int = 256
    """Transitions in one gradient update."""
    learning_starts: int = field(default=1_000, metadata={"initial": True})
    """Transitions to collect, by random actions, before the first gradient update, or as many as
    the buffer holds; each of a pod's ranks its own. A copy that inherits fewer waits for them."""
    noise_memory: int = field(default=1_024, metadata={"absent": 1})
    """Steps over which exploration's noise is correlated at most: pink noise, which reaches what
    noise that forgets at once never does (``agents/noise.py``). 1: white noise, as in the papers
    of SAC and TD3."""
    horizon: int = 16
    """Steps of each environment between two rounds of gradient updates."""
    updates_per_step: float = 1.0
    """Gradient updates for each transition collected, over all environments."""
    critics: int = field(default=2, metadata={"structural": True})
    """Critics whose smallest value counts."""
    hidden: int = field(default=256, metadata={"structural": True})
    """Units of each hidden layer."""
    layers: int = field(default=2, metadata={"structural": True})
    """Hidden layers of the policy, and as many of each critic."""
    h_term: float = 0.0
    """Weight of the Hamiltonian term (``agents/h_term.py``); its papers take 0.125. 0: none."""
    h_steps: int = 4
    """Steps in a run of the Hamiltonian term."""
    normalize_obs: bool = field(default=False, metadata={"structural": True})
    """Scale vector observations by their running mean and variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tau", "updates_per_step"):
            checks.positive(name, getattr(self, name))
        for name in ("gamma", "tau"):
            checks.fraction(name, getattr(self, name))
        checks.at_least("learning_starts", self.learning_starts, 0)
        for name in ("buffer_size", "batch_size", "noise_memory", "horizon", "critics"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_most("critics", self.critics, offpolicy.MOST_CRITICS)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps, h_term.MOST_STEPS)


C = TypeVar("C", bound=ActorCriticConfig)


class ActorCritic(ABC, Generic[C]):
    """A policy and critics for continuous actions, which learn from a replay buffer.

    The encoder of images is the critics', the policy reads it.
    """

    name: ClassVar[str]
    """Its name in messages."""

    followed: ClassVar[tuple[str, ...]] = ("critics",)
    """Modules that have target networks."""

    def __init__(
        self,
        spec: EnvSpec,
        config: C,
        seed: int,
        device: str,
        *,
        outputs: int,
        more: Mapping[str, nn.Module],
    ) -> None:
        """Make fresh networks.

        Args:
            spec: of the environment.
            config: hyperparameters.
            seed: of weights and of all that is drawn.
            device: of everything.
            outputs: of the policy's network, for each number of an action.
            more: modules that are trained beside ``actor`` and ``critics``.

        Raises:
            UnsupportedSpace: the actions are not continuous.
        """
        self._config, self._spec, self._device = config, spec, device
        self._action = continuous(self.name, spec)
        self._observations = Observations(spec, config.normalize_obs, device)
        self._generator = generator_on(device, seed)
        self._recorder = recorder_for(self._generator)
        self._captured_act = {
            True: Captured(self._explore, self._recorder),
            False: Captured(self._best, self._recorder),
        }
        numbers, inputs = math.prod(self._action.shape), self._observations.width
        self._noise = Noise(spec.num_envs, numbers, config.noise_memory, self._generator)
        hidden, weights = [config.hidden] * config.layers, torch.Generator().manual_seed(seed)
        self._actor = networks.mlp([inputs, *hidden, outputs * numbers], nn.ReLU, 0.01, weights)
        encoder = self._observations.encoder(weights)
        self._critics = networks.Critics(
            config.critics, [inputs + numbers, *hidden], encoder, weights
        )
        trained = {"actor": self._actor, "critics": self._critics, **more}
        self._trained = {name: module.to(device) for name, module in trained.items()}
        self._targets = {name: copy.deepcopy(self._trained[name]) for name in self.followed}
        self._optimizers = {
            name: Adam(module, config.learning_rate) for name, module in self._trained.items()
        }
        self._followers = [
            offpolicy.Follower(target, self._optimizers[name], config.tau)
            for name, target in self._targets.items()
        ]
        self._clock = Clock()
        self._env_steps = 0
        self._own_steps = 0
        self._updates = 0
        self._owed = 0.0

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""
        return self._config.horizon

    @property
    def learning_rate(self) -> float:
        """Step size of every Adam now."""
        return self._clock.rate(self._config, self._env_steps)

    def proceed(self, progress: float) -> None:
        """Learn how far the run has come; see ``Scheduled``."""
        self._clock.progress = progress

    def make_buffer(self) -> ReplayBuffer:
        """A ring of ``buffer_size`` transitions."""
        return ReplayBuffer(self._spec, self._config.buffer_size, self._device)

    def optimizers(self) -> list[Adam]:
        """Those that it steps: gradients may be exchanged there."""
        return list(self._optimizers.values())

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions: float32 [N, *action]; at first uniformly. See ``Agent.act``."""
        with torch.inference_mode():
            if explore:
                self._env_steps += len(obs)
                self._own_steps += len(obs)
                if self._own_steps <= self._config.learning_starts:
                    shape = (len(obs), *self._action.shape)
                    return self._noise.draw_uniform(torch.empty(shape, device=obs.device))
            return self._captured_act[explore]({"obs": obs})[0]

    def update(self, buffer: Buffer) -> Metrics:
        """Sample and descend, once there is enough to sample.

        Raises:
            Diverged: a loss is not finite.
        """
        config, seen, num_envs = self._config, self._observations, self._spec.num_envs
        ring = offpolicy.replay(self.name, buffer)
        # Of this rank alone; and in a pipeline the actor has counted them.
        self._own_steps = ring.rows * num_envs
        offpolicy.learn_statistics(ring, seen, config.horizon)
        if not offpolicy.has_enough(ring, config.learning_starts, num_envs):
            return {}
        self._owed += config.updates_per_step * config.horizon * num_envs
        count = int(self._owed)
        self._owed -= count
        if count == 0:
            return {}
        for optimizer in self._optimizers.values():
            optimizer.learning_rate = self.learning_rate
        size, draw = config.batch_size, self._generator
        batches = offpolicy.batches(ring, seen, count, size, config.gamma, draw)
        runs = offpolicy.runs(ring, seen, size, config.h_steps, draw)
        metrics = self._learn(count, batches, runs)
        self._updates += count
        check_finite(self.name, self._updates, metrics)
        return metrics

    def state(self) -> State:
        """Weights, target networks, optimizers, statistics, random stream and counters."""
        state: State = {}
        for name, module in self._trained.items():
            state |= prefixed(f"network/{name}", module_state(module))
            state |= prefixed(f"optimizer/{name}", self._optimizers[name].state())
        for name, module in self._targets.items():
            state |= prefixed(f"target/{name}", module_state(module))
        return {
            **state,
            **prefixed("normalizer", self._observations.state()),
            **self._noise.state(),
            "rng": self._generator.get_state(),
            "env_steps": torch.tensor(self._env_steps),
            "own_steps": torch.tensor(self._own_steps),
            "updates": torch.tensor(self._updates),
            "updates_owed": torch.tensor(self._owed, dtype=torch.float64),
        }

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        optional, sized = ("own_steps", "noise"), ("rng", "noise")
        check_names(self.state(), state, f"{self.name} agent", optional, sized)
        for name, module in self._trained.items():
            load_module(module, under(f"network/{name}", state))
            self._optimizers[name].load(under(f"optimizer/{name}", state))
        for name, module in self._targets.items():
            load_module(module, under(f"target/{name}", state))
        self._observations.load(under("normalizer", state))
        load_generator(self._generator, state["rng"])
        self._noise.load(state)
        self._env_steps = int(state["env_steps"])
        # Older versions counted those of all ranks, and no others.
        self._own_steps = int(state.get("own_steps", state["env_steps"]))
        self._updates = int(state["updates"])
        self._owed = float(state["updates_owed"])

    def reseed(self, seed: int) -> None:
        """Restart the random numbers; weights stay."""
        self._generator.manual_seed(seed)
        self._noise.begin()

    def _outputs(self, obs: Tensor) -> Tensor:
        """Of the policy's network, for raw observations."""
        outputs: Tensor = self._actor(self._critics.features(self._observations(obs)))
        return outputs

    def _descend(self, name: str, loss: Tensor) -> None:
        """One step down the gradient of one module's weights; that of no other is computed."""
        self._optimizers[name].backward((loss, None))
        self._optimizers[name].step()

    @property
    def _target_critics(self) -> networks.Critics:
        target = self._targets["critics"]
        assert isinstance(target, networks.Critics)
        return target

    def _follow(self) -> None:
        for follower in self._followers:
            follower.move()

    @abstractmethod
    def _explore(self, inputs: State) -> Outputs:
        """Actions for ``obs``, drawn."""

    @abstractmethod
    def _best(self, inputs: State) -> Outputs:
        """Actions for ``obs``, the same each time."""

    @abstractmethod
    def _learn(self, count: int, batches: Iterator[State], runs: Iterator[State | None]) -> Metrics:
        """Update ``count`` times, with ``offpolicy.batches`` and ``offpolicy.runs``."""


def continuous(algorithm: str, spec: EnvSpec) -> Box:
    """The action space, if it is continuous.

    Raises:
        UnsupportedSpace: it is not; says which algorithm can act in it.
    """
    if isinstance(spec.action, Box):
        return spec.action
    discrete = isinstance(spec.action, Discrete)
    kind, remedy = ("discrete", "dqn or ppo") if discrete else ("multi-discrete", "ppo")
    raise UnsupportedSpace(
        f"{algorithm} acts in continuous spaces only, but {spec.id} has a {kind} action space;"
        f" use {remedy}"
    )
