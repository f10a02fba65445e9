"""Deep Q-learning (Mnih et al. 2015, Nature 518).

By default with the targets of double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461);
``dueling`` on top of it is D3QN. Several steps (``n_steps``) and prioritised replay are the
other two parts of Rainbow (Hessel et al. 2018, arXiv:1710.02298) that are options here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpcpod.agents import networks, offpolicy
from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.configs import DQNConfig as DQNConfig
from hpcpod.agents.cuda_graphs import Captured, Outputs
from hpcpod.agents.gradient_agent import space_of
from hpcpod.agents.imitation import margin_slope
from hpcpod.agents.operations import Program, Value
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.replay import ReplayBuffer
from hpcpod.envs.vec_env import Discrete, EnvSpec, State


class DQN(offpolicy.OffPolicyAgent):
    """DQN for discrete actions."""

    Config: ClassVar[type[DQNConfig]] = DQNConfig
    name = "dqn"
    _added_later = ("updates_owed", "begun")
    _config: DQNConfig

    def __init__(self, spec: EnvSpec, config: DQNConfig, seed: int, device: str = "cpu") -> None:
        """Make fresh weights from ``seed``; raises ``UnsupportedSpace``."""
        self._actions = space_of(Discrete, self.name, spec).n
        super().__init__(spec, config, seed, device)
        self._network = self._make_network(torch.Generator().manual_seed(seed))
        self._target = copy.deepcopy(self._network)
        self._optimizer = Adam(self._network, config.learning_rate)
        self._follower = offpolicy.Follower(self._target, self._optimizer, config.tau)
        self._parts = {
            "network": self._network,
            "target": self._target,
            "optimizer": self._optimizer,
            "normalizer": self._observations,
        }
        self._captured_descend = Captured(self._descend, self._recorder)
        self._begun = 0.0

    @property
    def epsilon(self) -> float:
        """Share of random actions now."""
        config = self._config
        share = self._clock.share(
            self._env_steps, config.epsilon_steps, config.epsilon_fraction, self._begun
        )
        return config.epsilon_start + share * (config.epsilon_end - config.epsilon_start)

    @property
    def beta(self) -> float:
        """The share of the prioritised drawing's bias that is corrected now, in [0, 1]."""
        first, steps = self._config.priority_beta, self._config.priority_beta_steps
        return first + self._clock.share(self._env_steps, steps) * (1.0 - first)

    def proceed(self, progress: float) -> None:
        """Learn how far the run has come; see ``Scheduled``."""
        if self._env_steps == 0:
            self._begun = progress  # by the run alone, one that begins late hardly explored
        super().proceed(progress)

    def make_buffer(self) -> ReplayBuffer:
        """A ring of ``buffer_size`` transitions."""
        config = self._config
        return ReplayBuffer(self._spec, config.buffer_size, self._device, config.priority_exponent)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions: int64 [N]. See ``Agent.act``."""
        with torch.inference_mode():
            inputs = {"obs": obs}
            if explore:
                inputs["epsilon"] = torch.full((), self.epsilon, device=self._device)
                self._env_steps += obs.shape[0]
            return self._captured_act[explore](inputs)[0]

    def update(self, buffer: Buffer) -> Metrics:
        """Sample and descend, once there is enough to sample; see ``OffPolicyAgent.update``."""
        return {**super().update(buffer), "epsilon": self.epsilon}

    def _learn(self, ring: ReplayBuffer, count: int) -> Metrics:
        records: list[Tensor] = []
        interval, done, last = self._config.target_interval, self._updates, self._updates + count
        most = offpolicy.batches_at_once(self._config.batch_size, self._observations)
        while done < last:
            # Nothing but the online network moves until the target network does, so the
            # sampling and the target values of all those updates are one pass each.
            count = min(interval - done % interval, last - done, most)
            records += self._descend_many(ring, count)
            done += count
            if done % interval == 0:
                self._follower.move()
        means = torch.stack(records).mean(0).tolist()
        return dict(zip(("loss", "q_mean"), means, strict=True))

    def state(self) -> State:
        """Weights, target network, optimizer, random stream and counters."""
        return {**super().state(), "begun": torch.tensor(self._begun, dtype=torch.float64)}

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        super().load(state)
        self._begun = float(state.get("begun", 0.0))

    def action_values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        """See ``Valuing``."""
        values: Tensor = self._network(self._observations(obs))
        return values.gather(-1, candidates.mT).mT

    def _best(self, inputs: State) -> Outputs:
        return (self._network(self._observations(inputs["obs"])).argmax(dim=-1),)

    def write_operations(self, program: Program, x: Value) -> Value:
        """Of ``act`` without exploration; see ``Portable``."""
        return program.add("argmax", self.write_action_values(program, x, None))

    def write_action_values(
        self, program: Program, x: Value, candidates: Sequence[Value] | None
    ) -> Value:
        """See ``PortableValues``; of all choices."""
        assert candidates is None
        return program.network(self._network, self._observations.write_operations(program, x))

    def _explore(self, inputs: State) -> Outputs:
        (greedy,), n = self._best(inputs), inputs["obs"].shape[0]
        generator, device = self._generator, self._device
        lottery = torch.rand(n, generator=generator, device=device)
        other = torch.randint(self._actions, (n,), generator=generator, device=device)
        return (torch.where(lottery < inputs["epsilon"], other, greedy),)

    def _make_network(self, generator: torch.Generator) -> nn.Module:
        config, seen = self._config, self._observations
        encoder = seen.encoder(generator)
        sizes = [seen.width, *[config.hidden] * config.layers, self._actions]
        if config.dueling:
            head: nn.Module = networks.Dueling(sizes, generator)
        else:
            head = networks.mlp(sizes, nn.ReLU, 1.0, generator)
        return (head if seen.image is None else nn.Sequential(encoder, head)).to(self._device)

    def _due(self) -> int:
        return self._config.updates_per_iteration or super()._due()

    def _descend_many(self, buffer: ReplayBuffer, count: int) -> list[Tensor]:
        config, size = self._config, self._config.batch_size
        many = buffer.sample(count * size, self._generator, config.gamma, config.n_steps)
        index, probability = many.pop("index"), many.pop("probability")
        if self._teacher is not None:
            many["taught"] = self._teacher.act(many["obs"], explore=False)
        many["inputs"] = self._observations(many.pop("obs"))
        many["next_inputs"] = self._observations(many.pop("next_obs"))
        with torch.no_grad():
            many["next_values"] = self._target(many["next_inputs"])
        if config.priority_exponent:
            weight = probability.view(count, size) ** -self.beta
            # By the largest of its batch; Schaul et al. divide by the buffer's.
            many["weight"] = (weight / weight.amax(dim=1, keepdim=True)).view(-1)
        parts = [slice(i * size, (i + 1) * size) for i in range(count)]
        done = [self._captured_descend({n: t[part] for n, t in many.items()}) for part in parts]
        if config.priority_exponent:  # new priorities count from the next drawing on
            buffer.prioritise(index, torch.cat([errors for _, errors in done]))
        return [record for record, *_ in done]

    def _descend(self, batch: State) -> Outputs:
        """One step of Adam on the Huber loss; loss and mean Q, [2]; δ [B] if weighted."""
        config, action = self._config, batch["action"].unsqueeze(-1)
        with torch.no_grad():
            # By hand, among other things: 42 µs of learning for an environment step, not 52.
            values, slopes_by = networks.with_slopes(self._network, batch["inputs"])
            choice = self._network(batch["next_inputs"]).argmax(dim=-1) if config.double else None
            q, target = values.gather(-1, action).squeeze(-1), q_target(batch, choice)
            error = target - q
            # In closed form, as in ``ppo_loss``: the Huber loss of δ falls with Q by δ, at most 1.
            loss, slope = F.smooth_l1_loss(q, target, reduction="none"), error.clamp(-1.0, 1.0)
            if "weight" in batch:
                loss, slope = batch["weight"] * loss, batch["weight"] * slope
            slope = slope.div_(-len(slope)).unsqueeze(-1)
            by_values = torch.zeros_like(values).scatter_(-1, action, slope)
            if "taught" in batch:
                by_values += margin_slope(values, batch["taught"])
            slopes = slopes_by(by_values)
            record = torch.stack([loss.mean(), q.mean()])
        self._optimizer.backward(*slopes)
        if config.max_grad_norm:
            self._optimizer.clip(config.max_grad_norm)
        self._optimizer.step()
        return (record, error) if "weight" in batch else (record,)


def q_target(batch: State, choice: Tensor | None) -> Tensor:
    """r + γ Q'(s', a'), or r alone where s' is terminal: a truncated step is worth its future.

    Args:
        batch: ``reward`` and ``discount`` float32 [B], as ``ReplayBuffer.sample`` gives them,
            and ``next_values`` float32 [B, actions]: the target network's Q' at the successor.
        choice: a' of the online network, int64 [B] (van Hasselt et al. 2016, equation 4), or
            None for the one that maximises Q' (Mnih et al. 2015).

    Returns:
        float32 [B].
    """
    values = batch["next_values"]
    if choice is None:
        future = values.amax(dim=-1)
    else:
        future = values.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
    return batch["reward"] + batch["discount"] * future
