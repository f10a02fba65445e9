"""Work of the ranks of a test, once they have met."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import replace
from typing import Any

import torch

from hpcpod.agents.base import Agent
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.td3 import TD3, TD3Config
from hpcpod.envs.vec_env import Box, Step
from hpcpod.errors import EngineDiffers, LaunchError
from hpcpod.pod.__main__ import _goes_on, _kind
from hpcpod.pod.ranks.communicator import Communicator, RankLost
from hpcpod.pod.ranks.consensus import together
from hpcpod.pod.ranks.fusion import Mean, Nesterov
from hpcpod.pod.ranks.fusion_guard import Guard
from hpcpod.pod.ranks.group import _own_gpu_each
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


def differ(group: Communicator) -> Any:
    """Rank 1 has another engine; the failure that each rank would tell of, and whether it stays."""

    def compare() -> None:
        if group.rank == 1:
            raise EngineDiffers("another engine")

    try:
        together(group, compare)
    except Exception as error:
        return [_kind(error), str(error), _goes_on(error)]
    return None


def gpus(group: Communicator, tries: list[list[str]]) -> Any:
    """Each rank has a GPU by the name in its place, or none, as no machine of tests has two to mix
    up; what it says to each of ``tries``."""
    said = []
    for names in tries:
        try:
            _own_gpu_each(group, names[group.rank])
            said.append("")
        except LaunchError as error:
            said.append(str(error))
    return said


def guarded(group: Communicator, scores: list[float]) -> Any:
    """A fusion with a guard to whom the members and what is fused seem as good as ``scores``."""
    # By normalised returns a critic's last layer comes back in other units, and so in other bits.
    agent = PPO(spec(), PPOConfig(horizon=16, hidden=16, normalize_returns=False), seed=0)
    agent.reseed(group.rank)
    fusion = Mean(agent, group)
    buffer = agent.make_buffer()
    for t in range(16):
        obs, action, step = row(t + 100 * group.rank)
        buffer.add(obs, action, step)
    agent.update(buffer)
    before = _weights(agent)

    def score(scored: Agent, fusion_number: int) -> list[float]:
        fused = _weights(agent) != before
        return [scores[2 if fused else group.rank] + episode for episode in range(4)]

    Guard(group, 1, score).fuse(agent, fusion, 32.0, 1)
    after = {"before": before, "after": _weights(agent)}
    return {**after, "env_steps": int(agent.state()["env_steps"])}


def warm_up(group: Communicator) -> Any:
    """How many transitions a rank has collected by random actions, and before its first update."""
    config = TD3Config(learning_starts=64, horizon=4, batch_size=8, hidden=16, noise_memory=1)
    agent = TD3(spec(Box((2,), -1.0, 1.0)), config, seed=0)
    agent.reseed(group.rank)
    fusion, buffer = Mean(agent, group), agent.make_buffer()
    random, waited = 0, 0
    for t in range(60):
        like = torch.Generator()
        like.set_state(agent._generator.get_state())
        drawn = torch.empty(2, 2).uniform_(-1.0, 1.0, generator=like)
        random += 2 * int(torch.equal(agent.act(torch.zeros(2, 3), explore=True), drawn))
        obs, _, step = row(t)
        buffer.add(obs / 100, drawn, step)
        if t % 4 == 3:
            waited += 8 * int(not agent.update(buffer))
            fusion.fuse(8.0)
    return [random, waited, int(agent.state()["env_steps"])]


def _weights(agent: PPO) -> str:
    state = agent.state()
    parts = [t.numpy().tobytes() for n, t in sorted(state.items()) if n.startswith("network/")]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def fused_alone(group: Communicator, device: torch.device) -> Any:
    """A group of one: what it says to itself, and how far a fusion moves the only replica."""
    there = replace(spec(), device=str(device))
    agent = PPO(there, PPOConfig(horizon=16, hidden=16), seed=0, device=str(device))
    fusion, buffer = Mean(agent, group), agent.make_buffer()
    for t in range(16):
        obs, action, step = row(t)
        buffer.add(obs.to(device), action.to(device), Step(*(part.to(device) for part in step)))
    agent.update(buffer)
    before = agent.state()
    fusion.fuse(32.0)
    after = agent.state()
    far = [(after[n].double() - before[n].double()).abs().max() for n in before if n != "rng"]
    moved = any(tensor.any() for name, tensor in after.items() if "exp_avg/" in name)
    return [group.gather("here"), group.backend, float(max(far)), moved]
