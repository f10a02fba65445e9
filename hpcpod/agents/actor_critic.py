"""The common part of SAC and TD3: all but the losses of their actors."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from hpcpod.agents import checks, h_term, networks, offpolicy
from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.gradient_agent import space_of
from hpcpod.agents.noise import Noise
from hpcpod.agents.operations import Program, Value
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.schedules import RateConfig
from hpcpod.config.space import Choice, LogUniform
from hpcpod.envs.vec_env import Box, EnvSpec, State


@dataclass(frozen=True)
class ActorCriticConfig(RateConfig):
    """Hyperparameters of an actor-critic that learns from a replay buffer.

    Ranges of ``search`` hold what rl-baselines3-zoo has tuned (hyperparams/sac.yml, td3.yml).
    """

    # zoo, tuned: 3e-4 to 1e-3 (Pendulum)
    learning_rate: float = field(default=3e-4, metadata={"search": LogUniform(1e-4, 3e-3)})
    """Step size of Adam, for all that is learned."""
    gamma: float = field(
        default=0.99, metadata={"near_one": True, "search": Choice((0.95, 0.98, 0.99, 0.995))}
    )
    """Discount factor, in [0, 1]."""
    # zoo, tuned: 0.005 to 0.02 (BipedalWalker)
    tau: float = field(default=0.005, metadata={"search": Choice((0.005, 0.01, 0.02))})
    """Share of the way that the target networks move to the online ones each time, in (0, 1]."""
    buffer_size: int = 1_000_000
    """Transitions that the replay buffer holds, over all environments."""
    batch_size: int = field(default=256, metadata={"search": Choice((128, 256))})
    """Transitions in one gradient update."""
    learning_starts: int = field(default=1_000, metadata={"initial": True})  # rl-zoo: 10,000
    """Transitions to collect, by random actions, before the first gradient update, or as many as
    the buffer holds; each of a pod's ranks its own. A copy that inherits fewer waits for them."""
    noise_memory: int = field(default=1_024, metadata={"absent": 1})
    """Steps over which exploration's noise is correlated at most: pink noise, which reaches what
    noise that forgets at once never does (``agents/noise.py``). 1: white noise, as in the papers
    of SAC and TD3."""
    # others update once after each step of their one environment
    horizon: int = field(default=16, metadata={"search": Choice((4, 8, 16))})
    """Steps of each environment between two rounds of gradient updates."""
    updates_per_step: float = field(default=1.0, metadata={"search": Choice((0.25, 0.5, 1.0))})
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
        checks.each(self, checks.positive, "tau updates_per_step")
        checks.each(self, checks.fraction, "gamma tau")
        checks.at_least("learning_starts", self.learning_starts, 0)
        checks.each(self, checks.at_least, "buffer_size batch_size noise_memory horizon critics", 1)
        checks.at_most("critics", self.critics, offpolicy.MOST_CRITICS)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps, h_term.MOST_STEPS)


C = TypeVar("C", bound=ActorCriticConfig)


