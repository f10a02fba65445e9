"""The actions of episodes in progress, which their seeds and these play again.

So an episode is saved whose environment can't be: whoever goes on with it plays it again from its
start. That costs what its steps have cost, so long episodes are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from hpcpod.envs.arrays import Array

MOST_STEPS = 10_000
"""Steps of an episode that are played again at most."""
MOST_BYTES = 128 * 2**20
"""What the actions of a batch may take; with more, fewer steps are kept."""
_TIDY = 64
"""Steps between two looks for actions that are of no episode any more."""


class Recording:
    """The actions of N environments, each from its episode's beginning on."""

    def __init__(self, num_envs: int) -> None:
        self._rows: deque[Array] = deque()
        self._count = 0
        """Rows ever added."""
        self._begun = [0] * num_envs
        """The row with which each episode began."""

    def begin(self, i: int) -> None:
        """An episode begins in environment i: its actions so far are of no use."""
        self._begun[i] = self._count

    def add(self, actions: Array) -> None:
        """Actions of all environments, [N, *action], as they are about to be given to them."""
        self._rows.append(actions.copy())
        self._count += 1
        if self._count % _TIDY == 0:
            oldest = max(min(self._begun), self._count - _most(actions))
            while self._count - len(self._rows) < oldest:
                self._rows.popleft()

    def episodes(self) -> list[Array] | None:
        """Of each environment the actions of its episode, [T, *action]; None if one is too long."""
        longest = self._count - min(self._begun)
        if longest == 0:
            return [np.zeros(0, np.float32)] * len(self._begun)
        if longest > _most(self._rows[-1]):
            return None
        first = self._count - len(self._rows)
        whole = np.stack(self._rows)
        return [whole[begun - first :, i].copy() for i, begun in enumerate(self._begun)]

    def restore(self, episodes: Sequence[Array]) -> None:
        """Hold what ``episodes`` gave."""
        longest = max(map(len, episodes))
        self._rows.clear()
        self._count = longest
        self._begun = [longest - len(actions) for actions in episodes]
        if longest:
            form = next(actions for actions in episodes if len(actions))
            whole = np.zeros((longest, len(episodes), *form.shape[1:]), form.dtype)
            for i, actions in enumerate(episodes):
                if len(actions):
                    whole[longest - len(actions) :, i] = actions
            self._rows.extend(whole)


def _most(row: Array) -> int:
    return min(MOST_STEPS, MOST_BYTES // max(1, row.nbytes))
