"""Twin delayed deterministic policy gradients (Fujimoto et al. 2018, arXiv:1802.09477).

DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is the case of one critic, no smoothing, no delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor, nn

from hpcpod.agents import checks, h_term, networks, offpolicy
from hpcpod.agents.base import Buffer, Metrics
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
class TD3Config:
    """Hyperparameters of TD3; the defaults are those of the authors' code, but for
    ``learning_starts``: 25,000 is more than a short task takes.
    """

    learning_rate: float = 3e-4
    """Step size of Adam, for policy and critics."""
    gamma: float = field(default=0.99, metadata={"near_one": True})
    """Discount factor, in [0, 1]."""
    tau: float = 0.005
    """How far the target networks move each time, in (0, 1]."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise that is added to actions in [-1, 1] when exploring."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's actions; 0: no smoothing."""
    target_noise_clip: float = 0.5
    """That noise is cut to this size."""
    policy_delay: int = 2
    """Updates of the critics for each one of the policy and of the target networks."""
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
    """Weight of the Hamiltonian term (``agents/h_term.py``); its papers take 0.125. 0: none.
    The policy, which has no density, counts as a normal distribution of width 1."""
    h_steps: int = 4
    """Steps in a run of the Hamiltonian term."""
    normalize_obs: bool = field(default=False, metadata={"structural": True})
    """Scale vector observations by their running mean and variance."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "tau", "updates_per_step"):
            checks.positive(name, getattr(self, name))
        for name in ("gamma", "tau"):
            checks.fraction(name, getattr(self, name))
        for name in ("exploration_noise", "target_noise", "target_noise_clip", "learning_starts"):
            checks.at_least(name, getattr(self, name), 0)
        for name in ("policy_delay", "buffer_size", "batch_size", "horizon", "critics"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_most("critics", self.critics, offpolicy.MOST_CRITICS)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps, h_term.MOST_STEPS)


@dataclass(frozen=True)
class DDPGConfig(TD3Config):
    """Hyperparameters of DDPG: TD3's, without what TD3 has added."""

    target_noise: float = 0.0
    """Standard deviation of the noise on the target policy's actions; 0: no smoothing."""
    policy_delay: int = 1
    """Updates of the critic for each one of the policy and of the target networks."""
    critics: int = field(default=1, metadata={"structural": True})
    """Critics whose smallest value counts."""