class ActorCritic(offpolicy.OffPolicyAgent, Generic[C]):
    """A policy and critics for continuous actions, which learn from a replay buffer.

    The encoder of images is the critics', the policy reads it.
    """

    _added_later = ("own_steps", "noise")
    _config: C
    _noise: Noise

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
        self._action = space_of(Box, self.name, spec)
        super().__init__(spec, config, seed, device)
        numbers, inputs = math.prod(self._action.shape), self._observations.width
        self._noise = Noise(spec.num_envs, numbers, config.noise_memory, self._generator)
        hidden, weights = [config.hidden] * config.layers, torch.Generator().manual_seed(seed)
        # Orthogonal, the last layer by 0.01; the papers' codes leave both to torch.
        self._actor = networks.mlp([inputs, *hidden, outputs * numbers], nn.ReLU, 0.01, weights)
        encoder = self._observations.encoder(weights)
        self._critics = networks.Critics(
            config.critics, [inputs + numbers, *hidden], encoder, weights
        )
        trained = {"actor": self._actor, "critics": self._critics, **more}
        self._trained = {name: module.to(device) for name, module in trained.items()}
        self._targets = {name: copy.deepcopy(self._trained[name]) for name in self.followed}
        # One vector for all modules would save 0.1 ms of an update's 6.9.
        self._optimizers = {
            name: Adam(module, config.learning_rate) for name, module in self._trained.items()
        }
        self._followers = [
            offpolicy.Follower(target, self._optimizers[name], config.tau)
            for name, target in self._targets.items()
        ]
        for name, module in self._trained.items():
            self._parts[f"network/{name}"] = module
            self._parts[f"optimizer/{name}"] = self._optimizers[name]
        self._parts |= {f"target/{name}": module for name, module in self._targets.items()}
        self._parts["normalizer"] = self._observations
        self._own_steps = 0

    def make_buffer(self) -> ReplayBuffer:
        """A ring of ``buffer_size`` transitions."""
        return ReplayBuffer(self._spec, self._config.buffer_size, self._device)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions: float32 [N, *action]; at first uniformly. See ``Agent.act``."""
        with torch.inference_mode():
            if explore:
                self._env_steps += len(obs)
                self._own_steps += len(obs)
                # By the steps of all ranks, four took 256 random transitions of 1,000.
                if self._own_steps <= self._config.learning_starts:
                    shape = (len(obs), *self._action.shape)
                    return self._noise.draw_uniform(torch.empty(shape, device=obs.device))
        return super().act(obs, explore=explore)

    def action_values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        """See ``Valuing``."""
        count, rows = candidates.shape[:2]
        features = self._critics.features(self._observations(obs))
        actions = candidates.reshape(count * rows, -1)
        values: Tensor = self._critics(features.repeat(count, 1), actions)
        return values.amin(dim=0).view(count, rows)

    def update(self, buffer: Buffer) -> Metrics:
        """Sample and descend, once there is enough to sample; see ``OffPolicyAgent.update``."""
        # Of this rank alone; and in a pipeline the actor has counted them.
        self._own_steps = buffer.rows * self._spec.num_envs
        return super().update(buffer)

    def _draws(
        self, ring: ReplayBuffer, count: int
    ) -> tuple[Iterator[State], Iterator[State | None]]:
        """Batches for ``count`` updates, and runs for the Hamiltonian term."""
        config, seen, draw = self._config, self._observations, self._generator
        batches = offpolicy.batches(
            ring, seen, count, config.batch_size, config.gamma, draw, self._teacher
        )
        return batches, offpolicy.runs(ring, seen, config.batch_size, config.h_steps, draw)

    def state(self) -> State:
        """Weights, target networks, optimizers, statistics, random stream and counters."""
        return {**super().state(), "own_steps": torch.tensor(self._own_steps)}

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        super().load(state)
        # Older versions counted those of all ranks, and no others.
        self._own_steps = int(state.get("own_steps", state["env_steps"]))

    def _outputs(self, obs: Tensor) -> Tensor:
        """Of the policy's network, for raw observations."""
        outputs: Tensor = self._actor(self._critics.features(self._observations(obs)))
        return outputs

    def write_action_values(
        self, program: Program, x: Value, candidates: Sequence[Value] | None
    ) -> Value:
        """See ``PortableValues``."""
        assert candidates is not None
        x = self._observations.write_operations(program, x)
        features = program.network(self._critics.encoder, x)
        flat = [program.add("reshape", action, shape=[-1]) for action in candidates]
        return program.add(
            "concat", *[self._critics.write_least(program, features, action) for action in flat]
        )

    def _write_outputs(self, program: Program, x: Value) -> Value:
        """Operations of ``_outputs``."""
        x = self._observations.write_operations(program, x)
        return program.network(self._actor, program.network(self._critics.encoder, x))

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
