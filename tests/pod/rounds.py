"""Rounds executed in this process, and stopped where a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import State
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.checkpoint import read_segment
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.factory import make_agent
from hpcpod.pod.pod import Pod
from hpcpod.pod.round import Watch
from hpcpod.records.records import Birth, Checkpoint, Report
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board

KINDS: dict[str, dict[str, Any]] = {
    "saveable": {},
    "played again": {"wrappers": ["gymnasium.wrappers:FlattenObservation"]},
    "unsaveable": {"id": "tests.pod.rounds:stateless", "backend": "vector"},
}
"""CartPole, of which can be saved: its physics, the actions of its episodes, nothing."""


def stateless(num_envs: int) -> SyncVectorEnv:
    """CartPoles whose state can't be saved."""
    one = lambda: gym.make("CartPole-v1")  # noqa: E731
    return SyncVectorEnv([one] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def births(folder: RunFolder) -> dict[str, Birth]:
    """The open births, by pod."""
    pods = read_board(folder).pods
    return {name: pod.birth for name, pod in pods.items() if pod.birth is not None}


def first_birth(folder: RunFolder) -> Birth:
    """The first round of the first pod."""
    return births(folder)["p0001"]


def train(folder: RunFolder, birth: Birth, *stops: int) -> Report:
    """Execute a round; at each of ``stops`` iterations it is stopped and a new Pod goes on."""
    for iterations in stops:
        pod = prepare(folder)
        try:
            pod.execute(birth, "here", Watch(countdown(iterations)))
        except Stopped:
            pod.close()
            continue
        raise AssertionError(f"the round ended before iteration {iterations}")
    return execute(prepare(folder), birth)


def execute(pod: Pod, birth: Birth) -> Report:
    """Execute a round to its end."""
    return pod.execute(birth, "here", Watch())


def countdown(iterations: int) -> Callable[[], bool]:
    """A wish to stop that comes when it is asked for the n-th time."""
    left = iterations

    def should_stop() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    return should_stop


def onward(birth: Birth, report: Report) -> Birth:
    """The pod's next round."""
    return replace(
        birth, round=birth.round + 1, checkpoint=report.checkpoint, inherited=False, shrink=False
    )


def copy_of(parent: Birth, report: Report, **hyperparameters: float) -> Birth:
    """The first round of a mutated copy of what ``report`` reported."""
    return replace(
        parent,
        pod="p0099",
        round=report.round + 1,
        seed=99,
        hyperparameters={**parent.hyperparameters, **hyperparameters},
        checkpoint=report.checkpoint,
        inherited=True,
    )


def replay(folder: RunFolder, checkpoint: Checkpoint) -> State:
    """All live rows of a checkpoint's replay buffer, whatever segments they lie in."""
    if not checkpoint.segments:
        return {}
    env = make_env("CartPole-v1", 4)
    buffer = make_agent(
        "dqn", env.spec, first_birth(folder).hyperparameters, 0, "cpu"
    ).make_buffer()
    parts = [(s.start, read_segment(folder.blobs, s)) for s in checkpoint.segments]
    buffer.restore(checkpoint.rows, parts)
    return buffer.segment(buffer.oldest, buffer.rows)


def assert_same_end(one: Report, other: Report, folder: RunFolder, other_folder: RunFolder) -> None:
    """Two rounds, each in a run of its own, have ended in the same bits."""
    assert one.checkpoint is not None and other.checkpoint is not None
    assert one.checkpoint.core == other.checkpoint.core
    assert one.returns == other.returns
    assert one.inherited_returns == other.inherited_returns
    assert one.trained_steps == other.trained_steps
    assert one.metrics == other.metrics
    rows, other_rows = replay(folder, one.checkpoint), replay(other_folder, other.checkpoint)
    assert rows.keys() == other_rows.keys()
    for name, values in rows.items():
        assert torch.equal(values, other_rows[name]), name


def damage(folder: RunFolder, sha256: str) -> None:
    """Change a bit of a blob."""
    path = folder.blobs.path(sha256)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
