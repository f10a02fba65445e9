"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from hpcpod.agents import checks, networks
from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.buffers import RolloutBuffer
from hpcpod.agents.distributions import head_for
from hpcpod.agents.normalizer import RunningNorm
from hpcpod.agents.state import (
    adam,
    adam_state,
    check_names,
    generator_on,
    load_adam,
    load_generator,
    load_module,
    module_state,
    prefixed,
    under,
)
from hpcpod.envs.vec_env import Box, EnvSpec, State
from hpcpod.errors import Diverged


@dataclass(frozen=True)
class PPOConfig:
    """Hyperparameters of PPO."""

    learning_rate: float = 1e-3
    """Step size of Adam."""
    gamma: float = field(default=0.99, metadata={"near_one": True})
    """Discount factor, in [0, 1]."""
    gae_lambda: float = field(default=0.95, metadata={"near_one": True})
    """λ of generalised advantage estimation, in [0, 1]: 0 trusts the critic, 1 the returns."""
    clip: float = 0.2
    """ε: a gradient that moves a probability ratio beyond 1 ± ε is cut."""
    value_clip: float = 0.0
    """The same for the critic's change, in units of reward; 0 leaves it free."""
    entropy: float = 0.0
    """Weight of the entropy bonus: larger keeps exploring for longer."""
    value_coef: float = 0.5
    """Weight of the critic's loss."""
    max_grad_norm: float = 0.5
    """The gradient is scaled down to this Euclidean norm."""
    target_kl: float = 0.0
    """Stop the epochs of an update when the mean KL divergence passes this; 0 never stops."""
    epochs: int = 5
    """Passes over each rollout."""
    minibatch_size: int = 256
    """Steps in one gradient update."""
    horizon: int = 128
    """Steps that each environment contributes to a rollout."""
    normalize_obs: bool = True
    """Scale vector observations by their running mean and variance."""
    hidden: int = field(default=64, metadata={"structural": True})
    """Units of each hidden layer."""
    layers: int = field(default=2, metadata={"structural": True})
    """Hidden layers of the policy, and as many of the critic."""
    log_std_init: float = 0.0
    """Log of the standard deviation with which continuous actions begin."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip", "max_grad_norm"):
            checks.positive(name, getattr(self, name))
        for name in ("gamma", "gae_lambda"):
            checks.fraction(name, getattr(self, name))
        for name in ("value_clip", "entropy", "value_coef", "target_kl"):
            checks.at_least(name, getattr(self, name), 0)
        for name in ("epochs", "minibatch_size", "horizon"):
            checks.at_least(name, getattr(self, name), 1)
        checks.shape(self.hidden, self.layers)
        if not math.isfinite(self.log_std_init):
            raise ValueError(f"log_std_init must be finite, got {self.log_std_init}")


class ActorCritic(nn.Module):
    """A policy and a value network of the same shape that share nothing."""

    def __init__(self, spec: EnvSpec, config: PPOConfig, generator: torch.Generator) -> None:
        super().__init__()
        inputs = networks.features("ppo", spec.id, spec.observation)
        hidden = [config.hidden] * config.layers
        self.head = head_for(spec.action, config.log_std_init)
        self.actor = networks.mlp([inputs, *hidden, self.head.inputs], nn.Tanh, 0.01, generator)
        self.critic = networks.mlp([inputs, *hidden, 1], nn.Tanh, 1.0, generator)


class PPO:
    """PPO for discrete, multi-discrete and continuous actions on vector observations.

    A rollout's log-probabilities and values are computed in one pass when the update begins,
    so ``act`` runs the policy alone. The normaliser takes in a rollout after learning from it:
    within one update, and for the policy that collected it, its statistics stand still.
    """

    Config: ClassVar[type[PPOConfig]] = PPOConfig

    def __init__(self, spec: EnvSpec, config: PPOConfig, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``; raises ``UnsupportedSpace``."""
        self._config = config
        self._space = spec.observation
        self._network = ActorCritic(spec, config, torch.Generator().manual_seed(seed)).to(device)
        self._optimizer = adam(self._network, config.learning_rate, eps=1e-5)
        self._parameters = list(self._network.parameters())
        self._generator = generator_on(device, seed)
        inputs = networks.features("ppo", spec.id, spec.observation)
        self._norm = RunningNorm(inputs, device)
        self._normalizes = config.normalize_obs and isinstance(spec.observation, Box)
        self._updates = 0

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""
        return self._config.horizon

    def make_buffer(self) -> RolloutBuffer:
        """A rollout."""
        return RolloutBuffer()

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions; continuous ones are not clipped when exploring. See ``Agent.act``."""
        with torch.inference_mode():
            outputs = self._network.actor(self._inputs(obs))
            if explore:
                return self._network.head.sample(outputs, self._generator)
            return self._network.head.mode(outputs)

    def update(self, buffer: Buffer) -> Metrics:
        """Learn from the rollout, then empty the buffer.

        Raises:
            Diverged: a loss is not finite.
        """
        rollout = buffer.segment(buffer.oldest, buffer.rows)
        batch, raw_obs = self._prepare(rollout)
        records: list[Tensor] = []
        stopped = False
        for _ in range(self._config.epochs):
            begin = len(records)
            for index in self._minibatches(len(raw_obs)):
                part = {name: tensor.index_select(0, index) for name, tensor in batch.items()}
                records.append(self._descend(part))
            if self._config.target_kl and self._kl(records[begin:]) > self._config.target_kl:
                stopped = True
                break
        means = torch.stack(records).mean(0).tolist()
        metrics = dict(zip(_METRICS, means, strict=True))
        if not all(math.isfinite(value) for value in means):
            raise Diverged(f"ppo: not finite after update {self._updates}: {metrics}")
        if self._normalizes:
            self._norm.update(raw_obs)
        buffer.restore(buffer.rows, ())
        self._updates += 1
        metrics["stopped_early"] = float(stopped)
        return metrics

    def state(self) -> State:
        """Weights, optimizer, normaliser, random stream and counter."""
        return {
            **prefixed("network", module_state(self._network)),
            **prefixed("optimizer", adam_state(self._network, self._optimizer)),
            **prefixed("normalizer", self._norm.state()),
            "rng": self._generator.get_state(),
            "updates": torch.tensor(self._updates),
        }

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        check_names(self.state(), state, "ppo agent")
        load_module(self._network, under("network", state))
        load_adam(self._network, self._optimizer, under("optimizer", state))
        self._norm.load(under("normalizer", state))
        load_generator(self._generator, state["rng"])
        self._updates = int(state["updates"])

    def reseed(self, seed: int) -> None:
        """Restart the random numbers; weights stay."""
        self._generator.manual_seed(seed)

    def _inputs(self, obs: Tensor) -> Tensor:
        inputs = networks.encode(self._space, obs)
        return self._norm(inputs) if self._normalizes else inputs

    def _prepare(self, rollout: State) -> tuple[State, Tensor]:
        """What the minibatches are cut from, and the encoded observations, valid rows only."""
        rows, num_envs = rollout["reward"].shape
        flat_obs = rollout["obs"].flatten(0, 1)
        with torch.no_grad():
            inputs = self._inputs(torch.cat([flat_obs, rollout["next_obs"], rollout["final_obs"]]))
            values = self._network.critic(inputs).squeeze(-1)
            inputs = inputs[: rows * num_envs]
            action = rollout["action"].flatten(0, 1)
            log_p, _ = self._network.head.evaluate(self._network.actor(inputs), action)
            sizes = [rows * num_envs, num_envs, len(rollout["final_obs"])]
            value, last, final = values.split_with_sizes(sizes)
            value = value.view(rows, num_envs)
            next_value = torch.cat([value[1:], last[None]])
            next_value[rollout["truncated"] & rollout["valid"]] = final
            advantage = gae(rollout, value, next_value, self._config.gamma, self._config.gae_lambda)
        batch = {
            "inputs": inputs,
            "action": action,
            "log_p": log_p,
            "value": value.flatten(),
            "advantage": advantage.flatten(),
            "target": (advantage + value).flatten(),
        }
        raw_obs = networks.encode(self._space, flat_obs)
        valid = rollout["valid"].flatten()
        if not bool(valid.all()):
            return {name: tensor[valid] for name, tensor in batch.items()}, raw_obs[valid]
        return batch, raw_obs

    def _minibatches(self, size: int) -> tuple[Tensor, ...]:
        order = torch.randperm(size, generator=self._generator, device=self._generator.device)
        return order.tensor_split(max(1, round(size / self._config.minibatch_size)))

    def _descend(self, batch: State) -> Tensor:
        """One step of Adam; returns what ``_METRICS`` names, [6]."""
        config, network = self._config, self._network
        log_p, entropy = network.head.evaluate(network.actor(batch["inputs"]), batch["action"])
        value = network.critic(batch["inputs"]).squeeze(-1)
        advantage = batch["advantage"]
        if len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_ratio = log_p - batch["log_p"]
        ratio = log_ratio.exp()
        policy_loss = clipped_loss(ratio, advantage, config.clip)
        value_loss = (value - batch["target"]).square()
        if config.value_clip:
            low, high = batch["value"] - config.value_clip, batch["value"] + config.value_clip
            clipped = (value.clamp(low, high) - batch["target"]).square()
            value_loss = torch.maximum(value_loss, clipped)
        value_loss, mean_entropy = value_loss.mean(), entropy.mean()
        # An entropy *bonus*: the loss falls when the entropy rises.
        loss = policy_loss + config.value_coef * value_loss - config.entropy * mean_entropy
        self._optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._parameters, config.max_grad_norm)
        self._optimizer.step()
        with torch.no_grad():
            kl = (ratio - 1 - log_ratio).mean()  # http://joschu.net/blog/kl-approx.html, k3
            cut = ((ratio - 1).abs() > config.clip).float().mean()
            return torch.stack([policy_loss, value_loss, mean_entropy, kl, cut, norm])

    @staticmethod
    def _kl(records: list[Tensor]) -> float:
        return float(torch.stack(records)[:, _METRICS.index("approx_kl")].mean())


_METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")


def clipped_loss(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """-mean(min(r A, clip(r, 1 - ε, 1 + ε) A)), equation 7 of the paper; inputs float32 [B]."""
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantage, clipped * advantage).mean()


def gae(
    rollout: State, value: Tensor, next_value: Tensor, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalised advantages (Schulman et al. 2016, arXiv:1506.02438, equation 16).

    Args:
        rollout: ``reward`` float32 [T, N], ``terminated`` and ``truncated`` bool [T, N].
        value: V(s_t), float32 [T, N].
        next_value: V of the true successor, float32 [T, N]; means nothing where terminated.
        gamma: discount factor.
        gae_lambda: λ.

    Returns:
        float32 [T, N].
    """
    alive = (~rollout["terminated"]).float()
    # δ_t = r_t + γ V(s_{t+1}) (1 - terminated) - V(s_t)
    delta = rollout["reward"] + gamma * next_value * alive - value
    ended = rollout["terminated"] | rollout["truncated"]
    decay = gamma * gae_lambda * (~ended).float()
    # A_t = δ_t + γ λ A_{t+1} while the episode goes on
    running = torch.zeros_like(delta[0])
    advantages = []
    for d, c in zip(reversed(delta.unbind()), reversed(decay.unbind()), strict=True):
        running = torch.addcmul(d, c, running)
        advantages.append(running)
    return torch.stack(advantages[::-1])
