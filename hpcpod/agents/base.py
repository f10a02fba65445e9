"""The contract of an algorithm: a policy, a buffer of its own choice, an update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from hpcpod.envs.vec_env import EnvSpec, State, Step
from hpcpod.errors import Diverged

Metrics = Mapping[str, float]
"""Diagnostics of an update: finite numbers by names of the field (``policy_loss``)."""


def check_finite(agent: str, updates: int, metrics: Metrics) -> None:
    """See that what an update tells is finite.

    Args:
        agent: its name, for the message.
        updates: how many it has done.
        metrics: of the last ones.

    Raises:
        Diverged: something is not.
    """
    if not all(math.isfinite(value) for value in metrics.values()):
        raise Diverged(f"{agent}: not finite after update {updates}: {dict(metrics)}")


class Buffer(Protocol):
    """A store of experience: *rows*, each one step of all N environments.

    Rows are numbered from 0 for as long as the agent lives, so that a checkpoint can say
    "rows 3000 to 4000" once and for all: such a segment never changes.
    """

    @property
    def capacity(self) -> int:
        """Rows that outlive an update at most: what a checkpoint may have to hold."""

    @property
    def rows(self) -> int:
        """Rows ever added; never falls."""

    @property
    def oldest(self) -> int:
        """The first row that is still there; equal to ``rows`` when the buffer is empty."""

    def add(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Add a row: what was observed, what was done, what came of it.

        An episode must not be abandoned: the caller marks the last step before a reset of its
        own as truncated.
        """

    def segment(self, start: int, stop: int) -> State:
        """Rows ``start`` to ``stop`` - 1, complete in themselves and sharing no memory.

        With T rows of N environments, K of whose steps were truncated:

        - ``obs`` [T, N, *observation], ``action`` [T, N, *action]
        - ``reward`` float32 [T, N]; ``terminated``, ``truncated``, ``valid`` bool [T, N]
        - ``next_obs`` [N, *observation]: the successors of the last row
        - ``final_obs`` [K, *observation]: the successors of the truncated steps that are valid,
          in the order of rows, then environments

        Raises:
            IndexError: the rows are not all there.
        """

    def marks(self) -> State:
        """The part that may still change about stored rows, such as priorities; often nothing."""

    def restore(
        self, rows: int, segments: Sequence[tuple[int, State]], marks: State | None = None
    ) -> None:
        """Hold what a buffer held that had counted to ``rows``; no segments: hold nothing.

        Args:
            rows: the count to go on from.
            segments: each with its first row, in order and without a gap, the last one ending
                at ``rows``; rows beyond the capacity are left out.
            marks: the buffer's ``marks()`` then, of these rows or of more; None: those of new rows.

        Raises:
            ValueError: the segments leave a gap or don't end at ``rows``.
        """


