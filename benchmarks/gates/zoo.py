"""Tuned hyperparameters of rl-baselines3-zoo, as facts, by Stable-Baselines3's names.

From its hyperparams/{ppo,a2c,dqn,sac,td3,ddpg}.yml at commit 22e3ff2 (2026-04-23); MuJoCo's are
those of version 4 of the tasks. ``n_envs``, ``normalize``, ``lin_`` and ``noise_std`` are what
``gates.sb3_run.own`` makes of them. ``PUBLISHED`` is from its benchmark.md: the mean return of its
own agent after that many steps, one seed, on the tasks' versions of then.
"""

from __future__ import annotations

from typing import Any

_WIDE = {
    "log_std_init": -2, "ortho_init": False, "activation_fn": "ReLU",
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}  # fmt: skip
_DQN = {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0,
    "gamma": 0.99, "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1,
    "exploration_fraction": 0.12, "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
}  # fmt: skip
_TD3 = {
    "gamma": 0.98, "buffer_size": 200_000, "learning_starts": 10_000, "noise_std": 0.1,
    "gradient_steps": 1, "train_freq": 1, "learning_rate": 1e-3,
    "policy_kwargs": {"net_arch": [400, 300]},
}  # fmt: skip

HUMANOID = {
    "normalize": True, "n_envs": 1, "batch_size": 256, "n_steps": 512, "gamma": 0.95,
    "learning_rate": 3.56987e-05, "ent_coef": 0.00238306, "clip_range": 0.3, "n_epochs": 5,
    "gae_lambda": 0.9, "max_grad_norm": 2.0, "vf_coef": 0.431892, "policy_kwargs": _WIDE,
}  # fmt: skip
"""PPO on Humanoid-v4; no contest of ``defaults.py``, for its two million steps take hours."""

ZOO: list[tuple[str, str, int, str, dict[str, Any]]] = [
    ("ppo", "CartPole-v1", 100_000, "classic/cartpole.yaml", {
        "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98,
        "n_epochs": 20, "ent_coef": 0.0, "learning_rate": "lin_0.001", "clip_range": "lin_0.2",
    }),
    ("a2c", "CartPole-v1", 200_000, "classic/cartpole.yaml", {"n_envs": 8, "ent_coef": 0.0}),
    ("dqn", "CartPole-v1", 100_000, "classic/cartpole.yaml", {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000,
        "learning_starts": 1_000, "gamma": 0.99, "target_update_interval": 10,
        "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]},
    }),
    ("ppo", "Acrobot-v1", 100_000, "classic/acrobot.yaml", {
        "normalize": True, "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99,
        "n_epochs": 4, "ent_coef": 0.0,
    }),
    ("dqn", "Acrobot-v1", 100_000, "classic/acrobot.yaml", _DQN),
    ("ppo", "Pendulum-v1", 100_000, "classic/pendulum.yaml", {
        "n_envs": 4, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10,
        "ent_coef": 0.0, "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True,
        "sde_sample_freq": 4,
    }),
    ("dqn", "LunarLander-v3", 100_000, "classic/lunar_lander.yaml", _DQN),
    ("sac", "Pendulum-v1", 20_000, "classic/pendulum.yaml", {"learning_rate": 1e-3}),
    ("td3", "Pendulum-v1", 20_000, "classic/pendulum.yaml", _TD3),
    ("ddpg", "Pendulum-v1", 20_000, "classic/pendulum.yaml", _TD3),
    ("ppo", "LunarLander-v3", 300_000, "classic/lunar_lander.yaml", {
        "n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999,
        "n_epochs": 4, "ent_coef": 0.01,
    }),
    ("ppo", "Hopper-v5", 1_000_000, "mujoco/hopper.yaml", {
        "normalize": True, "n_envs": 1, "batch_size": 32, "n_steps": 512, "gamma": 0.999,
        "learning_rate": 9.80828e-05, "ent_coef": 0.00229519, "clip_range": 0.2, "n_epochs": 5,
        "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671, "policy_kwargs": _WIDE,
    }),
    ("ppo", "HalfCheetah-v5", 1_000_000, "mujoco/halfcheetah.yaml", {
        "normalize": True, "n_envs": 1, "batch_size": 64, "n_steps": 512, "gamma": 0.98,
        "learning_rate": 2.0633e-05, "ent_coef": 0.000401762, "clip_range": 0.1, "n_epochs": 20,
        "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096, "policy_kwargs": _WIDE,
    }),
    ("ppo", "Ant-v5", 1_000_000, "mujoco/ant.yaml", {"normalize": True}),
]  # fmt: skip

PUBLISHED: dict[tuple[str, str], tuple[float, int]] = {
    ("ppo", "CartPole-v1"): (500.0, 100_000), ("a2c", "CartPole-v1"): (500.0, 500_000),
    ("dqn", "CartPole-v1"): (500.0, 50_000), ("ppo", "Acrobot-v1"): (-73.5, 1_000_000),
    ("dqn", "Acrobot-v1"): (-76.6, 100_000), ("ppo", "Pendulum-v1"): (-172.2, 100_000),
    ("sac", "Pendulum-v1"): (-157.0, 20_000), ("td3", "Pendulum-v1"): (-151.9, 20_000),
    ("ddpg", "Pendulum-v1"): (-152.1, 20_000), ("dqn", "LunarLander-v3"): (154.4, 100_000),
    ("ppo", "LunarLander-v3"): (242.1, 1_000_000), ("ppo", "Hopper-v5"): (2410.4, 1_000_000),
    ("ppo", "HalfCheetah-v5"): (5819.1, 1_000_000), ("ppo", "Ant-v5"): (1327.2, 1_000_000),
}  # fmt: skip
"""Mean return and steps."""
