"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from hpcpod.agents import h_term
from hpcpod.agents.base import Acting, Buffer, Metrics, check_finite
from hpcpod.agents.cuda_graphs import Captured, Outputs
from hpcpod.agents.distributions import Gaussian
from hpcpod.agents.gradient_agent import GradientAgent
from hpcpod.agents.imitation import surprise
from hpcpod.agents.noise import Noise
from hpcpod.agents.normalizer import PopArt, RewardScale, in_popart_units, in_reward_units
from hpcpod.agents.operations import Program, Value
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.ppo_config import PPOConfig as PPOConfig
from hpcpod.agents.ppo_loss import clipped_objective, gae, normalized, value_error
from hpcpod.agents.ppo_network import PolicyAndValue
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.agents.schedules import falling
from hpcpod.agents.state import prefixed, under
from hpcpod.envs.vec_env import Box, EnvSpec, State

_AT_ONCE = 2**24
"""Numbers of observations in one pass over a rollout: one of images would not fit otherwise."""


class PPO(GradientAgent):
    """PPO for discrete, multi-discrete and continuous actions.

    A rollout's log-probabilities and values are computed in one pass when the update begins,
    so ``act`` runs the policy alone; in a pipeline the log-probabilities are those of the older
    policy that collected (``behaviour``). The statistics of observations take in a rollout after
    learning from it: within one update, and for the policy that collected it, they stand still.
    """

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    name = "ppo"
    _added_later = ("noise",)
    _config: PPOConfig

    def __init__(self, spec: EnvSpec, config: PPOConfig, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``."""
        super().__init__(spec, config, seed, device)
        weights = torch.Generator().manual_seed(seed)
        self._network = PolicyAndValue(spec, config, self._observations, weights).to(device)
        self._optimizer = Adam(self._network, config.learning_rate, eps=1e-5)  # as CleanRL's
        self._returns = PopArt(device) if config.normalize_returns else None
        self._rewards = (
            RewardScale(spec.num_envs, config.gamma, device) if config.normalize_rewards else None
        )
        self._parts = {
            "network": self._network,
            "optimizer": self._optimizer,
            "normalizer/obs": self._observations,
        }
        self._parts |= {"normalizer/rewards": self._rewards} if self._rewards is not None else {}
        self._parts |= {"normalizer/returns": self._returns} if self._returns is not None else {}
        memory = config.noise_memory if isinstance(spec.action, Box) else 1
        inputs = self._network.head.inputs
        self._noise = Noise(spec.num_envs, inputs, memory, self._generator)
        self._captured_descend = Captured(self._descend, self._recorder)
        self._captured_approach = Captured(self._approach, self._recorder)

    @property
    def clip(self) -> float:
        """ε now."""
        config = self._config
        if not config.anneal_clip:
            return config.clip
        return config.clip * falling(self._clock.share(self._env_steps, config.anneal_steps))

    def make_buffer(self) -> RolloutBuffer:
        """A rollout."""
        return RolloutBuffer()

    @property
    def rescaled(self) -> tuple[str, ...]:
        """Names of weights that normalised returns move beside the optimizer, by own rows."""
        # where only gradients are exchanged, replicas differed by these
        names = ("network/value.weight", "network/value.bias")
        return names if self._returns is not None else ()

    def comparable(self, state: State) -> State:
        """A ``state()`` whose weights mean the same in all replicas: each has normalised returns by
        a scale of its own, in which the critic's last layer can't be averaged."""
        return self._converted(state, in_reward_units)

    def as_own(self, state: State) -> State:
        """The inverse of ``comparable``, by the statistics that the state has."""
        return self._converted(state, in_popart_units)

    def _converted(
        self, state: State, convert: Callable[[Tensor, Tensor, State], tuple[Tensor, Tensor]]
    ) -> State:
        if not (names := self.rescaled):
            return state
        weight, bias = (state[name] for name in names)
        layer = convert(weight, bias, under("normalizer/returns", state))
        return {**state, **dict(zip(names, layer, strict=True))}

    def update(self, buffer: Buffer) -> Metrics:
        """Learn from the rollout, then empty the buffer.

        Raises:
            Diverged: a loss is not finite.
        """
        return self._learn(buffer, None)

    def imitate(self, buffer: Buffer, teacher: Acting) -> Metrics:
        """Learn to act as the teacher, and what it is worth; see ``Imitating``.

        Choices by the likelihood of those that it took, numbers by the distance from its best.
        """
        return self._learn(buffer, teacher)

    def _learn(self, buffer: Buffer, teacher: Acting | None) -> Metrics:
        if not isinstance(buffer, RolloutBuffer):
            raise TypeError(f"{self.name} learns from a RolloutBuffer, got {type(buffer).__name__}")
        rollout = buffer.rollout()
        batch, raw_obs = self._prepare(rollout)
        if len(raw_obs) == 0:  # resets and nothing else: there is nothing to learn
            buffer.restore(buffer.rows, ())
            return {}
        common = prefixed("runs", self._runs(rollout) or {}) if self._config.h_term else {}
        if self._config.anneal_clip:  # a tensor: what was captured reads it anew
            common["clip"] = torch.full((), self.clip, device=raw_obs.device)
        names: tuple[str, ...] = _METRICS
        descend = self._captured_descend
        if teacher is not None:
            names, descend, common = _OF_A_TEACHER, self._captured_approach, {}
            if isinstance(self._spec.action, Box):
                batch["action"] = teacher.act(raw_obs, explore=False)
        self._optimizer.learning_rate = self.learning_rate
        records: list[Tensor] = []
        stopped = False
        for _ in range(self._config.epochs):
            begin = len(records)
            for index in self._minibatches(len(raw_obs)):
                part = {name: tensor.index_select(0, index) for name, tensor in batch.items()}
                records += descend(part | common)
            if self._config.target_kl and teacher is None:
                kl = torch.stack(records[begin:])[:, _METRICS.index("approx_kl")].mean()
                stopped = float(kl) > self._config.target_kl
            if stopped:
                break
        means = torch.stack(records).mean(0).tolist()
        metrics = dict(zip(names, means, strict=True))
        check_finite(self.name, self._updates, metrics)
        # The policy jumps by it: on MuJoCo by a KL of 0.006 to 0.027 once, then below 0.001.
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

    def log_probabilities(self, obs: Tensor) -> Tensor:
        """See ``Probabilistic``."""
        head = self._network.head
        assert not isinstance(head, Gaussian)
        return head.log_probabilities(self._outputs(obs))

    def _explore(self, inputs: State) -> Outputs:
        outputs = self._outputs(inputs["obs"])
        return (self._network.head.sample(outputs, self._generator, self._noise),)

    def _best(self, inputs: State) -> Outputs:
        return (self._network.head.mode(self._outputs(inputs["obs"])),)

    def write_operations(self, program: Program, x: Value) -> Value:
        """Of ``act`` without exploration; see ``Portable``."""
        return program.network(self._network.head, self._write_outputs(program, x))

    def write_log_probabilities(self, program: Program, x: Value) -> Value:
        """See ``PortableDistribution``."""
        head = self._network.head
        assert not isinstance(head, Gaussian)
        return head.write_log_probabilities(program, self._write_outputs(program, x))

    def _write_outputs(self, program: Program, x: Value) -> Value:
        """Operations of ``_outputs``."""
        network = self._network
        x = program.network(network.encoder, self._observations.write_operations(program, x))
        return program.network(network.policy, program.network(network.hidden, x))

    def _outputs(self, obs: Tensor) -> Tensor:
        outputs: Tensor = self._network.actor(self._network.encoder(self._observations(obs)))
        return outputs

    def _prepare(self, rollout: State) -> tuple[State, Tensor]:
        """What the minibatches are cut from, and the raw observations, valid rows only."""
        rows, num_envs = rollout["reward"].shape
        raw_obs, config = rollout["obs"].flatten(0, 1), self._config
        if self._rewards is not None:
            rollout = {**rollout, "reward": self._rewards.learn(rollout)}
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
            if not config.normalize_advantage:
                batch["advantage"] = self._returns.scaled(batch["advantage"])
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
            clip = batch.get("clip", config.clip)
            # By formulas a minibatch of 256 took 660 µs, by autograd 824.
            policy = clipped_objective(log_p, batch["log_p"], advantage, clip)
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

    def _approach(self, batch: State) -> Outputs:
        """One step of Adam towards a teacher; returns what ``_OF_A_TEACHER`` names, [3]."""
        outputs, value = self._network(self._network.encoder(batch["inputs"]))
        policy_loss = surprise(self._network.head, outputs, batch["action"])
        value_loss = (value - batch["target"]).square().mean()
        self._optimizer.backward((policy_loss + self._config.value_coef * value_loss, None))
        norm = self._optimizer.clip(self._config.max_grad_norm)
        self._optimizer.step()
        return (torch.stack([policy_loss.detach(), value_loss.detach(), norm]),)


_METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")
_OF_A_TEACHER = ("policy_loss", "value_loss", "grad_norm")
