"""RLlib: ``Algorithm.train`` over and over, with its environments in this process or in two."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from contenders import episodes, process, rows
from contenders.process import Task
from contenders.rows import Row

LIFETIME = "num_env_steps_sampled_lifetime"


def algorithm_config(row: Row) -> Any:
    """The row's hyperparameters."""
    equal: dict[str, Any] = {"gamma": rows.GAMMA}
    if row.algorithm == "ppo":
        return PPOConfig().training(
            **equal,
            lr=row.learning_rate,
            train_batch_size_per_learner=row.rollout,
            minibatch_size=row.batch,
            num_epochs=row.epochs,
            lambda_=rows.GAE_LAMBDA,
            clip_param=rows.CLIP,
            vf_clip_param=1e9,
            vf_loss_coeff=rows.VALUE_COEF,
            entropy_coeff=0.0,
            use_kl_loss=False,
            grad_clip=rows.MAX_GRAD_NORM,
        )
    equal |= {
        "train_batch_size_per_learner": row.batch,
        "num_steps_sampled_before_learning_starts": rows.LEARNING_STARTS,
        # Transitions learned from for each one collected.
        "training_intensity": row.batch * row.updates / row.rollout,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": rows.BUFFER},
    }
    if row.algorithm == "dqn":
        return DQNConfig().training(
            **equal,
            lr=row.learning_rate,
            double_q=False,
            dueling=False,
            target_network_update_freq=rows.TARGET_STEPS,
            epsilon=[(0, 1.0), (rows.EPSILON_STEPS, rows.EPSILON_END)],
        )
    rate = row.learning_rate
    return SACConfig().training(
        **equal, actor_lr=rate, critic_lr=rate, alpha_lr=rate, lr=None, tau=rows.TAU, n_step=1
    )


def config_of(task: Task) -> AlgorithmConfig:
    row = task.row
    apart = "processes" in task.words
    hidden = [row.hidden, row.hidden]
    model = DefaultModelConfig(fcnet_hiddens=hidden, fcnet_activation=row.activation)
    if row.algorithm == "dqn":
        model.head_fcnet_hiddens = []
    if row.algorithm == "sac":  # its hidden layers are an encoder's and a head's
        model.fcnet_hiddens, model.head_fcnet_hiddens = hidden[:1], hidden[1:]
        model.head_fcnet_activation = row.activation
    model.vf_share_layers = False
    return (
        algorithm_config(row)
        .environment("peer")
        .env_runners(
            num_env_runners=2 if apart else 0,
            num_envs_per_env_runner=row.num_envs // 2 if apart else row.num_envs,
            rollout_fragment_length=row.horizon,
        )
        .learners(num_learners=0)
        .rl_module(model_config=model)
        .debugging(seed=task.seed, log_level="ERROR")
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=row.rollout)
    )


def train(task: Task) -> None:
    logging.disable(logging.WARNING)
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)
    maker = episodes.Maker(task)

    def make(_config: Any) -> gymnasium.Env[Any, Any]:
        return maker()

    register_env("peer", make)
    try:
        algorithm = config_of(task).build_algo()
        task.meter.begin()
        while True:
            result = algorithm.train()
            task.round_ends(int(result["env_runners"][LIFETIME]))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    process.main(train, "ray")
