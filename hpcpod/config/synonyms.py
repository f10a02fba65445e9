"""Synonyms: other libraries' names of hyperparameters and keys, for the advice in a refusal.

They are those of Stable-Baselines3, CleanRL and RLlib, and of papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpcpod.plugins import suggest

_NAMES: Mapping[str, str] = {
    "learning_rate": "lr step_size stepsize actor_lr critic_lr policy_lr q_lr pi_lr vf_lr",
    "gamma": "discount discount_factor gam",
    "gae_lambda": "lam lambda lambda_ gae td_lambda",
    "clip": "clip_range clip_coef clip_param clip_ratio clip_epsilon eps_clip",
    "value_clip": "clip_range_vf clip_vloss vf_clip_param vf_clip clip_value",
    "entropy": "ent_coef entropy_coef entropy_coeff ent_weight entropy_beta",
    "temperature": "ent_coef entropy_coef entropy_coeff alpha",
    "temperature_init": "initial_alpha alpha_init init_temperature init_alpha",
    "value_coef": "vf_coef vf_loss_coeff value_loss_coef critic_coef vf_coeff",
    "max_grad_norm": "grad_clip clip_grad_norm grad_norm max_norm grad_norm_clip",
    "target_kl": "kl_target kl_coeff desired_kl",
    "epochs": "n_epochs num_epochs update_epochs num_sgd_iter ppo_epochs train_iters",
    "minibatch_size": "batch_size mini_batch_size sgd_minibatch_size num_minibatches n_minibatches",
    "batch_size": "minibatch_size mini_batch_size train_batch_size",
    "horizon": (
        "n_steps num_steps rollout_length rollout_fragment_length train_freq train_frequency"
        " steps_per_rollout unroll_length train_batch_size"
    ),
    "n_steps": "n_step nstep multi_step td_steps",
    "normalize_advantage": "norm_adv advantage_normalization normalise_advantage",
    "normalize_obs": "norm_obs normalize_observations observation_normalization normalize",
    "normalize_rewards": "norm_reward normalize_reward reward_normalization reward_scaling",
    "hidden": (
        "net_arch hidden_sizes hidden_size hidden_units hidden_dim hidden_dims fcnet_hiddens"
        " units width policy_kwargs"
    ),
    "layers": "n_layers num_layers depth hidden_layers",
    "activation": "activation_fn fcnet_activation nonlinearity",
    "log_std_init": "init_log_std logstd_init initial_log_std log_std",
    "anneal": "anneal_lr lr_schedule learning_rate_schedule lr_decay",
    "buffer_size": "replay_size memory_size replay_buffer_size capacity buffer_capacity",
    "learning_starts": (
        "start_steps warmup_steps num_steps_sampled_before_learning_starts burn_in"
        " start_timesteps init_steps"
    ),
    "updates_per_step": "gradient_steps utd utd_ratio num_updates update_every training_intensity",
    "target_interval": "target_update_interval target_network_frequency target_network_update_freq",
    "tau": "polyak soft_update_tau target_tau",
    "epsilon_start": "exploration_initial_eps start_e initial_epsilon eps_start epsilon",
    "epsilon_end": "exploration_final_eps end_e final_epsilon eps_end epsilon_min",
    "epsilon_fraction": "exploration_fraction eps_fraction",
    "epsilon_steps": "epsilon_timesteps eps_decay epsilon_decay exploration_steps",
    "double": "double_q double_dqn",
    "dueling": "dueling_dqn",
    "priority_exponent": "prioritized_replay_alpha per_alpha prioritized_replay prioritized",
    "priority_beta": "prioritized_replay_beta per_beta",
    "critics": "n_critics num_critics twin_q num_q",
    "exploration_noise": "action_noise act_noise expl_noise noise_std noise_sigma",
    "target_noise": "target_policy_noise policy_noise smoothing_noise",
    "target_noise_clip": "noise_clip target_policy_noise_clip",
    "policy_delay": "policy_frequency policy_freq actor_delay delay",
    "target_entropy": "entropy_target",
    "id": "name env env_id env_name environment task",
    "num_envs": "n_envs num_env nenvs num_vec_envs num_envs_per_worker num_workers envs",
    "kwargs": "env_kwargs env_config arguments",
    "env_steps": "total_timesteps timesteps max_steps num_timesteps total_steps steps n_timesteps",
    "episodes": "n_eval_episodes eval_episodes evaluation_duration num_eval_episodes",
    "minutes": "time time_limit walltime hours max_minutes timeout",
    "target": "stop_reward reward_threshold target_reward reward goal",
    "gpus_per_pod": "gpus num_gpus gpus_per_agent n_gpus",
    "cpus_per_pod": "cpus num_cpus cpus_per_task cpus_per_agent n_cpus",
    "nodes_per_pod": "nodes num_nodes",
    "pods": "population_size pop_size num_agents agents size",
    "algorithms": "algorithm algo algos agent",
    "agents": "hyperparameters hyperparams hparams hyperparameter_space search_space",
    "ranks": "num_learners learners world_size n_learners",
}
"""Other libraries' names for each of ours; one of them may stand for several."""

_ELSEWHERE: Mapping[str, str] = {
    "seed": "seed",
    "num_envs": "env.num_envs",
    "env_steps": "stop.env_steps",
    "device": "pod.device",
    "episodes": "round.episodes",
    "torch_threads": "pod.torch_threads",
}
"""The other places in a configuration for what other libraries call a hyperparameter."""


def meant(word: str, names: Sequence[str]) -> str:
    """A clause that proposes which of these keys is meant, or an empty string."""
    ours = _ours(word, names)
    return f"; did you mean '{ours}'?" if ours else suggest(word, list(names))


def meant_elsewhere(word: str, names: Sequence[str]) -> str:
    """The same for a hyperparameter, which may be said at another place of the configuration."""
    place = _ELSEWHERE.get(_ours(word, list(_ELSEWHERE)) or word)
    if place is None or _ours(word, names):
        return meant(word, names)
    return f"; did you mean '{place}', which is none of an agent's?"


def _ours(word: str, names: Sequence[str]) -> str | None:
    plain = word.lower().replace("-", "_")
    return next((name for name in names if plain in _NAMES.get(name, "").split()), None)
