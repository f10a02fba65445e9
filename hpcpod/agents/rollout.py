"""The rollout buffer of on-policy algorithms: a rollout is used once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hpcpod.agents.segments import FLAGS, Row, check_contiguous, check_range, rows_of, segment_of
from hpcpod.agents.state import prefixed
from hpcpod.envs.vec_env import State, Step


class RolloutBuffer:
    """The rows since the last update; ``restore(rows, ())`` empties it.

    It keeps the tensors it is given until ``rollout`` lays all of them, column by column, into
    memory that is reserved once: one copy for a column instead of one for each step.
    """

    capacity = 0
    """Nothing outlives an update."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._oldest = 0
        self._memory: State = {}
        self._behaviour: State = {}

    @property
    def rows(self) -> int:
        """Rows ever added."""
        return self._oldest + len(self._rows)

    @property
    def oldest(self) -> int:
        """The first row that is still there."""
        return self._oldest

    def add(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Add a row; see ``Buffer.add``."""
        self._rows.append((obs, action, step))

    def rollout(self) -> State:
        """All rows, as ``segment`` gives them, but in the buffer's memory: the next call lays
        other rows there. Beside them what ``describe`` was given, as ``behaviour/...``.
        """
        obs, action, step = self._rows[0]
        row = {"obs": obs, "action": action, "reward": step.reward}
        row |= {name: getattr(step, name) for name in FLAGS}
        if not self._memory or len(self._memory["reward"]) < len(self._rows):
            self._memory = {
                name: torch.empty((len(self._rows), *t.shape), dtype=t.dtype, device=t.device)
                for name, t in row.items()
            }
        memory = {name: t[: len(self._rows)] for name, t in self._memory.items()}
        return segment_of(self._rows, memory) | prefixed("behaviour", self._behaviour)

    def describe(self, behaviour: State) -> None:
        """Take the collecting policy's behaviour on all rows that are there, [T, N, ...]."""
        self._behaviour = behaviour

    def segment(self, start: int, stop: int) -> State:
        """Rows ``start`` to ``stop`` - 1; see ``Buffer.segment``."""
        check_range(start, stop, self.oldest, self.rows)
        return segment_of(self._rows[start - self._oldest : stop - self._oldest])

    def marks(self) -> State:
        """Nothing: what is there never changes."""
        return {}

    def restore(
        self, rows: int, segments: Sequence[tuple[int, State]], marks: State | None = None
    ) -> None:
        """Hold what a buffer held that had counted to ``rows``; see ``Buffer.restore``."""
        self._oldest = check_contiguous(rows, segments)
        self._behaviour = {}
        self._rows = [row for _, segment in segments for row in rows_of(segment)]
