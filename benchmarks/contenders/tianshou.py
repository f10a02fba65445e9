"""Tianshou: its algorithms under its own trainers, timed before each collecting step."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium
import torch
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
from tianshou.algorithm.modelfree.td3 import TD3
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from contenders import episodes, process, rows
from contenders.process import Task
from contenders.rows import Row

STEPS = 100_000_000


def normal(
    location_and_scale: tuple[torch.Tensor, torch.Tensor],
) -> torch.distributions.Distribution:
    """What the policies for continuous actions sample from."""
    base = torch.distributions.Normal(*location_and_scale)
    return torch.distributions.Independent(base, 1)


class Networks:
    """Two hidden layers for each role."""

    def __init__(self, row: Row, env: gymnasium.Env[Any, Any]) -> None:
        self.space: Any = env.action_space
        self._obs = env.observation_space.shape
        self._sizes = [row.hidden, row.hidden]
        self._activation = torch.nn.Tanh if row.activation == "tanh" else torch.nn.ReLU

    def body(self, **more: Any) -> Any:
        return Net(
            state_shape=self._obs,
            hidden_sizes=self._sizes,
            activation=self._activation,
            **more,
        )

    def pair_critic(self) -> Any:
        body = self.body(action_shape=self.space.shape, concat=True)
        return ContinuousCritic(preprocess_net=body)


def ppo(row: Row, net: Networks, optim: Any) -> Any:
    if isinstance(net.space, gymnasium.spaces.Discrete):
        actor = DiscreteActor(
            preprocess_net=net.body(), action_shape=net.space.n, softmax_output=False
        )
        policy: Any = DiscreteActorPolicy(actor=actor, action_space=net.space)
        critic: Any = DiscreteCritic(preprocess_net=net.body())
    else:
        spread = ContinuousActorProbabilistic(
            preprocess_net=net.body(), action_shape=net.space.shape, unbounded=True
        )
        policy = ProbabilisticActorPolicy(actor=spread, dist_fn=normal, action_space=net.space)
        critic = ContinuousCritic(preprocess_net=net.body())
    return PPO(
        policy=policy,
        critic=critic,
        optim=optim,
        eps_clip=rows.CLIP,
        vf_coef=rows.VALUE_COEF,
        ent_coef=0.0,
        max_grad_norm=rows.MAX_GRAD_NORM,
        gae_lambda=rows.GAE_LAMBDA,
        gamma=rows.GAMMA,
        max_batchsize=row.rollout,
    )


def replayed(row: Row, net: Networks, optim: Any) -> Any:
    if row.algorithm == "dqn":
        model = net.body(action_shape=net.space.n)
        policy: Any = DiscreteQLearningPolicy(
            model=model, action_space=net.space, eps_training=rows.EPSILON_END
        )
        interval = rows.TARGET_STEPS * row.updates // row.rollout
        return DQN(
            policy=policy,
            optim=optim,
            gamma=rows.GAMMA,
            target_update_freq=interval,
            is_double=False,
        )
    equal = {"policy_optim": optim, "critic_optim": optim, "critic2_optim": optim}
    equal |= {"critic": net.pair_critic(), "critic2": net.pair_critic()}
    equal |= {"tau": rows.TAU, "gamma": rows.GAMMA}
    if row.algorithm == "sac":
        actor: Any = ContinuousActorProbabilistic(
            preprocess_net=net.body(),
            action_shape=net.space.shape,
            unbounded=True,
            conditioned_sigma=True,
        )
        alpha = AutoAlpha(-float(net.space.shape[0]), 0.0, optim)
        return SAC(policy=SACPolicy(actor=actor, action_space=net.space), alpha=alpha, **equal)
    actor = ContinuousActorDeterministic(
        preprocess_net=net.body(),
        action_shape=net.space.shape,
        max_action=float(net.space.high[0]),
    )
    noise = GaussianNoise(sigma=0.1 * float(net.space.high[0]))
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=noise, action_space=net.space
    )
    return TD3(policy=policy, **equal)


def environments(task: Task) -> Any:
    row = task.row
    if "envpool" in task.words:  # which its collector takes as it is
        import envpool

        return envpool.make_gymnasium(
            row.env, num_envs=row.num_envs, num_threads=row.cores, seed=task.seed
        )
    kind = SubprocVectorEnv if "processes" in task.words else DummyVectorEnv
    envs = kind([lambda: episodes.make(task) for _ in range(row.num_envs)])
    envs.seed(task.seed)
    return envs


def train(task: Task) -> None:
    row = task.row
    logging.disable(logging.WARNING)
    torch.manual_seed(task.seed)
    net = Networks(row, episodes.make(task))
    optim = AdamOptimizerFactory(lr=row.learning_rate)
    algorithm = (ppo if row.epochs else replayed)(row, net, optim)
    envs = environments(task)
    size = row.rollout if row.epochs else rows.BUFFER
    collector = Collector(
        algorithm,
        envs,
        VectorReplayBuffer(size, row.num_envs),
        exploration_noise=not row.epochs,
    )
    collector.reset()
    if not row.epochs:
        collector.collect(n_step=rows.LEARNING_STARTS, random=True)
    start = 0 if row.epochs else rows.LEARNING_STARTS

    def before_collecting(epoch: int, env_step: int) -> None:
        task.round_ends(start + env_step)

    equal: dict[str, Any] = {
        "training_collector": collector,
        "max_epochs": 1,
        "epoch_num_steps": STEPS,
        "collection_step_num_env_steps": row.rollout,
        "batch_size": row.batch,
        "training_fn": before_collecting,
        "show_progress": False,
        "verbose": False,
    }
    task.meter.begin()
    if row.epochs:
        algorithm.run_training(
            OnPolicyTrainerParams(update_step_num_repetitions=row.epochs, **equal)
        )
        return
    ratio = row.updates / row.rollout
    algorithm.run_training(
        OffPolicyTrainerParams(update_step_num_gradient_steps_per_sample=ratio, **equal)
    )


if __name__ == "__main__":
    process.main(train, "tianshou")