class TD3:
    """TD3 for continuous actions. The encoder of images is the critics', the policy reads it."""

    Config: ClassVar[type[TD3Config]] = TD3Config
    name: ClassVar[str] = "td3"
    """What its messages call it."""

    def __init__(self, spec: EnvSpec, config: TD3Config, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``; raises ``UnsupportedSpace``."""
        self._config = config
        self._spec = spec
        self._device = device
        self._action = offpolicy.continuous(self.name, spec)
        numbers = math.prod(self._action.shape)
        generator = torch.Generator().manual_seed(seed)
        self._observations = Observations(spec, config.normalize_obs, device)
        inputs = self._observations.width
        hidden = [config.hidden] * config.layers
        self._actor, self._target_actor = (
            networks.mlp([inputs, *hidden, numbers], nn.ReLU, 0.01, generator).to(device)
            for _ in range(2)
        )
        self._critics, self._target_critics = (
            networks.Critics(
                config.critics,
                [inputs + numbers, *hidden],
                self._observations.encoder(generator),
                generator,
            ).to(device)
            for _ in range(2)
        )
        self._trained = {"actor": self._actor, "critics": self._critics}
        self._targets = {"actor": self._target_actor, "critics": self._target_critics}
        self._optimizers = {
            name: Adam(module, config.learning_rate) for name, module in self._trained.items()
        }
        self._followers = [
            offpolicy.Follower(module, self._optimizers[name], config.tau)
            for name, module in self._targets.items()
        ]
        self._generator = generator_on(device, seed)
        recorder = recorder_for(self._generator)
        self._captured_targets = Captured(self._target_values, recorder)
        self._captured_critics = Captured(self._descend_critics, recorder)
        self._captured_policy = Captured(self._descend_policy, recorder)
        self._captured_act = Captured(self._best, recorder)
        self._env_steps = 0
        self._updates = 0
        self._owed = 0.0

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""
        return self._config.horizon

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
            (action,) = self._captured_act({"obs": obs})
            if explore:
                noise = torch.empty_like(action).normal_(generator=self._generator)
                action = (action + self._config.exploration_noise * noise).clamp(-1.0, 1.0)
            return action.view(-1, *self._action.shape)

    def update(self, buffer: Buffer) -> Metrics:
        """Sample and descend, once there is enough to sample.

        Raises:
            Diverged: a loss is not finite.
        """
        config, spec = self._config, self._spec
        ring = offpolicy.replay(self.name, buffer)
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
        most = offpolicy.batches_at_once(config.batch_size, self._observations)
        last = self._updates + count
        critic_records: list[Tensor] = []
        policy_records: list[Tensor] = []
        while self._updates < last:
            # The target networks stand still until the policy's turn, so the target values
            # of all those updates are one pass.
            to_turn = config.policy_delay - self._updates % config.policy_delay
            group = list(islice(stream, min(to_turn, last - self._updates, most)))
            (targets,) = self._captured_targets(
                {name: torch.cat([each[name] for each in group]) for name in _OF_TARGETS}
            )
            for batch, target in zip(group, targets.tensor_split(len(group)), strict=True):
                part = {name: batch[name] for name in ("inputs", "action")} | {"target": target}
                critic_records += self._captured_critics(part)
            self._updates += len(group)
            if len(group) == to_turn:
                chosen = next(runs) if config.h_term else None
                part = {"inputs": group[-1]["inputs"]} | prefixed("runs", chosen or {})
                policy_records += self._captured_policy(part)
        return self._measured(critic_records, policy_records)

    def state(self) -> State:
        """Weights, target networks, optimizers, random stream and counters."""
        targets: State = {}
        for name, module in self._targets.items():
            targets |= prefixed(f"target/{name}", module_state(module))
        return {
            **offpolicy.trained_state(self._trained, self._optimizers),
            **targets,
            **prefixed("normalizer", self._observations.state()),
            "rng": self._generator.get_state(),
            "env_steps": torch.tensor(self._env_steps),
            "updates": torch.tensor(self._updates),
            "updates_owed": torch.tensor(self._owed, dtype=torch.float64),
        }

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        check_names(self.state(), state, f"{self.name} agent")
        offpolicy.load_trained(self._trained, self._optimizers, state)
        for name, module in self._targets.items():
            load_module(module, under(f"target/{name}", state))
        self._observations.load(under("normalizer", state))
        load_generator(self._generator, state["rng"])
        self._env_steps = int(state["env_steps"])
        self._updates = int(state["updates"])
        self._owed = float(state["updates_owed"])

    def reseed(self, seed: int) -> None:
        """Restart the random numbers; weights stay."""
        self._generator.manual_seed(seed)

    def _best(self, inputs: State) -> Outputs:
        features = self._critics.features(self._observations(inputs["obs"]))
        return (torch.tanh(self._actor(features)),)

    def _target_values(self, batch: State) -> Outputs:
        """y = r + γ (1 - terminated) min Q'(s', a'), algorithm 1; float32 [B]."""
        config = self._config
        with torch.no_grad():
            features = self._target_critics.features(batch["next_inputs"])
            action = torch.tanh(self._target_actor(features))
            if config.target_noise:
                noise = torch.empty_like(action).normal_(generator=self._generator)
                noise *= config.target_noise
                action = smoothed(action, noise, config.target_noise_clip)
            values: Tensor = self._target_critics(features, action)
            return (offpolicy.critic_target(batch, values.amin(dim=0)),)

    def _descend_critics(self, batch: State) -> Outputs:
        """One step of Adam towards ``target``; returns loss and mean Q, [2]."""
        loss, mean = offpolicy.squared_error(
            self._critics, batch["inputs"], batch["action"], batch["target"]
        )
        offpolicy.step(self._optimizers["critics"], loss)
        return (torch.stack([loss.detach(), mean]),)

    def _descend_policy(self, batch: State) -> Outputs:
        """One step of Adam on -mean Q_1(s, π(s)), then of the targets; the loss, a scalar."""
        features = self._critics.features(batch["inputs"])
        action = torch.tanh(self._actor(features))
        loss = -self._critics.first(features, action).mean()
        if "runs/worth" in batch:
            loss = loss + self._config.h_term * self._energy(under("runs", batch))
        offpolicy.step(self._optimizers["actor"], loss)
        for follower in self._followers:
            follower.move()
        return (loss.detach(),)

    def _energy(self, runs: State) -> Tensor:
        """The Hamiltonian term of these runs, a scalar."""
        features = self._critics.features(runs["inputs"].flatten(0, 1))
        mean, action = torch.tanh(self._actor(features)), runs["action"].flatten(0, 1)
        log_p = -(0.5 * (action - mean).square() + 0.5 * math.log(2 * math.pi)).sum(dim=-1)
        return h_term.energy(log_p.view(runs["worth"].shape), runs["worth"])

    def _measured(self, critic_records: list[Tensor], policy_records: list[Tensor]) -> Metrics:
        names, means = ["critic_loss", "q_mean"], [torch.stack(critic_records).mean(0)]
        if policy_records:
            names.append("policy_loss")
            means.append(torch.stack(policy_records).mean(0, keepdim=True))
        metrics = dict(zip(names, torch.cat(means).tolist(), strict=True))
        if not all(math.isfinite(value) for value in metrics.values()):
            raise Diverged(f"{self.name}: not finite after update {self._updates}: {metrics}")
        return metrics


_OF_TARGETS = ("next_inputs", "reward", "discount")


class DDPG(TD3):
    """DDPG for continuous actions; its noise is Gaussian, not correlated."""

    Config: ClassVar[type[TD3Config]] = DDPGConfig
    name: ClassVar[str] = "ddpg"


def smoothed(action: Tensor, noise: Tensor, clip: float) -> Tensor:
    """clip(a + clip(ε, -c, c), -1, 1): target policy smoothing, algorithm 1 of TD3's paper.

    Args:
        action: the target policy's, float32 [B, A].
        noise: ε, float32 [B, A].
        clip: c.

    Returns:
        float32 [B, A].
    """
    return (action + noise.clamp(-clip, clip)).clamp(-1.0, 1.0)