class Acting(Protocol):
    """A policy on tensors: every agent, and an ensemble of them."""

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions. See ``Agent.act``."""


class Agent(Protocol):
    """One algorithm: its networks, its optimizer, its random numbers.

    ``agent_class(spec, config, seed, device)`` makes one; it raises ``UnsupportedSpace`` for an
    environment that the algorithm can't act in. Equal arguments make equal agents, and no
    method touches a global random generator.

    A class whose ``state()`` has names of its own declares how they are fused when several
    learners train replicas of one agent: ``FUSION = {"scale": "mean"}``. It is no member of the
    protocol, because the usual names need none: see ``hpcpod.agents.fusion``.
    """

    Config: ClassVar[Any]
    """A frozen dataclass of the hyperparameters, each with a default and a docstring.

    ``field(metadata={"structural": True})`` marks what sets the shape of a network;
    ``{"near_one": True}`` marks what is mutated by its distance from 1; ``{"initial": True}`` what
    counts from scratch alone, so that a copy never mutates it; ``{"absent": value}`` what a run
    means that was stored before the field was there, if not the default; ``{"search": range}``
    what ``population: auto`` searches, and ``{"actions": "continuous"}`` beside it what counts for
    such actions alone. Impossible values raise ValueError with one sentence.
    """

    def __init__(self, spec: EnvSpec, config: Any, seed: int, device: str = "cpu") -> None: ...

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""

    def make_buffer(self) -> Buffer:
        """An empty buffer of the kind that ``update`` needs.

        It must not refer to this agent: a later one with the same hyperparameters may be given
        it, rows and all.
        """

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions for observations [N, *observation].

        Args:
            obs: as the environment gives them, on the agent's device.
            explore: False: the policy's best guess, deterministic, changing no state.

        Returns:
            int64 [N] (Discrete), int64 [N, k] (MultiDiscrete) or float32 [N, *action] (Box:
            meant for [-1, 1], which the environment enforces).
        """

    def update(self, buffer: Buffer) -> Metrics:
        """Learn from the buffer, once ``horizon`` rows were added.

        Raises:
            Diverged: a loss is not finite.
        """

    def state(self) -> State:
        """All that ``load`` needs to go on bit by bit: a copy that later updates leave alone.

        Weights, optimizer moments, normaliser, random generators and counters; never a
        hyperparameter. Each name has one rule by which replicas are fused: see
        ``hpcpod.agents.fusion``.
        """

    def load(self, state: State) -> None:
        """Take over a ``state()``; hyperparameters stay the ones given to the constructor.

        Raises:
            ValueError: a name is missing or unknown, or a shape does not fit.
        """

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of exploration and sampling; weights stay."""


@runtime_checkable
class Probabilistic(Protocol):
    """An agent whose policy is a distribution over choices: an ensemble can multiply several.

    Other agents need no such method; nor is it asked where actions are continuous.
    """

    def log_probabilities(self, obs: Tensor) -> Tensor:
        """log π(a | s) in nats for each choice: float32 [N, n]; of several choices each one's own
        in a row, [N, Σ nvec].

        Args:
            obs: [N, *observation], as for ``act``.
        """


@runtime_checkable
class Valuing(Protocol):
    """An agent with critics of actions, by which an ensemble can choose among several.

    Other agents need no such method.
    """

    def action_values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        """Q(s, a) of C actions for each observation, float32 [C, N]; of several critics the least.

        Args:
            obs: [N, *observation], as for ``act``.
            candidates: int64 [C, N], or float32 [C, N, *action] in [-1, 1].
        """


@runtime_checkable
class OnPolicy(Protocol):
    """An agent whose update asks for what only the policy that collected a rollout can tell.

    In a pipeline (``pod.pipeline``) that is not the policy which learns from it, but the one from
    before the last update; its buffer is ``Described``. Other agents need no such method.
    """

    def behaviour(self, rollout: State) -> State:
        """Statistics of a rollout by the present policy, such as ``log_p`` float32 [T, N].

        Args:
            rollout: T rows, as ``Buffer.segment`` gives them.
        """


@runtime_checkable
class Described(Protocol):
    """A buffer that takes an ``OnPolicy`` agent's ``behaviour`` of the rows in it."""

    def describe(self, behaviour: State) -> None:
        """Keep it for the next update, which empties the buffer."""


@runtime_checkable
class Imitating(Protocol):
    """An agent that can learn from another's rollouts before it acts itself.

    Other agents need no such method: their pods begin from scratch.
    """

    def imitate(self, buffer: Buffer, teacher: Acting) -> Metrics:
        """Learn from the buffer, to which the teacher has added ``horizon`` rows as it explores.

        In place of ``update``: it counts as one, and empties the buffer where that does.

        Args:
            buffer: of ``make_buffer``.
            teacher: asked for its best actions, for observations of the buffer.

        Raises:
            Diverged: a loss is not finite.
        """


@runtime_checkable
class Measured(Protocol):
    """An agent with metrics that would cost too much at every update.

    Other agents need no such method.
    """

    def curve_metrics(self) -> Metrics:
        """Diagnostics for a row of the pod's curve, asked for at some updates."""


@runtime_checkable
class Scheduled(Protocol):
    """An agent with hyperparameters that change in the course of a run.

    Other agents need no such method. Its progress is no part of its ``state()``: a copy hears
    it from the run that it is in.
    """

    def proceed(self, progress: float) -> None:
        """Learn how far the run has come, before each iteration of collecting and updating.

        Args:
            progress: share of the run's budget that is spent, in [0, 1]. Where nothing limits
                the run there is no call.
        """
