"""Soft actor-critic with a learned temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from hpcpod.agents import checks, h_term, networks, offpolicy
from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.distributions import SquashedGaussian
from hpcpod.agents.graphs import Captured, Outputs, recorder_for
from hpcpod.agents.observations import Observations
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.state import (
    check_names,
    generator_on,
    load_generator,
    load_module,
    module_state,
    prefixed,
    under,
)
from hpcpod.envs.vec_env import EnvSpec, State
from hpcpod.errors import Diverged


@dataclass(frozen=True)
class SACConfig:
    """Hyperparameters of SAC; the defaults are the paper's (table 1), but for what it lacks."""

    learning_rate: float = 3e-4
    """Step size of Adam, for policy, critics and temperature."""
    gamma: float = field(default=0.99, metadata={"near_one": True})
    """Discount factor, in [0, 1]."""
    tau: float = 0.005
    """How far the target critics move at each update, in (0, 1]."""
    temperature: float = 0.0
    """Weight of the policy's entropy beside the reward; 0 learns it."""
    temperature_init: float = 1.0
    """Where a learned temperature begins."""
    target_entropy: float = -1.0
    """Entropy that a learned temperature steers to, in nats for each number of an action."""
    buffer_size: int = 1_000_000
    """Transitions that the replay buffer holds, over all environments."""
    batch_size: int = 256
    """Transitions in one gradient update."""
    learning_starts: int = 1_000
    """Transitions to collect, by random actions, before the first gradient update."""
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
        for name in ("learning_rate", "tau", "temperature_init", "updates_per_step"):
            checks.positive(name, getattr(self, name))
        for name in ("gamma", "tau"):
            checks.fraction(name, getattr(self, name))
        for name in ("temperature", "learning_starts"):
            checks.at_least(name, getattr(self, name), 0)
        for name in ("buffer_size", "batch_size", "horizon", "critics"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_most("critics", self.critics, offpolicy.MOST_CRITICS)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps, h_term.MOST_STEPS)
        if not math.isfinite(self.target_entropy):
            raise ValueError(f"target_entropy must be finite, got {self.target_entropy}")


