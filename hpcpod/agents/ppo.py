"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from hpcpod.agents import checks, h_term, networks
from hpcpod.agents.base import Buffer, Metrics, check_finite
from hpcpod.agents.distributions import head_for
from hpcpod.agents.graphs import Captured, Outputs, recorder_for
from hpcpod.agents.normalizer import PopArt
from hpcpod.agents.observations import Observations
from hpcpod.agents.optimizer import Adam, annealed
from hpcpod.agents.ppo_loss import clipped_objective, gae, normalized, value_error
from hpcpod.agents.rollout import RolloutBuffer
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
    """The same for the critic's change, in units of reward, or of the returns' standard deviation
    where these are normalised; 0 leaves it free."""
    entropy: float = 0.0
    """Weight of the entropy bonus: larger keeps exploring for longer."""
    value_coef: float = 0.5
    """Weight of the critic's loss."""
    max_grad_norm: float = 0.5
    """The gradient is scaled down to this Euclidean norm."""
    target_kl: float = 0.0
    """Stop the epochs of an update when the mean KL divergence passes this; 0 never stops."""
    anneal_steps: int = 0
    """Environment steps in which the learning rate falls, linearly; 0 keeps it."""
    anneal_to: float = 0.0
    """Share of the learning rate that is left then, in [0, 1]."""
    epochs: int = 5
    """Passes over each rollout."""
    minibatch_size: int = 256
    """Steps in one gradient update."""
    horizon: int = 128
    """Steps that each environment contributes to a rollout."""
    normalize_advantage: bool = True
    """Scale the advantages of each minibatch to mean 0 and variance 1."""
    normalize_obs: bool = field(default=True, metadata={"structural": True})
    """Scale vector observations by their running mean and variance."""
    normalize_returns: bool = field(default=False, metadata={"structural": True})
    """Have the critic learn returns that are scaled to mean 0 and variance 1."""
    hidden: int = field(default=64, metadata={"structural": True})
    """Units of each hidden layer."""
    layers: int = field(default=2, metadata={"structural": True})
    """Hidden layers of the policy, and as many of the critic."""
    activation: Literal["tanh", "relu"] = field(default="tanh", metadata={"structural": True})
    """What stands after each hidden layer."""
    h_term: float = 0.0
    """Weight of the Hamiltonian term (``agents/h_term.py``); its papers take 0.125. 0: none."""
    h_steps: int = 4
    """Steps in a run of the Hamiltonian term."""
    log_std_init: float = 0.0
    """Log of the standard deviation with which continuous actions begin."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip", "max_grad_norm"):
            checks.positive(name, getattr(self, name))
        for name in ("gamma", "gae_lambda", "anneal_to"):
            checks.fraction(name, getattr(self, name))
        for name in ("value_clip", "entropy", "value_coef", "target_kl", "anneal_steps"):
            checks.at_least(name, getattr(self, name), 0)
        for name in ("epochs", "minibatch_size", "horizon"):
            checks.at_least(name, getattr(self, name), 1)
        checks.shape(self.hidden, self.layers)
        checks.h_term(self.h_term, self.h_steps, h_term.MOST_STEPS)
        checks.one_of("activation", self.activation, ("tanh", "relu"))
        if not math.isfinite(self.log_std_init):
            raise ValueError(f"log_std_init must be finite, got {self.log_std_init}")


_AT_ONCE = 2**24
"""Numbers of observations in one pass over a rollout: one of images would not fit otherwise."""


class PolicyAndValue(nn.Module):
    """A policy and a value network of the same shape; they share an encoder of images alone.

    Their hidden layers are one stack of two: a layer of both is one product.
    """

    def __init__(
        self,
        spec: EnvSpec,
        config: PPOConfig,
        observations: Observations,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        inputs, hidden = observations.width, [config.hidden] * config.layers
        self.head = head_for(spec.action, config.log_std_init)
        self.encoder = observations.encoder(generator)
        activation = {"tanh": networks.TANH, "relu": networks.RELU}[config.activation]
        self.hidden = networks.Stacks(2, [inputs, *hidden], activation, generator)
        self.policy = networks.linear(config.hidden, self.head.inputs, 0.01, generator)
        self.value = networks.linear(config.hidden, 1, 1.0, generator)

    def actor(self, features: Tensor) -> Tensor:
        """The head's outputs, float32 [B, outputs]."""
        outputs: Tensor = self.policy(self.hidden.first(features))
        return outputs.float()

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The head's outputs and the values, float32 [B, outputs] and [B]."""
        for_policy, for_value = self.hidden(features).unbind()
        values: Tensor = self.value(for_value).squeeze(-1)
        return self.policy(for_policy).float(), values.float()

    def with_slopes(
        self, features: Tensor
    ) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], networks.Slopes]]:
        """``forward`` without a graph, and from a loss's derivatives by outputs and values to those
        by weights, and by ``features`` if they require a gradient; see ``Stacks.with_slopes``.
        """
        hidden, slopes_below = self.hidden.with_slopes(features)
        last = self.policy, self.value
        policy, value = (layer(h).float() for layer, h in zip(last, hidden, strict=True))

        def slopes(by_outputs: Tensor, by_values: Tensor) -> networks.Slopes:
            found, below = [], []
            for layer, h, slope in zip(last, hidden, (by_outputs, by_values[:, None]), strict=True):
                found += [(layer.weight, slope.mT @ h), (layer.bias, slope.sum(dim=0))]
                below.append(slope @ layer.weight)
            return found + slopes_below(torch.stack(below))

        return policy, value.squeeze(-1), slopes


