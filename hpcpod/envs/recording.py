"""A recording of the actions in unfinished episodes, played again from the same seeds.

So an episode is saved whose environment can't be: the process that goes on plays it again from its
start. That costs what its steps have cost, so long episodes are not kept.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from hpcpod.envs.arrays import Array

MOST_STEPS = 10_000
"""Steps of an episode that are played again at most."""
MOST_BYTES = 128 * 2**20  # 128 MiB
"""Memory that the actions of a batch may take; with more, fewer steps are kept."""
ACTIONS = "actions"
"""Name of the actions in a saved state: environment i has ``i/actions``, [T, *action]."""
_TIDY = 64
"""Steps between two looks for actions that are of no episode any more."""


class Recording:
    """The actions of N environments, each from its episode's beginning on."""

    def __init__(self, num_envs: int) -> None:
        # 64 environments reset at each round of 20,000 steps never came beyond an episode's 319th.
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
        self._rows.append(actions.copy())  # an environment may keep what it is given
        self._count += 1
        if self._count % _TIDY == 0:
            oldest = max(min(self._begun), self._count - _most(actions.nbytes))
            while self._count - len(self._rows) < oldest:
                self._rows.popleft()

    def episodes(self) -> list[Array] | None:
        """Of each environment the actions of its episode, [T, *action]; None if one is too long."""
        longest = self._count - min(self._begun)
        if longest == 0:
            return [np.zeros(0, np.float32)] * len(self._begun)
        if longest > _most(self._rows[-1].nbytes):
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


def saved_steps(state: Mapping[str, Tensor] | None) -> float:
    """Steps of an episode after which a batch with such a ``state()`` can still be saved: 0 if it
    never can, infinity if nothing is played again."""
    if state is None:
        return 0
    episodes = [tensor for name, tensor in state.items() if name.endswith(f"/{ACTIONS}")]
    if not episodes:
        return math.inf
    width = max(math.prod(each.shape[1:]) * each.element_size() for each in episodes)
    return _most(width * len(episodes))


def _most(row: int) -> int:
    """Steps that are kept of a batch whose actions take so many bytes a step."""
    return min(MOST_STEPS, MOST_BYTES // max(1, row))
