"""The common part of SAC and TD3: all but the losses of their actors."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from hpcpod.agents import networks, offpolicy
from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.configs import ActorCriticConfig as ActorCriticConfig
from hpcpod.agents.gradient_agent import space_of
from hpcpod.agents.noise import Noise
from hpcpod.agents.operations import Program, Value
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.envs.vec_env import Box, EnvSpec, State

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
