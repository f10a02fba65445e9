"""Policies that were never trained, in files as a training writes them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hpcpod.config.schema import EnvConfig


def untrained(path: Path, env: EnvConfig | None = None, *, seed: int = 0) -> Path:
    """PPO with the weights that it begins with; by default for CartPole."""
    from hpcpod import plugins
    from hpcpod.envs.make import configured
    from hpcpod.pod.factory import make_agent
    from hpcpod.pod.policy import Policy, policy_meta

    task = env or EnvConfig("CartPole-v1")
    with closing(configured(task, 1, "cpu")) as made:
        spec = made.spec
    config = plugins.resolve("agents", "ppo").Config()
    agent = make_agent("ppo", spec, {}, seed, "cpu")
    values = {name: getattr(config, name) for name in config.__dataclass_fields__}
    Policy(agent, spec, policy_meta(spec, task, "ppo", values)).save(path, overwrite=True)
    return path
