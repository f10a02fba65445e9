"""What the ranks of a test do, once they have met."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from typing import Any

import torch

from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.pod.ranks.communicator import Communicator, RankLost
from hpcpod.pod.ranks.fusion import Mean, Nesterov
from tests.agents.training import row, spec


def exchange(group: Communicator) -> Any:
    """Both exchanges."""
    vector = torch.arange(5.0) * (group.rank + 1)
    group.sum_(vector)
    said = group.gather(f"rank {group.rank} ä" * (group.rank + 1))
    return [vector.tolist(), group.gather(""), said, group.backend]


def train(group: Communicator) -> Any:
    """Three fused updates on different data; a digest of all that must be equal."""
    agent = PPO(spec(), PPOConfig(horizon=16, hidden=16), seed=0)
    agent.reseed(group.rank)
    fusion = (Mean if group.size == 2 else Nesterov)(agent, group)
    buffer = agent.make_buffer()
    for _ in range(3):
        for t in range(16 + group.rank):
            obs, action, step = row(t + 100 * group.rank)
            buffer.add(obs, action, step)
        agent.update(buffer)
        fusion.fuse(2.0 * (16 + group.rank))
    state = agent.state()
    digest = hashlib.sha256()
    for name in sorted(state):
        if name != "rng":
            digest.update(state[name].numpy().tobytes())
    return [digest.hexdigest(), int(state["env_steps"]), bool(state["network/policy.weight"].any())]


def die(group: Communicator) -> Any:
    """Rank 1 is killed in the middle of an exchange; what the others notice, and how soon."""
    group.sum_(torch.ones(3))
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        for _ in range(100):
            group.sum_(torch.ones(1_000_000))
    except RankLost as error:
        return [time.monotonic() - began, str(error)]
    return None