class PPO:
    """PPO for discrete, multi-discrete and continuous actions.

    A rollout's log-probabilities and values are computed in one pass when the update begins,
    so ``act`` runs the policy alone; in a pipeline the log-probabilities are those of the older
    policy that collected (``behaviour``). The statistics of observations take in a rollout after
    learning from it: within one update, and for the policy that collected it, they stand still.
    """

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    name: ClassVar[str] = "ppo"
    """What its messages call it."""

    def __init__(self, spec: EnvSpec, config: PPOConfig, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``."""
        self._config = config
        self._observations = Observations(spec, config.normalize_obs, device)
        self._returns = PopArt(device) if config.normalize_returns else None
        generator = torch.Generator().manual_seed(seed)
        self._network = PolicyAndValue(spec, config, self._observations, generator).to(device)
        self._optimizer = Adam(self._network, config.learning_rate, eps=1e-5)
        self._generator = generator_on(device, seed)
        recorder = recorder_for(self._generator)
        self._captured_descend = Captured(self._descend, recorder)
        self._captured_act = {
            True: Captured(self._explore, recorder), False: Captured(self._best, recorder)
        }  # fmt: skip
        self._env_steps = 0
        self._updates = 0

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""
        return self._config.horizon

    @property
    def learning_rate(self) -> float:
        """Step size of Adam now."""
        config = self._config
        steps = config.anneal_steps
        return annealed(config.learning_rate, config.anneal_to, self._env_steps, steps)

    def make_buffer(self) -> RolloutBuffer:
        """A rollout."""
        return RolloutBuffer()

    def optimizers(self) -> list[Adam]:
        """Those that it steps: gradients may be exchanged there."""
        return [self._optimizer]

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions; continuous ones are not clipped when exploring. See ``Agent.act``."""
        with torch.inference_mode():
            return self._captured_act[explore]({"obs": obs})[0]

    def update(self, buffer: Buffer) -> Metrics:
        """Learn from the rollout, then empty the buffer.

        Raises:
            Diverged: a loss is not finite.
        """
        if not isinstance(buffer, RolloutBuffer):
            raise TypeError(f"{self.name} learns from a RolloutBuffer, got {type(buffer).__name__}")
        rollout = buffer.rollout()
        batch, raw_obs = self._prepare(rollout)
        if len(raw_obs) == 0:  # resets and nothing else: there is nothing to learn
            buffer.restore(buffer.rows, ())
            return {}
        runs = prefixed("runs", self._runs(rollout) or {}) if self._config.h_term else {}
        self._optimizer.learning_rate = self.learning_rate
        records: list[Tensor] = []
        stopped = False
        for _ in range(self._config.epochs):
            begin = len(records)
            for index in self._minibatches(len(raw_obs)):
                part = {name: tensor.index_select(0, index) for name, tensor in batch.items()}
                records += self._captured_descend(part | runs)
            if self._config.target_kl and self._kl(records[begin:]) > self._config.target_kl:
                stopped = True
                break
        means = torch.stack(records).mean(0).tolist()
        metrics = dict(zip(_METRICS, means, strict=True))
        check_finite(self.name, self._updates, metrics)
        self._observations.learn(raw_obs)
        buffer.restore(buffer.rows, ())
        self._env_steps += len(raw_obs)
        self._updates += 1
        metrics["stopped_early"] = float(stopped)
        return metrics

    def behaviour(self, rollout: State) -> State:
        """``log_p`` of the actions, float32 [T, N]; see ``OnPolicy.behaviour``."""
        obs, action = (rollout[name].flatten(0, 1) for name in ("obs", "action"))
        some = obs.tensor_split(-(-len(obs) * self._observations.size // _AT_ONCE))
        with torch.no_grad():
            outputs = torch.cat([self._outputs(part) for part in some])
            log_p, _ = self._network.head.evaluate(outputs, action)
        return {"log_p": log_p.view(rollout["reward"].shape)}

    def state(self) -> State:
        """Weights, optimizer, statistics, random stream and counters."""
        return {
            **prefixed("network", module_state(self._network)),
            **prefixed("optimizer", self._optimizer.state()),
            **prefixed("normalizer/obs", self._observations.state()),
            **prefixed("normalizer/returns", self._returns.state() if self._returns else {}),
            "rng": self._generator.get_state(),
            "env_steps": torch.tensor(self._env_steps),
            "updates": torch.tensor(self._updates),
        }

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        check_names(self.state(), state, f"{self.name} agent")
        load_module(self._network, under("network", state))
        self._optimizer.load(under("optimizer", state))
        self._observations.load(under("normalizer/obs", state))
        if self._returns is not None:
            self._returns.load(under("normalizer/returns", state))
        load_generator(self._generator, state["rng"])
        self._env_steps = int(state["env_steps"])
        self._updates = int(state["updates"])

    def reseed(self, seed: int) -> None:
        """Restart the random numbers; weights stay."""
        self._generator.manual_seed(seed)

    def _explore(self, inputs: State) -> Outputs:
        return (self._network.head.sample(self._outputs(inputs["obs"]), self._generator),)

    def _best(self, inputs: State) -> Outputs:
        return (self._network.head.mode(self._outputs(inputs["obs"])),)

    def _outputs(self, obs: Tensor) -> Tensor:
        outputs: Tensor = self._network.actor(self._network.encoder(self._observations(obs)))
        return outputs

    def _prepare(self, rollout: State) -> tuple[State, Tensor]:
        """What the minibatches are cut from, and the raw observations, valid rows only."""
        rows, num_envs = rollout["reward"].shape
        raw_obs, config = rollout["obs"].flatten(0, 1), self._config
        with torch.no_grad():
            network, size = self._network, rows * num_envs
            inputs = self._observations(
                torch.cat([raw_obs, rollout["next_obs"], rollout["final_obs"]])
            )
            some = inputs.tensor_split(-(-len(inputs) * self._observations.size // _AT_ONCE))
            passes = zip(*[network(network.encoder(part)) for part in some], strict=True)
            outputs, values = (torch.cat(parts) for parts in passes)
            if self._returns is not None:
                values = self._returns.denormalize(values)
            action = rollout["action"].flatten(0, 1)
            if "behaviour/log_p" in rollout:  # of older weights
                log_p = rollout["behaviour/log_p"].flatten()
            else:
                log_p, _ = network.head.evaluate(outputs[:size], action)
            parts = values.split_with_sizes([size, num_envs, len(rollout["final_obs"])])
            value, last, final = parts
            value = value.view(rows, num_envs)
            next_value = torch.cat([value[1:], last[None]])
            next_value[rollout["truncated"] & rollout["valid"]] = final
            advantage = gae(rollout, value, next_value, config.gamma, config.gae_lambda)
        batch = {
            "inputs": inputs[:size],
            "action": action,
            "log_p": log_p,
            "value": value.flatten(),
            "advantage": advantage.flatten(),
            "target": (advantage + value).flatten(),
        }
        valid = rollout["valid"].flatten()
        if not bool(valid.all()):
            batch, raw_obs = {name: t[valid] for name, t in batch.items()}, raw_obs[valid]
        if self._returns is not None:
            self._returns.learn(batch["target"], self._network.value)
            for name in ("value", "target"):
                batch[name] = self._returns.normalize(batch[name])
        return batch, raw_obs

    def _runs(self, rollout: State) -> State | None:
        """The rollout's runs for the Hamiltonian term."""
        with torch.no_grad():
            inputs = self._observations(rollout["obs"].flatten(0, 1))
        action = rollout["action"].flatten(0, 1)
        return h_term.rollout_runs(inputs, action, rollout, self._config.h_steps)

    def _energy(self, runs: State, batch_size: int) -> Tensor:
        """The Hamiltonian term of as many runs, drawn from these, as make a batch; a scalar."""
        count = max(1, batch_size // self._config.h_steps)
        device = self._generator.device
        pick = torch.randint(len(runs["worth"]), (count,), generator=self._generator, device=device)
        part = {name: tensor[pick] for name, tensor in runs.items()}
        network = self._network
        outputs = network.actor(network.encoder(part["inputs"].flatten(0, 1)))
        log_p, _ = network.head.evaluate(outputs, part["action"].flatten(0, 1))
        return h_term.energy(log_p.view(part["worth"].shape), part["worth"])

    def _minibatches(self, size: int) -> tuple[Tensor, ...]:
        order = torch.randperm(size, generator=self._generator, device=self._generator.device)
        return order.tensor_split(max(1, round(size / self._config.minibatch_size)))

    def _descend(self, batch: State) -> Outputs:
        """One step of Adam; returns what ``_METRICS`` names, [6]."""
        config, network = self._config, self._network
        advantage, size = batch["advantage"], len(batch["advantage"])
        features = network.encoder(batch["inputs"])
        with torch.no_grad():
            outputs, value, slopes_below = network.with_slopes(features)
            log_p, entropy, slopes_by = network.head.with_slopes(outputs, batch["action"])
            if config.normalize_advantage:
                advantage = normalized(advantage)
            policy = clipped_objective(log_p, batch["log_p"], advantage, config.clip)
            # An entropy *bonus*: the loss falls when the entropy rises.
            (_, by_outputs), *slopes = slopes_by(policy.slope, -config.entropy / size)
            value_loss, by_value = value_error(
                value, batch["target"], batch["value"], config.value_clip
            )
            slopes += slopes_below(by_outputs, by_value.mul_(config.value_coef))
        if "runs/worth" in batch:
            energy = self._energy(under("runs", batch), size)
            slopes.append((energy, torch.full_like(energy, config.h_term)))
        self._optimizer.backward(*slopes)
        norm = self._optimizer.clip(config.max_grad_norm)
        self._optimizer.step()
        measured = [policy.loss, value_loss, entropy.mean(), policy.approx_kl]
        return (torch.stack([*measured, policy.clip_fraction, norm]),)

    @staticmethod
    def _kl(records: list[Tensor]) -> float:
        return float(torch.stack(records)[:, _METRICS.index("approx_kl")].mean())


_METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")
