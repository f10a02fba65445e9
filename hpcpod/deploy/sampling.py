"""Samples of what a policy meets in an environment: observations and rewards."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.make import configured
from hpcpod.pod.policy import load_policy_file
from hpcpod.tournament.continuous.drift import Sample

MOST_COLUMNS = 64
"""Of an observation; of larger ones so many are taken, evenly spread."""
REWARD = "reward"


def sampled(policy: Path, env: EnvConfig, seed: int, episodes: int, steps: int) -> Sample:
    """Let a policy play, without exploring, and keep what it meets.

    Args:
        policy: a file that ``load_policy`` reads.
        env: the environment.
        seed: of the first of its episodes.
        episodes: side by side: each is a block.
        steps: of each.

    Raises:
        UserError: the policy or the environment can't be had.
    """
    act = load_policy_file(policy).agent
    with closing(configured(env, episodes, "cpu")) as made:
        obs = made.reset(torch.arange(seed, seed + episodes))
        seen, rewards = [], []
        for _ in range(steps):
            seen.append(obs.flatten(1).double())
            step = made.step(act.act(obs, explore=False))
            rewards.append(step.reward.double())
            obs = step.obs
    flat = torch.stack(seen, 1)
    columns = np.unique(np.linspace(0, flat.shape[2] - 1, MOST_COLUMNS).astype(int))
    rows = torch.cat([flat[..., columns], torch.stack(rewards, 1).unsqueeze(2)], 2)
    names = (*(f"observation {i}" for i in columns), REWARD)
    blocks = np.repeat(np.arange(episodes), steps)
    return Sample(names, rows.flatten(0, 1).numpy(), blocks, independent=True)
