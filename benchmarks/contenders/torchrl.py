"""TorchRL: its collector, replay buffer, losses and advantage, in the loop of its examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers import SamplerWithoutReplacement
from torchrl.envs import DoubleToFloat, GymWrapper, ParallelEnv, SerialEnv, TransformedEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import (
    MLP,
    AdditiveGaussianModule,
    EGreedyModule,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhDelta,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import ClipPPOLoss, DQNLoss, HardUpdate, SACLoss, SoftUpdate, TD3Loss
from torchrl.objectives.value import GAE

from contenders import episodes, process, rows
from contenders.process import Task


class Parts:
    """The environments and the networks of a row."""

    def __init__(self, task: Task) -> None:
        row, count = task.row, task.row.num_envs
        kind = ParallelEnv if "processes" in task.words else SerialEnv
        # One environment needs no batch: its examples use it alone for the off-policy losses.
        self.env = self._single(task) if count == 1 else kind(count, lambda: self._single(task))
        self.spec = self.env.action_spec_unbatched
        self.discrete = row.env == "CartPole-v1"
        self.actions = int(self.spec.shape[-1])
        self._activation = nn.Tanh if row.activation == "tanh" else nn.ReLU
        self._cells = [row.hidden, row.hidden]
        self._inputs = int(self.env.observation_spec["observation"].shape[-1])

    @staticmethod
    def _single(task: Task) -> Any:
        env = GymWrapper(episodes.make(task))
        doubles = env.observation_spec["observation"].dtype == torch.float64
        return TransformedEnv(env, DoubleToFloat(in_keys=["observation"])) if doubles else env

    def mlp(self, outputs: int, inputs: int | None = None) -> Any:
        return MLP(
            in_features=inputs or self._inputs,
            out_features=outputs,
            num_cells=self._cells,
            activation_class=self._activation,
        )

    def policy(self) -> Any:
        """A categorical or a squashed Gaussian actor."""
        if self.discrete:
            module = TensorDictModule(self.mlp(self.actions), ["observation"], ["logits"])
            return ProbabilisticActor(
                module,
                spec=self.spec,
                in_keys=["logits"],
                distribution_class=OneHotCategorical,
                return_log_prob=True,
            )
        net = nn.Sequential(self.mlp(2 * self.actions), NormalParamExtractor())
        return ProbabilisticActor(
            TensorDictModule(net, ["observation"], ["loc", "scale"]),
            spec=self.spec,
            in_keys=["loc", "scale"],
            distribution_class=TanhNormal,
            distribution_kwargs={"low": self.spec.space.low, "high": self.spec.space.high},
            return_log_prob=True,
        )

    def deterministic(self) -> Any:
        module = TensorDictModule(self.mlp(self.actions), ["observation"], ["param"])
        return ProbabilisticActor(
            module,
            spec=self.spec,
            in_keys=["param"],
            distribution_class=TanhDelta,
            distribution_kwargs={"low": self.spec.space.low, "high": self.spec.space.high},
            default_interaction_type=ExplorationType.DETERMINISTIC,
        )

    def value(self) -> Any:
        return ValueOperator(self.mlp(1), in_keys=["observation"])

    def pair_value(self) -> Any:
        net = self.mlp(1, self._inputs + self.actions)
        return ValueOperator(net, in_keys=["observation", "action"])


def collected(task: Task, parts: Parts, policy: Any, random: int = 0) -> Iterator[Any]:
    """Batches of [environments, horizon] transitions without an end."""
    collector = Collector(
        parts.env,
        policy,
        frames_per_batch=task.row.rollout,
        total_frames=-1,
        init_random_frames=random,
        exploration_type=ExplorationType.RANDOM,
    )
    return iter(collector)


def train_ppo(task: Task, parts: Parts) -> None:
    row = task.row
    policy, value = parts.policy(), parts.value()
    advantage = GAE(gamma=rows.GAMMA, lmbda=rows.GAE_LAMBDA, value_network=value)
    loss = ClipPPOLoss(
        policy,
        value,
        clip_epsilon=rows.CLIP,
        entropy_bonus=False,
        critic_coeff=rows.VALUE_COEF,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    parameters = list(loss.parameters())
    optimizer = torch.optim.Adam(parameters, lr=row.learning_rate)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(row.rollout),
        sampler=SamplerWithoutReplacement(),
        batch_size=row.batch,
    )
    task.meter.begin()
    for number, data in enumerate(collected(task, parts, policy), 1):
        with torch.no_grad():
            ready = advantage(data)
        buffer.empty()
        buffer.extend(ready.reshape(-1))
        for _ in range(row.epochs):
            for batch in buffer:
                losses = loss(batch)
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(parameters, rows.MAX_GRAD_NORM)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        task.round_ends(number * row.rollout)


class OffPolicy:
    """One gradient update of SAC, TD3 or DQN from a batch."""

    def __init__(self, task: Task, parts: Parts) -> None:
        self._row = row = task.row
        if row.algorithm == "dqn":
            actor = QValueActor(parts.mlp(parts.actions), spec=parts.spec, in_keys=["observation"])
            self._loss = DQNLoss(actor, delay_value=True, loss_function="l2")
            explore: Any = EGreedyModule(
                parts.spec, eps_end=rows.EPSILON_END, annealing_num_steps=rows.EPSILON_STEPS
            )
            interval = rows.TARGET_STEPS * row.updates // row.rollout
            self._target = HardUpdate(self._loss, value_network_update_interval=interval)
            self.policy = TensorDictSequential(actor, explore)
        elif row.algorithm == "sac":
            self.policy = parts.policy()
            self._loss = SACLoss(
                self.policy, parts.pair_value(), loss_function="l2", action_spec=parts.spec
            )
            self._target = SoftUpdate(self._loss, tau=rows.TAU)
        else:
            actor = parts.deterministic()
            noise = AdditiveGaussianModule(
                spec=parts.spec, sigma_init=0.1, sigma_end=0.1, annealing_num_steps=1
            )
            self.policy = TensorDictSequential(actor, noise)
            self._loss = TD3Loss(
                actor, parts.pair_value(), loss_function="l2", action_spec=parts.spec
            )
            self._target = SoftUpdate(self._loss, tau=rows.TAU)
        self._loss.make_value_estimator(gamma=rows.GAMMA)
        self._optimizers = {
            name: torch.optim.Adam(parameters, lr=row.learning_rate)
            for name, parameters in self._groups().items()
        }
        self._updates = 0

    def _groups(self) -> dict[str, list[Any]]:
        loss = self._loss
        if self._row.algorithm == "dqn":
            return {"loss": list(loss.parameters())}
        groups = {
            "loss_qvalue": list(loss.qvalue_network_params.flatten_keys().values()),
            "loss_actor": list(loss.actor_network_params.flatten_keys().values()),
        }
        return groups | ({"loss_alpha": [loss.log_alpha]} if self._row.algorithm == "sac" else {})

    def update(self, batch: Any) -> None:
        self._updates += 1
        if self._row.algorithm == "td3":
            self._update_td3(batch)
            return
        losses = self._loss(batch)
        sum(losses[name] for name in self._optimizers).backward()
        for optimizer in self._optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._target.step()

    def _update_td3(self, batch: Any) -> None:
        value, _ = self._loss.value_loss(batch)
        self._descend("loss_qvalue", value)
        if self._updates % 2 == 0:
            actor, _ = self._loss.actor_loss(batch)
            self._descend("loss_actor", actor)
            self._target.step()

    def _descend(self, name: str, loss: Any) -> None:
        optimizer = self._optimizers[name]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def train_off_policy(task: Task, parts: Parts) -> None:
    row = task.row
    learner = OffPolicy(task, parts)
    buffer = ReplayBuffer(storage=LazyTensorStorage(rows.BUFFER), batch_size=row.batch)
    explore = learner.policy[-1] if row.algorithm != "sac" else None
    task.meter.begin()
    steps = 0
    for data in collected(task, parts, learner.policy, rows.LEARNING_STARTS):
        steps += data.numel()
        buffer.extend(data.reshape(-1))
        if explore is not None:
            explore.step(data.numel())
        if steps > rows.LEARNING_STARTS:
            for _ in range(row.updates):
                learner.update(buffer.sample())
        task.round_ends(steps)


def train(task: Task) -> None:
    torch.manual_seed(task.seed)
    parts = Parts(task)
    parts.env.set_seed(task.seed)
    with set_exploration_type(ExplorationType.RANDOM):
        (train_ppo if task.row.epochs else train_off_policy)(task, parts)


if __name__ == "__main__":
    process.main(train, "torchrl")