class Temperature(nn.Module):
    """α > 0, the weight of the entropy, by its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))


class SAC:
    """SAC for continuous actions. The encoder of images is the critics', the policy reads it."""

    Config: ClassVar[type[SACConfig]] = SACConfig

    def __init__(self, spec: EnvSpec, config: SACConfig, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``; raises ``UnsupportedSpace``."""
        self._config = config
        self._spec = spec
        self._device = device
        self._action = offpolicy.continuous("sac", spec)
        self._head = SquashedGaussian(self._action.shape)
        generator = torch.Generator().manual_seed(seed)
        self._observations = Observations(spec, config.normalize_obs, device)
        inputs = self._observations.width
        hidden = [config.hidden] * config.layers
        self._actor = networks.mlp([inputs, *hidden, self._head.inputs], nn.ReLU, 0.01, generator)
        self._critics, self._targets = (
            networks.Critics(
                config.critics,
                [inputs + self._head.size, *hidden],
                self._observations.encoder(generator),
                generator,
            )
            for _ in range(2)
        )
        self._temperature = Temperature(config.temperature_init)
        self._trained = {
            "actor": self._actor.to(device),
            "critics": self._critics.to(device),
            "temperature": self._temperature.to(device),
        }
        self._optimizers = {
            name: Adam(module, config.learning_rate) for name, module in self._trained.items()
        }
        self._follower = offpolicy.Follower(
            self._targets.to(device), self._optimizers["critics"], config.tau
        )
        self._generator = generator_on(device, seed)
        recorder = recorder_for(self._generator)
        self._captured_descend = Captured(self._descend, recorder)
        self._captured_act = {
            True: Captured(self._explore, recorder), False: Captured(self._best, recorder)
        }  # fmt: skip
        self._env_steps = 0
        self._updates = 0
        self._owed = 0.0

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""
        return self._config.horizon

    @property
    def alpha(self) -> Tensor:
        """The temperature now, a float32 scalar: the hyperparameter's, or the learned one."""
        if self._config.temperature:
            return torch.full((), self._config.temperature, device=self._device)
        return self._temperature.log_alpha.detach().exp()

    def make_buffer(self) -> ReplayBuffer:
        """A ring of ``buffer_size`` transitions."""
        return ReplayBuffer(self._spec, self._config.buffer_size, self._device)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions: float32 [N, *action]; at first uniformly. See ``Agent.act``."""
        with torch.inference_mode():
            if explore:
                self._env_steps += obs.shape[0]
                if self._env_steps <= self._config.learning_starts:
                    return offpolicy.uniform(obs, self._action, self._generator)
            return self._captured_act[explore]({"obs": obs})[0]

    def update(self, buffer: Buffer) -> Metrics:
        """Sample and descend, once there is enough to sample.

        Raises:
            Diverged: a loss is not finite.
        """
        config, spec = self._config, self._spec
        ring = offpolicy.replay("sac", buffer)
        offpolicy.learn_statistics(ring, self._observations, config.horizon)
        if not offpolicy.has_enough(ring, config.learning_starts, spec.num_envs):
            return {}
        self._owed += config.updates_per_step * config.horizon * spec.num_envs
        count = int(self._owed)
        self._owed -= count
        if count == 0:
            return {}
        stream = offpolicy.batches(
            ring, self._observations, count, config.batch_size, config.gamma, self._generator
        )
        runs = offpolicy.runs(
            ring, self._observations, config.batch_size, config.h_steps, self._generator
        )
        records: list[Tensor] = []
        for batch in stream:
            chosen = next(runs) if config.h_term else None
            records += self._captured_descend(batch | prefixed("runs", chosen or {}))
        self._updates += count
        means = torch.stack(records).mean(0).tolist()
        metrics = dict(zip(_METRICS, means, strict=True))
        if not all(math.isfinite(value) for value in means):
            raise Diverged(f"sac: not finite after update {self._updates}: {metrics}")
        return metrics

    def state(self) -> State:
        """Weights, target critics, temperature, optimizers, random stream and counters."""
        return {
            **offpolicy.trained_state(self._trained, self._optimizers),
            **prefixed("target/critics", module_state(self._targets)),
            **prefixed("normalizer", self._observations.state()),
            "rng": self._generator.get_state(),
            "env_steps": torch.tensor(self._env_steps),
            "updates": torch.tensor(self._updates),
            "updates_owed": torch.tensor(self._owed, dtype=torch.float64),
        }

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        check_names(self.state(), state, "sac agent")
        offpolicy.load_trained(self._trained, self._optimizers, state)
        load_module(self._targets, under("target/critics", state))
        self._observations.load(under("normalizer", state))
        load_generator(self._generator, state["rng"])
        self._env_steps = int(state["env_steps"])
        self._updates = int(state["updates"])
        self._owed = float(state["updates_owed"])

    def reseed(self, seed: int) -> None:
        """Restart the random numbers; weights stay."""
        self._generator.manual_seed(seed)

    def _explore(self, inputs: State) -> Outputs:
        return (self._head.sample(self._outputs(inputs["obs"]), self._generator),)

    def _best(self, inputs: State) -> Outputs:
        return (self._head.mode(self._outputs(inputs["obs"])),)

    def _outputs(self, obs: Tensor) -> Tensor:
        outputs: Tensor = self._actor(self._critics.features(self._observations(obs)))
        return outputs

    def _descend(self, batch: State) -> Outputs:
        """One step of everything (algorithm 1); returns what ``_METRICS`` names, [6]."""
        alpha = self.alpha
        shape = (2, len(batch["reward"]), self._head.size)
        noise = torch.empty(shape, device=self._device).normal_(generator=self._generator)
        target = self._target(batch, alpha, noise[0])
        critic_loss, q_mean = offpolicy.squared_error(
            self._critics, batch["inputs"], batch["action"], target
        )
        offpolicy.step(self._optimizers["critics"], critic_loss)

        policy_loss, log_p = self._policy_loss(batch["inputs"], alpha, noise[1])
        energy = torch.zeros_like(policy_loss)
        if "runs/worth" in batch:
            energy = self._energy(under("runs", batch))
            policy_loss = policy_loss + self._config.h_term * energy
        offpolicy.step(self._optimizers["actor"], policy_loss)

        entropy = -log_p.detach().mean()
        if not self._config.temperature:
            excess = entropy - self._config.target_entropy * self._head.size
            # equation 18, with log α for α: what falls is the temperature of too random a policy
            self._optimizers["temperature"].take([excess])
            self._optimizers["temperature"].step()
        self._follower.move()
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
            values: Tensor = self._targets(self._targets.features(inputs), action)
            return offpolicy.critic_target(batch, values.amin(dim=0) - alpha * log_p)

    def _policy_loss(self, inputs: Tensor, alpha: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """mean(α log π - min Q), equation 9, and log π [B]."""
        features = self._critics.features(inputs)
        action, log_p = self._head.reparameterised(self._actor(features), noise)
        values: Tensor = self._critics(features, action)
        return (alpha * log_p - values.amin(dim=0)).mean(), log_p


_METRICS = ("critic_loss", "q_mean", "policy_loss", "entropy", "temperature", "h_term")
