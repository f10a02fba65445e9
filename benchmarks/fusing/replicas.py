"""Learning by several ranks: worker, learner and fusion of a pod, without its storage."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from fusing.counted import Counted
from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import FusionConfig
from hpcpod.envs.vec_env import random_seeds
from hpcpod.pod.evaluator import PanelEvaluator, never
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Turns
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.consensus import agree
from hpcpod.pod.ranks.fusion import Fusion, Mean
from hpcpod.pod.replica import Replica
from hpcpod.records.records import stable_hash

PANEL = "fusion"
"""Names the seeds of the evaluation's episodes, the same at every evaluation of every run."""


class Team:
    """The replica of this rank, and what its score is asked of."""

    def __init__(self, group: Communicator, order: dict[str, Any]) -> None:
        config = from_mapping({"name": "fusion", "env": order["env"]})
        make_env = EnvFactory(config.env, "cpu")
        env = make_env(config.env.num_envs)
        seed, rank = order["seed"], (group.rank,) if group.rank else ()
        first = seed if order["ancestor"] == "same" else stable_hash(seed, "ancestor", group.rank)
        self.agent: Agent = make_agent(
            order["algorithm"], env.spec, order["hyperparameters"], first, "cpu"
        )
        self.group, self.counted = group, Counted(group)
        self._evaluator, self._episodes = PanelEvaluator(make_env), order["episodes"]
        worker = Turns(env)
        self.replica = Replica(
            self.agent, self.agent.make_buffer(), worker, Learner(self.agent), self.counted
        )
        self.fusion: Fusion | None = None
        self._mean: Mean | None = None
        if group.size > 1:
            scheme = order["scheme"]
            self.fusion = plugins.make(Fusion, "fusions", scheme, self.agent, self.counted)
            self.replica.begin(FusionConfig(scheme=scheme, every=order["every"]), self.fusion)
            if scheme == "none":
                self._mean = Mean(self.agent, group)
                self._mean.learned()
        self.agent.reseed(stable_hash(seed, "train", *rank))
        worker.reset(random_seeds(seed, "train", *rank, count=config.env.num_envs))

    def score(self) -> dict[str, Any]:
        """Mean returns: of what the pod would be, were it fused now; of each learner that is never
        fused, and of the mean of these.
        """
        bytes_before = self.counted.bytes
        with tried(self.agent, self.fusion):
            scores: dict[str, Any] = {"score": self._evaluate() if self.group.rank == 0 else None}
        self.counted.bytes = bytes_before
        if self._mean is not None:
            told = self.group.gather(json.dumps(self._evaluate()))
            scores["members"] = [json.loads(text) for text in told]
            with tried(self.agent, self._mean):
                scores["averaged"] = self._evaluate() if self.group.rank == 0 else None
        return scores

    def _evaluate(self) -> float:
        returns = self._evaluator.evaluate(self.agent, PANEL, episodes=self._episodes)
        return sum(returns) / len(returns)


@contextlib.contextmanager
def tried(agent: Agent, fusion: Fusion | None) -> Iterator[None]:
    """Fuse for a while: afterwards all is as before."""
    if fusion is None or fusion.equal:
        yield
        return
    own, of_fusion = agent.state(), fusion.state()
    fusion.fuse(1.0)
    yield
    agent.load(own)
    fusion.load(of_fusion)


def learn(group: Communicator, order: dict[str, Any]) -> dict[str, Any]:
    """Train as an ``orders.learning`` says.

    Returns:
        ``curve``: at each evaluation the samples of all ranks, what ``Team.score`` gives, wall
        ``seconds`` and ``cpu`` seconds of the busiest rank (both without evaluating), and
        ``bytes`` that each rank has given to all-reduces.
    """
    team = Team(group, order)
    steps, evaluations = order["env_steps"], order["evaluations"]
    curve: list[dict[str, Any]] = []
    done, wall, cpu = 0, 0.0, 0.0
    while done < steps:
        began, busy = time.perf_counter(), time.process_time()
        done += team.replica.iterate(left=sys.maxsize, should_stop=never, due=never).steps
        team.replica.fuse_if_due(ends=False)
        wall += time.perf_counter() - began
        cpu += time.process_time() - busy
        if done >= (len(curve) + 1) * steps / evaluations:
            busiest = max(float(text) for text in group.gather(str(cpu)))
            curve.append(
                {
                    "env_steps": done, "seconds": wall, "cpu": busiest,
                    "bytes": team.counted.bytes, **team.score(),
                }
            )  # fmt: skip
            agree(group)  # nobody has begun while rank 0 was scoring
    return {"curve": curve}
