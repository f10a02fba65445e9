"""One rank's agent in training: it collects, learns, and is fused with the other ranks'."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from hpcpod.agents.base import Agent, Buffer, Scheduled
from hpcpod.config.schema import FusionConfig
from hpcpod.envs.vec_env import State
from hpcpod.pod.budget_span import Span
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Pipeline, Turns
from hpcpod.pod.ranks.communicator import Communicator, RankLost
from hpcpod.pod.ranks.consensus import Agreed, agree
from hpcpod.pod.ranks.fusion import Fusion
from hpcpod.pod.ranks.fusion_guard import Guard


class Replica:
    """The moving parts of one rank, equal to the other ranks' after each fusion."""

    def __init__(
        self,
        agent: Agent,
        buffer: Buffer,
        worker: Turns | Pipeline,
        learner: Learner,
        group: Communicator,
    ) -> None:
        """All but the fusion, which ``begin`` takes once the agent is what it starts from."""
        self.agent, self.buffer, self.worker = agent, buffer, worker
        self.metrics: dict[str, float] = {}
        """Of the last update, and ``training_return`` and ``episode_length``."""
        self.unfinished = False
        """An iteration was begun, and did not come to its end."""
        self.group = group
        self._learner = learner
        self._fusion: Fusion | None = None
        self._guard: Guard | None = None
        self._every = 1
        self._iterations = self._fusions = 0
        self._fresh = 0
        self._span: Span | None = None

    def follow(self, span: Span) -> None:
        """Tell the actor and the learner from now on how far the run has come; see
        ``Scheduled``."""
        self._span = span
        if isinstance(self.worker, Pipeline):
            self.worker.span = span

    def begin(
        self,
        config: FusionConfig,
        fusion: Fusion,
        guard: Guard | None = None,
        state: State | None = None,
    ) -> None:
        """Be fused from now on.

        Args:
            config: how often.
            fusion: made of this agent, as it is now.
            guard: watches over the fusions; None: there is none.
            state: a ``state()`` to go on from; None: all replicas are equal now.
        """
        self._every, self._fusion, self._guard = config.every, fusion, guard
        if state:
            self._iterations, self._fresh = int(state["iterations"]), int(state["fresh"])
            self._fusions = int(state["fusions"])
            fusion.load(state)

    @property
    def equal(self) -> bool:
        """True if all replicas are equal, but for what is local to each."""
        return self._fusion is None or self._fusion.equal

    def state(self) -> State:
        """The state from which fusions go on, beside the agent's own."""
        if self._fusion is None:
            return {}
        counts = {
            "iterations": self._iterations, "fusions": self._fusions, "fresh": self._fresh
        }  # fmt: skip
        return {
            **{name: torch.tensor(count) for name, count in counts.items()},
            **self._fusion.state(),
        }

    def iterate(
        self,
        *,
        left: int,
        should_stop: Callable[[], bool],
        due: Callable[[], bool],
        lesson: tuple[Agent, Learner] | None = None,
    ) -> Agreed:
        """Collect a horizon's rows and update, on all ranks at once; then ``fuse_if_due``.

        Args:
            left: environment steps, over all ranks, until the round ends.
            should_stop: whether this rank was asked to stop.
            due: whether it is time for a checkpoint here.
            lesson: who acts and learns instead; see ``Lesson.at``.

        Raises:
            RankLost: another rank is gone.
            Diverged: the numbers of some rank's agent are not finite.
            Exception: whatever the environment or the agent of some rank raises.
        """
        counted, problem = 0, None
        self.unfinished = True
        try:
            own = -(-left // self.group.size)
            if self._span is not None and isinstance(self.agent, Scheduled):
                self.agent.proceed(self._span.at(own))
            agent, learner = lesson or (self.agent, self._learner)
            counted, metrics = self.worker.iterate(agent, self.buffer, learner, left=own)
            self.metrics = dict(metrics)
            if self._fusion is not None:
                self._fusion.learned()
        except RankLost:
            raise
        except Exception as error:
            if self._fusion is not None and self._fusion.in_step:
                raise  # the others are in the middle of an exchange: they notice that it left
            problem = error
        training = {
            "training_return": self.worker.mean_return, "episode_length": self.worker.mean_length
        }  # fmt: skip
        # NaN before the first episode's end
        self.metrics |= {name: value for name, value in training.items() if math.isfinite(value)}
        self.unfinished = False
        agreed = agree(self.group, counted, stop=should_stop(), save=due(), problem=problem)
        self._iterations += 1
        self._fresh += counted
        return agreed

    def fuse_if_due(self, *, ends: bool) -> None:
        """Fuse, if this was the iteration for it, or the round ends.

        Raises:
            RankLost: another rank is gone.
        """
        fusion = self._fusion
        if fusion is None or not (ends or self._iterations % self._every == 0):
            return
        self._fusions += 1
        weight, self._fresh = float(self._fresh), 0  # in samples
        if self._guard is not None and self._guard.is_due(self._fusions):
            self._guard.fuse(self.agent, fusion, weight, self._fusions)
        else:
            fusion.fuse(weight)
