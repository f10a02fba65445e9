"""Learning from a teacher's rollouts: the first steps of an agent of another family.

Weights fit no other algorithm and no other network. So a teacher acts in the student's
environments, and the student learns from what it sees there. Its buffer, its statistics of
observations and its critics begin with the teacher's experience.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpcpod.agents.base import Acting, Agent, Buffer, Imitating, Metrics
from hpcpod.agents.distributions import Categorical, Gaussian, MultiCategorical

MARGIN = 0.8
"""Distance by which the value of a teacher's choice shall be above all others', as in the paper."""


class Taught:
    """A student whose teacher acts in its place, as the worker and the learner see an agent."""

    def __init__(self, student: Agent, teacher: Acting) -> None:
        """Both must be for the same spaces.

        Raises:
            TypeError: the student has no ``imitate``.
        """
        if not isinstance(student, Imitating):
            raise TypeError(f"{type(student).__name__} has no method imitate: it can't be taught")
        self._student, self._teacher = student, teacher
        self.horizon = student.horizon
        """The student's."""

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """The teacher's actions, as the environment takes them. See ``Agent.act``."""
        action = self._teacher.act(obs, explore=explore)
        # A Gaussian's may lie outside: a critic learned what no action of its own is worth.
        return action.clamp(-1.0, 1.0) if action.is_floating_point() else action

    def update(self, buffer: Buffer) -> Metrics:
        """Have the student learn from the teacher's rows."""
        return self._student.imitate(buffer, self._teacher)

    def __getattr__(self, name: str) -> Any:
        """All else is the student's: a learner of a user's own may ask for it."""
        return getattr(self._student, name)


def squared_distance(action: Tensor, taught: Tensor) -> Tensor:
    """½ Σ (a - a_T)², its mean over the batch: -log p of a normal of width 1, without its constant.

    Args:
        action: a, of the student, float32 [B, A].
        taught: a_T, of the teacher, float32 [B, A].

    Returns:
        A float32 scalar.
    """
    return 0.5 * (action - taught).square().sum(dim=-1).mean()


def surprise(
    head: Categorical | MultiCategorical | Gaussian, outputs: Tensor, taught: Tensor
) -> Tensor:
    """Loss of a distribution's head: -log π(a_T), its mean over the batch; a scalar.

    A Gaussian counts as one of width 1: by maximum likelihood a deterministic teacher's student
    would have no width left to explore by.

    Args:
        head: of ``agents.distributions``.
        outputs: of the policy's network, float32 [B, inputs].
        taught: actions, [B, *action].
    """
    if isinstance(head, Gaussian):
        return squared_distance(outputs, taught.view(outputs.shape))
    return -head.evaluate(outputs, taught)[0].mean()


def margin_slope(values: Tensor, taught: Tensor) -> Tensor:
    """The derivative by Q of the mean over the batch of max_a (Q(s, a) + m [a ≠ a_T]) - Q(s, a_T).

    Errors of Q alone say nothing of choices that a teacher never takes: a student of CartPole
    preferred them all (Hester et al. 2018, arXiv:1704.03732, equation 1).

    Args:
        values: Q, float32 [B, actions].
        taught: a_T, int64 [B].

    Returns:
        float32 [B, actions].
    """
    own = torch.zeros_like(values).scatter_(-1, taught[:, None], 1.0)
    rival = (values + MARGIN * (1.0 - own)).argmax(dim=-1, keepdim=True)
    return (torch.zeros_like(values).scatter_(-1, rival, 1.0) - own) / len(values)
