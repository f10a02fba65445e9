"""Twin delayed deterministic policy gradients (Fujimoto et al. 2018, arXiv:1802.09477).

DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is the case of one critic, no smoothing, no delay.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor

from hpcpod.agents import h_term, offpolicy
from hpcpod.agents.actor_critic import ActorCritic
from hpcpod.agents.base import Metrics
from hpcpod.agents.configs import DDPGConfig as DDPGConfig
from hpcpod.agents.configs import TD3Config as TD3Config
from hpcpod.agents.cuda_graphs import Captured, Outputs
from hpcpod.agents.distributions import shaped
from hpcpod.agents.imitation import squared_distance
from hpcpod.agents.operations import Program, Value
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.agents.state import prefixed, under
from hpcpod.envs.vec_env import EnvSpec, State


class TD3(ActorCritic[TD3Config]):
    """TD3 for continuous actions."""

    Config: ClassVar[type[TD3Config]] = TD3Config
    name = "td3"
    followed = ("actor", "critics")

    def __init__(self, spec: EnvSpec, config: TD3Config, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``; raises ``UnsupportedSpace``."""
        super().__init__(spec, config, seed, device, outputs=1, more={})
        self._captured_targets = Captured(self._target_values, self._recorder)
        self._captured_critics = Captured(self._update_critics, self._recorder)
        self._captured_policy = Captured(self._update_policy, self._recorder)

    def _learn(self, ring: ReplayBuffer, count: int) -> Metrics:
        batches, runs = self._draws(ring, count)
        config = self._config
        most = offpolicy.batches_at_once(config.batch_size, self._observations)
        done, last = self._updates, self._updates + count
        critic_records: list[Tensor] = []
        policy_records: list[Tensor] = []
        while done < last:
            # The target networks stand still until the policy's turn, so the target values
            # of all those updates are one pass.
            to_turn = config.policy_delay - done % config.policy_delay
            group = list(islice(batches, min(to_turn, last - done, most)))
            (targets,) = self._captured_targets(
                {name: torch.cat([each[name] for each in group]) for name in _OF_TARGETS}
            )
            for batch, target in zip(group, targets.tensor_split(len(group)), strict=True):
                part = {name: batch[name] for name in ("inputs", "action")} | {"target": target}
                critic_records += self._captured_critics(part)
            done += len(group)
            if len(group) == to_turn:
                chosen = next(runs) if config.h_term else None
                part = {name: group[-1][name] for name in _OF_POLICY if name in group[-1]}
                part |= prefixed("runs", chosen or {})
                policy_records += self._captured_policy(part)
        names, means = ["critic_loss", "q_mean"], [torch.stack(critic_records).mean(0)]
        if policy_records:
            names.append("policy_loss")
            means.append(torch.stack(policy_records).mean(0, keepdim=True))
        return dict(zip(names, torch.cat(means).tolist(), strict=True))

    def _best(self, inputs: State) -> Outputs:
        action = torch.tanh(self._outputs(inputs["obs"]))
        return (action.view(-1, *self._action.shape),)

    def write_operations(self, program: Program, x: Value) -> Value:
        """Of ``act`` without exploration; see ``Portable``."""
        x = program.add("activation", self._write_outputs(program, x), function="tanh")
        return shaped(program, x, self._action.shape)

    def _explore(self, inputs: State) -> Outputs:
        (action,) = self._best(inputs)
        noise = self._config.exploration_noise * self._noise.draw(action)
        return ((action + noise).clamp(-1.0, 1.0),)

    def _target_values(self, batch: State) -> Outputs:
        """y = r + γ (1 - terminated) min Q'(s', a'), algorithm 1; float32 [B]."""
        config = self._config
        with torch.no_grad():
            features = self._target_critics.features(batch["next_inputs"])
            action = torch.tanh(self._targets["actor"](features))
            if config.target_noise:
                noise = torch.empty_like(action).normal_(generator=self._generator)
                noise *= config.target_noise
                action = smoothed(action, noise, config.target_noise_clip)
            values: Tensor = self._target_critics(features, action)
            return (offpolicy.critic_target(batch, values.amin(dim=0)),)

    def _update_critics(self, batch: State) -> Outputs:
        """One step of Adam towards ``target``; returns loss and mean Q, [2]."""
        loss, mean = offpolicy.squared_error(
            self._critics, batch["inputs"], batch["action"], batch["target"]
        )
        self._descend("critics", loss)
        return (torch.stack([loss.detach(), mean]),)

    def _update_policy(self, batch: State) -> Outputs:
        """One step of Adam on -mean Q_1(s, π(s)), or on the distance from a teacher, then of the
        targets; the loss, a scalar."""
        features = self._critics.features(batch["inputs"])
        action = torch.tanh(self._actor(features))
        if "taught" in batch:
            loss = squared_distance(action, batch["taught"])
        else:
            loss = -self._critics.first(features, action).mean()
        if "runs/worth" in batch:
            loss = loss + self._config.h_term * self._energy(under("runs", batch))
        self._descend("actor", loss)
        self._follow()
        return (loss.detach(),)

    def _energy(self, runs: State) -> Tensor:
        """The Hamiltonian term of these runs, a scalar."""
        features = self._critics.features(runs["inputs"].flatten(0, 1))
        mean, action = torch.tanh(self._actor(features)), runs["action"].flatten(0, 1)
        log_p = -(0.5 * (action - mean).square() + 0.5 * math.log(2 * math.pi)).sum(dim=-1)
        return h_term.energy(log_p.view(runs["worth"].shape), runs["worth"])


_OF_TARGETS = ("next_inputs", "reward", "discount")
_OF_POLICY = ("inputs", "taught")


class DDPG(TD3):
    """DDPG for continuous actions; its noise is pink, not that of an Ornstein-Uhlenbeck process."""

    Config: ClassVar[type[TD3Config]] = DDPGConfig
    name = "ddpg"


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
