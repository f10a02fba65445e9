"""Lessons: iterations in which another run's policy acts, and a pod learns from what it does."""

from __future__ import annotations

from typing import cast

from hpcpod import plugins
from hpcpod.agents.base import Agent, Scheduled
from hpcpod.agents.imitation import Taught
from hpcpod.envs.vec_env import EnvSpec
from hpcpod.pod.checkpoint import read_blob
from hpcpod.pod.factory import make_agent
from hpcpod.pod.learner import Learner
from hpcpod.pod.policy import agent_state
from hpcpod.records.records import Birth, stable_hash
from hpcpod.storage.blobs import Blobs


class Lesson:
    """A teacher, and its pod as its student, on one rank."""

    def __init__(
        self, birth: Birth, blobs: Blobs, student: Agent, spec: EnvSpec, learner: str, rank: int
    ) -> None:
        """Load the teacher of a birth that has one.

        Args:
            birth: names it.
            blobs: of the run.
            student: the pod's agent.
            spec: of the training environments.
            learner: plugin name of the learner.
            rank: of this process.

        Raises:
            Corrupt: the teacher can't be read.
            TypeError: the student can't be taught.
        """
        wanted = birth.teacher
        assert wanted is not None
        self._until, self._seeds = wanted.env_steps, (birth.seed, "teacher", rank)
        # No seed counts: it is reseeded for every iteration.
        self._teacher = make_agent(wanted.agent, spec, wanted.hyperparameters, 0, spec.device)
        self._teacher.load(agent_state(read_blob(blobs, wanted.checkpoint.core)[0]))
        if isinstance(self._teacher, Scheduled):
            self._teacher.proceed(1.0)  # it explores as at the end of its own run
        taught = Taught(student, self._teacher)
        self._actor = cast(Agent, taught)  # all else is the student's
        self._learner = plugins.make(Learner, "learners", learner, taught)

    def at(self, env_steps: int) -> tuple[Agent, Learner] | None:
        """The agent that acts, and the learner, of the iteration that begins at ``env_steps`` of
        the pod's experience; None once the lesson is over.

        The teacher's random numbers begin anew, so that no checkpoint need hold them.
        """
        if env_steps >= self._until:
            return None
        self._teacher.reseed(stable_hash(*self._seeds, env_steps))
        return self._actor, self._learner


def lesson_of(
    birth: Birth, blobs: Blobs, student: Agent, spec: EnvSpec, learner: str, rank: int
) -> Lesson | None:
    """The lesson of a birth; None if it has no teacher. See ``Lesson``."""
    return Lesson(birth, blobs, student, spec, learner, rank) if birth.teacher else None
