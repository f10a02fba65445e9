"""Other libraries' names end in the right word of ours."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import hpcpod
from hpcpod.config.schema import RunConfig
from hpcpod.config.synonyms import _ELSEWHERE, _NAMES
from hpcpod.errors import ConfigError
from hpcpod.plugins import known, resolve

STABLE_BASELINES = {
    "ppo": {
        "lr": "learning_rate", "n_steps": "horizon", "batch_size": "minibatch_size",
        "n_epochs": "epochs", "clip_range": "clip", "clip_range_vf": "value_clip",
        "ent_coef": "entropy", "vf_coef": "value_coef", "net_arch": "hidden",
    },
    "dqn": {
        "train_freq": "horizon", "gradient_steps": "updates_per_step",
        "target_update_interval": "target_interval", "exploration_fraction": "epsilon_fraction",
        "exploration_initial_eps": "epsilon_start", "exploration_final_eps": "epsilon_end",
    },
    "sac": {"ent_coef": "temperature", "n_critics": "critics", "hidden_sizes": "hidden"},
    "td3": {"target_policy_noise": "target_noise", "action_noise": "exploration_noise"},
}  # fmt: skip
CLEANRL = {
    "ppo": {
        "num_steps": "horizon", "num_minibatches": "minibatch_size", "update_epochs": "epochs",
        "clip_coef": "clip", "norm_adv": "normalize_advantage", "anneal_lr": "anneal",
    },
    "dqn": {
        "start_e": "epsilon_start", "end_e": "epsilon_end", "train_frequency": "horizon",
        "target_network_frequency": "target_interval",
    },
    "sac": {"alpha": "temperature", "q_lr": "learning_rate"},
    "td3": {"policy_frequency": "policy_delay", "noise_clip": "target_noise_clip"},
}  # fmt: skip
RLLIB = {
    "ppo": {
        "train_batch_size": "horizon", "num_sgd_iter": "epochs", "lambda_": "gae_lambda",
        "vf_loss_coeff": "value_coef", "entropy_coeff": "entropy", "clip_param": "clip",
        "grad_clip": "max_grad_norm", "fcnet_hiddens": "hidden", "fcnet_activation": "activation",
    },
    "dqn": {"double_q": "double", "n_step": "n_steps", "epsilon_timesteps": "epsilon_steps"},
    "sac": {"initial_alpha": "temperature_init", "twin_q": "critics"},
}  # fmt: skip
EACH = [
    (agent, theirs, ours)
    for library in (STABLE_BASELINES, CLEANRL, RLLIB)
    for agent, names in library.items()
    for theirs, ours in names.items()
]


@pytest.mark.parametrize(("agent", "theirs", "ours"), EACH)
def test_another_library_s_word_for_a_hyperparameter(agent: str, theirs: str, ours: str) -> None:
    env = "CartPole-v1" if agent in ("ppo", "dqn") else "Pendulum-v1"
    word: dict[str, Any] = {theirs: 1}
    with pytest.raises(ConfigError, match=f"{theirs}: .*; did you mean '{ours}'"):
        hpcpod.train(agent, env, env_steps=10, **word)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("env", {"name": "CartPole-v1"}, "env.name: unknown key; did you mean 'id'?"),
        ("env", {"id": "CartPole-v1", "n_envs": 4}, "env.n_envs: .*'num_envs'"),
        ("stop", {"total_timesteps": 100}, "stop.total_timesteps: .*'env_steps'"),
        ("stop", {"walltime": 100}, "stop.walltime: .*'minutes'"),
        ("resources", {"gpus": 1}, "resources.gpus: .*'gpus_per_pod'"),
        ("agents", {"ppo": {"seed": 3}}, "agents.ppo.seed: .* did you mean 'seed', which is none"),
        ("agents", {"ppo": {"n_envs": 3}}, "agents.ppo.n_envs: .* did you mean 'env.num_envs'"),
        ("hyperparameters", {}, "hyperparameters: unknown key; did you mean 'agents'?"),
    ],
)
def test_another_word_for_a_key(key: str, value: Any, said: str) -> None:
    config = {"name": "a", "env": {"id": "CartPole-v1"}, "stop": {"minutes": 1}, key: value}
    with pytest.raises(ConfigError, match=said):
        hpcpod.launch(config)


def fields(record: Any) -> Iterator[str]:
    """The names of a configuration's keys, at every depth."""
    for name, kind in typing.get_type_hints(record).items():
        yield name
        if dataclasses.is_dataclass(kind):
            yield from fields(kind)


def test_every_name_that_is_proposed_is_one_of_ours() -> None:
    configs = [resolve("agents", name).Config for name in known("agents")]
    ours = {*fields(RunConfig), *(field.name for c in configs for field in dataclasses.fields(c))}
    assert _NAMES.keys() <= ours
    for name, place in _ELSEWHERE.items():
        config: Any = RunConfig
        for part in place.split("."):
            config = typing.get_type_hints(config)[part]
        assert place.endswith(name)
