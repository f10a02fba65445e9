"""The cost of an exchange: bytes and seconds of an epoch, and of one fusion beside the backend's.

An epoch here is one update of PPO from a rollout that was made up, with all that ranks exchange
for it: nothing is collected.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusing.counted import Counted
from hpcpod import plugins
from hpcpod.agents.base import Buffer
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.envs.vec_env import Box, EnvSpec, Step
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.consensus import agree
from hpcpod.pod.ranks.fusion import Fusion

MODELS = {"64 x 64": (3, 1, 64), "256 x 256": (60, 8, 256)}
"""Numbers of an observation, of an action, and units of both hidden layers."""
NUM_ENVS, ROWS, WARM_UP = 4, 256, 3


def epochs(group: Communicator, order: dict[str, Any]) -> dict[str, Any]:
    """Bytes and seconds of ``order["epochs"]`` epochs by ``order["scheme"]``.

    Returns:
        ``bytes`` and ``exchanges`` of an epoch and rank, and by ranks the medians of ``seconds``
        in exchanges and of the whole ``epoch``.
    """
    agent, counted = _agent(order["model"], group), Counted(group)
    fusion: Fusion | None = None
    if group.size > 1:
        fusion = plugins.make(Fusion, "fusions", order["scheme"], agent, counted)
    buffer = agent.make_buffer()
    inside, whole = [], []
    for epoch in range(WARM_UP + order["epochs"]):
        if epoch == WARM_UP:
            counted.bytes = counted.exchanges = 0
        _fill(buffer, order["model"], group.rank)
        agree(group)
        before, began = counted.seconds, time.perf_counter()
        agent.update(buffer)
        if fusion is not None:
            fusion.learned()
        agree(counted, NUM_ENVS * ROWS)
        if fusion is not None:
            fusion.fuse(NUM_ENVS * ROWS)
        whole.append(time.perf_counter() - began)
        inside.append(counted.seconds - before)
    own = [statistics.median(inside[WARM_UP:]), statistics.median(whole[WARM_UP:])]
    told = [json.loads(text) for text in group.gather(json.dumps(own))]
    return {
        "bytes": counted.bytes / order["epochs"],
        "exchanges": counted.exchanges / order["epochs"],
        "seconds": [seconds for seconds, _ in told],
        "epoch": [seconds for _, seconds in told],
    }


def fuse(group: Communicator, order: dict[str, Any]) -> dict[str, Any]:
    """A fusion by ``mean`` and a bare all-reduce of as many bytes, in turns.

    Returns:
        ``bytes`` of the vector and, each the mean over ranks of their first decile and of their
        median in seconds: ``whole`` of a fusion without waiting for others, ``exchange`` in it,
        ``bare`` after the same reading of weights, and ``warm`` after nothing. Backends with
        threads have more of them than there are cores here: every other time or so one waits 4 ms
        for its turn, and the median says how often. The decile is without.
    """
    agent, counted = _agent(order["model"], group), Counted(group, aligned=True)
    fusion: Fusion = plugins.make(Fusion, "fusions", "mean", agent, counted)
    buffer = agent.make_buffer()
    _fill(buffer, order["model"], group.rank)
    agent.update(buffer)
    fusion.fuse(1.0)
    size = counted.bytes
    vector, all_reduce = torch.zeros(size // 4), _bare(group)
    took: dict[str, list[float]] = {"whole": [], "exchange": [], "bare": [], "warm": []}
    for _ in range(order["repeats"]):
        fusion.learned()
        agree(group)
        inside, waited, began = counted.seconds, counted.waited, time.perf_counter()
        fusion.fuse(1.0)
        took["whole"].append(time.perf_counter() - began - (counted.waited - waited))
        took["exchange"].append(counted.seconds - inside)
        for name in ("bare", "warm"):
            if name == "bare":  # what a fusion does before: it empties the processor's caches
                agent.state()
            vector.fill_(1.0)
            counted.align()
            began = time.perf_counter()
            all_reduce(vector)
            took[name].append(time.perf_counter() - began)
    own = {
        name: [statistics.quantiles(seconds, n=10)[0], statistics.median(seconds)]
        for name, seconds in took.items()
    }
    told = [json.loads(text) for text in group.gather(json.dumps(own))]
    means = {name: [statistics.fmean(t[name][i] for t in told) for i in (0, 1)] for name in own}
    return {"bytes": size, **means}


def _bare(group: Communicator) -> Callable[[Tensor], object]:
    """The backend's own all-reduce."""
    if group.backend != "mpi":
        return dist.all_reduce
    from mpi4py import MPI

    def all_reduce(vector: Tensor) -> None:
        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, [vector.numpy(), MPI.FLOAT], MPI.SUM)

    return all_reduce


def _agent(model: str, group: Communicator) -> PPO:
    inputs, outputs, hidden = MODELS[model]
    spec = EnvSpec(
        id="made-up", observation=Box((inputs,), -1.0, 1.0), action=Box((outputs,), -1.0, 1.0),
        num_envs=NUM_ENVS, device="cpu", max_episode_steps=None, engine="none",
    )  # fmt: skip
    config = PPOConfig(
        # Rewards that nothing explains make it diverge at the usual rate.
        learning_rate=1e-6,
        horizon=ROWS,
        minibatch_size=64,
        epochs=10,
        hidden=hidden,
        normalize_obs=False,
        normalize_returns=False,
    )
    agent = PPO(spec, config, seed=0)
    agent.reseed(group.rank)
    return agent


def _fill(buffer: Buffer, model: str, seed: int) -> None:
    """A rollout of random numbers."""
    inputs, outputs, _ = MODELS[model]
    generator = torch.Generator().manual_seed(seed)
    never = torch.zeros(NUM_ENVS, dtype=torch.bool)
    obs = torch.randn(ROWS + 1, NUM_ENVS, inputs, generator=generator)
    action = torch.randn(ROWS, NUM_ENVS, outputs, generator=generator)
    reward = torch.randn(ROWS, NUM_ENVS, generator=generator)
    for t in range(ROWS):
        step = Step(obs[t + 1], reward[t], never, never, obs[t + 1], ~never)
        buffer.add(obs[t], action[t], step)
