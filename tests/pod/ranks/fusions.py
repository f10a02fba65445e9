"""Fusions of a user's own, by their paths: what a test wants to happen in one."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from pathlib import Path

import torch

from hpcpod.agents.base import Agent
from hpcpod.agents.fusion import fusion_rules
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.fusion import Apart, GradAllReduce, Mean, Nesterov


class Watched(Mean):
    """Writes down what each replica is after each fusion, but for what is local to it."""

    def fuse(self, weight: float) -> None:
        """Fuse, and append a digest to ``$WATCHED/<rank>``."""
        super().fuse(weight)
        state = self._agent.state()
        digest = hashlib.sha256()
        for name, rule in sorted(fusion_rules(self._agent, state).items()):
            if rule != "local":
                digest.update(state[name].numpy().tobytes())
        with (Path(os.environ["WATCHED"]) / str(self._group.rank)).open("a") as file:
            file.write(f"{digest.hexdigest()} {weight:g}\n")


class WatchedNesterov(Watched, Nesterov):
    """The same of the outer optimizer."""


class WatchedGradients(Watched, GradAllReduce):
    """The same of synchronous gradients."""


class WatchedApart(Apart):
    """The same of learners that are never fused."""

    def __init__(self, agent: Agent, group: Communicator) -> None:
        super().__init__(agent, group)
        self._agent, self._group = agent, group

    def fuse(self, weight: float) -> None:
        """Append a digest of the weights."""
        state = self._agent.state()
        weights = b"".join(t.numpy().tobytes() for n, t in state.items() if n.startswith("net"))
        with (Path(os.environ["WATCHED"]) / str(self._group.rank)).open("a") as file:
            file.write(f"{hashlib.sha256(weights).hexdigest()} {weight:g}\n")


class Dying(Mean):
    """In its third fusion, rank ``$VICTIM`` is killed in the middle of a long exchange."""

    _fusions = 0

    def fuse(self, weight: float) -> None:
        """Fuse, or die."""
        super().fuse(weight)
        self._fusions += 1
        marker = Path(os.environ["WATCHED"]) / "died"
        dies = self._fusions == 3 and not marker.exists()
        self._group.sum_(torch.zeros(1))  # all have looked: else one may see the marker, and go on
        if dies:
            if self._group.rank == int(os.environ["VICTIM"]):
                marker.touch()
                kill = os.kill, (os.getpid(), signal.SIGKILL)
                threading.Timer(0.02, *kill).start()
            for _ in range(1000):
                self._group.sum_(torch.ones(5_000_000))


class Slow(Mean):
    """Rank 1 comes two seconds late to its third fusion, the others wait in the exchange."""

    _fusions = 0

    def fuse(self, weight: float) -> None:
        """Fuse, perhaps late."""
        self._fusions += 1
        if self._fusions == 3:
            (Path(os.environ["WATCHED"]) / f"waiting-{self._group.rank}").touch()
            if self._group.rank == 1:
                time.sleep(2.0)
        super().fuse(weight)
