"""Soft actor-critic with a learned temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from hpcpod.agents import h_term, offpolicy
from hpcpod.agents.actor_critic import ActorCritic
from hpcpod.agents.base import Metrics
from hpcpod.agents.configs import SACConfig as SACConfig
from hpcpod.agents.cuda_graphs import Captured, Outputs
from hpcpod.agents.distributions import SquashedGaussian
from hpcpod.agents.imitation import squared_distance
from hpcpod.agents.operations import Program, Value
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.state import prefixed, under
from hpcpod.envs.vec_env import EnvSpec, State


class Temperature(nn.Module):
    """α > 0, the weight of the entropy, by its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))


class SAC(ActorCritic[SACConfig]):
    """SAC for continuous actions."""

    Config: ClassVar[type[SACConfig]] = SACConfig
    name = "sac"

    def __init__(self, spec: EnvSpec, config: SACConfig, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``; raises ``UnsupportedSpace``."""
        self._temperature = Temperature(config.temperature_init)
        more = {"temperature": self._temperature}
        super().__init__(spec, config, seed, device, outputs=2, more=more)
        self._head = SquashedGaussian(self._action.shape)
        self._captured_update = Captured(self._update_all, self._recorder)

    @property
    def alpha(self) -> Tensor:
        """The temperature now, a float32 scalar: the hyperparameter's, or the learned one."""
        if self._config.temperature:
            return torch.full((), self._config.temperature, device=self._device)
        return self._temperature.log_alpha.detach().exp()

    def _learn(self, ring: ReplayBuffer, count: int) -> Metrics:
        batches, runs = self._draws(ring, count)
        records: list[Tensor] = []
        for batch in batches:
            chosen = next(runs) if self._config.h_term else None
            records += self._captured_update(batch | prefixed("runs", chosen or {}))
        return dict(zip(_METRICS, torch.stack(records).mean(0).tolist(), strict=True))

    def _explore(self, inputs: State) -> Outputs:
        outputs = self._outputs(inputs["obs"])
        return (self._head.at(outputs, self._noise.draw(outputs[:, : self._head.size])),)

    def _best(self, inputs: State) -> Outputs:
        return (self._head.mode(self._outputs(inputs["obs"])),)

    def write_operations(self, program: Program, x: Value) -> Value:
        """Of ``act`` without exploration; see ``Portable``."""
        return self._head.write_operations(program, self._write_outputs(program, x))

    def _update_all(self, batch: State) -> Outputs:
        """One step of everything (algorithm 1); returns what ``_METRICS`` names, [6]."""
        alpha = self.alpha
        shape = (2, len(batch["reward"]), self._head.size)
        noise = torch.empty(shape, device=self._device).normal_(generator=self._generator)
        target = self._target(batch, alpha, noise[0])
        critic_loss, q_mean = offpolicy.squared_error(
            self._critics, batch["inputs"], batch["action"], target
        )
        self._descend("critics", critic_loss)

        policy_loss, log_p = self._policy_loss(batch, alpha, noise[1])
        energy = torch.zeros_like(policy_loss)
        if "runs/worth" in batch:
            energy = self._energy(under("runs", batch))
            policy_loss = policy_loss + self._config.h_term * energy
        self._descend("actor", policy_loss)

        entropy = -log_p.detach().mean()
        if not self._config.temperature:
            excess = entropy - self._config.target_entropy * self._head.size
            # equation 18, with log α for α: what falls is the temperature of too random a policy
            self._optimizers["temperature"].take([excess])
            self._optimizers["temperature"].step()
        self._follow()
        losses = [critic_loss.detach(), q_mean, policy_loss.detach(), entropy, alpha]
        return (torch.stack([*losses, energy.detach()]),)

    def _energy(self, runs: State) -> Tensor:
        """The Hamiltonian term of these runs, a scalar."""
        outputs = self._actor(self._critics.features(runs["inputs"].flatten(0, 1)))
        log_p = self._head.log_prob(outputs, runs["action"].flatten(0, 1))
        return h_term.energy(log_p.view(runs["worth"].shape), runs["worth"])

    def _target(self, batch: State, alpha: Tensor, noise: Tensor) -> Tensor:
        """y of equations 3 and 5: r + γ (1 - terminated) (min Q'(s', a') - α log π), [B]."""
        with torch.no_grad():
            inputs = batch["next_inputs"]
            outputs = self._actor(self._critics.features(inputs))
            action, log_p = self._head.reparameterised(outputs, noise)
            features = self._target_critics.features(inputs)
            values: Tensor = self._target_critics(features, action)
            return offpolicy.critic_target(batch, values.amin(dim=0) - alpha * log_p)

    def _policy_loss(self, batch: State, alpha: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """mean(α log π - min Q), equation 9, or its distance from a teacher; and log π [B]."""
        features = self._critics.features(batch["inputs"])
        outputs = self._actor(features)
        action, log_p = self._head.reparameterised(outputs, noise)
        if "taught" in batch:
            best = torch.tanh(outputs[:, : self._head.size])
            return squared_distance(best, batch["taught"]), log_p
        values: Tensor = self._critics(features, action)
        return (alpha * log_p - values.amin(dim=0)).mean(), log_p


_METRICS = ("critic_loss", "q_mean", "policy_loss", "entropy", "temperature", "h_term")
